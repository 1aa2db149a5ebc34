//! Scenarios C over the real wire, and the edge cases of behaviour 3.10 that a client of this part can reach.
//!
//! `docs/soft-pin.md` leads from each clause of the RFC to these tests. The state's own stories are in
//! `src/state/tests/soft_pin.rs`; here are the request rules, the sweep by the worker, and reads.

mod edges;

use mooncake_ha::model::ErrorCode;
use mooncake_ha::model::time::INSTANT_MS_MAX;
use mooncake_ha::wire::types::{ReplicaType, ReplicateConfig, SoftPinAction};

use crate::support::node::{TestNode, copies, pinned, plain, segment, until};

const MIB: u64 = 1 << 20;
const DAY_MS: u64 = 86_400_000;

/// A request that may break a rule.
fn asking(action: u8, ttl_ms: Option<u64>) -> ReplicateConfig<&'static [u8]> {
    let soft_pin_action = SoftPinAction(action);
    ReplicateConfig { soft_pin_action, soft_pin_ttl_ms: ttl_ms, ..plain() }
}

#[tokio::test]
async fn c1_a_ttl_on_anything_but_enable_is_refused_and_so_is_an_unknown_action() {
    let node = TestNode::start(&[]).await;
    let writer = node.owner(1, MIB).await;
    for (action, ttl_ms) in [(0, Some(5)), (0, Some(0)), (2, Some(5)), (3, None), (255, Some(1))] {
        let started = writer.start("k", 10, &asking(action, ttl_ms)).await;
        assert_eq!(started.unwrap_err(), ErrorCode::InvalidParams, "{action} {ttl_ms:?}");
    }
    assert_eq!((node.keys(), node.pins()), (0, 0));
    for action in [0, 1, 2] {
        writer.put(&format!("k{action}"), &asking(action, None)).await;
    }
    assert_eq!(node.pins(), 1);
}

#[tokio::test]
async fn case_03_the_greatest_ttl_is_accepted_and_one_more_is_refused() {
    let node = TestNode::start(&[]).await;
    let writer = node.owner(1, MIB).await;
    writer.put("max", &pinned(Some(DAY_MS))).await;
    assert_eq!(node.deadline("max"), Some(node.now() + DAY_MS));
    let over = writer.start("over", 10, &pinned(Some(DAY_MS + 1))).await;
    assert_eq!(over.unwrap_err(), ErrorCode::InvalidParams);
}

#[tokio::test]
async fn c7_the_greatest_ttl_of_all_saturates() {
    let node = TestNode::start(&["--max_kv_soft_pin_ttl=18446744073709551615"]).await;
    let writer = node.owner(1, MIB).await;
    writer.put("k", &pinned(Some(u64::MAX))).await;
    assert_eq!(node.deadline("k"), Some(INSTANT_MS_MAX));
    node.pass(365 * DAY_MS);
    assert!(writer.exists("k").await);
    assert_eq!(node.pins(), 1);
}

#[tokio::test]
async fn case_02_a_default_ttl_of_0_makes_a_plain_enable_ordinary() {
    let node = TestNode::start(&["--default_kv_soft_pin_ttl=0"]).await;
    let writer = node.owner(1, MIB).await;
    writer.put("plain", &pinned(None)).await;
    assert_eq!(node.pins(), 0);
    writer.put("ttl", &pinned(Some(5))).await;
    assert_eq!(node.pins(), 1);
}

#[tokio::test]
async fn an_enable_without_a_ttl_takes_the_masters_default() {
    let node = TestNode::start(&["--default_kv_soft_pin_ttl=77s"]).await;
    let writer = node.owner(1, MIB).await;
    writer.put("k", &pinned(None)).await;
    assert_eq!(node.deadline("k"), Some(node.now() + 77_000));
}

#[tokio::test]
async fn case_04_an_invalid_request_does_not_touch_a_running_write() {
    let flags = ["--put_start_discard_timeout_sec=1", "--client_ttl=3600"];
    let node = TestNode::start(&flags).await;
    let writer = node.owner(1, MIB).await;
    writer.start("k", 10, &pinned(Some(50))).await.unwrap();
    node.pass(5_000);
    let refused = writer.start("k", 10, &asking(0, Some(1))).await;
    assert_eq!(refused.unwrap_err(), ErrorCode::InvalidParams);
    assert_eq!(writer.end("k").await, Ok(()), "a valid one would have replaced it by now");
    assert_eq!(node.pins(), 1);
}

