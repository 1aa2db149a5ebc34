//! Scenarios E10 to E14 and E20: graceful unmount, hosts of clients; reads after a part of an object is lost.

use mooncake_ha::model::ErrorCode;
use mooncake_ha::wire::calls::BatchQueryIp;
use mooncake_ha::wire::types::{Segment, SegmentStatus};

use super::calls::*;
use crate::support::node::{Caller, TestNode, copies, place, plain, segment, until};

const MIB: u64 = 1 << 20;

async fn is_gone(caller: &Caller, n: u64) -> bool {
    status_by_id(caller, n).await == refused(ErrorCode::SegmentNotFound)
}

#[tokio::test]
async fn e10_a_graceful_unmount_ends_writes_at_once_and_reads_after_its_grace() {
    let node = TestNode::start(&[]).await;
    let owner = node.owner(1, MIB).await;
    owner.put("k", &plain()).await;
    let other = node.owner(2, MIB).await;
    assert_eq!(leave(&owner, 1, 1_000).await, Ok(()));
    assert_eq!(owner.status("s1").await, Ok(SegmentStatus::GRACEFULLY_UNMOUNTING));
    assert_eq!(owner.status("s1").await.unwrap().0, 4);
    for n in 0..8 {
        let started = other.start(&format!("n{n}"), 10, &plain()).await.unwrap();
        assert_eq!(place(&started[0]).0, "s2");
    }
    assert!(other.replicas("k").await.is_ok());
    node.pass(999);
    assert!(other.replicas("k").await.is_ok());
    node.pass(1);
    until("the segment is gone", async || is_gone(&owner, 1).await).await;
    assert_eq!(other.replicas("k").await.unwrap_err(), ErrorCode::ObjectNotFound);
    node.assert_sound();
}

#[tokio::test]
async fn e11_e12_only_the_owner_may_and_it_may_ask_twice() {
    let node = TestNode::start(&[]).await;
    let owner = node.owner(1, MIB).await;
    let stranger = node.caller(9).await;
    assert_eq!(leave(&stranger, 1, 0).await, refused(ErrorCode::SegmentNotFound));
    let other = node.owner(2, MIB).await;
    assert_eq!(leave(&other, 1, 0).await, refused(ErrorCode::InvalidParams));
    assert_eq!(leave(&owner, 1, 60_000).await, Ok(()));
    assert_eq!(leave(&owner, 1, 60_000).await, Ok(()));
    assert_eq!(status_by_id(&owner, 1).await, Ok(SegmentStatus::GRACEFULLY_UNMOUNTING));
}

#[tokio::test]
async fn e14_the_shorter_grace_ends_first() {
    let node = TestNode::start(&[]).await;
    let owner = node.owner(1, MIB).await;
    owner.mount(&segment(3, "s3", MIB)).await.unwrap();
    leave(&owner, 1, 60_000).await.unwrap();
    leave(&owner, 3, 500).await.unwrap();
    node.pass(500);
    until("the short one is gone", async || is_gone(&owner, 3).await).await;
    assert_eq!(status_by_id(&owner, 1).await, Ok(SegmentStatus::GRACEFULLY_UNMOUNTING));
}

#[tokio::test]
async fn a_grace_time_goes_on_over_a_restart() {
    let mut node = TestNode::start(&[]).await;
    let owner = node.owner(1, MIB).await;
    leave(&owner, 1, 5_000).await.unwrap();
    node.restart().await;
    let owner = node.caller(1).await;
    assert_eq!(status_by_id(&owner, 1).await, Ok(SegmentStatus::GRACEFULLY_UNMOUNTING));
    node.pass(5_000);
    until("it is gone", async || is_gone(&owner, 1).await).await;
}

#[tokio::test]
async fn e20_clients_are_told_with_the_hosts_of_their_segments() {
    let node = TestNode::start(&[]).await;
    let at = |n, endpoint: &'static str| Segment {
        te_endpoint: endpoint.as_bytes(),
        ..segment(n, "name", MIB)
    };
    let (a, b, c) = (node.caller(1).await, node.caller(2).await, node.caller(3).await);
    for mounted in [at(1, "10.0.0.1:1000"), at(2, "10.0.0.1:1001"), at(3, "10.0.0.2")] {
        a.mount(&mounted).await.unwrap();
    }
    b.mount(&at(4, "")).await.unwrap();
    let told = async |ids: &[mooncake_ha::model::ClientId]| {
        let hosts = a.call::<BatchQueryIp>(&ids.to_vec()).await.unwrap().0;
        let texts = |hosts: &Vec<Box<[u8]>>| -> Vec<String> {
            hosts.iter().map(|host| String::from_utf8_lossy(host).into_owned()).collect()
        };
        let client = |(id, hosts): &(_, Vec<_>)| (*id, texts(hosts));
        hosts.iter().map(client).collect::<Vec<_>>()
    };
    assert!(told(&[]).await.is_empty());
    let hosts = vec!["10.0.0.1".to_owned(), "10.0.0.2".to_owned()];
    assert_eq!(told(&[c.id, b.id, a.id, a.id]).await, [(a.id, hosts), (b.id, Vec::new())]);
}

#[tokio::test]
async fn replicas_are_told_in_order_and_what_is_left_after_a_loss() {
    let node = TestNode::start(&[]).await;
    let owner = node.owner(1, MIB).await;
    let (_two, three) = (node.owner(2, MIB).await, node.owner(3, MIB).await);
    let started = owner.start("k", 1024, &copies(3)).await.unwrap();
    owner.end("k").await.unwrap();
    let whole = three.replicas("k").await.unwrap().replicas;
    let ids = |replicas: &[_]| {
        replicas
            .iter()
            .map(|r: &mooncake_ha::wire::types::ReplicaDescriptor<_>| r.id)
            .collect::<Vec<_>>()
    };
    assert_eq!((whole.len(), ids(&whole)), (3, ids(&started)));
    owner.unmount(1).await.unwrap();
    let left = three.replicas("k").await.unwrap().replicas;
    assert_eq!(left, whole.iter().filter(|r| place(r).0 != "s1").cloned().collect::<Vec<_>>());
    leave(&three, 3, 0).await.unwrap();
    until("s3 is gone", async || is_gone(&three, 3).await).await;
    let left = three.replicas("k").await.unwrap().replicas;
    assert_eq!(place(&left[0]).0, "s2");
    assert_eq!(left.len(), 1);
}
