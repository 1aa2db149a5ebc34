//! Scenarios D: read leases and removal.

use mooncake_ha::model::ErrorCode;
use mooncake_ha::wire::types::ReplicateConfig;

use crate::support::node::{TestNode, pinned, plain};

const MIB: u64 = 1 << 20;
const TTL: &[&str] = &["--default_kv_lease_ttl=2000"];

#[tokio::test]
async fn d1_an_end_grants_no_lease() {
    let node = TestNode::start(TTL).await;
    let writer = node.owner(1, MIB).await;
    writer.put("k", &plain()).await;
    assert_eq!(writer.remove("k", false).await, Ok(()));
}

#[tokio::test]
async fn d2_a_read_key_is_removed_when_its_lease_is_over() {
    let node = TestNode::start(TTL).await;
    let writer = node.owner(1, MIB).await;
    writer.put("a", &plain()).await;
    writer.put("b", &plain()).await;
    assert!(writer.exists("a").await);
    assert_eq!(writer.replicas("b").await.unwrap().lease_ttl_ms, 2_000);
    node.pass(1_999);
    for key in ["a", "b"] {
        assert_eq!(writer.remove(key, false).await.unwrap_err(), ErrorCode::ObjectHasLease);
    }
    node.pass(1);
    for key in ["a", "b"] {
        assert_eq!(writer.remove(key, false).await, Ok(()));
    }
}

#[tokio::test]
async fn a_missing_or_unfinished_key_gets_no_lease() {
    let node = TestNode::start(TTL).await;
    let writer = node.owner(1, MIB).await;
    writer.start("k", 10, &plain()).await.unwrap();
    assert!(!writer.exists("k").await);
    assert!(writer.replicas("k").await.is_err());
    writer.end("k").await.unwrap();
    assert_eq!(writer.remove("k", false).await, Ok(()));
}

#[tokio::test]
async fn d3_every_read_renews_the_lease() {
    let node = TestNode::start(TTL).await;
    let writer = node.owner(1, MIB).await;
    writer.put("k", &plain()).await;
    assert!(writer.exists("k").await);
    node.pass(1_500);
    writer.replicas("k").await.unwrap();
    node.pass(1_500);
    assert_eq!(writer.remove("k", false).await.unwrap_err(), ErrorCode::ObjectHasLease);
    node.pass(500);
    assert_eq!(writer.remove("k", false).await, Ok(()));
}

#[tokio::test]
async fn d4_force_ignores_the_lease() {
    let node = TestNode::start(TTL).await;
    let writer = node.owner(1, MIB).await;
    writer.put("k", &plain()).await;
    assert!(writer.exists("k").await);
    assert_eq!(writer.remove("k", true).await, Ok(()));
    assert_eq!(writer.remove("k", true).await.unwrap_err(), ErrorCode::ObjectNotFound);
}

#[tokio::test]
async fn d5_a_missing_key_is_not_found() {
    let node = TestNode::start(TTL).await;
    let caller = node.caller(1).await;
    for force in [false, true] {
        assert_eq!(caller.remove("k", force).await.unwrap_err(), ErrorCode::ObjectNotFound);
    }
}

#[tokio::test]
async fn d6_remove_all_leaves_leased_keys_until_their_lease_is_over() {
    let node = TestNode::start(TTL).await;
    let writer = node.owner(1, MIB).await;
    for n in 0..10 {
        writer.put(&format!("k{n}"), &plain()).await;
    }
    for n in 0..5 {
        assert!(writer.exists(&format!("k{n}")).await);
    }
    assert_eq!(writer.remove_all(false).await, 5);
    node.pass(2_000);
    assert_eq!(writer.remove_all(false).await, 5);
    assert_eq!(node.keys(), 0);
}

#[tokio::test]
async fn d7_d8_remove_all_counts_what_it_removed() {
    let node = TestNode::start(TTL).await;
    let writer = node.owner(1, MIB).await;
    assert_eq!(writer.remove_all(false).await, 0);
    for n in 0..10 {
        let key = format!("k{n}");
        writer.put(&key, &pinned(Some(9_000))).await;
        assert!(writer.exists(&key).await);
    }
    writer.start("open", 10, &plain()).await.unwrap();
    assert_eq!(writer.remove_all(false).await, 0);
    assert_eq!(writer.remove_all(true).await, 10);
    assert_eq!((node.keys(), node.pins()), (1, 0), "the unfinished one stays");
}

#[tokio::test]
async fn d11_remove_all_beside_writers_and_readers_leaves_a_sound_state() {
    let node = TestNode::start(TTL).await;
    let writer = node.owner(1, 8 * MIB).await;
    let (reader, remover) = (node.caller(2).await, node.caller(3).await);
    let write = async {
        for n in 0..120 {
            writer.put(&format!("k{n}"), &plain()).await;
        }
    };
    let read = async {
        for n in 0..120 {
            reader.exists(&format!("k{n}")).await;
        }
    };
    let remove = async {
        let mut removed = 0;
        for _ in 0..10 {
            removed += remover.remove_all(true).await;
        }
        removed
    };
    let ((), (), removed) = tokio::join!(write, read, remove);
    let rest = remover.remove_all(true).await;
    assert_eq!(removed + rest, 120);
    assert_eq!(node.keys(), 0);
    node.assert_sound();
}

#[tokio::test]
async fn d12_a_hard_pin_is_no_bar_to_removal() {
    let node = TestNode::start(TTL).await;
    let writer = node.owner(1, MIB).await;
    writer.put("k", &ReplicateConfig { with_hard_pin: true, ..plain() }).await;
    assert_eq!(writer.remove("k", false).await, Ok(()));
}

#[tokio::test]
async fn an_open_put_is_not_removed_even_by_force() {
    let node = TestNode::start(TTL).await;
    let writer = node.owner(1, MIB).await;
    writer.start("k", 10, &plain()).await.unwrap();
    assert_eq!(writer.remove("k", true).await.unwrap_err(), ErrorCode::ReplicaIsNotReady);
}
