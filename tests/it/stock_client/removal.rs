//! Removal of many objects by a pattern, or by client and segment.

use crate::support::{Bench, Feature, Got, Value, WriteConfig};

#[test]
fn a_pattern_removes_what_it_finds_anywhere_in_a_key() {
    let Some(bench) = Bench::needing(&[Feature::BulkRemoval], &[]) else { return };
    let mut client = bench.client("c", 32);
    for value in Value::several("model-a/", 20, 1000).iter().chain(&Value::several("b/", 5, 1000)) {
        assert_eq!(client.put(value), 0);
    }
    assert_eq!(client.remove_by_regex("del-a/1\\d$", false), 10);
    assert_eq!(client.remove_by_regex("^(?!model).*[03]$", false), 2);
    assert_eq!(client.remove_by_regex("(", false), -600);
    assert_eq!(client.remove_by_regex("nothing", false), 0);
    assert_eq!(bench.master.count("master_key_count"), 13);
}

#[test]
fn a_pattern_leaves_leased_objects_unless_forced() {
    let Some(bench) = Bench::needing(&[Feature::BulkRemoval], &[]) else { return };
    let mut client = bench.client("c", 32);
    let values = Value::several("k/", 10, 1000);
    assert_eq!(client.put_batch(&values, &WriteConfig::default()), 0);
    assert_eq!(client.get(&values[3]), Got::Right);
    assert_eq!(client.remove_by_regex("^k/", false), 9);
    assert_eq!(client.remove_by_regex("^k/", true), 1);
}

#[test]
fn a_client_clears_its_own_copies_on_one_segment_or_everywhere() {
    let Some(bench) = Bench::needing(&[Feature::BulkRemoval], &[]) else { return };
    let mut mine = bench.client("mine", 32);
    let mut other = bench.client("other", 32);
    let values = Value::several("k/", 4, 1000);
    assert_eq!(mine.put_batch(&values, &WriteConfig::replicas(2)), 0);
    assert_eq!(other.get(&values[3]), Got::Right);
    assert!(other.batch_replica_clear(&values, "").is_empty(), "only the writer may clear");
    assert_eq!(mine.batch_replica_clear(&values[..1], other.segment()), ["k/0"]);
    assert_eq!(mine.replicas("k/0").len(), 1);
    assert_eq!(mine.get(&values[0]), Got::Right);
    assert_eq!(mine.batch_replica_clear(&values[1..], ""), ["k/1", "k/2"], "k/3 is leased");
    assert_eq!(other.get(&values[2]), Got::Failed(-704));
    assert_eq!(bench.master.count("master_allocated_bytes"), 3000);
}
