//! Clients of release 0.3.12 beside those of 0.3.13: upgraded one by one, which the peer cannot offer.

use std::time::Duration;

use crate::cluster::trio::Trio;
use crate::support::{
    Bench, Feature, Got, StockClient, Value, WriteConfig, eventually, eventually_within, wall_ms,
};

const OLDER_CALLS: &str = "master_rpc_older_client_calls_total";
const GAUGE: &str = "master_soft_pin_key_count";

fn start(flags: &[&str]) -> Option<Bench> {
    Bench::needing(&[Feature::Durable], flags)
}

/// A pin's deadline, if it is active.
fn deadline(bench: &Bench, key: &str) -> Option<u64> {
    let object = bench.master.object(key).expect("the object");
    (object["soft_pin"]["state"] == "active")
        .then(|| object["soft_pin"]["deadline_ms"].as_u64().unwrap())
}

fn both(bench: &Bench) -> Option<(StockClient, StockClient)> {
    Some((bench.old_client("old", 32)?, bench.client("new", 32)))
}

#[test]
fn clients_of_both_releases_write_and_read_each_others_values() {
    let Some(bench) = start(&[]) else { return };
    let Some((mut old, mut new)) = both(&bench) else { return };
    let (on_old, on_new) = (old.segment().to_owned(), new.segment().to_owned());
    for (n, segment) in [&on_old, &on_new].into_iter().enumerate() {
        let config = WriteConfig::default().on(segment);
        let (by_old, by_new) =
            (Value::new(&format!("old{n}"), 10_000), Value::new(&format!("new{n}"), 20_000));
        assert_eq!(old.put_with(&by_old, &config), 0);
        assert_eq!(new.put_with(&by_new, &config), 0);
        for value in [&by_old, &by_new] {
            assert_eq!(old.get(value), Got::Right);
            assert_eq!(new.get(value), Got::Right);
            assert_eq!(old.get_size(&value.key), value.size as i64);
            assert_eq!(old.replicas(&value.key), new.replicas(&value.key));
        }
        let changed = by_new.changed(5_000);
        assert_eq!(old.upsert_with(&changed, &config), 0);
        assert_eq!(new.get(&changed), Got::Right);
        let again = changed.changed(5_000);
        assert_eq!(new.upsert_with(&again, &config), 0);
        assert_eq!(old.get(&again), Got::Right);
    }
    let (many, more) = (Value::several("b/", 20, 3_000), Value::several("u/", 20, 3_000));
    assert_eq!(old.put_batch(&many, &WriteConfig::default()), 0);
    assert_eq!(old.upsert_batch(&more, &WriteConfig::default()), 0);
    assert_eq!(new.get_batch(&many), ["right"; 20]);
    assert_eq!(old.get_batch(&more), ["right"; 20]);
    let keys: Vec<String> = many.iter().map(|value| value.key.clone()).collect();
    assert_eq!(old.batch_replicas(&keys), new.batch_replicas(&keys));
    assert_eq!(old.get(&Value::new("missing", 1)), Got::Failed(-704));
    assert_eq!(new.batch_remove(&many, true), [0; 20]);
    assert_eq!(old.batch_is_exist(&many), [0; 20]);
    assert_eq!(old.put(&Value::new("old0", 10_000)), 0, "a key that is there is no failure");
    assert!(bench.master.count(OLDER_CALLS) > 25);
}

#[test]
fn a_soft_pin_of_an_older_client_has_the_default_length_and_false_preserves() {
    let Some(bench) = start(&["--default_kv_soft_pin_ttl=10m"]) else { return };
    let Some((mut old, mut new)) = both(&bench) else { return };
    let (pinned, plain) = (Value::new("pinned", 1000), Value::new("plain", 1000));
    let before = wall_ms();
    assert_eq!(old.put_with(&pinned, &WriteConfig::soft_pin()), 0);
    let allowed = before + 600_000..=wall_ms() + 600_000;
    assert_eq!(old.put(&plain), 0);
    let until = deadline(&bench, "pinned").expect("a pin");
    assert!(allowed.contains(&until), "{until} is not in {allowed:?}");
    assert_eq!((deadline(&bench, "plain"), bench.master.count(GAUGE)), (None, 1));

    // false says nothing about the pin.
    assert_eq!(old.upsert_with(&pinned.changed(1000), &WriteConfig::default()), 0);
    assert_eq!(deadline(&bench, "pinned"), Some(until));
    assert_eq!(old.upsert_with(&pinned.changed(2000), &WriteConfig::default()), 0);
    assert_eq!(deadline(&bench, "pinned"), Some(until));
    // true starts it anew.
    let before = wall_ms();
    assert_eq!(old.upsert_with(&plain.changed(1000), &WriteConfig::soft_pin()), 0);
    assert!(deadline(&bench, "plain").expect("a pin") >= before + 600_000);
    // A newer client says how long, an older one leaves that alone.
    assert_eq!(new.upsert_with(&plain.changed(1000), &WriteConfig::soft_pin_for(3_600_000)), 0);
    let long = deadline(&bench, "plain");
    assert_eq!(old.upsert_with(&plain.changed(1000), &WriteConfig::default()), 0);
    assert_eq!(deadline(&bench, "plain"), long);
    assert_eq!(new.upsert_with(&plain.changed(1000), &WriteConfig::no_soft_pin()), 0);
    assert_eq!((deadline(&bench, "plain"), bench.master.count(GAUGE)), (None, 1));
    let many = Value::several("b/", 10, 1000);
    assert_eq!(old.put_batch(&many, &WriteConfig::soft_pin()), 0);
    assert_eq!(bench.master.count(GAUGE), 11);
}

