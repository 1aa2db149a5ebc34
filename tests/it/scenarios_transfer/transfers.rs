//! H1 to H11, C29, D10: copies and moves that clients carry out.

use mooncake_ha::model::{ErrorCode as E, Uuid};
use mooncake_ha::wire::calls as c;
use mooncake_ha::wire::requests as r;
use mooncake_ha::wire::types::ReplicaStatus;

use super::{TENANT, refused};
use crate::support::node::{Caller, TestNode, pinned, place, plain, until};

const MIB: u64 = 1 << 20;
const RELEASE_MS: u64 = 600_000;

/// A node and three clients with a segment each; key `k` lies on `s1`, and the others can be written to.
async fn scene(flags: &[&str]) -> (TestNode, [Caller; 3]) {
    let node = TestNode::start(flags).await;
    let owners = [node.owner(1, MIB).await, node.owner(2, MIB).await, node.owner(3, MIB).await];
    owners[0].put("k", &on("s1")).await;
    (node, owners)
}

fn on(segment: &'static str) -> mooncake_ha::wire::types::ReplicateConfig<&'static [u8]> {
    let preferred_segments = vec![segment.as_bytes()];
    mooncake_ha::wire::types::ReplicateConfig { preferred_segments, ..plain() }
}

#[tokio::test]
async fn h1_h4_a_copy_needs_a_finished_source_and_mounted_targets() {
    let (node, [a, ..]) = scene(&[]).await;
    assert_eq!(a.copy_start("absent", "s1", &["s2"]).await.unwrap_err(), E::ObjectNotFound);
    a.start("open", 100, &on("s1")).await.unwrap();
    assert_eq!(a.copy_start("open", "s1", &["s2"]).await.unwrap_err(), E::ReplicaNotFound);
    assert_eq!(a.copy_start("k", "s2", &["s3"]).await.unwrap_err(), E::ReplicaNotFound);
    assert_eq!(a.copy_start("k", "s1", &["nowhere"]).await.unwrap_err(), E::SegmentNotFound);
    let started = a.copy_start("k", "s1", &["s2", "s3"]).await.unwrap();
    assert_eq!(place(&started.source).0, "s1");
    assert_eq!(started.source.status, ReplicaStatus::COMPLETE);
    let targets: Vec<_> = started.targets.iter().map(|t| (place(t).0, t.status)).collect();
    let open = |name: &str| (name.to_owned(), ReplicaStatus::PROCESSING);
    assert_eq!(targets, [open("s2"), open("s3")]);
    assert_eq!(a.places("k").await, ["s1"]);
    node.assert_sound();
}

#[tokio::test]
async fn h2_h3_d10_an_open_copy_is_its_starters_alone_and_keeps_the_object() {
    let (node, [a, b, _]) = scene(&[]).await;
    a.copy_start("k", "s1", &["s2"]).await.unwrap();
    assert_eq!(a.remove("k", false).await, refused(E::ReplicaIsNotReady));
    assert_eq!(a.remove("k", true).await, refused(E::ReplicaIsNotReady));
    assert_eq!(a.remove_all(true).await, 0);
    let busy = E::ObjectHasReplicationTask;
    assert_eq!(a.copy_start("k", "s1", &["s3"]).await.unwrap_err(), busy);
    assert_eq!(a.move_start("k", "s1", "s3").await.unwrap_err(), busy);
    assert_eq!(a.start("k", 1024, &plain()).await.unwrap_err(), E::ObjectAlreadyExists);
    assert_eq!(b.copy_end("k").await, refused(E::IllegalClient));
    assert_eq!(b.copy_revoke("k").await, refused(E::IllegalClient));
    assert_eq!(a.move_end("k").await, refused(E::InvalidParams));
    assert_eq!(a.copy_end("k").await, Ok(()));
    assert_eq!(a.places("k").await, ["s1", "s2"]);
    assert_eq!(a.copy_end("k").await, refused(E::ObjectNoReplicationTask));
    // A copy that had nothing to write blocks by itself, with force as well.
    assert_eq!(a.copy_start("k", "s1", &["s2", "s1"]).await.unwrap().targets, []);
    node.pass(20_000);
    assert_eq!(a.remove("k", true).await, refused(busy));
    assert_eq!(a.remove_all(true).await, 0);
    assert_eq!(a.copy_revoke("k").await, Ok(()));
    assert_eq!(a.remove("k", true).await, Ok(()));
    node.assert_sound();
}

#[tokio::test]
async fn b12_an_upsert_of_a_key_that_is_being_copied_is_refused_and_changes_nothing() {
    let (node, [a, b, _]) = scene(&[]).await;
    a.copy_start("k", "s1", &["s2"]).await.unwrap();
    let before = a.replicas("k").await.unwrap();
    for slice_length in [1024, 4096] {
        let request = r::PutStartRequest {
            client_id: b.id,
            key: b"k".as_slice(),
            slice_length,
            config: plain(),
            tenant_id: TENANT,
        };
        let refusal = b.call::<c::UpsertStart>(&request).await.unwrap_err();
        assert_eq!(refusal, E::ObjectHasReplicationTask);
    }
    assert_eq!(a.replicas("k").await.unwrap(), before);
    assert_eq!(a.copy_end("k").await, Ok(()));
    assert_eq!(a.places("k").await, ["s1", "s2"]);
    node.assert_sound();
}

#[tokio::test]
async fn h6_without_a_copy_or_move_there_is_none_to_end() {
    let (_node, [a, ..]) = scene(&[]).await;
    for key in ["k", "absent"] {
        let none = if key == "k" { E::ObjectNoReplicationTask } else { E::ObjectNotFound };
        assert_eq!(a.copy_end(key).await, refused(none));
        assert_eq!(a.copy_revoke(key).await, refused(none));
        assert_eq!(a.move_end(key).await, refused(none));
        assert_eq!(a.move_revoke(key).await, refused(none));
    }
}

#[tokio::test]
async fn h7_a_copy_whose_source_or_target_was_unmounted_ends_in_gone() {
    let (node, [a, b, c]) = scene(&[]).await;
    c.copy_start("k", "s1", &["s2", "s3"]).await.unwrap();
    assert_eq!(b.unmount(2).await, Ok(()));
    assert_eq!(c.copy_end("k").await, refused(E::ReplicaIsGone));
    assert_eq!(c.places("k").await, ["s1", "s3"]);
    assert_eq!(b.remount(&[crate::support::node::segment(2, "s2", MIB)]).await, Ok(()));
    c.copy_start("k", "s1", &["s2"]).await.unwrap();
    assert_eq!(a.unmount(1).await, Ok(()));
    assert_eq!(c.copy_end("k").await, refused(E::ReplicaIsGone));
    assert_eq!(c.places("k").await, ["s3"]);
    node.assert_sound();
}

#[tokio::test]
async fn h8_a_revoked_copy_frees_its_targets_and_without_a_source_the_key() {
    let (node, [a, b, _]) = scene(&[]).await;
    b.copy_start("k", "s1", &["s2"]).await.unwrap();
    assert_eq!(b.copy_revoke("k").await, Ok(()));
    assert_eq!(b.places("k").await, ["s1"]);
    b.copy_start("k", "s1", &["s2"]).await.unwrap();
    assert_eq!(a.unmount(1).await, Ok(()));
    assert_eq!(b.copy_revoke("k").await, Ok(()));
    assert_eq!((b.exists("k").await, node.keys()), (false, 0));
    assert_eq!(node.look(|state| state.segments().memory_usage().0), 0);
    node.assert_sound();
}

#[tokio::test]
async fn h9_h10_a_move_leaves_one_copy_on_its_target() {
    let (node, [a, ..]) = scene(&[]).await;
    assert_eq!(a.move_start("k", "s1", "s1").await.unwrap_err(), E::InvalidParams);
    assert_eq!(a.move_start("k", "s1", "nowhere").await.unwrap_err(), E::SegmentNotFound);
    assert_eq!(a.move_start("k", "s2", "s3").await.unwrap_err(), E::ReplicaNotFound);
    let started = a.move_start("k", "s1", "s2").await.unwrap();
    assert_eq!(place(&started.target.unwrap()).0, "s2");
    assert_eq!(a.copy_end("k").await, refused(E::InvalidParams));
    assert_eq!(a.move_end("k").await, Ok(()));
    assert_eq!(a.places("k").await, ["s2"]);
    // Somebody may still read the old place, so it stays reserved.
    assert_eq!(node.look(|state| state.discards().staged_bytes()), 1024);
    a.copy_start("k", "s2", &["s3"]).await.unwrap();
    a.copy_end("k").await.unwrap();
    assert_eq!(a.move_start("k", "s2", "s3").await.unwrap().target, None);
    assert_eq!(a.move_end("k").await, Ok(()));
    assert_eq!(a.places("k").await, ["s3"]);
    node.pass(RELEASE_MS);
    until("the old places are free", async || {
        node.look(|state| state.segments().memory_usage().0) == 1024
    })
    .await;
    node.assert_sound();
}

#[tokio::test]
async fn h11_a_move_that_lost_an_end_is_over() {
    let (node, [a, b, c]) = scene(&[]).await;
    c.move_start("k", "s1", "s2").await.unwrap();
    assert_eq!(b.unmount(2).await, Ok(()));
    assert_eq!(c.move_end("k").await, refused(E::ReplicaIsGone));
    assert_eq!(c.move_revoke("k").await, refused(E::ObjectNoReplicationTask));
    assert_eq!(c.places("k").await, ["s1"]);
    c.move_start("k", "s1", "s3").await.unwrap();
    assert_eq!(a.unmount(1).await, Ok(()));
    assert_eq!(c.move_end("k").await, refused(E::ReplicaIsGone));
    assert_eq!(c.move_revoke("k").await, refused(E::ObjectNotFound));
    c.put("k", &plain()).await;
    assert_eq!(c.move_revoke("k").await, refused(E::ObjectNoReplicationTask));
    node.assert_sound();
}

#[tokio::test]
async fn edge_12_a_target_named_twice_gets_one_replica() {
    let (_node, [a, ..]) = scene(&[]).await;
    assert_eq!(a.copy_start("k", "s1", &["s2", "s2"]).await.unwrap().targets.len(), 1);
    assert_eq!(a.copy_end("k").await, Ok(()));
    assert_eq!(a.places("k").await, ["s1", "s2"]);
}

#[tokio::test]
async fn c29_copies_and_moves_leave_the_deadline_as_it_is() {
    let (node, [a, ..]) = scene(&[]).await;
    let config = mooncake_ha::wire::types::ReplicateConfig {
        preferred_segments: vec![b"s1".as_slice()],
        ..pinned(Some(60_000))
    };
    a.put("pinned", &config).await;
    let deadline = node.deadline("pinned");
    node.pass(5_000);
    a.copy_start("pinned", "s1", &["s2"]).await.unwrap();
    a.copy_end("pinned").await.unwrap();
    node.pass(5_000);
    a.move_start("pinned", "s1", "s3").await.unwrap();
    a.move_end("pinned").await.unwrap();
    a.copy_start("k", "s1", &["s2"]).await.unwrap();
    a.copy_end("k").await.unwrap();
    assert_eq!((node.deadline("pinned"), node.deadline("k")), (deadline, None));
    assert_eq!(node.pins(), 1);
    node.assert_sound();
}

#[tokio::test]
async fn an_open_copy_survives_a_restart_and_ends_by_itself_in_time() {
    let (mut node, [a, ..]) = scene(&[]).await;
    a.copy_start("k", "s1", &["s2"]).await.unwrap();
    drop(a);
    node.restart().await;
    let a = node.caller(1).await;
    assert_eq!(a.copy_end("k").await, Ok(()));
    assert_eq!(a.places("k").await, ["s1", "s2"]);
    a.copy_start("k", "s1", &["s3"]).await.unwrap();
    node.pass(RELEASE_MS - 1);
    assert_eq!(a.copy_start("k", "s1", &[]).await.unwrap_err(), E::ObjectHasReplicationTask);
    node.pass(1);
    until("the copy is dropped", async || node.look(|state| state.transfers().is_empty())).await;
    assert_eq!(a.copy_end("k").await, refused(E::ObjectNoReplicationTask));
    assert_eq!(a.places("k").await, ["s1", "s2"]);
    node.assert_sound();
}

#[tokio::test]
async fn calls_of_dynamic_replicas_are_answered_as_by_a_peer_without_them() {
    let (_node, [a, ..]) = scene(&[]).await;
    let lease_id = Uuid { first: 5, second: 6 };
    let start = r::DynamicReplicaCopyStartRequest {
        client_id: a.id,
        key: b"k".as_slice(),
        tenant_id: TENANT,
        src_segment: b"s1",
        tgt_segments: vec![b"s2"],
        lease_id,
        version_epoch: 1,
    };
    let started = a.call::<c::DynamicReplicaCopyStart>(&start).await;
    assert_eq!(started.unwrap_err(), E::UnavailableInCurrentStatus);
    let request = |lease_id, version_epoch| r::DynamicReplicaCopyRequest {
        client_id: a.id,
        key: b"k".as_slice(),
        tenant_id: TENANT,
        lease_id,
        version_epoch,
    };
    let ended = a.call::<c::DynamicReplicaCopyEnd>(&request(lease_id, 1)).await;
    assert_eq!(ended, refused(E::ObjectNoReplicationTask));
    a.copy_start("k", "s1", &["s2"]).await.unwrap();
    let ended = a.call::<c::DynamicReplicaCopyRevoke>(&request(lease_id, 1)).await;
    assert_eq!(ended, refused(E::InvalidVersion));
    let ended = a.call::<c::DynamicReplicaCopyEnd>(&request(Uuid::NIL, 0)).await;
    assert_eq!(ended, Ok(()));
}
