//! Scenarios E: segments and clients.

use mooncake_ha::model::ErrorCode;
use mooncake_ha::wire::calls;
use mooncake_ha::wire::requests::FetchTasksRequest;
use mooncake_ha::wire::types::{ClientStatus, ReplicateConfig, Segment, SegmentStatus};

use crate::support::node::{Caller, TestNode, copies, place, plain, segment, segment_id, until};

const MIB: u64 = 1 << 20;

async fn ping(caller: &Caller) -> ClientStatus {
    caller.call::<calls::Ping>(&caller.id).await.unwrap().client_status
}

async fn view_version(node: &TestNode) -> i64 {
    let caller = node.caller(1).await;
    caller.call::<calls::Ping>(&caller.id).await.unwrap().view_version_id
}

#[tokio::test]
async fn a_ping_tells_the_term_in_a_cluster_and_zero_without_peers() {
    let alone = TestNode::start(&[]).await;
    assert_eq!(view_version(&alone).await, 0);
    let peers = "--peers=1=127.0.0.1:50061,2=127.0.0.1:50062";
    let mut node = TestNode::start(&["--node_id=1", peers]).await;
    let before = view_version(&node).await;
    assert_eq!(Some(before), i64::try_from(node.master().raft().status().term).ok());
    node.restart().await;
    assert!(view_version(&node).await > before, "a restart is a new term");
}

fn capacity(node: &TestNode) -> u64 {
    node.look(|state| state.segments().memory_usage().1)
}

#[tokio::test]
async fn e1_a_segment_without_base_or_size_is_refused() {
    let node = TestNode::start(&[]).await;
    let caller = node.caller(1).await;
    let good = segment(1, "s1", MIB);
    let overflow = Segment { base: u64::MAX, ..good.clone() };
    for bad in [Segment { base: 0, ..good.clone() }, Segment { size: 0, ..good.clone() }, overflow]
    {
        assert_eq!(caller.mount(&bad).await.unwrap_err(), ErrorCode::InvalidParams);
    }
    assert_eq!(capacity(&node), 0);
}

#[tokio::test]
async fn e3_a_second_mount_is_ok_and_counted_once() {
    let node = TestNode::start(&[]).await;
    let caller = node.owner(1, MIB).await;
    assert_eq!(caller.mount(&segment(1, "s1", MIB)).await, Ok(()));
    assert_eq!(capacity(&node), MIB);
}

#[tokio::test]
async fn e4_unmounting_twice_or_what_is_unknown_is_ok() {
    let node = TestNode::start(&[]).await;
    let caller = node.owner(1, MIB).await;
    for n in [1, 1, 9] {
        assert_eq!(caller.unmount(n).await, Ok(()));
    }
    assert_eq!(capacity(&node), 0);
}

#[tokio::test]
async fn e6_segments_come_and_go_beside_each_other() {
    let node = TestNode::start(&[]).await;
    let cycle = async |n: u64| {
        let caller = node.caller(n).await;
        let name = format!("s{n}");
        for _ in 0..25 {
            caller.mount(&segment(n, &name, MIB)).await.unwrap();
            caller.unmount(n).await.unwrap();
        }
    };
    tokio::join!(cycle(1), cycle(2), cycle(3), cycle(4));
    assert_eq!(capacity(&node), 0);
    node.assert_sound();
}

#[tokio::test]
async fn e7_e8_what_lay_on_an_unmounted_segment_is_gone_at_once_and_the_rest_stays() {
    let node = TestNode::start(&[]).await;
    let (one, two) = (node.owner(1, MIB).await, node.owner(2, MIB).await);
    for name in ["s1", "s2"] {
        let there = ReplicateConfig { preferred_segment: name.as_bytes(), ..plain() };
        one.put(name, &there).await;
    }
    one.put("both", &copies(2)).await;
    assert_eq!(one.unmount(1).await, Ok(()));
    assert_eq!(one.replicas("s1").await.unwrap_err(), ErrorCode::ObjectNotFound);
    assert!(!one.exists("s1").await);
    assert!(two.exists("s2").await);
    let left = one.replicas("both").await.unwrap().replicas;
    assert_eq!(left.iter().map(|r| place(r).0).collect::<Vec<_>>(), ["s2"]);
    let started = one.start("new", 10, &plain()).await.unwrap();
    assert_eq!(place(&started[0]).0, "s2");
    node.assert_sound();
}

