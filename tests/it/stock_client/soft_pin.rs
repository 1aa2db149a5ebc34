//! Soft pins as a client asks for them, and as the master counts and shows them.

use crate::support::{Bench, Feature, Kind, StockClient, Value, WriteConfig, eventually, wall_ms};

const GAUGE: &str = "master_soft_pin_key_count";
const HOUR_MS: u64 = 3_600_000;

/// The pin of `key` is active and ends `ttl_ms` after a moment between `before` and now.
///
/// Only ours tells deadlines; of the peer the gauge is all there is.
fn assert_deadline(bench: &Bench, key: &str, before: u64, ttl_ms: u64) {
    if bench.master.kind() == Kind::Peer {
        return;
    }
    let allowed = before + ttl_ms..=wall_ms() + ttl_ms;
    let object = bench.master.object(key).expect("the object");
    assert_eq!(object["soft_pin"]["state"], "active", "{object}");
    let deadline = object["soft_pin"]["deadline_ms"].as_u64().unwrap();
    assert!(allowed.contains(&deadline), "{deadline} is not in {allowed:?}");
    assert!(bench.master.soft_pins().contains(&(key.to_owned(), deadline)));
}

fn put(client: &mut StockClient, key: &str, config: &WriteConfig) -> i64 {
    client.put_with(&Value::new(key, 1000), config)
}

#[test]
fn a_pin_without_a_ttl_gets_the_masters_default_and_one_with_a_ttl_gets_that() {
    let Some(bench) = Bench::start(&["--default_kv_soft_pin_ttl=10m"]) else { return };
    let mut client = bench.client("c", 32);
    let before = wall_ms();
    assert_eq!(put(&mut client, "default", &WriteConfig::soft_pin()), 0);
    assert_eq!(put(&mut client, "hour", &WriteConfig::soft_pin_for(HOUR_MS)), 0);
    assert_eq!(put(&mut client, "plain", &WriteConfig::default()), 0);
    assert_eq!(put(&mut client, "disabled", &WriteConfig::no_soft_pin()), 0);
    assert_eq!(bench.master.count(GAUGE), 2);
    assert_deadline(&bench, "default", before, HOUR_MS / 6);
    assert_deadline(&bench, "hour", before, HOUR_MS);
}

#[test]
fn a_ttl_above_the_maximum_is_refused_and_leaves_no_object() {
    let Some(bench) = Bench::start(&["--max_kv_soft_pin_ttl=1h"]) else { return };
    let mut client = bench.client("c", 32);
    assert_eq!(put(&mut client, "k", &WriteConfig::soft_pin_for(HOUR_MS + 1)), -600);
    assert_eq!(client.is_exist("k"), 0);
    assert_eq!(put(&mut client, "k", &WriteConfig::soft_pin_for(HOUR_MS)), 0);
    assert_eq!(bench.master.count(GAUGE), 1);
}

#[test]
fn a_pin_becomes_active_when_its_write_ends_not_when_it_starts() {
    let Some(bench) = Bench::start(&[]) else { return };
    let mut client = bench.client("c", 32);
    let values = Value::several("s/", 3, 1000);
    assert_eq!(client.session_start(&values, &WriteConfig::soft_pin_for(HOUR_MS)), [0; 3]);
    assert_eq!(bench.master.count(GAUGE), 0);
    assert_eq!(client.session_write(&values), [1000; 3]);
    let before = wall_ms();
    assert_eq!(client.session_end(&values[..2]), [0; 2]);
    assert_eq!(client.session_revoke(&values[2..]), [0]);
    assert_eq!(bench.master.count(GAUGE), 2);
    assert_deadline(&bench, "s/0", before, HOUR_MS);
}

#[test]
fn pins_of_a_batch_are_counted_and_go_with_their_objects() {
    let Some(bench) = Bench::start(&[]) else { return };
    let mut client = bench.client("c", 32);
    let values = Value::several("b/", 50, 1000);
    let before = wall_ms();
    assert_eq!(client.put_batch(&values, &WriteConfig::soft_pin_for(HOUR_MS)), 0);
    assert_eq!(bench.master.count(GAUGE), 50);
    assert_deadline(&bench, "b/49", before, HOUR_MS);
    assert_eq!(client.batch_remove(&values[..20], true), [0; 20]);
    assert_eq!(bench.master.count(GAUGE), 30);
    assert_eq!(client.remove_all(true), 30);
    assert_eq!(bench.master.count(GAUGE), 0);
}

#[test]
fn a_soft_pin_does_not_protect_from_removal() {
    let Some(bench) = Bench::start(&[]) else { return };
    let mut client = bench.client("c", 32);
    assert_eq!(put(&mut client, "k", &WriteConfig::soft_pin_for(HOUR_MS)), 0);
    assert_eq!(client.remove("k", false), 0);
    assert_eq!(bench.master.count(GAUGE), 0);
}

#[test]
fn an_expired_pin_leaves_the_gauge_and_the_list_but_not_its_object() {
    // The peer sweeps only every 30 s.
    let Some(bench) = Bench::needing(&[Feature::Durable], &[]) else { return };
    let mut client = bench.client("c", 32);
    let value = Value::new("k", 1000);
    assert_eq!(client.put_with(&value, &WriteConfig::soft_pin_for(2500)), 0);
    assert_eq!(put(&mut client, "long", &WriteConfig::soft_pin_for(HOUR_MS)), 0);
    assert_eq!(bench.master.count(GAUGE), 2);
    eventually("the pin is swept", || bench.master.count(GAUGE) == 1);
    let object = bench.master.object("k").unwrap();
    assert_eq!(object["soft_pin"]["state"], "disabled", "{object}");
    assert_eq!(bench.master.soft_pins().len(), 1);
    assert_eq!(client.get_size("k"), 1000);
}

#[test]
fn reading_a_pinned_object_does_not_move_its_deadline() {
    let Some(bench) = Bench::needing(&[Feature::Durable], &[]) else { return };
    let mut client = bench.client("c", 32);
    let value = Value::new("k", 1000);
    assert_eq!(client.put_with(&value, &WriteConfig::soft_pin_for(HOUR_MS)), 0);
    let pins = bench.master.soft_pins();
    for _ in 0..20 {
        assert_eq!(client.get_plain(&value), "right");
        assert_eq!(client.is_exist("k"), 1);
    }
    assert_eq!(bench.master.soft_pins(), pins);
}
