//! F3, F4, C27: exactly how many are evicted, and that they are the oldest.

use mooncake_ha::model::ErrorCode as E;
use mooncake_ha::wire::types::ReplicateConfig;

use super::start;
use crate::support::node::{Caller, TestNode, pinned, plain, until};

/// Puts `count` values a millisecond apart.
async fn put_apart(node: &TestNode, client: &Caller, name: &str, count: u64) {
    for n in 0..count {
        client.put(&format!("{name}{n}"), &plain()).await;
        node.pass(1);
    }
}

/// Numbers of the values of this name that are left.
fn left(node: &TestNode, name: &str, count: u64) -> Vec<u64> {
    (0..count).filter(|n| node.has(&format!("{name}{n}"))).collect()
}

/// A put that finds no room, and the eviction that follows.
async fn force(node: &TestNode, client: &Caller) {
    let before = node.keys();
    assert_eq!(client.start("big", 1 << 30, &plain()).await.unwrap_err(), E::NoAvailableHandle);
    until("something is evicted", async || {
        node.pass(20);
        node.keys() < before
    })
    .await;
    // The pass is over when its memory shows; a second one would show as well.
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
}

#[tokio::test]
async fn f3_the_oldest_twentieth_goes() {
    let node = start(&["--eviction_high_watermark_ratio=1"]).await;
    let client = node.owner(1, 1 << 20).await;
    put_apart(&node, &client, "k", 400).await;
    force(&node, &client).await;
    assert_eq!(left(&node, "k", 400), (20..400).collect::<Vec<_>>());
}

#[tokio::test]
async fn f4_the_oldest_tenth_goes_and_what_was_read_counts_from_its_read() {
    let flags = ["--eviction_high_watermark_ratio=1", "--eviction_ratio=0.1"];
    let flags = [flags.as_slice(), &["--default_kv_lease_ttl=50"]].concat();
    let node = start(&flags).await;
    let client = node.owner(1, 1 << 20).await;
    put_apart(&node, &client, "k", 250).await;
    assert!(client.exists("k3").await);
    force(&node, &client).await;
    let gone: Vec<u64> = (0..26).filter(|n| *n != 3).collect();
    let rest: Vec<u64> = (0..250).filter(|n| !gone.contains(n)).collect();
    assert_eq!(left(&node, "k", 250), rest);
}

#[tokio::test]
async fn c27_the_second_pass_takes_the_oldest_pinned_values_up_to_what_is_needed() {
    // Full to the brim, 80 % above the watermark: 85 % are wanted and 80 % needed.
    let node = start(&["--eviction_high_watermark_ratio=0.2"]).await;
    let (client, spare) = (node.owner(1, 20 << 10).await, node.owner(2, 1 << 20).await);
    for (name, config) in [("plain", plain()), ("pinned", pinned(Some(3_600_000)))] {
        let config = ReplicateConfig { preferred_segments: vec![b"s1".as_slice()], ..config };
        for n in 0..10 {
            client.put(&format!("{name}{n}"), &config).await;
            node.pass(1);
        }
    }
    assert_eq!(node.keys(), 20);
    // Without the spare segment the first one is all there is.
    spare.unmount(2).await.unwrap();
    until("sixteen go", async || {
        node.pass(20);
        node.keys() <= 4
    })
    .await;
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    assert_eq!(left(&node, "plain", 10), [0_u64; 0]);
    assert_eq!(left(&node, "pinned", 10), [6, 7, 8, 9]);
    assert_eq!(node.pins(), 4);
    node.assert_sound();
}

#[tokio::test]
async fn after_a_restart_nothing_goes_before_old_leases_ended_and_then_the_oldest_go() {
    let flags = ["--eviction_high_watermark_ratio=1", "--default_kv_lease_ttl=5s"];
    let mut node = start(&flags).await;
    let client = node.owner(1, 1 << 20).await;
    put_apart(&node, &client, "k", 100).await;
    drop(client);
    node.restart().await;
    let client = node.caller(1).await;
    assert_eq!(client.start("big", 1 << 30, &plain()).await.unwrap_err(), E::NoAvailableHandle);
    for _ in 0..20 {
        node.pass(200);
        tokio::time::sleep(std::time::Duration::from_millis(15)).await;
    }
    assert_eq!(node.keys(), 100);
    node.pass(1_000);
    force(&node, &client).await;
    assert_eq!(left(&node, "k", 100), (5..100).collect::<Vec<_>>());
    node.assert_sound();
}
