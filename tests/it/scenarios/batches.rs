//! Scenarios K: batches.

use mooncake_ha::model::ErrorCode;

use crate::support::node::{TestNode, copies, plain};

const MIB: u64 = 1 << 20;

#[tokio::test]
async fn k1_a_batch_answers_each_key_in_order_independent_of_the_others() {
    let node = TestNode::start(&[]).await;
    let writer = node.owner(1, MIB).await;
    writer.put("b", &plain()).await;
    let started = writer.batch_start(&["a", "b", "c"], &[10, 10, 0], &plain()).await;
    assert!(started[0].is_ok());
    assert_eq!(*started[1].as_ref().unwrap_err(), ErrorCode::ObjectAlreadyExists);
    assert_eq!(*started[2].as_ref().unwrap_err(), ErrorCode::InvalidParams);
    let ended = writer.batch_end(&["x", "a", "b"]).await;
    assert_eq!(ended[0].unwrap_err(), ErrorCode::ObjectNotFound);
    assert_eq!(ended[1..], [Ok(()), Ok(())]);
    writer.start("d", 10, &plain()).await.unwrap();
    let revoked = writer.batch_revoke(&["a", "d"]).await;
    assert_eq!(revoked[0].unwrap_err(), ErrorCode::InvalidWrite);
    assert_eq!(revoked[1], Ok(()));
}

#[tokio::test]
async fn batches_of_unequal_length_are_refused_whole_and_empty_ones_are_empty() {
    let node = TestNode::start(&[]).await;
    let writer = node.owner(1, MIB).await;
    let started = writer.batch_start(&["a", "b"], &[10], &plain()).await;
    assert!(started.iter().all(|s| *s.as_ref().unwrap_err() == ErrorCode::InvalidParams));
    assert_eq!(started.len(), 2);
    assert_eq!(writer.batch_start(&[], &[], &plain()).await, []);
    assert_eq!(writer.batch_end(&[]).await, []);
    assert_eq!(writer.batch_revoke(&[]).await, []);
    assert_eq!(writer.batch_exists(&[]).await, []);
    assert_eq!(writer.batch_remove(&[], false).await, []);
    assert_eq!(node.keys(), 0);
}

#[tokio::test]
async fn a_batch_that_breaks_a_rule_for_all_is_refused_for_all() {
    let node = TestNode::start(&[]).await;
    let writer = node.owner(1, MIB).await;
    let started = writer.batch_start(&["a", "b"], &[10, 10], &copies(0)).await;
    assert_eq!(started.len(), 2);
    assert!(started.iter().all(|s| *s.as_ref().unwrap_err() == ErrorCode::InvalidParams));
}

#[tokio::test]
async fn k2_batch_exist_tells_readable_keys_only() {
    let node = TestNode::start(&[]).await;
    let writer = node.owner(1, MIB).await;
    writer.put("a", &plain()).await;
    writer.start("c", 10, &plain()).await.unwrap();
    assert_eq!(writer.batch_exists(&["a", "b", "c"]).await, [Ok(true), Ok(false), Ok(false)]);
}

#[tokio::test]
async fn k3_k4_batch_remove_answers_each_key_and_a_repeated_one_is_gone() {
    let node = TestNode::start(&[]).await;
    let writer = node.owner(1, MIB).await;
    writer.put("k", &plain()).await;
    writer.put("l", &plain()).await;
    let removed = writer.batch_remove(&["x", "l"], false).await;
    assert_eq!(removed[0].unwrap_err(), ErrorCode::ObjectNotFound);
    assert_eq!(removed[1], Ok(()));
    let removed = writer.batch_remove(&["k", "k", "k"], false).await;
    assert_eq!(removed[0], Ok(()));
    assert!(removed[1..].iter().all(|r| r.unwrap_err() == ErrorCode::ObjectNotFound));
}

#[tokio::test]
async fn k5_batch_remove_respects_leases_unless_forced() {
    let node = TestNode::start(&[]).await;
    let writer = node.owner(1, MIB).await;
    for key in ["a", "b"] {
        writer.put(key, &plain()).await;
    }
    writer.batch_exists(&["a", "b"]).await;
    let removed = writer.batch_remove(&["a", "b"], false).await;
    assert!(removed.iter().all(|r| r.unwrap_err() == ErrorCode::ObjectHasLease));
    assert_eq!(writer.batch_remove(&["a", "b"], true).await, [Ok(()), Ok(())]);
}

#[tokio::test]
async fn k6_a_thousand_keys_are_put_and_removed_in_batches_in_order() {
    let node = TestNode::start(&[]).await;
    let writer = node.owner(1, 8 * MIB).await;
    let names: Vec<String> = (0..1_000).map(|n| format!("k{n}")).collect();
    let keys: Vec<&str> = names.iter().map(String::as_str).collect();
    let started = writer.batch_start(&keys, &[10; 1_000], &plain()).await;
    assert!(started.iter().all(Result::is_ok));
    assert!(writer.batch_end(&keys).await.iter().all(Result::is_ok));
    assert!(writer.batch_exists(&keys).await.iter().all(|found| *found == Ok(true)));
    let removed = writer.batch_remove(&keys, true).await;
    assert_eq!((removed.len(), removed.iter().filter(|r| r.is_ok()).count()), (1_000, 1_000));
    node.assert_sound();
}

#[tokio::test]
async fn k7_keys_are_any_text() {
    let node = TestNode::start(&[]).await;
    let writer = node.owner(1, MIB).await;
    let keys = ["a b", "a/b", "a.b", "\u{e9}\u{4e16}", "a:b", "a\u{0}b", "\n"];
    for key in keys {
        writer.put(key, &plain()).await;
    }
    assert!(writer.batch_exists(&keys).await.iter().all(|found| *found == Ok(true)));
    assert!(writer.batch_remove(&keys, true).await.iter().all(Result::is_ok));
}

#[tokio::test]
async fn k8_only_the_key_without_room_fails() {
    let node = TestNode::start(&[]).await;
    let writer = node.owner(1, MIB).await;
    let started = writer.batch_start(&["a", "b", "c"], &[10, 2 * MIB, 10], &plain()).await;
    assert_eq!(*started[1].as_ref().unwrap_err(), ErrorCode::NoAvailableHandle);
    assert!(started[0].is_ok() && started[2].is_ok());
}

#[tokio::test]
async fn of_a_key_named_twice_the_second_start_finds_the_first() {
    let node = TestNode::start(&[]).await;
    let writer = node.owner(1, MIB).await;
    let started = writer.batch_start(&["k", "k"], &[10, 10], &plain()).await;
    assert!(started[0].is_ok());
    assert_eq!(*started[1].as_ref().unwrap_err(), ErrorCode::ObjectAlreadyExists);
}
