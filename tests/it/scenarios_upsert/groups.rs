//! Scenarios G and B14 to B16: groups.

use mooncake_ha::model::ErrorCode;

use super::calls::*;
use crate::support::node::{TestNode, plain};

const MIB: u64 = 1 << 20;
const TTL: &[&str] = &["--default_kv_lease_ttl=200"];

#[tokio::test]
async fn g1_a_single_key_takes_exactly_one_group_id() {
    let node = TestNode::start(TTL).await;
    let writer = node.owner(1, MIB).await;
    for groups in [&[][..], &["g", "h"]] {
        let one = writer.start("k", 1, &in_groups(groups)).await;
        assert_eq!(one.unwrap_err(), ErrorCode::InvalidParams);
        let all = writer.batch_start(&["k", "l", "m"], &[1, 1, 1], &in_groups(groups)).await;
        assert!(all.iter().all(|one| *one == refused(ErrorCode::InvalidParams)));
    }
    writer.put("k", &in_group("")).await;
    assert!(node.look(|state| state.view().groups.is_empty()));
    let started = writer.batch_start(&["a", "b"], &[1, 1], &in_groups(&["g", ""])).await;
    assert!(started.iter().all(Result::is_ok));
    assert_eq!(node.look(|state| state.view().groups.len()), 1);
}

#[tokio::test]
async fn g2_g3_a_grouped_key_is_used_and_removed_by_its_key() {
    let node = TestNode::start(TTL).await;
    let writer = node.owner(1, MIB).await;
    for by_pattern in [false, true] {
        writer.put("k", &in_group("g")).await;
        assert!(writer.exists("k").await && writer.replicas("k").await.is_ok());
        if by_pattern {
            assert_eq!(remove_by_regex(&writer, "^k$", true).await, Ok(1));
        } else {
            assert_eq!(writer.batch_remove(&["k"], true).await, [Ok(())]);
        }
        writer.put("k", &plain()).await;
        assert!(writer.exists("k").await);
        assert_eq!(writer.remove("k", true).await, Ok(()));
    }
}

#[tokio::test]
async fn g4_every_read_of_a_member_leases_all_for_the_whole_time() {
    let node = TestNode::start(TTL).await;
    let writer = node.owner(1, MIB).await;
    for key in ["a", "b"] {
        writer.put(key, &in_group("g")).await;
    }
    writer.put("c", &in_group("h")).await;
    writer.replicas("a").await.unwrap();
    node.pass(20);
    writer.replicas("a").await.unwrap();
    assert_eq!(writer.remove("c", false).await, Ok(()));
    node.pass(199);
    let leased = refused(ErrorCode::ObjectHasLease);
    assert_eq!(writer.remove("b", false).await, leased, "edge 7: never less than was told");
    node.pass(1);
    assert_eq!(writer.remove("b", false).await, Ok(()));
}

#[tokio::test]
async fn g5_a_member_that_came_later_is_leased_by_the_next_read() {
    let node = TestNode::start(TTL).await;
    let writer = node.owner(1, MIB).await;
    writer.put("a", &in_group("g")).await;
    writer.exists("a").await;
    writer.put("b", &in_group("g")).await;
    node.pass(150);
    assert_eq!(writer.batch_exists(&["a"]).await, [Ok(true)]);
    node.pass(100);
    assert_eq!(writer.remove("b", false).await, refused(ErrorCode::ObjectHasLease));
}

#[tokio::test]
async fn g6_removing_one_member_leaves_the_others() {
    let node = TestNode::start(TTL).await;
    let writer = node.owner(1, MIB).await;
    for key in ["a", "b"] {
        writer.put(key, &in_group("g")).await;
    }
    assert_eq!(writer.remove("a", true).await, Ok(()));
    assert!(writer.exists("b").await);
    assert_eq!(writer.remove("b", true).await, Ok(()));
    assert!(node.look(|state| state.view().groups.is_empty()));
}

#[tokio::test]
async fn g10_of_many_starts_of_one_key_exactly_one_succeeds() {
    let node = TestNode::start(TTL).await;
    let owner = node.owner(1, MIB).await;
    let mut callers = Vec::new();
    for n in 0..16 {
        callers.push(node.caller(10 + n).await);
    }
    let mut starts = tokio::task::JoinSet::new();
    for (n, caller) in callers.into_iter().enumerate() {
        starts.spawn(async move {
            let config = in_group(if n % 2 == 0 { "g" } else { "" });
            caller.start("k", 1, &config).await.map(|_| ())
        });
    }
    let outcomes = starts.join_all().await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
    let late = refused(ErrorCode::ObjectAlreadyExists);
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == late).count(), 15);
    assert_eq!(node.keys(), 1);
    drop(owner);
}

#[tokio::test]
async fn g11_an_old_open_grouped_put_gives_way_to_an_ungrouped_one() {
    let node = TestNode::start(TTL).await;
    let writer = node.owner(1, MIB).await;
    writer.start("k", 1024, &in_group("g")).await.unwrap();
    node.pass(30_001);
    writer.put("k", &plain()).await;
    assert!(node.look(|state| state.view().groups.is_empty()));
}

#[tokio::test]
async fn b14_b15_an_upsert_cannot_change_the_group() {
    let node = TestNode::start(TTL).await;
    let writer = node.owner(1, MIB).await;
    writer.put("in", &in_group("g")).await;
    writer.put("out", &plain()).await;
    for (key, group) in [("in", "h"), ("in", ""), ("out", "g")] {
        for size in [1024, 2048] {
            let refused = upsert(&writer, key, size, &in_group(group)).await;
            assert_eq!(refused.unwrap_err(), ErrorCode::InvalidParams);
            assert!(writer.exists(key).await);
        }
    }
    for config in [plain(), in_group("g")] {
        upsert(&writer, "in", 2048, &config).await.unwrap();
        upsert_end(&writer, "in").await.unwrap();
        assert_eq!(node.look(|state| state.view().groups.len()), 1, "it stays in the group");
    }
}

#[tokio::test]
async fn b16_an_open_grouped_put_may_lose_its_group() {
    let node = TestNode::start(TTL).await;
    let writer = node.owner(1, MIB).await;
    writer.start("k", 1024, &in_group("g")).await.unwrap();
    upsert(&writer, "k", 1024, &plain()).await.unwrap();
    assert_eq!(upsert_end(&writer, "k").await, Ok(()));
}

#[tokio::test]
async fn groups_survive_a_restart() {
    let mut node = TestNode::start(TTL).await;
    let writer = node.owner(1, MIB).await;
    for key in ["a", "b"] {
        writer.put(key, &in_group("g")).await;
    }
    node.restart().await;
    node.pass(1_000);
    let writer = node.caller(1).await;
    writer.replicas("a").await.unwrap();
    assert_eq!(writer.remove("b", false).await, refused(ErrorCode::ObjectHasLease));
}

#[tokio::test]
async fn a_forced_removal_keeps_memory_that_only_the_lease_of_the_group_lets_a_snapshot_bring_back()
{
    let node = TestNode::start(TTL).await;
    let writer = node.owner(1, MIB).await;
    writer.put("a", &in_group("g")).await;
    writer.put("b", &in_group("g")).await;
    node.pass(1_000);
    assert!(writer.replicas("a").await.is_ok(), "leases b as well");
    node.master().begin_snapshot().await.unwrap();
    writer.remove("b", true).await.unwrap();
    assert!(node.look(|state| state.discards().held_bytes()) > 0);
}
