//! What a restart keeps: everything that was acknowledged, to the byte and to the millisecond.

use mooncake_ha::model::ErrorCode;
use mooncake_ha::wire::calls;
use mooncake_ha::wire::types::{ClientStatus, ReplicaType, ReplicateConfig};

use crate::support::node::{TestNode, copies, pinned, place, plain, segment, until};

const MIB: u64 = 1 << 20;

#[tokio::test]
async fn a_restart_keeps_keys_places_checksums_and_deadlines() {
    let mut node = TestNode::start(&[]).await;
    let writer = node.owner(1, MIB).await;
    node.owner(2, MIB).await;
    writer.put("pinned", &pinned(Some(123_457))).await;
    writer.start("two", 700, &copies(2)).await.unwrap();
    writer.end_with("two", ReplicaType::ALL, Some(42)).await.unwrap();
    let (before, deadline) = (writer.replicas("two").await, node.deadline("pinned"));
    assert!(deadline.is_some());
    node.restart().await;
    let reader = node.caller(9).await;
    assert_eq!(reader.replicas("two").await, before);
    assert_eq!((node.deadline("pinned"), node.pins()), (deadline, 1));
    node.pass(123_457);
    until("the pin ends", async || node.pins() == 0).await;
    assert!(reader.exists("pinned").await);
}

#[tokio::test]
async fn an_open_put_is_ended_after_a_restart_and_its_pin_counts_from_then() {
    let mut node = TestNode::start(&[]).await;
    let writer = node.owner(1, MIB).await;
    let started = writer.start("k", 10, &pinned(Some(9_000))).await.unwrap();
    node.restart().await;
    let writer = node.caller(1).await;
    node.pass(2_000);
    assert_eq!(writer.end("k").await, Ok(()));
    assert_eq!(node.deadline("k"), Some(node.now() + 9_000));
    let found = writer.replicas("k").await.unwrap().replicas;
    assert_eq!(place(&found[0]), place(&started[0]));
}

#[tokio::test]
async fn a_restarted_node_places_as_if_it_had_never_stopped() {
    let keys: Vec<String> = (0..20).map(|n| format!("k{n}")).collect();
    let mut places = Vec::new();
    for is_restarted in [false, true] {
        let mut node = TestNode::start(&[]).await;
        let mut writer = node.owner(1, MIB).await;
        for key in &keys {
            writer.put(key, &plain()).await;
        }
        for key in keys.iter().step_by(3) {
            writer.remove(key, true).await.unwrap();
        }
        if is_restarted {
            node.restart().await;
            writer = node.caller(1).await;
        }
        let mut found = Vec::new();
        for n in 0..10 {
            let started = writer.start(&format!("new{n}"), 700 + n, &plain()).await.unwrap();
            found.push(place(&started[0]));
        }
        places.push(found);
    }
    assert_eq!(places[0], places[1]);
}

#[tokio::test]
async fn an_alive_client_need_not_remount_after_a_restart() {
    let mut node = TestNode::start(&[]).await;
    let caller = node.owner(1, MIB).await;
    caller.remount(&[segment(1, "s1", MIB)]).await.unwrap();
    node.restart().await;
    let caller = node.caller(1).await;
    let pong = caller.call::<calls::Ping>(&caller.id).await.unwrap();
    assert_eq!(pong.client_status, ClientStatus::OK);
}

#[tokio::test]
async fn a_restarted_leader_removes_nothing_that_was_promised_to_a_reader() {
    let mut node = TestNode::start(&["--default_kv_lease_ttl=5000"]).await;
    let writer = node.owner(1, MIB).await;
    writer.put("k", &plain()).await;
    assert!(writer.exists("k").await);
    node.restart().await;
    let writer = node.caller(1).await;
    assert_eq!(writer.remove("k", false).await.unwrap_err(), ErrorCode::ObjectHasLease);
    node.pass(1);
    writer.put("new", &plain()).await;
    assert_eq!(writer.remove("new", false).await, Ok(()), "nobody can have been promised it");
    node.pass(5_000);
    assert_eq!(writer.remove("k", false).await, Ok(()));
}

#[tokio::test]
async fn a_restart_in_the_middle_of_many_restarts_changes_nothing() {
    let mut node = TestNode::start(&[]).await;
    node.owner(1, MIB).await;
    for round in 0..4_u64 {
        let writer = node.caller(1).await;
        for n in 0..5 {
            let key = format!("k{round}-{n}");
            writer.put(&key, &ReplicateConfig { with_hard_pin: true, ..pinned(None) }).await;
        }
        node.restart().await;
        assert_eq!((node.keys(), node.pins()), (5 * (round + 1), 5 * (round as usize + 1)));
    }
}

#[tokio::test]
async fn a_compacted_log_and_its_tail_give_everything_back() {
    let mut node = TestNode::start(&[]).await;
    let writer = node.owner(1, MIB).await;
    node.owner(2, MIB).await;
    for n in 0..50 {
        writer.put(&format!("old{n}"), &pinned(Some(60_000 + n))).await;
    }
    let open = writer.start("open", 10, &pinned(Some(9_000))).await.unwrap();
    for round in 0..3 {
        assert!(node.master().raft().trigger_snapshot().await.unwrap().is_some());
        for n in 0..10 {
            writer.put(&format!("tail{round}.{n}"), &copies(2)).await;
            writer.remove(&format!("old{}", 10 * round + n), true).await.unwrap();
        }
    }
    assert!(node.master().status().log.snapshot.is_some());
    let (deadline, replicas) = (node.deadline("old40"), writer.replicas("tail1.3").await);
    assert!(deadline.is_some());
    for _ in 0..2 {
        node.restart().await;
        node.assert_sound();
        assert_eq!((node.keys(), node.pins()), (20 + 30 + 1, 20));
        assert_eq!(node.deadline("old40"), deadline);
        assert_eq!(node.caller(9).await.replicas("tail1.3").await, replicas);
    }
    let writer = node.caller(1).await;
    assert_eq!(writer.end("open").await, Ok(()));
    let found = writer.replicas("open").await.unwrap().replicas;
    assert_eq!(place(&found[0]), place(&open[0]));
}