#[test]
fn older_clients_carry_out_copies_and_moves() {
    let Some(bench) = start(&[]) else { return };
    let Some((mut old, mut new)) = both(&bench) else { return };
    let Some(mut third) = bench.old_client("third", 32) else { return };
    // Who has written is known; the first read of another one may be lost.
    assert_eq!(new.put(&Value::new("by new", 1000)), 0);
    assert_eq!(third.put(&Value::new("by third", 1000)), 0);
    let (from, to) = (old.segment().to_owned(), third.segment().to_owned());
    let value = Value::new("k", 100_000);
    assert_eq!(old.put_with(&value, &WriteConfig::default().on(&from)), 0);
    let task = new.create_copy_task("k", &[&to]).unwrap();
    eventually("the copy is made", || new.query_task(&task).as_deref() == Ok("SUCCESS"));
    assert_eq!(new.replicas("k").len(), 2);
    let move_away = Value::new("m", 50_000);
    assert_eq!(old.put_with(&move_away, &WriteConfig::default().on(&from)), 0);
    let task = old.create_move_task("m", &from, &to).unwrap();
    eventually("the move is made", || old.query_task(&task).as_deref() == Ok("SUCCESS"));
    assert_eq!(old.close(), 0);
    assert_eq!((new.get(&value), third.get(&move_away)), (Got::Right, Got::Right));
}

/// A client without a segment sends nothing that names it, and its reads look like anybody's: it is known by another
/// one at its address that writes, or by the operator's word.
#[test]
fn an_older_client_that_only_reads_is_known_by_one_that_writes_or_by_the_operators_word() {
    for flags in [&[][..], &["--assumed_client_release=0.3.12"][..]] {
        let Some(bench) = start(flags) else { return };
        if flags.is_empty() {
            let Some(mut older) = bench.old_client("older", 32) else { return };
            assert_eq!(older.put(&Value::new("of older", 100)), 0);
        }
        let Some(mut reader) = bench.old_client("reader", 0) else { return };
        for _ in 0..20 {
            assert_eq!(reader.get(&Value::new("missing", 1)), Got::Failed(-704));
        }
        let mut writer = bench.client("writer", 32);
        let value = Value::new("k", 1000);
        // Where all others are older, the first of today's may be misunderstood until its first write has shown it.
        let lost = (0..3).find(|_| writer.put(&value) == 0).expect("a put that is understood");
        assert!(lost <= 1, "{lost} puts were lost");
        assert_eq!(writer.get(&value), Got::Right);
        assert_eq!(reader.get(&value), Got::Right);
    }
}

/// Where nobody is older, clients that read once and end spoil nothing for the next.
#[test]
fn todays_clients_that_read_once_and_end_are_answered_in_their_own_form() {
    let Some(bench) = start(&[]) else { return };
    for n in 0..4 {
        let mut reader = bench.client(&format!("reader{n}"), 0);
        assert_eq!(reader.get(&Value::new("missing", 1)), Got::Failed(-704));
    }
}

#[test]
fn a_follower_passes_on_what_an_older_client_asks_in_its_form() {
    let mut trio = Trio::start(&[]);
    let at = trio.follower();
    let Some(mut old) = trio.old_client("old", &trio.plain(at), 32) else { return };
    let value = Value::new("k", 10_000);
    assert_eq!(old.put_with(&value, &WriteConfig::soft_pin()), 0);
    assert_eq!(old.get(&value), Got::Right);
    assert_eq!(old.get(&Value::new("missing", 1)), Got::Failed(-704));
    let Some(mut new) = trio.client("new", &trio.plain(at), 32) else { return };
    // What the first client at an address of older ones reads before it has written, it may lose.
    assert_eq!(new.put(&Value::new("first", 1000)), 0);
    assert_eq!(new.get(&value), Got::Right);

    let leader = trio.leader();
    trio.kill(leader);
    trio.leader();
    eventually_within(Duration::from_secs(40), "the older client reads on", || {
        old.get(&value) == Got::Right
    });
    let next = Value::new("next", 10_000);
    eventually_within(Duration::from_secs(40), "and writes on", || old.put(&next) == 0);
    assert_eq!(new.get(&next), Got::Right);
}
