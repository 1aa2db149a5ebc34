//! Clients that come, die in the middle of something, or leave.

use std::time::Duration;

use crate::support::{Bench, Feature, Got, LoadOptions, Value, WriteConfig, eventually, holds_for};

const CAPACITY: &str = "master_total_capacity_bytes";

#[test]
fn a_write_whose_client_was_killed_can_be_put_again_after_the_discard_timeout() {
    let flags = ["--put_start_discard_timeout_sec=4", "--put_start_release_timeout_sec=600"];
    let Some(bench) = Bench::start(&flags) else { return };
    let mut owner = bench.client("owner", 32);
    let mut dying = bench.client("dying", 0);
    let value = Value::new("k", 20_000);
    assert_eq!(dying.session_start(std::slice::from_ref(&value), &WriteConfig::soft_pin()), [0]);
    dying.kill();
    // The library reports a put of an existing key as success, though nothing is stored by it.
    let second = value.changed(30_000);
    assert_eq!(owner.put(&second), 0);
    assert_eq!(owner.get(&second), Got::Failed(-703));
    holds_for(Duration::from_millis(1000), "the abandoned write blocks its key", || {
        owner.put(&second) == 0 && owner.get(&second) == Got::Failed(-703)
    });
    eventually("the key can be written", || {
        owner.put(&second) == 0 && owner.get(&second) == Got::Right
    });
    assert_eq!(bench.master.count("master_soft_pin_key_count"), 0);
    assert_eq!(bench.master.count("master_put_start_discard_cnt"), 1);
    // The dead client might still be writing: its memory is held back until the release timeout.
    assert_eq!(bench.master.count("master_put_start_discarded_staging_size"), 20_000);
    assert_eq!(bench.master.count("master_allocated_bytes"), 50_000);
}

#[test]
fn a_client_whose_heartbeat_pauses_for_less_than_its_ttl_keeps_its_segment() {
    let Some(bench) = Bench::start(&["--client_ttl=5"]) else { return };
    let mut paused = bench.client("paused", 32);
    let mut other = bench.client("other", 0);
    let value = Value::new("k", 10_000);
    assert_eq!(paused.put(&value), 0);
    paused.frozen(|| {
        holds_for(Duration::from_millis(2500), "the segment is mounted", || {
            bench.master.count(CAPACITY) == 32 << 20
        });
    });
    assert_eq!(other.get(&value), Got::Right);
}

#[test]
fn a_client_killed_under_load_leaves_only_right_bytes_behind() {
    let Some(bench) = Bench::start(&[]) else { return };
    let mut owner = bench.client("owner", 256);
    let mut dying = bench.client("dying", 0);
    dying.load_start(&LoadOptions { size_max: 4 << 20, ..LoadOptions::new("l", 7) });
    eventually("the load runs", || dying.load_acknowledged() > 150);
    let seen = dying.load_peek();
    dying.kill();
    assert!(seen.findings.is_empty(), "{:?}", seen.findings);
    let verified = owner.verify(&seen.records);
    assert!(verified.findings.is_empty(), "{:?}", verified.findings);
    assert_eq!(verified.counts.get("right").copied(), Some(seen.certain().count() as u64));
}

#[test]
fn a_killed_clients_memory_is_taken_out_after_the_client_ttl() {
    let Some(bench) = Bench::start(&["--client_ttl=3", "--default_kv_lease_ttl=1s"]) else {
        return;
    };
    let mut keeper = bench.client("keeper", 32);
    let mut dying = bench.client("dying", 64);
    eventually("both clients are known", || bench.master.count("master_active_clients") == 2);
    let only = Value::new("only", 10_000);
    assert_eq!(keeper.put_with(&only, &WriteConfig::soft_pin().on(dying.segment())), 0);
    let both = Value::new("both", 10_000);
    assert_eq!(dying.put_with(&both, &WriteConfig::replicas(2)), 0);
    assert_eq!(bench.master.count(CAPACITY), 96 << 20);
    let endpoint = keeper.replicas("only").remove(0).endpoint;
    dying.kill();
    holds_for(Duration::from_millis(1500), "a silent client is not given up early", || {
        bench.master.count(CAPACITY) == 96 << 20
    });
    eventually("the segment is gone", || bench.master.count(CAPACITY) == 32 << 20);
    assert_eq!(bench.master.count("master_active_clients"), 1);
    assert_eq!(keeper.get(&only), Got::Failed(-704));
    assert_eq!(keeper.get(&both), Got::Right);
    assert!(keeper.replicas("both").iter().all(|copy| copy.endpoint != endpoint));
    eventually("the pin went with its object", || {
        bench.master.count("master_soft_pin_key_count") == 0
            && bench.master.count("master_allocated_bytes") == 10_000
    });
}

#[test]
fn a_client_that_closes_takes_its_memory_with_it_at_once() {
    let Some(bench) = Bench::start(&[]) else { return };
    let mut keeper = bench.client("keeper", 32);
    let leaving = bench.client("leaving", 32);
    let value = Value::new("k", 10_000);
    assert_eq!(keeper.put_with(&value, &WriteConfig::default().on(leaving.segment())), 0);
    assert_eq!(leaving.close(), 0);
    assert_eq!(bench.master.count(CAPACITY), 32 << 20);
    assert_eq!(keeper.get(&value), Got::Failed(-704));
}

#[test]
fn a_second_segment_of_a_client_is_mounted_used_and_unmounted() {
    let Some(bench) = Bench::start(&[]) else { return };
    let mut client = bench.client("c", 16);
    let mut other = bench.client("other", 0);
    let (code, ids) = client.mount(64 << 20);
    assert_eq!((code, ids.len()), (0, 1));
    assert_eq!(bench.master.count(CAPACITY), 80 << 20);
    let values = Value::several("v/", 6, 8 << 20);
    for value in &values {
        assert_eq!(other.put(value), 0);
        assert_eq!(other.get(value), Got::Right);
    }
    assert_eq!(client.unmount(&ids, 0), 0);
    assert_eq!(bench.master.count(CAPACITY), 16 << 20);
    let left = values.iter().filter(|value| other.get(value) == Got::Right).count();
    assert!(left <= 2, "{left} values of 8 MiB in 16 MiB");
    eventually("their space is given back", || {
        bench.master.count("master_allocated_bytes") == left as u64 * (8 << 20)
    });
}

#[test]
fn a_segment_unmounted_with_grace_is_read_until_the_grace_is_over() {
    let Some(bench) = Bench::needing(&[Feature::GracefulUnmount], &[]) else { return };
    let mut client = bench.client("c", 16);
    let mut other = bench.client("other", 0);
    let (code, ids) = client.mount(64 << 20);
    assert_eq!((code, ids.len()), (0, 1));
    let values = Value::several("v/", 6, 8 << 20);
    for value in &values {
        assert_eq!(other.put(value), 0);
    }
    assert_eq!(client.unmount(&ids, 2), 0);
    holds_for(Duration::from_millis(1000), "everything is read within the grace", || {
        values.iter().all(|value| other.get(value) == Got::Right)
    });
    eventually("the segment is gone", || bench.master.count(CAPACITY) == 16 << 20);
}
