//! Zombies, memory that is set aside, and where replicas go.

use std::sync::Arc;

use super::world::*;
use crate::alloc::Strategy;
use crate::model::PinRequest::Preserve;
use crate::model::{ErrorCode, Millis};
use crate::state::command::{Command, Start, StartItem, Sweep};
use crate::state::{Counters, Reply};

fn counters(world: &World) -> Counters {
    *world.state.counters()
}

#[test]
fn a_young_unfinished_put_is_not_replaced() {
    let mut world = World::small();
    world.open("k", Preserve);
    world.pass(30_000);
    let again = start("k", 10, config(1, Preserve));
    assert_eq!(world.start(again), Err(ErrorCode::ObjectAlreadyExists), "at the very timeout");
}

#[test]
fn a_zombie_is_replaced_and_its_memory_stays_set_aside_until_the_release_time() {
    let mut world = World::small();
    let old = world.open("k", Preserve);
    world.pass(30_001);
    let new = world.open("k", Preserve);
    assert_ne!(memory(&old[0]).1, memory(&new[0]).1, "the old writer may still be writing");
    assert_eq!((world.used(1), world.state.discards().staged_bytes()), (2_048, 1_024));
    assert_eq!(counters(&world).discards, 1);
    world.end("k").unwrap();
    let mut world = world.reloaded();
    world.pass(29_998);
    assert_eq!(world.sweep().discards_released, 0, "60 s after the old start, not before");
    world.pass(1);
    assert_eq!(world.sweep().discards_released, 1);
    assert_eq!((world.used(1), world.state.discards().staged_bytes()), (1_024, 0));
    assert_eq!(counters(&world).releases, 1);
    assert!(world.is_readable("k"));
}

#[test]
fn another_client_may_replace_a_zombie_and_the_first_writer_is_refused_then() {
    let mut world = World::small();
    world.open("k", Preserve);
    world.pass(30_001);
    let other = Start { client: client(2), ..start("k", 10, config(1, Preserve)) };
    assert!(world.start(other).is_ok());
    assert_eq!(world.end("k"), Err(ErrorCode::IllegalClient));
    assert_eq!(world.end_as(2, "k", crate::model::ReplicaSelect::All, None), Ok(()));
}

#[test]
fn a_zombie_that_cannot_be_replaced_for_want_of_space_is_gone_all_the_same() {
    let mut world = World::small();
    world.start(start("k", MIB * 3 / 4, config(1, Preserve))).unwrap();
    world.pass(30_001);
    let again = start("k", MIB * 3 / 4, config(1, Preserve));
    assert_eq!(world.start(again.clone()), Err(ErrorCode::NoAvailableHandle));
    assert_eq!(world.find("k"), None);
    world.pass(30_000);
    assert_eq!(world.sweep().discards_released, 1);
    assert!(world.start(again).is_ok());
}

#[test]
fn an_unfinished_put_is_dropped_after_the_release_timeout() {
    let mut world = World::small();
    world.open("a", pinned(9));
    world.pass(1);
    world.open("b", Preserve);
    world.pass(59_999);
    assert_eq!(world.sweep().writes_dropped, 0, "older than the timeout, not as old");
    world.pass(1);
    assert_eq!(world.sweep().writes_dropped, 1);
    assert_eq!((world.find("a").is_some(), world.find("b").is_some()), (false, true));
    assert_eq!(world.used(1), 1_024);
    assert_eq!((counters(&world).discards, counters(&world).releases), (1, 1));
    assert_eq!(world.end("a"), Err(ErrorCode::ObjectNotFound));
}

#[test]
fn a_sweep_ends_no_more_writes_than_it_was_told() {
    let mut world = World::small();
    for n in 0..5 {
        world.open(&format!("k{n}"), Preserve);
    }
    world.pass(60_001);
    let sweep = Sweep {
        pins_until: Millis(0),
        items_max: 2,
        release_timeout_ms: 60_000,
        ..Sweep::default()
    };
    for left in [3, 1, 0] {
        world.apply(Command::Sweep(sweep));
        assert_eq!(world.state.totals().keys, left);
    }
}

