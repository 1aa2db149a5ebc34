//! H12 to H16 and the limits and timeouts of tasks.

use std::sync::atomic::Ordering;

use mooncake_ha::model::ErrorCode as E;
use mooncake_ha::wire::types::{ReplicateConfig, TaskStatus, TaskType};

use super::{refused, start, unknown_task};
use crate::support::node::{Caller, TestNode, plain, until};

const MIB: u64 = 1 << 20;

/// A node and two clients with a segment each; key `k` lies on `s1`.
async fn scene(flags: &[&str]) -> (TestNode, Caller, Caller) {
    let node = start(flags).await;
    let (a, b) = (node.owner(1, MIB).await, node.owner(2, MIB).await);
    a.put("k", &ReplicateConfig { preferred_segments: vec![b"s1".as_slice()], ..plain() }).await;
    (node, a, b)
}

#[tokio::test]
async fn h12_h14_a_task_is_for_the_owner_of_the_source() {
    let (node, a, b) = scene(&[]).await;
    let copy = b.copy_task("k", &["s2"]).await.unwrap();
    let moving = b.move_task("k", "s1", "s2").await.unwrap();
    for (task, kind) in [(copy, TaskType::REPLICA_COPY), (moving, TaskType::REPLICA_MOVE)] {
        let told = b.query(task).await.unwrap();
        assert_eq!((told.id, told.r#type, told.assigned_client), (task, kind, a.id));
        assert_eq!((told.status, &*told.message), (TaskStatus::PENDING, b"".as_slice()));
        assert_eq!(told.created_at_ms_epoch, i64::try_from(node.now()).unwrap());
    }
    assert_eq!(b.query(unknown_task()).await.unwrap_err(), E::TaskNotFound);
}

#[tokio::test]
async fn h13_tasks_that_cannot_work_are_refused() {
    let (_node, a, _b) = scene(&[]).await;
    assert_eq!(a.copy_task("k", &[]).await, refused(E::InvalidParams));
    assert_eq!(a.copy_task("absent", &["s2"]).await, refused(E::ObjectNotFound));
    assert_eq!(a.copy_task("k", &["nowhere"]).await, refused(E::InvalidParams));
    assert_eq!(a.move_task("absent", "s1", "s2").await, refused(E::ObjectNotFound));
    assert_eq!(a.move_task("k", "s1", "s1").await, refused(E::InvalidParams));
    assert_eq!(a.move_task("k", "s1", "nowhere").await, refused(E::InvalidParams));
    assert_eq!(a.move_task("k", "s2", "s1").await, refused(E::InvalidParams));
}

#[tokio::test]
async fn h15_a_fetch_hands_each_task_out_once_and_an_empty_one_makes_no_entry() {
    let (node, a, b) = scene(&[]).await;
    let first = a.copy_task("k", &["s2"]).await.unwrap();
    let second = a.move_task("k", "s1", "s2").await.unwrap();
    let proposed = || node.master().propose_stats().entries.load(Ordering::Relaxed);
    let before = proposed();
    assert_eq!(b.fetch(16).await, []);
    assert_eq!(proposed(), before);
    let one = a.fetch(1).await;
    assert_eq!((one.len(), one[0].id, one[0].max_retry_attempts), (1, first, 10));
    let payload = r#"{"tenant_id":"default","key":"k","source":"s1","targets":["s2"],"#.to_owned()
        + r#""dynamic_replication_lease_id_high":0,"dynamic_replication_lease_id_low":0,"#
        + r#""dynamic_replication_version_epoch":0}"#;
    assert_eq!(String::from_utf8_lossy(&one[0].payload), payload);
    let rest = a.fetch(16).await;
    assert_eq!((rest.len(), rest[0].id), (1, second));
    let payload = r#"{"tenant_id":"default","key":"k","source":"s1","target":"s2"}"#;
    assert_eq!(String::from_utf8_lossy(&rest[0].payload), payload);
    assert_eq!(a.fetch(16).await, []);
    assert_eq!(a.query(second).await.unwrap().status, TaskStatus::PROCESSING);
}

#[tokio::test]
async fn h16_a_task_is_completed_by_its_client() {
    let (mut node, a, b) = scene(&[]).await;
    let task = a.copy_task("k", &["s2"]).await.unwrap();
    a.fetch(16).await;
    assert_eq!(b.complete(task, TaskStatus::SUCCESS, "").await, refused(E::IllegalClient));
    assert_eq!(a.complete(unknown_task(), TaskStatus::SUCCESS, "").await, refused(E::TaskNotFound));
    assert_eq!(a.complete(task, TaskStatus::PENDING, "").await, refused(E::InvalidParams));
    assert_eq!(a.complete(task, TaskStatus::SUCCESS, "it worked").await, Ok(()));
    assert_eq!(a.complete(task, TaskStatus::FAILED, "no").await, Ok(()));
    drop((a, b));
    node.restart().await;
    let told = node.caller(1).await.query(task).await.unwrap();
    assert_eq!((told.status, &*told.message), (TaskStatus::SUCCESS, b"it worked".as_slice()));
}

#[tokio::test]
async fn edge_10_the_limit_of_waiting_tasks_counts_those_that_wait() {
    let (_node, a, _b) = scene(&["--max_total_pending_tasks=3"]).await;
    let mut tasks = Vec::new();
    for _ in 0..3 {
        tasks.push(a.copy_task("k", &["s2"]).await.unwrap());
    }
    assert_eq!(a.copy_task("k", &["s2"]).await, refused(E::TaskPendingLimitExceeded));
    a.complete(tasks[1], TaskStatus::FAILED, "never started").await.unwrap();
    a.copy_task("k", &["s2"]).await.unwrap();
    assert_eq!(a.copy_task("k", &["s2"]).await, refused(E::TaskPendingLimitExceeded));
    assert_eq!(a.fetch(16).await.len(), 3);
    a.copy_task("k", &["s2"]).await.unwrap();
}

#[tokio::test]
async fn tasks_fail_in_time_and_few_finished_ones_are_remembered() {
    let flags = ["--pending_task_timeout_sec=5", "--processing_task_timeout_sec=20"];
    let flags = [flags.as_slice(), &["--max_total_finished_tasks=1"]].concat();
    let (node, a, _b) = scene(&flags).await;
    let running = a.copy_task("k", &["s2"]).await.unwrap();
    a.fetch(16).await;
    let waiting = a.copy_task("k", &["s2"]).await.unwrap();
    node.pass(5_001);
    until("the waiting task fails", async || {
        let told = a.query(waiting).await.unwrap();
        told.status == TaskStatus::FAILED && &*told.message == b"pending timeout"
    })
    .await;
    assert_eq!(a.query(running).await.unwrap().status, TaskStatus::PROCESSING);
    node.pass(15_000);
    until("the running task fails", async || {
        let told = a.query(running).await.unwrap();
        told.status == TaskStatus::FAILED && &*told.message == b"processing timeout"
    })
    .await;
    until("the older one is forgotten", async || {
        a.query(waiting).await.err() == Some(E::TaskNotFound.into())
    })
    .await;
}

#[tokio::test]
async fn tasks_outlive_a_restart_in_their_order() {
    let (mut node, a, b) = scene(&[]).await;
    let mut tasks = Vec::new();
    for _ in 0..5 {
        tasks.push(a.copy_task("k", &["s2"]).await.unwrap());
    }
    drop((a, b));
    node.restart().await;
    let fetched: Vec<_> = node.caller(1).await.fetch(16).await.iter().map(|t| t.id).collect();
    assert_eq!(fetched, tasks);
}