#[tokio::test]
async fn e9_a_full_segment_is_unmounted_at_once_for_readers() {
    let node = TestNode::start(&[]).await;
    let caller = node.owner(1, 8 * MIB).await;
    let names: Vec<String> = (0..2_000).map(|n| format!("k{n}")).collect();
    let keys: Vec<&str> = names.iter().map(String::as_str).collect();
    assert!(caller.batch_start(&keys, &[100; 2_000], &plain()).await.iter().all(Result::is_ok));
    caller.batch_end(&keys).await;
    assert_eq!(caller.unmount(1).await, Ok(()));
    assert!(caller.batch_exists(&keys).await.iter().all(|found| *found == Ok(false)));
    assert_eq!(caller.status("s1").await.unwrap_err(), ErrorCode::SegmentNotFound);
    until("the objects are gone", async || node.keys() == 0).await;
    node.assert_sound();
    until("it can be mounted again", async || {
        caller.mount(&segment(1, "s1", 8 * MIB)).await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn a_segment_is_not_unmounted_by_a_stranger() {
    let node = TestNode::start(&[]).await;
    node.owner(1, MIB).await;
    let stranger = node.caller(2).await;
    assert_eq!(stranger.unmount(1).await.unwrap_err(), ErrorCode::IllegalClient);
    assert_eq!(stranger.status("s1").await, Ok(SegmentStatus(1)));
}

#[tokio::test]
async fn e15_a_silent_client_loses_its_segments_and_keys() {
    let node = TestNode::start(&["--client_ttl=3"]).await;
    let (silent, alive) = (node.owner(1, MIB).await, node.owner(2, MIB).await);
    silent.remount(&[segment(1, "s1", MIB)]).await.unwrap();
    alive.remount(&[segment(2, "s2", MIB)]).await.unwrap();
    silent.put("gone", &ReplicateConfig { preferred_segment: b"s1".as_slice(), ..plain() }).await;
    silent.put("both", &copies(2)).await;
    node.pass(2_000);
    assert_eq!(ping(&alive).await, ClientStatus::OK);
    node.pass(1_001);
    until("the segment is gone", async || alive.status("s1").await.is_err()).await;
    assert_eq!(alive.replicas("gone").await.unwrap_err(), ErrorCode::ObjectNotFound);
    assert_eq!(alive.replicas("both").await.unwrap().replicas.len(), 1);
    assert_eq!(node.look(|state| state.clients().alive().count()), 1);
    assert_eq!(ping(&silent).await, ClientStatus::NEED_REMOUNT);
    until("it can come back", async || silent.remount(&[segment(1, "s1", MIB)]).await.is_ok())
        .await;
    assert_eq!(ping(&silent).await, ClientStatus::OK);
    assert!(!silent.exists("gone").await);
    node.assert_sound();
}

#[tokio::test]
async fn e16_an_unknown_client_is_asked_to_remount() {
    let node = TestNode::start(&[]).await;
    let caller = node.caller(1).await;
    assert_eq!(ping(&caller).await, ClientStatus::NEED_REMOUNT);
    caller.mount(&segment(1, "s1", MIB)).await.unwrap();
    assert_eq!(ping(&caller).await, ClientStatus::NEED_REMOUNT, "mounting is not enough");
    let both = [segment(1, "s1", MIB), segment(2, "s1b", MIB)];
    assert_eq!(caller.remount(&both).await, Ok(()));
    assert_eq!(ping(&caller).await, ClientStatus::OK);
    assert_eq!(caller.status("s1b").await, Ok(SegmentStatus(1)));
}

#[tokio::test]
async fn a_remount_of_another_clients_segment_is_refused() {
    let node = TestNode::start(&[]).await;
    node.owner(1, MIB).await;
    let other = node.caller(2).await;
    let refused = other.remount(&[segment(1, "s1", MIB)]).await;
    assert_eq!(refused.unwrap_err(), ErrorCode::InvalidParams);
    let moved = segment(1, "elsewhere", MIB);
    assert_eq!(other.mount(&moved).await.unwrap_err(), ErrorCode::SegmentAlreadyExists);
}

#[tokio::test]
async fn e17_a_client_without_segments_is_served() {
    let node = TestNode::start(&[]).await;
    node.owner(1, MIB).await;
    let guest = node.caller(2).await;
    guest.put("k", &plain()).await;
    assert!(guest.exists("k").await);
    assert_eq!(guest.remount(&[]).await, Ok(()));
    assert_eq!(ping(&guest).await, ClientStatus::OK);
}

#[tokio::test]
async fn a_segments_status_is_told_by_name_and_by_id() {
    let node = TestNode::start(&[]).await;
    let caller = node.owner(1, MIB).await;
    let by_id = caller.call::<calls::QuerySegmentStatusById>(&segment_id(1)).await;
    assert_eq!(by_id, Ok(SegmentStatus(1)));
    assert_eq!(caller.status("s1").await, Ok(SegmentStatus(1)));
    let unknown = caller.call::<calls::QuerySegmentStatusById>(&segment_id(2)).await;
    assert_eq!(unknown.unwrap_err(), ErrorCode::SegmentNotFound);
    assert_eq!(caller.status("s2").await.unwrap_err(), ErrorCode::SegmentNotFound);
}

#[tokio::test]
async fn set_up_calls_are_answered_as_clients_compare_them() {
    use mooncake_ha::wire::pack::NoArguments;
    let node = TestNode::start(&[]).await;
    let caller = node.caller(1).await;
    let version = caller.call::<calls::ServiceReady>(&NoArguments).await.unwrap();
    assert_eq!(*version, *b"2.0.0");
    assert_eq!(*caller.call::<calls::GetFsdir>(&NoArguments).await.unwrap(), *b"");
    let storage = caller.call::<calls::GetStorageConfig>(&NoArguments).await.unwrap();
    assert_eq!((&*storage.fsdir, storage.quota_bytes), (&b""[..], 0));
    let fetch = FetchTasksRequest { client_id: caller.id, batch_size: 16 };
    assert_eq!(caller.call::<calls::FetchTasks>(&fetch).await, Ok(Vec::new()));
}
