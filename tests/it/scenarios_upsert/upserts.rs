//! Scenarios B: upserts.

use mooncake_ha::model::ErrorCode;
use mooncake_ha::wire::types::{ReplicaStatus, ReplicaType, ReplicateConfig};

use super::calls::*;
use crate::support::node::{TestNode, copies, place, plain};

const MIB: u64 = 1 << 20;

#[tokio::test]
async fn b1_an_upsert_of_a_new_key_behaves_like_a_put() {
    let node = TestNode::start(&[]).await;
    let writer = node.owner(1, MIB).await;
    let started = upsert(&writer, "k", 1024, &plain()).await.unwrap();
    assert_eq!(started[0].status, ReplicaStatus::PROCESSING);
    assert_eq!(writer.replicas("k").await.unwrap_err(), ErrorCode::ReplicaIsNotReady);
    upsert_end(&writer, "k").await.unwrap();
    let found = writer.replicas("k").await.unwrap().replicas;
    assert_eq!(found[0].status, ReplicaStatus::COMPLETE);
    assert_eq!(place(&found[0]), place(&started[0]));
}

#[tokio::test]
async fn b2_an_upsert_of_the_same_size_keeps_replica_and_address() {
    let node = TestNode::start(&[]).await;
    let writer = node.owner(1, MIB).await;
    writer.put("k", &plain()).await;
    let before = writer.replicas("k").await.unwrap().replicas;
    let again = upsert(&writer, "k", 1024, &copies(3)).await.unwrap();
    assert_eq!((again.len(), again[0].id), (1, before[0].id));
    assert_eq!(place(&again[0]), place(&before[0]));
    assert_eq!(again[0].status, ReplicaStatus::PROCESSING);
    assert_eq!(writer.replicas("k").await.unwrap_err(), ErrorCode::ReplicaIsNotReady);
    upsert_end(&writer, "k").await.unwrap();
    assert_eq!(writer.replicas("k").await.unwrap().replicas, before);
}