#[tokio::test]
async fn in_a_batch_an_invalid_pin_is_refused_for_every_key() {
    let node = TestNode::start(&[]).await;
    let writer = node.owner(1, MIB).await;
    let started = writer.batch_start(&["a", "b"], &[10, 10], &asking(2, Some(1))).await;
    assert!(started.iter().all(|s| *s.as_ref().unwrap_err() == ErrorCode::InvalidParams));
    assert_eq!(node.keys(), 0);
}

#[tokio::test]
async fn c5_case_01_enable_with_ttl_0_is_ordinary_cache() {
    let node = TestNode::start(&[]).await;
    let writer = node.owner(1, MIB).await;
    writer.put("k", &pinned(Some(0))).await;
    assert!(writer.exists("k").await);
    assert_eq!((node.deadline("k"), node.pins()), (None, 0));
}

#[tokio::test]
async fn c8_case_05_the_gauge_moves_at_the_end_and_the_deadline_counts_from_it() {
    let node = TestNode::start(&[]).await;
    let writer = node.owner(1, MIB).await;
    writer.start("k", 10, &pinned(Some(5_000))).await.unwrap();
    node.pass(1_000);
    assert_eq!(node.pins(), 0);
    writer.end("k").await.unwrap();
    assert_eq!((node.pins(), node.deadline("k")), (1, Some(node.now() + 5_000)));
}

#[tokio::test]
async fn c11_case_06_a_second_end_does_not_move_the_deadline() {
    let node = TestNode::start(&[]).await;
    let writer = node.owner(1, MIB).await;
    writer.put("k", &pinned(Some(5_000))).await;
    let deadline = node.deadline("k");
    node.pass(4_900);
    writer.end("k").await.unwrap();
    writer.end_with("k", ReplicaType::MEMORY, None).await.unwrap();
    assert_eq!(node.deadline("k"), deadline);
    node.pass(100);
    until("the pin ends at the first deadline", async || node.pins() == 0).await;
}

#[tokio::test]
async fn case_09_a_revoked_put_commits_nothing() {
    let node = TestNode::start(&[]).await;
    let writer = node.owner(1, MIB).await;
    writer.start("k", 10, &pinned(Some(5_000))).await.unwrap();
    writer.revoke("k", ReplicaType::ALL).await.unwrap();
    assert_eq!((node.keys(), node.pins()), (0, 0));
}

#[tokio::test]
async fn c15_pins_end_one_by_one_at_their_own_deadlines() {
    let node = TestNode::start(&[]).await;
    let writer = node.owner(1, MIB).await;
    writer.put("a", &pinned(Some(1_000))).await;
    writer.put("b", &pinned(Some(2_000))).await;
    writer.put("sooner", &pinned(Some(999))).await;
    node.pass(999);
    until("the sweeper has looked", async || node.deadline("sooner").is_none()).await;
    assert_eq!(node.pins(), 2);
    node.pass(1);
    until("the first ends", async || node.pins() == 1).await;
    assert_eq!(node.deadline("b"), Some(node.now() + 1_000));
    node.pass(1_000);
    until("the second ends", async || node.pins() == 0).await;
    assert!(writer.exists("a").await && writer.exists("b").await);
}

#[tokio::test]
async fn case_16_a_put_that_replaces_a_zombie_starts_anew() {
    let flags = ["--put_start_discard_timeout_sec=1", "--client_ttl=3600"];
    let node = TestNode::start(&flags).await;
    let writer = node.owner(1, MIB).await;
    writer.start("k", 10, &pinned(Some(50_000))).await.unwrap();
    node.pass(1_001);
    writer.put("k", &plain()).await;
    assert_eq!((node.deadline("k"), node.pins()), (None, 0));
}

#[tokio::test]
async fn c28_case_20_reads_neither_extend_nor_revive_a_pin() {
    let node = TestNode::start(&[]).await;
    let writer = node.owner(1, MIB).await;
    writer.put("k", &pinned(Some(1_000))).await;
    let deadline = node.deadline("k");
    for _ in 0..9 {
        node.pass(100);
        assert!(writer.exists("k").await);
        writer.replicas("k").await.unwrap();
        writer.batch_exists(&["k", "k"]).await;
        assert_eq!(node.deadline("k"), deadline);
    }
    node.pass(100);
    until("the pin ends", async || node.pins() == 0).await;
    writer.replicas("k").await.unwrap();
    assert_eq!(node.deadline("k"), None);
}

#[tokio::test]
async fn reads_make_no_log_entry() {
    let node = TestNode::start(&[]).await;
    let writer = node.owner(1, MIB).await;
    writer.put("k", &pinned(Some(50_000))).await;
    let clock = node.look(|state| state.clock());
    node.pass(10_000);
    writer.replicas("k").await.unwrap();
    assert!(writer.exists("k").await);
    assert_eq!(node.look(|state| state.clock()), clock, "nothing was due, so nothing was written");
}

