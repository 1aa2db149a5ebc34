//! Upserts: new content under a key that may exist, and what becomes of its pin.

use crate::support::{
    Bench, Feature, Got, LoadOptions, StockClient, Value, WriteConfig, eventually,
};

const GAUGE: &str = "master_soft_pin_key_count";
const HOUR_MS: u64 = 3_600_000;

fn start() -> Option<(Bench, StockClient, StockClient)> {
    let bench = Bench::needing(&[Feature::Upsert], &[])?;
    let (writer, reader) = (bench.client("writer", 32), bench.client("reader", 32));
    Some((bench, writer, reader))
}

#[test]
fn an_upsert_of_a_new_key_writes_it() {
    let Some((_bench, mut writer, mut reader)) = start() else { return };
    let value = Value::new("k", 70_000);
    assert_eq!(writer.upsert_with(&value, &WriteConfig::default()), 0);
    assert_eq!(reader.get(&value), Got::Right);
}

#[test]
fn an_upsert_of_the_same_size_rewrites_in_place() {
    let Some((_bench, mut writer, mut reader)) = start() else { return };
    let mut value = Value::new("k", 70_000);
    assert_eq!(writer.put_with(&value, &WriteConfig::replicas(2)), 0);
    let place = reader.replicas("k");
    for _ in 0..5 {
        let next = value.changed(70_000);
        assert_eq!(reader.upsert_with(&next, &WriteConfig::default()), 0);
        assert_eq!(writer.get(&next), Got::Right);
        assert!(matches!(writer.get(&value), Got::Wrong(_)));
        value = next;
    }
    assert_eq!(reader.replicas("k"), place);
}

#[test]
fn an_upsert_of_another_size_replaces_the_value() {
    let Some((_bench, mut writer, mut reader)) = start() else { return };
    let mut value = Value::new("k", 70_000);
    assert_eq!(writer.put(&value), 0);
    for size in [1, 3_000_000, 255, 70_001] {
        let next = value.changed(size);
        assert_eq!(writer.upsert_with(&next, &WriteConfig::default()), 0);
        assert_eq!(reader.get(&next), Got::Right);
        value = next;
    }
}

#[test]
fn an_upsert_keeps_sets_or_takes_away_the_pin_as_it_says() {
    let Some((bench, mut writer, _reader)) = start() else { return };
    let pinned = WriteConfig::soft_pin_for(HOUR_MS);
    for (key, new_size) in [("same", 1000), ("other", 2000)] {
        let value = Value::new(key, 1000);
        assert_eq!(writer.put_with(&value, &pinned), 0);
        let value = value.changed(new_size);
        assert_eq!(writer.upsert_with(&value, &WriteConfig::default()), 0);
        assert_eq!(bench.master.count(GAUGE), 1, "{key}: preserve");
        let value = value.changed(new_size + 1);
        assert_eq!(writer.upsert_with(&value, &WriteConfig::no_soft_pin()), 0);
        assert_eq!(bench.master.count(GAUGE), 0, "{key}: disable");
        assert_eq!(writer.upsert_with(&value.changed(new_size + 1), &pinned), 0);
        assert_eq!(bench.master.count(GAUGE), 1, "{key}: enable");
        assert_eq!(writer.remove(key, true), 0);
    }
}

#[test]
fn a_batch_of_upserts_writes_new_keys_and_rewrites_old_ones() {
    let Some((_bench, mut writer, mut reader)) = start() else { return };
    let old = Value::several("b/", 20, 9000);
    assert_eq!(writer.put_batch(&old[..10], &WriteConfig::default()), 0);
    let new: Vec<Value> = old.iter().map(|value| value.changed(9000)).collect();
    assert_eq!(writer.upsert_batch(&new, &WriteConfig::default()), 0);
    assert_eq!(reader.get_batch(&new), ["right"; 20]);
}

#[test]
fn no_read_is_ever_wrong_while_keys_are_upserted_under_load() {
    let Some(bench) = Bench::needing(&[Feature::Upsert], &[]) else { return };
    let mut writer = bench.client("writer", 256);
    let mut reader = bench.client("reader", 256);
    writer.load_start(&LoadOptions { upsert_share: 1.0, ..LoadOptions::new("u", 5) });
    eventually("the load runs", || writer.load_acknowledged() > 1000);
    let report = writer.load_stop();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    assert!(report.count("upsert 0") > 300, "{:?}", report.counts);
    let verified = reader.verify(&report.records);
    assert!(verified.findings.is_empty(), "{:?}", verified.findings);
    assert_eq!(verified.counts.get("right").copied(), Some(report.records.len() as u64));
}
