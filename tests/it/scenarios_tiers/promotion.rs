//! Behaviour 10.4: objects that are read from a client's disk come back to memory.

use mooncake_ha::model::ErrorCode as E;
use mooncake_ha::wire::types::ReplicaStatus;

use super::{MIB, first, kinds, refused, scene};
use crate::support::node::{Caller, TestNode, until};

const FLAGS: &[&str] = &["--promotion_on_hit", "--put_start_release_timeout_sec=60"];

/// An object that is on the disk of the client only.
async fn on_disk(a: &Caller, key: &str) {
    assert_eq!(a.report(&[(key, 1024)]).await, Ok(()));
}

fn in_flight(node: &TestNode) -> usize {
    node.look(|state| state.tiers().promotions().len())
}

/// Reads a key until its promotion is admitted.
async fn wished(node: &TestNode, a: &Caller, key: &str) {
    assert_eq!(a.kinds(key).await, Ok("L".into()));
    assert_eq!(a.kinds(key).await, Ok("L".into()));
    until("the promotion is admitted", async || in_flight(node) == 1).await;
}

#[tokio::test]
async fn an_object_that_is_read_twice_comes_back_to_memory() {
    let (mut node, a) = scene(FLAGS).await;
    on_disk(&a, "k").await;
    assert_eq!(a.kinds("k").await, Ok("L".into()));
    assert_eq!((a.to_promote().await, in_flight(&node)), (Vec::<String>::new(), 0), "read once");
    assert_eq!(a.kinds("k").await, Ok("L".into()));
    until("it is wished for", async || in_flight(&node) == 1).await;
    node.restart().await;
    let a = node.caller(1).await;
    let items = a.promotions().await.unwrap();
    assert_eq!((items.len(), &*items[0].key, items[0].size), (1, b"k".as_slice(), 1024));
    assert_eq!(a.to_promote().await, Vec::<String>::new());
    let staged = a.stage("k", 1024).await.unwrap().memory_descriptor;
    assert_eq!(
        (kinds(std::slice::from_ref(&staged)), staged.status),
        ("M".into(), ReplicaStatus::PROCESSING)
    );
    assert_eq!(a.kinds("k").await, Ok("L".into()), "not readable yet");
    node.restart().await;
    let a = node.caller(1).await;
    assert_eq!(a.promoted("k").await, Ok(()));
    let found = a.replicas("k").await.unwrap().replicas;
    assert_eq!((kinds(&found), found[1].id), ("LM".into(), staged.id));
    assert!(first(&found) < staged.id);
    assert_eq!((a.promoted("k").await, in_flight(&node)), (refused(E::ReplicaIsNotReady), 0));
    node.assert_sound();
}

#[tokio::test]
async fn every_wrong_call_has_its_own_refusal() {
    let (node, a) = scene(FLAGS).await;
    let b = node.caller(2).await;
    assert_eq!(a.stage("absent", 9).await.unwrap_err(), E::ObjectNotFound);
    assert_eq!(a.promoted("absent").await, refused(E::ObjectNotFound));
    assert_eq!(a.not_promoted("absent").await, refused(E::ObjectNotFound));
    on_disk(&a, "k").await;
    assert_eq!(a.stage("k", 1024).await.unwrap_err(), E::ReplicaIsNotReady);
    assert_eq!(a.promoted("k").await, refused(E::ReplicaIsNotReady));
    assert_eq!(a.not_promoted("k").await, Ok(()));
    wished(&node, &a, "k").await;
    assert_eq!(b.stage("k", 1024).await.unwrap_err(), E::InvalidParams);
    assert_eq!(a.stage("k", 1).await.unwrap_err(), E::InvalidParams);
    assert!(a.stage("k", 1024).await.is_ok());
    assert_eq!(a.stage("k", 1024).await.unwrap_err(), E::ReplicaIsNotReady);
    assert_eq!(b.promoted("k").await, refused(E::InvalidParams));
    assert_eq!(b.not_promoted("k").await, refused(E::InvalidParams));
    assert_eq!(a.not_promoted("k").await, Ok(()));
    assert_eq!((a.kinds("k").await, in_flight(&node)), (Ok("L".into()), 0));
    assert_eq!(node.look(|state| state.segments().memory_usage().0), 0);
}

#[tokio::test]
async fn a_heartbeat_hands_out_one_unless_told_otherwise() {
    let (node, a) = scene(FLAGS).await;
    for key in ["a", "b"] {
        on_disk(&a, key).await;
        a.kinds(key).await.unwrap();
        a.kinds(key).await.unwrap();
    }
    until("both are wished for", async || in_flight(&node) == 2).await;
    assert_eq!((a.to_promote().await, a.to_promote().await), (vec!["a".into()], vec!["b".into()]));
}

#[tokio::test]
async fn a_promotion_that_nobody_ends_is_over_after_the_release_timeout() {
    let (node, a) = scene(FLAGS).await;
    on_disk(&a, "k").await;
    wished(&node, &a, "k").await;
    a.stage("k", 1024).await.unwrap();
    // Not for ever: a client that says nothing for longer is given up, and its disk with it.
    let mut seconds = 0..70;
    until("it is over and its memory is free", async || {
        if seconds.next().is_some() {
            node.pass(1_000);
        }
        in_flight(&node) == 0 && node.look(|state| state.segments().memory_usage().0) == 0
    })
    .await;
    assert!(a.exists("k").await);
    assert_eq!(node.look(|state| state.tiers().counters().expired), 1);
    node.assert_sound();
}

#[tokio::test]
async fn memory_that_is_too_full_takes_no_promotion_until_there_is_room() {
    let flags = [FLAGS, &["--eviction_high_watermark_ratio=0.5", "--eviction_ratio=0"]].concat();
    let (node, a) = scene(&flags).await;
    on_disk(&a, "k").await;
    let hard = mooncake_ha::wire::types::ReplicateConfig {
        with_hard_pin: true,
        ..crate::support::node::plain()
    };
    a.start("full", MIB * 3 / 4, &hard).await.unwrap();
    a.end("full").await.unwrap();
    a.kinds("k").await.unwrap();
    a.kinds("k").await.unwrap();
    let refused = || {
        let stats = node.master().promotion_stats();
        stats.rejected_watermark.load(std::sync::atomic::Ordering::Relaxed)
    };
    until("it is refused", async || refused() > 0).await;
    assert_eq!(in_flight(&node), 0);
    assert_eq!(a.remove("full", true).await, Ok(()));
    until("the wish is remembered", async || {
        node.pass(1_000);
        in_flight(&node) == 1
    })
    .await;
}

#[tokio::test]
async fn b11_an_upsert_waits_for_a_promotion() {
    let (node, a) = scene(FLAGS).await;
    on_disk(&a, "k").await;
    wished(&node, &a, "k").await;
    assert_eq!(a.upsert_start("k", 1024).await.unwrap_err(), E::ObjectHasReplicationTask);
    assert_eq!(a.not_promoted("k").await, Ok(()));
    assert!(a.upsert_start("k", 1024).await.is_ok());
}