#[tokio::test]
async fn c25_case_29_pinned_keys_are_removed_by_every_call() {
    let node = TestNode::start(&[]).await;
    let writer = node.owner(1, MIB).await;
    for key in ["a", "b", "c", "d"] {
        writer.put(key, &pinned(Some(60_000))).await;
    }
    assert_eq!(node.pins(), 4);
    writer.remove("a", false).await.unwrap();
    assert_eq!(node.pins(), 3);
    assert_eq!(writer.batch_remove(&["b"], false).await, [Ok(())]);
    assert_eq!(node.pins(), 2);
    assert_eq!(writer.remove_all(false).await, 2);
    assert_eq!(node.pins(), 0);
    node.assert_sound();
}

#[tokio::test]
async fn case_22_case_23_a_key_pinned_anew_is_not_ended_by_its_old_registration() {
    let node = TestNode::start(&[]).await;
    let writer = node.owner(1, MIB).await;
    writer.put("k", &pinned(Some(1_000))).await;
    writer.remove("k", false).await.unwrap();
    writer.put("k", &pinned(Some(5_000))).await;
    let deadline = node.deadline("k");
    writer.put("due", &pinned(Some(1_000))).await;
    node.pass(1_000);
    until("the other one ends", async || node.deadline("due").is_none()).await;
    assert_eq!((node.deadline("k"), node.pins()), (deadline, 1));
    writer.remove("k", false).await.unwrap();
    writer.put("k", &pinned(Some(100))).await;
    node.pass(100);
    until("the shorter pin ends first", async || node.pins() == 0).await;
}

#[tokio::test]
async fn case_28_a_hard_and_soft_pinned_key_is_counted_and_expires() {
    let node = TestNode::start(&[]).await;
    let writer = node.owner(1, MIB).await;
    let both = ReplicateConfig { with_hard_pin: true, ..pinned(Some(500)) };
    writer.put("k", &both).await;
    assert_eq!(node.pins(), 1);
    node.pass(500);
    until("the soft pin ends", async || node.pins() == 0).await;
    assert!(writer.exists("k").await);
}

#[tokio::test]
async fn case_31_open_keys_are_keys_and_only_committed_pins_are_pins() {
    let node = TestNode::start(&[]).await;
    let writer = node.owner(1, MIB).await;
    writer.start("open", 10, &pinned(Some(5_000))).await.unwrap();
    writer.put("done", &pinned(Some(5_000))).await;
    assert_eq!((node.keys(), node.pins()), (2, 1));
}

#[tokio::test]
async fn an_unmount_takes_the_pins_of_its_objects_along() {
    let node = TestNode::start(&[]).await;
    let writer = node.owner(1, MIB).await;
    node.caller(2).await.mount(&segment(2, "s2", MIB)).await.unwrap();
    let both = ReplicateConfig { replica_num: 2, ..pinned(Some(9_000)) };
    writer.put("both", &both).await;
    let there = ReplicateConfig { preferred_segment: b"s1".as_slice(), ..pinned(Some(9_000)) };
    writer.put("one", &there).await;
    assert_eq!(node.pins(), 2);
    let deadline = node.deadline("both");
    writer.unmount(1).await.unwrap();
    until("the lost key's pin is gone", async || node.pins() == 1).await;
    assert_eq!(node.deadline("both"), deadline);
    node.assert_sound();
}

#[tokio::test]
async fn a_pin_commits_once_for_all_copies() {
    let node = TestNode::start(&[]).await;
    let writer = node.owner(1, MIB).await;
    node.owner(2, MIB).await;
    let two = ReplicateConfig { soft_pin_action: SoftPinAction::ENABLE, ..copies(2) };
    writer.put("k", &two).await;
    assert_eq!(node.pins(), 1);
}

#[tokio::test]
async fn many_pins_of_one_instant_are_ended_by_the_worker() {
    let node = TestNode::start(&[]).await;
    let writer = node.owner(1, 8 * MIB).await;
    let names: Vec<String> = (0..3_000).map(|n| format!("k{n}")).collect();
    let keys: Vec<&str> = names.iter().map(String::as_str).collect();
    writer.batch_start(&keys, &[100; 3_000], &pinned(Some(1_000))).await;
    writer.batch_end(&keys).await;
    assert_eq!(node.pins(), 3_000);
    node.pass(1_000);
    until("all end", async || node.pins() == 0).await;
    assert_eq!(node.keys(), 3_000);
    node.assert_sound();
}
