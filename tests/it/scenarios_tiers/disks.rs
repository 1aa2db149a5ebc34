//! E23, E25, B11 and behaviour 10.1 to 10.3: disks of clients, offloads, reports, evicted files, wipes.

use std::sync::atomic::Ordering;

use mooncake_ha::model::ErrorCode as E;
use mooncake_ha::wire::types::ReplicaType;

use super::{MIB, kinds, refused, scene};
use crate::support::node::{TestNode, pinned, plain, until};

#[tokio::test]
async fn e23_a_disk_is_mounted_only_where_offloading_is_on_and_as_often_as_one_likes() {
    let node = TestNode::start(&[]).await;
    let a = node.owner(1, MIB).await;
    assert_eq!(a.mount_disk(true).await, refused(E::UnableOffload));
    assert_eq!(a.unmount_disk().await, refused(E::UnableOffload));
    let (_node, a) = scene(&[]).await;
    assert_eq!(a.mount_disk(true).await, Ok(()));
    assert_eq!(a.unmount_disk().await, Ok(()));
    assert_eq!(a.unmount_disk().await, Ok(()));
}

#[tokio::test]
async fn e25_a_client_without_a_disk_is_told_so_by_every_call() {
    let (node, _a) = scene(&[]).await;
    let b = node.caller(2).await;
    assert_eq!(b.offload_beat(true).await, refused(E::SegmentNotFound));
    assert_eq!(b.promotions().await, refused(E::SegmentNotFound));
    assert_eq!(b.poll_wipe().await, refused(E::SegmentNotFound));
    assert_eq!(b.capacity(9).await, refused(E::SegmentNotFound));
    assert_eq!(b.capacity(-1).await, refused(E::InvalidParams));
    assert_eq!(b.offloaded(&["k"]).await, refused(E::SegmentNotFound));
    assert_eq!(b.replicas("k").await.unwrap_err(), E::ObjectNotFound);
}

#[tokio::test]
async fn a_written_object_is_handed_to_its_client_once_and_readable_on_disk_after_its_report() {
    let (mut node, a) = scene(&[]).await;
    a.put("k", &plain()).await;
    let items = a.offload_beat(true).await.unwrap();
    let told: Vec<_> = items.iter().map(|item| (&*item.tenant_id, &*item.key, item.size)).collect();
    assert_eq!(told, [(b"default".as_slice(), b"k".as_slice(), 1024)]);
    assert_eq!(a.to_offload().await, Vec::<String>::new());
    node.restart().await;
    let a = node.caller(1).await;
    assert_eq!(a.to_offload().await, Vec::<String>::new(), "it was handed out before");
    assert_eq!(a.offloaded(&["k"]).await, Ok(()));
    assert_eq!(a.kinds("k").await, Ok("ML".into()));
    node.restart().await;
    assert_eq!(node.caller(1).await.kinds("k").await, Ok("ML".into()));
    node.assert_sound();
}

#[tokio::test]
async fn what_waits_for_a_disk_is_handed_out_by_the_next_leader() {
    let (mut node, a) = scene(&[]).await;
    a.put("k", &plain()).await;
    node.restart().await;
    assert_eq!(node.caller(1).await.to_offload().await, ["k"]);
}

#[tokio::test]
async fn heartbeats_that_have_nothing_to_tell_make_no_entry() {
    let (node, a) = scene(&[]).await;
    assert_eq!(a.capacity(7).await, Ok(()));
    let proposed = || node.master().propose_stats().entries.load(Ordering::Relaxed);
    let before = proposed();
    assert_eq!(a.to_offload().await, Vec::<String>::new());
    assert_eq!(a.to_promote().await, Vec::<String>::new());
    assert_eq!(a.poll_wipe().await, Ok(false));
    assert_eq!(a.capacity(7).await, Ok(()));
    assert_eq!(proposed(), before);
}

#[tokio::test]
async fn the_queue_has_a_limit_that_no_writer_sees() {
    let (_node, a) = scene(&["--offloading_queue_limit=2"]).await;
    for key in ["a", "b", "c"] {
        a.put(key, &plain()).await;
    }
    assert_eq!(a.to_offload().await, ["a", "b"]);
}

#[tokio::test]
async fn a_heartbeat_that_takes_nothing_gives_up_what_waits() {
    let (_node, a) = scene(&[]).await;
    a.put("k", &plain()).await;
    assert_eq!(a.offload_beat(false).await, Ok(Vec::new()));
    a.put("later", &plain()).await;
    assert_eq!(a.to_offload().await, Vec::<String>::new());
    a.put("now", &plain()).await;
    assert_eq!(a.to_offload().await, ["now"]);
}

#[tokio::test]
async fn reports_are_checked_failures_end_the_offload_and_strangers_become_objects() {
    let (node, a) = scene(&[]).await;
    a.put("bad", &plain()).await;
    assert_eq!(a.to_offload().await, ["bad"]);
    assert_eq!(a.report(&[("bad", -1), ("found", 77)]).await, Ok(()));
    assert_eq!(a.kinds("bad").await, Ok("M".into()));
    let found = a.replicas("found").await.unwrap();
    assert_eq!(kinds(&found.replicas), "L");
    assert_eq!((node.keys(), node.pins()), (2, 0));
    assert_eq!(a.remove("found", true).await, Ok(()));
}