#[tokio::test]
async fn b3_an_upsert_of_another_size_moves_and_the_old_memory_is_released_late() {
    let flags = ["--put_start_discard_timeout_sec=3", "--put_start_release_timeout_sec=5"];
    let node = TestNode::start(&flags).await;
    let writer = node.owner(1, MIB).await;
    writer.start("k", MIB / 2, &plain()).await.unwrap();
    writer.end("k").await.unwrap();
    let old = writer.replicas("k").await.unwrap().replicas;
    let new = upsert(&writer, "k", MIB / 4, &plain()).await.unwrap();
    assert_ne!((new[0].id, place(&new[0]).1), (old[0].id, place(&old[0]).1));
    upsert_end(&writer, "k").await.unwrap();
    assert_eq!(place(&writer.replicas("k").await.unwrap().replicas[0]).2, MIB / 4);
    let full = writer.start("big", MIB / 2, &plain()).await;
    assert_eq!(full.unwrap_err(), ErrorCode::NoAvailableHandle);
    node.pass(5_000);
    crate::support::node::until("the old memory is free", async || {
        writer.start("big", MIB / 2, &plain()).await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn b4_an_open_put_is_preempted_at_once() {
    let node = TestNode::start(&[]).await;
    let (a, b) = (node.owner(1, MIB).await, node.caller(2).await);
    a.start("k", 1024, &plain()).await.unwrap();
    upsert(&b, "k", 1024, &plain()).await.unwrap();
    assert_eq!(a.end("k").await.unwrap_err(), ErrorCode::IllegalClient);
    assert_eq!(upsert_end(&b, "k").await, Ok(()));
}

#[tokio::test]
async fn b5_an_open_upsert_is_preempted_at_once() {
    let node = TestNode::start(&[]).await;
    let (a, b) = (node.owner(1, MIB).await, node.caller(2).await);
    a.put("k", &plain()).await;
    let first = upsert(&a, "k", 1024, &plain()).await.unwrap();
    let second = upsert(&b, "k", 1024, &plain()).await.unwrap();
    assert_ne!(first[0].id, second[0].id, "the first may still be writing to its own");
    assert_eq!(upsert_end(&a, "k").await.unwrap_err(), ErrorCode::IllegalClient);
    assert_eq!(upsert_end(&b, "k").await, Ok(()));
}

#[tokio::test]
async fn b6_the_writer_is_the_one_of_the_last_upsert() {
    let node = TestNode::start(&[]).await;
    let (a, b) = (node.owner(1, MIB).await, node.caller(2).await);
    a.put("k", &plain()).await;
    upsert(&b, "k", 1024, &plain()).await.unwrap();
    assert_eq!(upsert_end(&a, "k").await.unwrap_err(), ErrorCode::IllegalClient);
    assert_eq!(upsert_revoke(&a, "k").await.unwrap_err(), ErrorCode::IllegalClient);
    assert_eq!(upsert_end(&b, "k").await, Ok(()));
    assert_eq!(upsert_end(&b, "k").await, Ok(()), "a second end changes nothing");
}

#[tokio::test]
async fn b9_a_revoked_upsert_takes_the_key_with_it() {
    let node = TestNode::start(&[]).await;
    let writer = node.owner(1, MIB).await;
    for size in [1024, 2048] {
        writer.put("k", &plain()).await;
        upsert(&writer, "k", size, &plain()).await.unwrap();
        assert_eq!(upsert_revoke(&writer, "k").await, Ok(()));
        assert_eq!(writer.replicas("k").await.unwrap_err(), ErrorCode::ObjectNotFound);
        assert_eq!(upsert_revoke(&writer, "k").await.unwrap_err(), ErrorCode::ObjectNotFound);
    }
}

#[tokio::test]
async fn b13_a_hard_pinned_key_stays_hard_pinned() {
    let node = TestNode::start(&[]).await;
    let writer = node.owner(1, MIB).await;
    let hard = ReplicateConfig { with_hard_pin: true, ..plain() };
    writer.put("k", &hard).await;
    upsert(&writer, "k", 2048, &plain()).await.unwrap();
    upsert_end(&writer, "k").await.unwrap();
    let is_hard = node.look(|state| {
        let mut is_hard = false;
        for shard in 0..1024 {
            state.view().table.look_shard(shard, |shard| {
                is_hard |= shard.objects().any(|object| object.is_hard_pinned);
            });
        }
        is_hard
    });
    assert!(is_hard);
}

#[tokio::test]
async fn b17_a_batch_mixes_new_and_existing_keys() {
    let node = TestNode::start(&[]).await;
    let writer = node.owner(1, MIB).await;
    writer.put("old", &plain()).await;
    let keys = ["new", "old", "", "zero", "old"];
    let started = batch_upsert(&writer, &keys, &[1, 1024, 1, 0, 2048], &plain()).await;
    let is_ok: Vec<bool> = started.iter().map(Result::is_ok).collect();
    assert_eq!(is_ok, [true, true, false, false, true]);
    assert_eq!(started[2].as_ref().unwrap_err(), &ErrorCode::InvalidParams);
    assert_eq!(
        batch_upsert_end(&writer, &["new", "old", "none"]).await,
        [Ok(()), Ok(()), refused(ErrorCode::ObjectNotFound)]
    );
    assert_eq!(place(&writer.replicas("old").await.unwrap().replicas[0]).2, 2048);
    let wrong = batch_upsert(&writer, &["a", "b"], &[1], &plain()).await;
    assert_eq!(wrong, [refused(ErrorCode::InvalidParams), refused(ErrorCode::InvalidParams)]);
    batch_upsert(&writer, &["old"], &[2048], &plain()).await;
    assert_eq!(
        batch_upsert_revoke(&writer, &["old", "new"]).await,
        [Ok(()), refused(ErrorCode::InvalidWrite)]
    );
    assert!(batch_upsert(&writer, &[], &[], &plain()).await.is_empty());
}

#[tokio::test]
async fn edge_2_an_upsert_without_room_leaves_the_old_value_readable() {
    let node = TestNode::start(&[]).await;
    let writer = node.owner(1, MIB).await;
    writer.put("k", &plain()).await;
    let before = writer.replicas("k").await.unwrap();
    let refused = upsert(&writer, "k", 2 * MIB, &plain()).await;
    assert_eq!(refused.unwrap_err(), ErrorCode::NoAvailableHandle);
    assert_eq!(writer.replicas("k").await.unwrap(), before);
    node.assert_sound();
}

#[tokio::test]
async fn refused_upserts_do_not_preempt() {
    let node = TestNode::start(&[]).await;
    let (a, b) = (node.owner(1, MIB).await, node.caller(2).await);
    a.start("k", 1024, &plain()).await.unwrap();
    let bad = ReplicateConfig { soft_pin_ttl_ms: Some(1), ..plain() };
    assert_eq!(upsert(&b, "k", 1024, &bad).await.unwrap_err(), ErrorCode::InvalidParams);
    assert_eq!(upsert(&b, "k", 0, &plain()).await.unwrap_err(), ErrorCode::InvalidParams);
    assert_eq!(a.end_with("k", ReplicaType::ALL, Some(7)).await, Ok(()));
    assert_eq!(a.replicas("k").await.unwrap().object_checksum, Some(7));
    upsert(&a, "k", 1024, &plain()).await.unwrap();
    upsert_end(&a, "k").await.unwrap();
    assert_eq!(a.replicas("k").await.unwrap().object_checksum, None, "a27: taken away again");
}

#[tokio::test]
async fn upserts_survive_a_restart_in_every_stage() {
    let mut node = TestNode::start(&[]).await;
    let writer = node.owner(1, MIB).await;
    for key in ["open", "done", "moved"] {
        writer.put(key, &plain()).await;
        upsert(&writer, key, if key == "moved" { 4096 } else { 1024 }, &plain()).await.unwrap();
    }
    upsert_end(&writer, "done").await.unwrap();
    node.restart().await;
    let writer = node.caller(1).await;
    assert!(writer.exists("done").await);
    for key in ["open", "moved"] {
        assert!(!writer.exists(key).await);
        assert_eq!(upsert_end(&writer, key).await, Ok(()));
        assert!(writer.exists(key).await);
    }
}
