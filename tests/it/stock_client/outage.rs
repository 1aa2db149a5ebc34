//! The master goes away and comes back: what clients see, and what is still there.

use std::time::Duration;

use crate::support::{
    Bench, Feature, Got, LoadOptions, Placed, StockClient, Value, WriteConfig, eventually,
    eventually_within, wall_ms,
};

const HOUR_MS: u64 = 3_600_000;

/// Objects of every kind that a restart must keep, with their places.
fn fill(bench: &Bench) -> (StockClient, Vec<Value>, Vec<Vec<Placed>>) {
    let mut client = bench.client("a", 64);
    let mut values = Value::several("plain/", 40, 30_000);
    for value in &values {
        assert_eq!(client.put(value), 0);
    }
    for (n, value) in Value::several("pinned/", 40, 3000).into_iter().enumerate() {
        let ttl = HOUR_MS + n as u64;
        assert_eq!(client.put_with(&value, &WriteConfig::soft_pin_for(ttl)), 0);
        values.push(value);
    }
    let big = Value::new("big", 8 << 20);
    assert_eq!(client.put_with(&big, &WriteConfig::hard_pin()), 0);
    values.push(big);
    let places = values.iter().map(|value| client.replicas(&value.key)).collect();
    (client, values, places)
}

fn assert_nothing_changed_over(mut stop: impl FnMut(&mut Bench)) {
    let Some(mut bench) = Bench::needing(&[Feature::Durable], &[]) else { return };
    let before = wall_ms();
    let (mut client, values, places) = fill(&bench);
    let after = wall_ms();
    let pins = bench.master.soft_pins();
    assert_eq!(pins.len(), 40);
    for (n, (key, deadline)) in pins.iter().enumerate() {
        assert!((before + HOUR_MS..=after + HOUR_MS + 40).contains(deadline), "{n} {key}");
    }
    let allocated = bench.master.count("master_allocated_bytes");
    stop(&mut bench);
    bench.master.start_again();
    assert_eq!(bench.master.soft_pins(), pins);
    assert_eq!(bench.master.count("master_allocated_bytes"), allocated);
    let mut fresh = bench.client("fresh", 0);
    for (value, place) in values.iter().zip(&places) {
        assert_eq!(fresh.get(value), Got::Right, "{value:?}");
        assert_eq!(fresh.replicas(&value.key), *place, "{value:?}");
    }
    let value = Value::new("after", 1000);
    eventually("the old client works on", || {
        client.put(&value) == 0 && client.get(&value) == Got::Right
    });
}

#[test]
fn objects_places_and_deadlines_are_the_same_after_sigkill() {
    assert_nothing_changed_over(|bench| bench.master.kill());
}

#[test]
fn objects_places_and_deadlines_are_the_same_after_sigterm() {
    assert_nothing_changed_over(|bench| {
        let status = bench.master.terminate();
        assert!(status.success(), "{status}");
    });
}

#[test]
fn a_pin_that_ran_out_while_the_master_was_away_is_not_revived() {
    let Some(mut bench) = Bench::needing(&[Feature::Durable], &[]) else { return };
    let mut client = bench.client("a", 16);
    let config = WriteConfig::soft_pin_for(2500);
    assert_eq!(client.put_with(&Value::new("short", 100), &config), 0);
    assert_eq!(client.put_with(&Value::new("long", 100), &WriteConfig::soft_pin()), 0);
    let over = bench.master.soft_pins()[0].1;
    bench.master.kill();
    eventually("the deadline has passed", || wall_ms() > over);
    bench.master.start_again();
    eventually("one pin is left", || bench.master.count("master_soft_pin_key_count") == 1);
    assert_eq!(bench.master.soft_pins()[0].0, "long");
    assert_eq!(client.get_size("short"), 100);
}

#[test]
fn a_half_written_object_stays_invisible_over_a_restart_and_its_writer_may_end_it() {
    let Some(mut bench) = Bench::needing(&[Feature::Durable], &[]) else { return };
    let mut client = bench.client("a", 16);
    let values = Value::several("s/", 2, 5000);
    assert_eq!(client.session_start(&values, &WriteConfig::soft_pin_for(HOUR_MS)), [0, 0]);
    assert_eq!(client.session_write(&values), [5000, 5000]);
    bench.master.kill();
    bench.master.start_again();
    assert_eq!(bench.master.count("master_soft_pin_key_count"), 0);
    let mut reader = bench.client("reader", 0);
    assert_eq!(reader.get(&values[0]), Got::Failed(-703));
    let before = wall_ms();
    eventually("the writer ends its session", || client.session_end(&values[..1]) == [0]);
    assert_eq!(reader.get(&values[0]), Got::Right);
    let (_, deadline) = bench.master.soft_pins().remove(0);
    assert!((before + HOUR_MS..=wall_ms() + HOUR_MS).contains(&deadline));
    assert_eq!(client.session_revoke(&values[1..]), [0]);
}

#[test]
fn the_heartbeats_of_clients_that_live_on_keep_their_segments_over_a_restart() {
    let Some(mut bench) = Bench::needing(&[Feature::Durable], &["--client_ttl=3"]) else { return };
    let mut client = bench.client("a", 16);
    assert_eq!(client.put(&Value::new("k", 1000)), 0);
    bench.master.kill();
    let down = wall_ms();
    eventually("longer than the client TTL", || wall_ms() > down + 4000);
    bench.master.start_again();
    let up = wall_ms();
    eventually("longer than the client TTL again", || {
        assert_eq!(bench.master.count("master_total_capacity_bytes"), 16 << 20);
        wall_ms() > up + 5000
    });
    assert_eq!(client.get(&Value::new("k", 1000)), Got::Right);
    assert_eq!(bench.master.count("master_active_clients"), 1);
}

#[test]
fn while_the_master_is_away_calls_fail_and_then_work_again() {
    let Some(mut bench) = Bench::start(&[]) else { return };
    let mut client = bench.client("a", 16);
    let value = Value::new("k", 1000);
    assert_eq!(client.put(&value), 0);
    bench.master.kill();
    assert_eq!(client.get(&value), Got::Failed(-900));
    bench.master.start_again();
    let next = Value::new("next", 1000);
    eventually("a put works", || client.put(&next) == 0 && client.get(&next) == Got::Right);
}

#[test]
fn a_call_to_a_frozen_master_waits_and_is_answered_when_it_thaws() {
    let Some(bench) = Bench::start(&[]) else { return };
    let mut client = bench.client("a", 16);
    let value = Value::new("k", 1000);
    bench.master.frozen(|| {
        client.load_start(&LoadOptions::new("l", 3));
        let from = wall_ms();
        eventually("a while", || wall_ms() > from + 1500);
        assert_eq!(client.load_acknowledged(), 0);
    });
    eventually_within(Duration::from_secs(5), "the load goes on", || {
        client.load_acknowledged() > 20
    });
    let report = client.load_stop();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    assert_eq!(report.count("put -900") + report.count("put -901"), 0);
    assert_eq!(client.put(&value), 0);
}