#[test]
fn fewer_copies_than_asked_are_accepted_and_counted_none_are_not() {
    let mut world = World::with_segments(2, MIB);
    assert_eq!(world.start(start("a", 10, config(3, Preserve))).unwrap().len(), 2);
    assert_eq!(world.start(start("b", 10, config(2, Preserve))).unwrap().len(), 2);
    assert_eq!(counters(&world).partial_allocations, 1);
    let huge = start("c", 2 * MIB, config(1, Preserve));
    assert_eq!(world.start(huge), Err(ErrorCode::NoAvailableHandle));
    assert_eq!(counters(&world).allocation_failures, 1);
    let endless = start("d", u64::MAX, config(1, Preserve));
    assert_eq!(world.start(endless), Err(ErrorCode::NoAvailableHandle));
}

#[test]
fn copies_lie_on_different_segments() {
    let mut world = World::with_segments(20, MIB);
    world.start(start("k", 10, config(10, Preserve))).unwrap();
    let mut places = world.places("k");
    places.sort();
    places.dedup();
    assert_eq!(places.len(), 10);
}

#[test]
fn preferred_segments_come_first_and_a_full_one_is_passed_over() {
    let mut world = World::with_segments(3, MIB);
    let on = |names: &[&str], replicas| {
        let preferred = names.iter().map(|name| Arc::from(*name)).collect();
        crate::state::command::WriteConfig { preferred, ..config(replicas, Preserve) }
    };
    world.start(start("a", 10, on(&["s2"], 1))).unwrap();
    assert_eq!(world.places("a"), ["s2"]);
    world.start(start("b", 10, on(&["s1", "s2"], 2))).unwrap();
    assert_eq!(world.places("b"), ["s1", "s2"]);
    world.start(start("big", MIB / 2, on(&["s3"], 1))).unwrap();
    world.start(start("big2", MIB / 2, on(&["s3"], 1))).unwrap();
    world.start(start("c", MIB / 2, on(&["s3"], 1))).unwrap();
    assert_ne!(world.places("c"), ["s3"]);
    world.start(start("d", 10, on(&["unknown"], 1))).unwrap();
}

#[test]
fn with_local_first_a_write_goes_to_its_own_host() {
    let mut world = World::empty();
    for n in 1..=4 {
        let host_id = Arc::from(if n <= 2 { "east" } else { "west" });
        world.mount(crate::model::Segment { host_id, ..segment(n, MIB) }, n).unwrap();
    }
    for n in 0..8 {
        let mut near = start(&format!("k{n}"), 10, config(1, Preserve));
        near.rules.strategy = Strategy::LocalFirst;
        near.config.host_id = Arc::from("west");
        world.start(near).unwrap();
        let places = world.places(&format!("k{n}"));
        assert!(places == ["s3"] || places == ["s4"], "{places:?}");
    }
}

#[test]
fn a_same_node_batch_follows_its_first_item() {
    let mut world = World::with_segments(8, MIB);
    let items: Vec<_> =
        (0..6).map(|n| StartItem { key: key(&format!("k{n}")), size: 10, group: None }).collect();
    let mut batch = Start { items, ..start("-", 1, config(1, Preserve)) };
    batch.config.is_same_node_preferred = true;
    let Reply::Starts(started) = world.apply(Command::PutStart(batch)) else { panic!() };
    let ends: Vec<String> = started.iter().map(|s| memory(&s.as_ref().unwrap()[0]).0).collect();
    assert!(ends.iter().all(|end| *end == ends[0]), "{ends:?}");
}

#[test]
fn of_a_batch_only_the_items_without_room_fail() {
    let mut world = World::small();
    let sizes = [10, 2 * MIB, 10];
    let items = sizes.iter().zip(["a", "b", "c"]);
    let items = items.map(|(size, name)| StartItem { key: key(name), size: *size, group: None });
    let batch = Start { items: items.collect(), ..start("-", 1, config(1, Preserve)) };
    let Reply::Starts(started) = world.apply(Command::PutStart(batch)) else { panic!() };
    assert!(started[0].is_ok() && started[2].is_ok());
    assert_eq!(started[1], Err(ErrorCode::NoAvailableHandle));
}

#[test]
fn the_same_entries_give_the_same_addresses() {
    let fill = || {
        let mut world = World::with_segments(4, MIB);
        let mut seen = Vec::new();
        for n in 0..40 {
            let put = start(&format!("k{n}"), 1 + n * 700, config(2, Preserve));
            seen.extend(world.start(put).unwrap().iter().map(memory));
        }
        seen
    };
    assert_eq!(fill(), fill());
}
