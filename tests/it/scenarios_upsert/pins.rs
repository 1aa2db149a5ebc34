//! Scenarios C: soft pins over upserts.

use mooncake_ha::wire::types::{ReplicateConfig, SoftPinAction};

use super::calls::*;
use crate::support::node::{TestNode, pinned, plain, until};

const MIB: u64 = 1 << 20;

fn disable() -> ReplicateConfig<&'static [u8]> {
    ReplicateConfig { soft_pin_action: SoftPinAction::DISABLE, ..plain() }
}

#[tokio::test]
async fn c12_preserve_keeps_the_deadline_over_upserts_of_any_size() {
    let node = TestNode::start(&[]).await;
    let writer = node.owner(1, MIB).await;
    for (key, size) in [("same", 1024), ("other", 4096)] {
        writer.put(key, &pinned(Some(5_000))).await;
        let deadline = node.deadline(key);
        node.pass(1_000);
        upsert(&writer, key, size, &plain()).await.unwrap();
        assert_eq!(node.deadline(key), deadline);
        upsert_end(&writer, key).await.unwrap();
        assert_eq!(node.deadline(key), deadline);
    }
    assert_eq!(node.pins(), 2);
}

#[tokio::test]
async fn c14_enable_counts_from_the_end_of_the_upsert() {
    let node = TestNode::start(&[]).await;
    let writer = node.owner(1, MIB).await;
    writer.put("k", &plain()).await;
    upsert(&writer, "k", 1024, &pinned(Some(3_000))).await.unwrap();
    assert_eq!(node.pins(), 0);
    node.pass(2_000);
    upsert_end(&writer, "k").await.unwrap();
    assert_eq!(node.deadline("k"), Some(node.now() + 3_000));
}

#[tokio::test]
async fn c16_a_second_enable_replaces_the_deadline_and_is_counted_once() {
    let node = TestNode::start(&[]).await;
    let writer = node.owner(1, MIB).await;
    writer.put("k", &pinned(Some(5_000))).await;
    upsert(&writer, "k", 1024, &pinned(Some(20_000))).await.unwrap();
    upsert_end(&writer, "k").await.unwrap();
    assert_eq!(node.pins(), 1);
    node.pass(6_000);
    assert_eq!(node.deadline("k"), Some(node.now() + 14_000));
    node.pass(14_000);
    until("the second deadline ends it", async || node.pins() == 0).await;
}

#[tokio::test]
async fn c17_an_inherited_pin_ends_while_the_upsert_is_open() {
    let node = TestNode::start(&[]).await;
    let writer = node.owner(1, MIB).await;
    writer.put("k", &pinned(Some(5_000))).await;
    upsert(&writer, "k", 4096, &plain()).await.unwrap();
    assert_eq!(node.pins(), 1);
    node.pass(5_000);
    until("the original deadline ends it", async || node.pins() == 0).await;
    upsert_end(&writer, "k").await.unwrap();
    assert_eq!((node.deadline("k"), writer.exists("k").await), (None, true));
}

#[tokio::test]
async fn c19_c20_an_expired_pin_is_never_carried_over() {
    let node = TestNode::start(&[]).await;
    let (a, b) = (node.owner(1, MIB).await, node.caller(2).await);
    for (key, size) in [("same", 1024), ("other", 4096)] {
        a.put(key, &pinned(Some(1_000))).await;
        node.pass(1_000);
        upsert(&a, key, size, &plain()).await.unwrap();
        upsert(&b, key, size, &plain()).await.unwrap();
        upsert_end(&b, key).await.unwrap();
        assert_eq!(node.deadline(key), None);
    }
    until("nothing is counted", async || node.pins() == 0).await;
}

#[tokio::test]
async fn c30_the_request_of_a_preempted_put_is_lost() {
    let node = TestNode::start(&[]).await;
    let (a, b) = (node.owner(1, MIB).await, node.caller(2).await);
    a.start("k", 1024, &pinned(Some(60_000))).await.unwrap();
    upsert(&b, "k", 1024, &plain()).await.unwrap();
    upsert_end(&b, "k").await.unwrap();
    assert_eq!((node.deadline("k"), node.pins()), (None, 0));
}

#[tokio::test]
async fn disable_works_at_the_end_and_a_ttl_of_zero_is_the_same() {
    let node = TestNode::start(&[]).await;
    let writer = node.owner(1, MIB).await;
    for request in [disable(), pinned(Some(0))] {
        for size in [1024, 4096] {
            writer.put("k", &pinned(Some(60_000))).await;
            upsert(&writer, "k", size, &request).await.unwrap();
            assert_eq!(node.pins(), 1);
            upsert_end(&writer, "k").await.unwrap();
            assert_eq!(node.pins(), 0);
            writer.remove("k", true).await.unwrap();
        }
    }
}

#[tokio::test]
async fn c31_a_read_of_a_group_extends_no_pin() {
    let node = TestNode::start(&[]).await;
    let writer = node.owner(1, MIB).await;
    let pin = ReplicateConfig { group_ids: Some(vec![&b"g"[..]]), ..pinned(Some(3_000)) };
    writer.put("a", &pin).await;
    writer.put("b", &in_group("g")).await;
    let deadline = node.deadline("a");
    for _ in 0..3 {
        assert!(writer.exists("b").await);
        assert_eq!(node.deadline("a"), deadline);
        node.pass(1_000);
    }
    until("the pin ends at its first deadline", async || node.pins() == 0).await;
}
