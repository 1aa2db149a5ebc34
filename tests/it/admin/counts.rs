//! Metrics of what happens to objects: each moves with its cause and only with it.

use std::time::Duration;

use mooncake_ha::admin::collect::collect;
use mooncake_ha::metrics::Metrics;
use mooncake_ha::metrics::text::Values;
use mooncake_ha::wire::types::ReplicateConfig;

use crate::support::node::{TestNode, pinned, plain, until};

/// Room for 32 values of 1 KiB.
const ROOM: u64 = 32 << 10;

const FLAGS: &[&str] =
    &["--eviction_high_watermark_ratio=1", "--eviction_ratio=0.5", "--default_kv_lease_ttl=5s"];

fn values(node: &TestNode) -> Values {
    collect(&Metrics::default(), Some(node.master()), Duration::ZERO)
}

/// How many values a histogram has seen, read from the page as a scraper does.
fn count_of(values: &Values, histogram: &str) -> u64 {
    let page = values.render();
    let line = page.lines().find_map(|line| line.strip_prefix(&format!("{histogram}_count ")));
    line.map_or(0, |count| count.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_counted_while_it_runs_and_that_of_a_group_for_each_member() {
    let node = TestNode::start(FLAGS).await;
    let client = node.owner(1, ROOM).await;
    let group: &[u8] = b"g";
    let grouped = ReplicateConfig { group_ids: Some(vec![group]), ..plain() };
    for key in ["a", "b", "c"] {
        client.put(key, &grouped).await;
    }
    client.put("alone", &plain()).await;
    node.pass(1);
    assert_eq!(values(&node).get("master_leased_objects"), 0);
    assert!(client.exists("alone").await);
    assert_eq!(values(&node).get("master_leased_objects"), 1);
    assert!(client.exists("b").await);
    assert_eq!(values(&node).get("master_leased_objects"), 4);
    assert_eq!(values(&node).get("master_object_groups"), 1);
    node.pass(5_000);
    assert_eq!(values(&node).get("master_leased_objects"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_eviction_is_counted_under_the_peers_names_and_those_of_memory() {
    let node = TestNode::start(FLAGS).await;
    let client = node.owner(1, ROOM).await;
    let mut put = 0;
    while client.start(&format!("k{put}"), 1024, &plain()).await.is_ok() {
        client.end(&format!("k{put}")).await.unwrap();
        put += 1;
    }
    assert_eq!(values(&node).get("master_evictable_objects"), put);
    node.pass(6_000);
    until("something is evicted", async || {
        node.pass(50);
        values(&node).get("master_evicted_key_count") > 0
    })
    .await;
    let values = values(&node);
    let gone = put - values.get("master_key_count");
    assert_eq!(values.get("master_evicted_key_count"), gone);
    assert_eq!(values.get("master_evicted_size_bytes"), gone * 1024);
    assert_eq!(values.get("master_evictable_objects"), put - gone);
    for (all, memory) in [
        ("master_successful_evictions_total", "master_successful_evictions_mem"),
        ("master_attempted_evictions_total", "master_attempted_evictions_mem"),
        ("master_evicted_key_count", "master_evicted_key_count_mem"),
        ("master_evicted_size_bytes", "master_evicted_size_bytes_mem"),
    ] {
        assert!(values.get(all) > 0, "{all}");
        assert_eq!(values.get(all), values.get(memory), "{memory}");
    }
    assert!(values.get("master_eviction_order_rebuilds_total") > 0);
    assert_eq!(values.get("master_put_start_alloc_failures_total"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn pins_are_counted_in_the_index_until_a_sweep_ends_them() {
    let node = TestNode::start(FLAGS).await;
    let client = node.owner(1, ROOM).await;
    client.put("short", &pinned(Some(10_000))).await;
    client.put("long", &pinned(Some(60_000))).await;
    let before = values(&node);
    assert_eq!(before.get("master_soft_pin_key_count"), 2);
    assert_eq!(before.get("master_deadline_index_size"), 2);
    assert!(before.get("master_deadline_heap_size") >= 2);
    assert_eq!((before.get("master_soft_pins_due"), before.get("master_sweeps_total")), (0, 0));
    node.pass(10_000);
    until("the short pin is swept", async || {
        values(&node).get("master_soft_pins_expired_total") == 1
    })
    .await;
    let after = values(&node);
    assert_eq!(after.get("master_soft_pin_key_count"), 1);
    assert!(after.get("master_sweeps_total") >= 1);
    assert_eq!(after.get("master_oldest_overdue_pin_ms"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn proposals_are_counted_with_their_size_and_their_times() {
    let node = TestNode::start(FLAGS).await;
    let client = node.owner(1, ROOM).await;
    let before = values(&node);
    client.put("k", &plain()).await;
    let after = values(&node);
    for name in ["master_proposed_commands_total", "master_proposed_entries_total"] {
        assert!(after.get(name) >= before.get(name) + 2, "{name}");
    }
    assert!(after.get("master_proposed_bytes_total") > before.get("master_proposed_bytes_total"));
    assert_eq!(after.get("master_proposal_failures_total"), 0);
    for name in ["master_commands_per_entry", "master_commit_latency_us", "master_apply_latency_us"]
    {
        assert!(count_of(&after, name) >= count_of(&before, name) + 2, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn gauges_are_right_at_once_after_a_restart_and_counters_of_the_state_go_on() {
    let mut node = TestNode::start(FLAGS).await;
    let client = node.owner(1, ROOM).await;
    client.put("pinned", &pinned(Some(60_000))).await;
    client.put("plain", &plain()).await;
    while client.start("big", ROOM, &plain()).await.is_ok() {}
    let names = [
        "master_key_count",
        "master_soft_pin_key_count",
        "master_deadline_index_size",
        "master_allocated_bytes",
        "master_total_capacity_bytes",
        "master_evictable_objects",
        "mem_cache_nums_",
        "master_segments",
        "master_known_clients",
        "master_put_start_alloc_failures_total",
    ];
    let before = names.map(|name| values(&node).get(name));
    assert!(before.iter().all(|value| *value > 0), "{before:?}");
    node.restart().await;
    assert_eq!(names.map(|name| values(&node).get(name)), before);
}