#[tokio::test]
async fn b11_a_queued_offload_is_given_up_for_an_upsert_and_a_fetched_one_is_waited_for() {
    let (_node, a) = scene(&[]).await;
    a.put("k", &plain()).await;
    assert!(a.upsert_start("k", 1024).await.is_ok());
    assert_eq!(a.to_offload().await, Vec::<String>::new());
    assert_eq!(a.end("k").await, Ok(()));
    assert_eq!(a.to_offload().await, ["k"]);
    assert_eq!(a.upsert_start("k", 1024).await.unwrap_err(), E::ObjectHasReplicationTask);
    assert_eq!(a.offloaded(&["k"]).await, Ok(()));
    assert!(a.upsert_start("k", 1024).await.is_ok());
}

#[tokio::test]
async fn an_evicted_file_is_dropped_and_an_object_without_another_replica_goes_with_it() {
    let (node, a) = scene(&[]).await;
    a.put_on_disk("k").await;
    assert_eq!(a.evict_file("absent", ReplicaType::LOCAL_DISK).await, refused(E::ObjectNotFound));
    assert_eq!(a.evict_file("absent", ReplicaType::MEMORY).await, refused(E::ObjectNotFound));
    assert_eq!(a.evict_file("k", ReplicaType::MEMORY).await, refused(E::InvalidParams));
    assert_eq!(a.evict_file("k", ReplicaType::DISK).await, Ok(()), "it has none");
    assert_eq!(a.evict_file("k", ReplicaType::LOCAL_DISK).await, Ok(()));
    assert_eq!(a.kinds("k").await, Ok("M".into()));
    assert_eq!(a.report(&[("only", 5)]).await, Ok(()));
    assert_eq!(a.evict_file("only", ReplicaType::LOCAL_DISK).await, Ok(()));
    assert_eq!((a.exists("only").await, node.keys()), (false, 1));
}

#[tokio::test]
async fn an_unmounted_disk_takes_its_files_along_and_comes_back_empty() {
    let (node, a) = scene(&[]).await;
    a.put_on_disk("both").await;
    assert_eq!(a.report(&[("only", 5)]).await, Ok(()));
    assert_eq!(a.unmount_disk().await, Ok(()));
    assert_eq!(a.kinds("both").await, Ok("M".into()));
    assert!(!a.exists("only").await);
    assert_eq!(a.mount_disk(true).await, Ok(()));
    assert_eq!(a.report(&[("again", 5)]).await, Ok(()));
    until("the files are dropped", async || node.look(|s| s.tiers().lost().count() == 0)).await;
    assert!(a.exists("again").await);
    assert_eq!(node.keys(), 2);
    node.assert_sound();
}

#[tokio::test]
async fn a_silent_client_loses_its_disk_and_an_object_that_is_elsewhere_stays() {
    let (node, a) = scene(&["--client_ttl=5"]).await;
    let b = node.owner(2, MIB).await;
    let config = mooncake_ha::wire::types::ReplicateConfig {
        preferred_segments: vec![b"s2".as_slice()],
        ..plain()
    };
    b.put("k", &config).await;
    assert_eq!(a.report(&[("k", 1024), ("only", 5)]).await, Ok(()));
    assert_eq!(a.kinds("k").await, Ok("ML".into()));
    until("the client is given up", async || {
        node.pass(1_000);
        b.ping().await;
        b.kinds("k").await == Ok("M".into())
    })
    .await;
    assert!(!b.exists("only").await);
    assert_eq!(a.offload_beat(true).await, refused(E::SegmentNotFound));
    until("its files are dropped", async || node.keys() == 1).await;
    node.assert_sound();
}

#[tokio::test]
async fn a_removal_of_everything_empties_the_disks_and_is_told_once() {
    let (mut node, a) = scene(&[]).await;
    a.put_on_disk("k").await;
    assert_eq!(a.remove_all(true).await, 1);
    node.restart().await;
    let a = node.caller(1).await;
    assert_eq!((a.poll_wipe().await, a.poll_wipe().await), (Ok(true), Ok(false)));
}

#[tokio::test]
async fn offloads_leave_a_soft_pin_alone() {
    let (node, a) = scene(&[]).await;
    a.put("k", &pinned(Some(60_000))).await;
    let deadline = node.deadline("k");
    node.pass(5_000);
    assert_eq!(a.to_offload().await, ["k"]);
    assert_eq!(a.offloaded(&["k"]).await, Ok(()));
    assert_eq!((node.deadline("k"), node.pins()), (deadline, 1));
    assert_eq!(a.evict_file("k", ReplicaType::LOCAL_DISK).await, Ok(()));
    assert_eq!((node.deadline("k"), node.pins()), (deadline, 1));
}
