//! Memory runs out: what goes, what stays, and that writers get on.

use crate::support::{Bench, Feature, Got, StockClient, Value, WriteConfig, eventually};

const MIB: u64 = 1 << 20;
const FLAGS: &[&str] = &["--default_kv_lease_ttl=2s", "--eviction_high_watermark_ratio=0.8"];

/// A failed allocation makes room in the background; the writer tries again.
fn put_when_there_is_room(client: &mut StockClient, value: &Value, config: &WriteConfig) {
    eventually("there is room", || match client.put_with(value, config) {
        0 => true,
        -200 => false,
        other => panic!("put of {value:?}: {other}"),
    });
}

fn readable(client: &mut StockClient, values: &[Value]) -> usize {
    values.iter().filter(|value| client.get(value) == Got::Right).count()
}

#[test]
fn writers_get_on_when_memory_is_full_and_the_newest_values_are_kept() {
    let Some(bench) = Bench::needing(&[Feature::Eviction], FLAGS) else { return };
    let mut client = bench.client("c", 32);
    let values = Value::several("v/", 150, MIB);
    for value in &values {
        put_when_there_is_room(&mut client, value, &WriteConfig::default());
    }
    assert_eq!(readable(&mut client, &values[145..]), 5);
    assert_eq!(client.get(&values[0]), Got::Failed(-704));
    assert!(bench.master.count("master_evicted_key_count") >= 118);
    assert!(bench.master.count("master_allocated_bytes") <= 32 * MIB);
}

#[test]
fn hard_pinned_values_stay_and_soft_pinned_ones_stay_while_others_can_go() {
    let Some(bench) = Bench::needing(&[Feature::Eviction], FLAGS) else { return };
    let mut client = bench.client("c", 32);
    let hard = Value::several("hard/", 4, MIB);
    let soft = Value::several("soft/", 4, MIB);
    assert_eq!(client.put_batch(&hard, &WriteConfig::hard_pin()), 0);
    assert_eq!(client.put_batch(&soft, &WriteConfig::soft_pin()), 0);
    for value in Value::several("v/", 100, MIB) {
        put_when_there_is_room(&mut client, &value, &WriteConfig::default());
    }
    assert_eq!(readable(&mut client, &hard), 4);
    assert_eq!(readable(&mut client, &soft), 4);
    assert_eq!(bench.master.count("master_soft_pin_key_count"), 4);
}

#[test]
fn more_copies_than_segments_do_not_keep_full_memory_from_taking_new_values() {
    let Some(bench) = Bench::needing(&[Feature::Eviction], FLAGS) else { return };
    let mut client = bench.client("c", 32);
    let values = Value::several("v/", 80, MIB);
    for value in &values {
        put_when_there_is_room(&mut client, value, &WriteConfig::replicas(2));
    }
    assert_eq!(readable(&mut client, &values[77..]), 3);
}

#[test]
fn soft_pinned_values_go_when_nothing_else_can() {
    let Some(bench) = Bench::needing(&[Feature::Eviction], FLAGS) else { return };
    let mut client = bench.client("c", 32);
    let values = Value::several("soft/", 60, MIB);
    for value in &values {
        put_when_there_is_room(&mut client, value, &WriteConfig::soft_pin());
    }
    assert_eq!(readable(&mut client, &values[57..]), 3);
    eventually("the gauge counts what is left", || {
        let left = readable(&mut client, &values);
        left < 33 && bench.master.count("master_soft_pin_key_count") == left as u64
    });
}

#[test]
fn soft_pinned_values_never_go_if_the_operator_says_so() {
    let flags = [FLAGS, &["--allow_evict_soft_pinned_objects=false"]].concat();
    let Some(bench) = Bench::needing(&[Feature::Eviction], &flags) else { return };
    let mut client = bench.client("c", 16);
    let values = Value::several("soft/", 15, MIB);
    for value in &values {
        assert_eq!(client.put_with(value, &WriteConfig::soft_pin()), 0);
    }
    let big = Value::new("big", 2 * MIB);
    for _ in 0..10 {
        assert_eq!(client.put(&big), -200);
    }
    assert_eq!(readable(&mut client, &values), 15);
}

#[test]
fn a_value_that_is_read_again_and_again_is_not_evicted() {
    let Some(bench) = Bench::needing(&[Feature::Eviction], FLAGS) else { return };
    let mut client = bench.client("c", 32);
    let kept = Value::new("kept", MIB);
    assert_eq!(client.put(&kept), 0);
    for value in Value::several("v/", 100, MIB) {
        put_when_there_is_room(&mut client, &value, &WriteConfig::default());
        assert_eq!(client.get(&kept), Got::Right);
    }
}

#[test]
fn a_group_is_evicted_together_or_not_at_all() {
    let features = [Feature::Eviction, Feature::Groups];
    let Some(bench) = Bench::needing(&features, FLAGS) else { return };
    let mut client = bench.client("c", 32);
    let (held, idle) = (Value::several("held/", 3, MIB), Value::several("idle/", 3, MIB));
    assert_eq!(client.put_batch(&held, &WriteConfig::groups(&["held"; 3])), 0);
    assert_eq!(client.put_batch(&idle, &WriteConfig::groups(&["idle"; 3])), 0);
    for value in Value::several("v/", 100, MIB) {
        put_when_there_is_room(&mut client, &value, &WriteConfig::default());
        assert_eq!(client.get(&held[0]), Got::Right);
    }
    assert_eq!(readable(&mut client, &held), 3);
    assert_eq!(readable(&mut client, &idle), 0);
}
