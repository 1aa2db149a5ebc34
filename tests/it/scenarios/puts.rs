//! Scenarios A: PutStart, PutEnd, PutRevoke.

use std::collections::BTreeSet;

use mooncake_ha::model::ErrorCode;
use mooncake_ha::wire::types::{ReplicaStatus, ReplicaType, ReplicateConfig, Segment};

use crate::support::node::{Caller, TestNode, copies, pinned, place, plain, segment, until};

const MIB: u64 = 1 << 20;

fn on(names: &[&'static str], replica_num: u64) -> ReplicateConfig<&'static [u8]> {
    let preferred_segments = names.iter().map(|name| name.as_bytes()).collect();
    ReplicateConfig { preferred_segments, ..copies(replica_num) }
}

#[tokio::test]
async fn a1_a_started_put_is_one_processing_memory_replica_on_the_segments_endpoint() {
    let node = TestNode::start(&[]).await;
    let writer = node.owner(1, MIB).await;
    let started = writer.start("k", 1024, &plain()).await.unwrap();
    assert_eq!(started.len(), 1);
    assert_eq!(started[0].status, ReplicaStatus::PROCESSING);
    assert_eq!(place(&started[0]), ("s1".into(), 1 << 40, 1024));
    assert_eq!(writer.replicas("k").await.unwrap_err(), ErrorCode::ReplicaIsNotReady);
    assert!(!writer.exists("k").await);
    assert_eq!(writer.end("k").await, Ok(()));
    let found = writer.replicas("k").await.unwrap();
    assert_eq!(found.replicas[0].status, ReplicaStatus::COMPLETE);
    assert_eq!(place(&found.replicas[0]), place(&started[0]));
    assert_eq!(found.lease_ttl_ms, 10_000);
    node.assert_sound();
}

#[tokio::test]
async fn a3_another_client_cannot_end_or_revoke_an_open_put() {
    let node = TestNode::start(&[]).await;
    let (writer, other) = (node.owner(1, MIB).await, node.caller(2).await);
    writer.start("k", 10, &plain()).await.unwrap();
    assert_eq!(other.end("k").await.unwrap_err(), ErrorCode::IllegalClient);
    let revoked = other.revoke("k", ReplicaType::ALL).await;
    assert_eq!(revoked.unwrap_err(), ErrorCode::IllegalClient);
    assert_eq!(writer.end("k").await, Ok(()), "it stayed open");
}

#[tokio::test]
async fn a5_a_second_end_is_ok() {
    let node = TestNode::start(&[]).await;
    let writer = node.owner(1, MIB).await;
    writer.put("k", &plain()).await;
    assert_eq!(writer.end("k").await, Ok(()));
}

#[tokio::test]
async fn a7_a_readable_key_cannot_be_revoked() {
    let node = TestNode::start(&[]).await;
    let writer = node.owner(1, MIB).await;
    writer.put("k", &plain()).await;
    let revoked = writer.revoke("k", ReplicaType::MEMORY).await;
    assert_eq!(revoked.unwrap_err(), ErrorCode::InvalidWrite);
    assert!(writer.exists("k").await);
}

#[tokio::test]
async fn a_revoked_put_is_gone_and_its_space_is_free() {
    let node = TestNode::start(&[]).await;
    let writer = node.owner(1, MIB).await;
    let first = writer.start("k", 600_000, &plain()).await.unwrap();
    assert_eq!(writer.revoke("k", ReplicaType::NOF_SSD).await, Ok(()), "none of that kind");
    assert_eq!(writer.revoke("k", ReplicaType::MEMORY).await, Ok(()));
    let again = writer.revoke("k", ReplicaType::MEMORY).await;
    assert_eq!(again.unwrap_err(), ErrorCode::ObjectNotFound);
    let second = writer.start("k", 600_000, &plain()).await.unwrap();
    assert_eq!(place(&second[0]), place(&first[0]));
}

#[tokio::test]
async fn a9_a10_a11_requests_that_ask_for_nothing_are_refused() {
    let node = TestNode::start(&[]).await;
    let writer = node.owner(1, MIB).await;
    let nof = ReplicateConfig { nof_replica_num: 1, prefer_alloc_in_same_node: true, ..plain() };
    for (key, size, config) in
        [("k", 10, copies(0)), ("k", 0, plain()), ("", 10, plain()), ("k", 10, nof)]
    {
        let started = writer.start(key, size, &config).await;
        assert_eq!(started.unwrap_err(), ErrorCode::InvalidParams, "{key:?} {size}");
    }
    let dfs = ReplicateConfig { dfs_replica_num: 1, ..plain() };
    let started = writer.start("k", 10, &dfs).await;
    assert_eq!(started.unwrap_err(), ErrorCode::DfsServiceUnavailable);
    assert_eq!(node.keys(), 0);
}

#[tokio::test]
async fn a12_a_readable_key_is_not_put_again_by_anybody() {
    let node = TestNode::start(&[]).await;
    let (writer, other) = (node.owner(1, MIB).await, node.caller(2).await);
    writer.put("k", &plain()).await;
    for caller in [&writer, &other] {
        let started = caller.start("k", 10, &plain()).await;
        assert_eq!(started.unwrap_err(), ErrorCode::ObjectAlreadyExists);
    }
}

#[tokio::test]
async fn a14_a15_a_zombie_is_replaced_and_its_space_stays_taken_until_its_release_time() {
    let flags = ["--put_start_discard_timeout_sec=3", "--put_start_release_timeout_sec=20"];
    let node = TestNode::start(&[&flags[..], &["--client_ttl=3600"]].concat()).await;
    let (writer, other) = (node.owner(1, MIB).await, node.caller(2).await);
    writer.start("k", 700_000, &plain()).await.unwrap();
    node.pass(3_000);
    let early = other.start("k", 1_000, &plain()).await;
    assert_eq!(early.unwrap_err(), ErrorCode::ObjectAlreadyExists);
    node.pass(1);
    other.start("k", 1_000, &plain()).await.unwrap();
    assert_eq!(writer.end("k").await.unwrap_err(), ErrorCode::IllegalClient);
    let large = writer.start("large", 700_000, &plain()).await;
    assert_eq!(large.unwrap_err(), ErrorCode::NoAvailableHandle);
    assert_eq!(other.end("k").await, Ok(()));
    node.pass(17_000);
    until("the memory is released", async || {
        writer.start("large", 700_000, &plain()).await.is_ok()
    })
    .await;
    node.assert_sound();
}

#[tokio::test]
async fn a17_without_a_segment_nothing_can_be_put() {
    let node = TestNode::start(&[]).await;
    let started = node.caller(1).await.start("k", 10, &plain()).await;
    assert_eq!(started.unwrap_err(), ErrorCode::NoAvailableHandle);
}

#[tokio::test]
async fn a18_a19_fewer_copies_than_asked_are_accepted_and_counted() {
    let node = TestNode::start(&[]).await;
    let partial = || node.look(|state| state.counters().partial_allocations);
    let writer = node.owner(1, MIB).await;
    assert_eq!(writer.start("a", 10, &copies(2)).await.unwrap().len(), 1);
    assert_eq!(partial(), 1);
    node.owner(2, MIB).await;
    assert_eq!(writer.start("b", 10, &copies(3)).await.unwrap().len(), 2);
    assert_eq!(partial(), 2);
    assert_eq!(writer.start("c", 10, &copies(2)).await.unwrap().len(), 2);
    assert_eq!(partial(), 2);
}

#[tokio::test]
async fn a20_ten_copies_lie_on_ten_segments() {
    let node = TestNode::start(&[]).await;
    let writer = node.caller(1).await;
    for n in 1..=20 {
        writer.mount(&segment(n, &format!("s{n}"), MIB)).await.unwrap();
    }
    let started = writer.start("k", 10, &copies(10)).await.unwrap();
    let places: BTreeSet<String> = started.iter().map(|replica| place(replica).0).collect();
    assert_eq!(places.len(), 10);
}

#[tokio::test]
async fn a22_a23_a24_preferred_segments_are_used_while_they_have_room() {
    let node = TestNode::start(&[]).await;
    let writer = node.owner(1, MIB).await;
    node.owner(2, MIB).await;
    node.owner(3, MIB).await;
    let places = |started: Vec<_>| started.iter().map(|r| place(r).0).collect::<Vec<_>>();
    let single = ReplicateConfig { preferred_segment: b"s2".as_slice(), ..plain() };
    assert_eq!(places(writer.start("a", 10, &single).await.unwrap()), ["s2"]);
    let two = writer.start("b", 10, &on(&["s1", "s2"], 2)).await.unwrap();
    assert_eq!(places(two), ["s1", "s2"]);
    writer.start("fill", 900_000, &on(&["s3"], 1)).await.unwrap();
    let elsewhere = places(writer.start("c", 900_000, &on(&["s3"], 1)).await.unwrap());
    assert!(elsewhere == ["s1"] || elsewhere == ["s2"], "{elsewhere:?}");
}

/// Segment `s1` on the host "east", `s2` on "west"; both of client 1.
async fn two_hosts(node: &TestNode) -> Caller {
    let writer = node.caller(1).await;
    for (n, host) in [(1, "east"), (2, "west")] {
        let name = format!("s{n}");
        let hosted = Segment { host_id: host.as_bytes(), ..segment(n, &name, MIB) };
        writer.mount(&hosted).await.unwrap();
    }
    writer
}

#[tokio::test]
async fn a25_local_first_places_on_the_writers_host() {
    let node = TestNode::start(&["--allocation_strategy=local_first"]).await;
    let writer = two_hosts(&node).await;
    let west = ReplicateConfig { host_id: b"west".as_slice(), ..plain() };
    for n in 0..6 {
        let started = writer.start(&format!("k{n}"), 10, &west).await.unwrap();
        assert_eq!(place(&started[0]).0, "s2");
    }
    let explicit = ReplicateConfig { preferred_segment: b"s1".as_slice(), ..west.clone() };
    assert_eq!(place(&writer.start("p", 10, &explicit).await.unwrap()[0]).0, "s1");
    writer.start("fill", 600_000, &west).await.unwrap();
    let next = writer.start("next", 600_000, &west).await.unwrap();
    assert_eq!(place(&next[0]).0, "s1", "the next host in order");
}

#[tokio::test]
async fn a26_by_default_a_write_goes_to_its_writers_host_only_if_it_asks_for_it() {
    let node = TestNode::start(&[]).await;
    let writer = two_hosts(&node).await;
    for (host, name) in [("west", "s2"), ("east", "s1")] {
        let near = ReplicateConfig {
            host_id: host.as_bytes(),
            prefer_alloc_in_same_node: true,
            ..plain()
        };
        for n in 0..6 {
            let started = writer.start(&format!("{host}{n}"), 10, &near).await.unwrap();
            assert_eq!(place(&started[0]).0, name);
        }
    }
    let mut places = BTreeSet::new();
    for n in 0..64 {
        let indifferent = ReplicateConfig { host_id: b"west".as_slice(), ..plain() };
        let started = writer.start(&format!("any{n}"), 10, &indifferent).await.unwrap();
        places.insert(place(&started[0]).0);
    }
    assert_eq!(places.len(), 2, "64 writes that do not ask went to one host");
}

#[tokio::test]
async fn a27_a_checksum_is_given_back_zero_too() {
    let node = TestNode::start(&[]).await;
    let writer = node.owner(1, MIB).await;
    for (key, checksum) in [("a", Some(0)), ("b", Some(u64::MAX)), ("c", None)] {
        writer.start(key, 10, &plain()).await.unwrap();
        writer.end_with(key, ReplicaType::ALL, checksum).await.unwrap();
        assert_eq!(writer.replicas(key).await.unwrap().object_checksum, checksum);
    }
}

#[tokio::test]
async fn a28_an_open_put_whose_client_is_given_up_is_gone_and_the_key_can_be_put_again() {
    let node = TestNode::start(&["--client_ttl=5"]).await;
    let (lost, other) = (node.owner(1, MIB).await, node.owner(2, MIB).await);
    let on_lost = ReplicateConfig { preferred_segment: b"s1".as_slice(), ..pinned(Some(60_000)) };
    lost.start("k", 10, &on_lost).await.unwrap();
    node.pass(4_000);
    let client = other.id;
    other.call::<mooncake_ha::wire::calls::Ping>(&client).await.unwrap();
    node.pass(2_000);
    until("the segment is gone", async || other.status("s1").await.is_err()).await;
    assert_eq!(lost.end("k").await.unwrap_err(), ErrorCode::ObjectNotFound);
    assert_eq!(lost.remove("k", true).await.unwrap_err(), ErrorCode::ObjectNotFound);
    let started = other.start("k", 10, &plain()).await.unwrap();
    assert_eq!(place(&started[0]).0, "s2");
    node.assert_sound();
}
