//! Where a further replica goes.

use mooncake_ha::wire::types::{ReplicateConfig, Segment};

use super::{ENFORCE, MIB, looked_at, told};
use crate::support::node::{Caller, TestNode, plain, segment};

/// A node with segments of a mebibyte at these endpoints, `s1` first, each of a client of its own.
async fn scene(endpoints: &[&str]) -> (TestNode, Caller) {
    let node = TestNode::start(&[ENFORCE, "--eviction_high_watermark_ratio=1"]).await;
    for (n, endpoint) in (1..).zip(endpoints) {
        let name = format!("s{n}");
        let segment = Segment { te_endpoint: endpoint.as_bytes(), ..segment(n, &name, MIB) };
        assert_eq!(node.caller(n).await.mount(&segment).await, Ok(()));
    }
    let a = node.caller(1).await;
    (node, a)
}

async fn put(a: &Caller, key: &str, size: u64, on: &str) {
    let preferred_segments = vec![on.as_bytes()];
    let config = ReplicateConfig { preferred_segments, with_hard_pin: true, ..plain() };
    a.start(key, size, &config).await.unwrap();
    a.end(key).await.unwrap();
}

/// Where a hot key on `s1` goes.
async fn target(a: &Caller, key: &str) -> Vec<String> {
    a.read(key, 8).await;
    told(&a.next_task().await).targets
}

#[tokio::test]
async fn another_host_comes_before_an_emptier_segment_of_the_same_host() {
    let (_node, a) = scene(&["h1:1", "h1:2", "h2:1"]).await;
    put(&a, "k", 1024, "s1").await;
    put(&a, "load", 300 << 10, "s3").await;
    assert_eq!(target(&a, "k").await, ["s3"]);
}

#[tokio::test]
async fn the_same_host_is_better_than_none() {
    let (_node, a) = scene(&["h1:1", "h1:2"]).await;
    put(&a, "k", 1024, "s1").await;
    assert_eq!(target(&a, "k").await, ["s2"]);
}

#[tokio::test]
async fn of_several_hosts_the_emptiest_segment_is_chosen_and_a_full_one_never() {
    let (node, a) = scene(&["h1:1", "h2:1", "h3:1"]).await;
    put(&a, "k", 1024, "s1").await;
    put(&a, "other", 1024, "s1").await;
    put(&a, "some", 300 << 10, "s2").await;
    put(&a, "more", 600 << 10, "s3").await;
    assert_eq!(target(&a, "k").await, ["s2"]);
    // 85 % of a mebibyte is 891289 bytes.
    put(&a, "full", 600 << 10, "s2").await;
    put(&a, "full too", 290 << 10, "s3").await;
    let looked = super::hot(&node);
    a.read("other", 8).await;
    looked_at(&node, looked + 1).await;
    assert_eq!(node.look(|state| state.dynamic().reserved()), 1, "only that of k");
}

#[tokio::test]
async fn objects_that_are_hot_at_once_are_spread() {
    let (_node, a) = scene(&["h1:1", "h2:1", "h3:1"]).await;
    let keys: Vec<String> = (0..8).map(|n| format!("k{n}")).collect();
    for key in &keys {
        put(&a, key, 10 << 10, "s1").await;
    }
    let mut targets = Vec::new();
    for key in &keys {
        targets.extend(target(&a, key).await);
    }
    for name in ["s2", "s3"] {
        let count = targets.iter().filter(|target| *target == name).count();
        // A reservation takes no memory before it is used, so those of one moment alone know of each other.
        assert!(count > 0, "{targets:?}");
    }
}
