//! A read protects its object from removal for the lease time; force and time end that.

use std::time::Duration;

use crate::support::{Bench, Got, StockClient, Value, eventually, holds_for};

const LEASE: &str = "--default_kv_lease_ttl=3s";

fn one_object(bench: &Bench) -> (StockClient, Value) {
    let mut client = bench.client("c", 32);
    let value = Value::new("k", 1000);
    assert_eq!(client.put(&value), 0);
    (client, value)
}

#[test]
fn an_object_that_nobody_has_read_is_removed_at_once() {
    let Some(bench) = Bench::start(&[LEASE]) else { return };
    let (mut client, value) = one_object(&bench);
    assert_eq!(client.remove("k", false), 0);
    assert_eq!(client.remove("k", false), -704);
    assert_eq!(client.get(&value), Got::Failed(-704));
}

#[test]
fn a_read_object_is_kept_for_the_lease_time_and_then_removed() {
    let Some(bench) = Bench::start(&[LEASE]) else { return };
    let (mut client, value) = one_object(&bench);
    let mut sweeper = bench.client("sweeper", 0);
    assert_eq!(client.get(&value), Got::Right);
    holds_for(Duration::from_millis(1000), "the lease refuses removal", || {
        sweeper.remove("k", false) == -706
    });
    eventually("the lease has run out", || sweeper.remove("k", false) == 0);
    assert_eq!(client.get(&value), Got::Failed(-704));
}

#[test]
fn asking_whether_a_key_exists_gives_a_lease_too() {
    let Some(bench) = Bench::start(&[LEASE]) else { return };
    let (mut client, _) = one_object(&bench);
    assert_eq!(client.is_exist("k"), 1);
    assert_eq!(client.remove("k", false), -706);
}

#[test]
fn force_removes_a_leased_object() {
    let Some(bench) = Bench::start(&["--default_kv_lease_ttl=1m"]) else { return };
    let (mut client, value) = one_object(&bench);
    assert_eq!(client.get(&value), Got::Right);
    assert_eq!(client.remove("k", false), -706);
    assert_eq!(client.remove("k", true), 0);
    assert_eq!(client.get(&value), Got::Failed(-704));
}

#[test]
fn removing_everything_leaves_leased_objects_unless_forced() {
    let Some(bench) = Bench::start(&["--default_kv_lease_ttl=1m"]) else { return };
    let mut client = bench.client("c", 32);
    let values = Value::several("a/", 30, 2000);
    for value in &values {
        assert_eq!(client.put(value), 0);
    }
    for value in &values[..10] {
        assert_eq!(client.get(value), Got::Right);
    }
    assert_eq!(client.remove_all(false), 20);
    assert_eq!(bench.master.count("master_key_count"), 10);
    assert_eq!(client.remove_all(true), 10);
    assert_eq!(bench.master.count("master_key_count"), 0);
    assert_eq!(bench.master.count("master_allocated_bytes"), 0);
}

#[test]
fn an_unfinished_object_is_not_removed_even_by_force() {
    let Some(bench) = Bench::start(&[LEASE]) else { return };
    let mut client = bench.client("c", 32);
    let value = [Value::new("k", 1000)];
    assert_eq!(client.session_start(&value, &Default::default()), [0]);
    assert_eq!(client.remove("k", true), -703);
    assert_eq!(client.session_revoke(&value), [0]);
}
