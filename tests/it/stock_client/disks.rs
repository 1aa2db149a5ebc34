//! The client's own disk: copies are written there, survive memory and the master, and come back to memory.

use std::time::Duration;

use crate::support::{Bench, Feature, Got, StockClient, Value, WriteConfig, eventually_within};

const MIB: u64 = 1 << 20;
/// The client speaks of its disk each second, and writes to it in the background.
const ON_DISK: Duration = Duration::from_secs(60);
const LEASE: &str = "--default_kv_lease_ttl=500";

fn on_disk(bench: &Bench, count: u64) {
    eventually_within(ON_DISK, "the values are on disk", || {
        bench.master.count("file_cache_nums_") >= count
    });
}

/// Writes values until memory has no room for the first ones.
fn fill(client: &mut StockClient, count: u64) {
    for value in Value::several("fill/", count, MIB) {
        eventually_within(ON_DISK, "there is room", || client.put(&value) == 0);
    }
}

#[test]
fn values_go_to_disk_survive_the_masters_death_and_are_read_from_there() {
    let flags = ["--enable_offload", LEASE, "--eviction_high_watermark_ratio=0.8"];
    let Some(mut bench) = Bench::needing(&[Feature::Durable], &flags) else { return };
    let mut client = bench.client_with_disk("c", 32);
    let values = Value::several("v/", 4, MIB);
    for value in &values {
        assert_eq!(client.put_with(value, &WriteConfig::default()), 0);
    }
    on_disk(&bench, 4);
    bench.master.kill();
    bench.master.start_again();
    assert!(bench.master.count("file_cache_nums_") >= 4, "no copy is lost");
    fill(&mut client, 40);
    for value in &values {
        // A look leases the value, so there is one only: the oldest went first.
        assert_eq!(client.replicas(&value.key), [], "{}", value.key);
        assert_eq!(client.get(value), Got::Right, "{}", value.key);
    }
}

#[test]
fn full_memory_sends_values_to_disk_instead_of_forgetting_them() {
    let flags =
        ["--enable_offload", "--offload_on_evict", LEASE, "--eviction_high_watermark_ratio=0.6"];
    let Some(bench) = Bench::needing(&[Feature::Eviction], &flags) else { return };
    let mut client = bench.client_with_disk("c", 32);
    let values = Value::several("fill/", 60, MIB);
    fill(&mut client, 60);
    for value in &values {
        assert_eq!(client.get(value), Got::Right, "{}", value.key);
    }
    assert_eq!(bench.master.count("master_key_count"), 60);
    assert!(bench.master.count("master_evicted_key_count") > 20);
}

#[test]
fn a_value_that_is_read_from_disk_again_and_again_comes_back_to_memory() {
    let flags = [
        "--enable_offload",
        "--promotion_on_hit",
        LEASE,
        "--eviction_high_watermark_ratio=0.8",
        "--eviction_ratio=0.3",
    ];
    let Some(bench) = Bench::needing(&[Feature::Eviction], &flags) else { return };
    let mut client = bench.client_with_disk("c", 32);
    let value = Value::new("v", MIB);
    assert_eq!(client.put(&value), 0);
    on_disk(&bench, 1);
    fill(&mut client, 30);
    // 0.8 of 32 MiB.
    eventually_within(ON_DISK, "memory is below the watermark", || {
        bench.master.count("mem_cache_nums_") <= 25
    });
    assert_eq!(client.replicas("v"), [], "the oldest went first");
    eventually_within(ON_DISK, "it is in memory again", || {
        assert_eq!(client.get(&value), Got::Right);
        !client.replicas("v").is_empty()
    });
    assert!(bench.master.count("master_promotion_completed_total") >= 1);
}
