//! Histories that once told the master and the model apart, cut to what matters.

use super::act::{Act, How};
use super::model::Rules;
use super::run;

fn mount(n: u8) -> Act {
    Act::Remount { by: 1 + n, ns: vec![n] }
}

fn start(key: u8, size: u64, copies: u64) -> Act {
    let how = How::plain(copies);
    Act::Start { by: 1, keys: vec![key], size, how, is_upsert: false, is_batch: false }
}

fn start_on(name: u8, key: u8, size: u64, copies: u64) -> Act {
    let mut act = start(key, size, copies);
    if let Act::Start { how, .. } = &mut act {
        how.preferred = vec![name];
    }
    act
}

fn end(key: u8) -> Act {
    let (by, keys, kind, checksum) = (Some(1), vec![key], 4, None);
    Act::End { by, keys, kind, checksum, is_upsert: false, is_batch: false }
}

/// A pass that comes upon nothing but objects on lost memory frees nothing, so eviction is still asked for.
#[test]
fn a_shortage_may_outlast_the_objects_on_memory_that_is_lost() {
    let until_lost = [start(0, 40_000, 3), end(0), start(1, 40_000, 1), Act::Pass(50_000)];
    let afterwards = [mount(0), start(2, 100, 1), end(2), Act::Pass(3_500), Act::Evict];
    let mut history: Vec<Act> = (0..3).map(mount).collect();
    history.extend(until_lost);
    history.extend([Act::Expire, Act::Evict, Act::FinishUnmounts]);
    history.extend(afterwards);
    let marks = run(Rules::default(), &history).unwrap();
    assert_eq!(marks.get("evicted"), Some(&1), "{marks:?}");
}

/// Without anything that could be counted, eviction is not asked for any more.
#[test]
fn a_shortage_ends_when_there_is_nothing_to_evict() {
    let before = [start(0, 40_000, 3), Act::Evict, start(1, 40_000, 1), Act::Evict];
    let afterwards = [start(2, 100, 1), end(2), Act::Pass(3_500), Act::Evict];
    let mut history: Vec<Act> = (0..3).map(mount).collect();
    history.extend(before);
    history.extend(afterwards);
    let marks = run(Rules { high_ppm: 900_000, ..Rules::default() }, &history).unwrap();
    assert_eq!(marks.get("evicted"), None, "{marks:?}");
}

/// An object whose first copy is lost counts as used when the master notices, so a younger one may go before it.
#[test]
fn an_object_that_lost_its_first_copy_may_stay_longer_than_its_age_says() {
    let mut history: Vec<Act> = (0..3).map(mount).collect();
    history.extend([start_on(1, 0, 12_000, 3), end(0), Act::Pass(1_000)]);
    history.extend([start_on(0, 1, 100, 1), end(1), Act::Pass(500), Act::Ping { by: 1 }]);
    // The others are given up, and the repeated End is what notices it.
    history.extend([Act::Pass(39_600), Act::Expire, end(0), Act::Evict]);
    let marks = run(Rules { high_ppm: 1_000, ..Rules::default() }, &history).unwrap();
    assert_eq!((marks.get("client given up"), marks.get("evicted")), (Some(&1), Some(&1)));
}
