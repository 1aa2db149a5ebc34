//! When an object is hot, and how long it rests.

use mooncake_ha::model::{ErrorCode, Tenant};
use mooncake_ha::wire::calls as c;
use mooncake_ha::wire::requests as r;
use mooncake_ha::wire::types::{TaskAssignment, TaskStatus};

use super::{ENFORCE, MIB, Owned, TENANT, hot, looked_at, refused, scene, told};
use crate::support::node::{Caller, TestNode, until};

fn reserved(node: &TestNode) -> usize {
    node.look(|state| state.dynamic().reserved())
}

/// Reads a key until a copy is wished for, and carries it out.
async fn replicate(a: &Caller, key: &str) {
    a.read(key, 8).await;
    let told = told(&a.next_task().await);
    a.begin(&told).await.unwrap();
    assert_eq!(a.finish(&told).await, Ok(()));
}

#[tokio::test]
async fn the_eighth_read_within_ten_seconds_makes_an_object_hot() {
    let (mut node, _a, b) = scene(&[ENFORCE]).await;
    let pin = node.deadline("k");
    b.read("k", 7).await;
    node.pass(10_000);
    b.read("k", 7).await;
    assert_eq!(hot(&node), 0, "two windows");
    b.read("k", 1).await;
    assert_eq!(hot(&node), 1);
    until("it is reserved", async || reserved(&node) == 1).await;
    node.restart().await;
    let (a, b) = (node.caller(1).await, node.caller(2).await);
    let task = a.next_task().await;
    let told = told(&task);
    assert_eq!((told.key.as_str(), told.source.as_str()), ("k", "s1"));
    assert_eq!((told.targets.clone(), b.tasks().await), (vec!["s2".to_owned()], Vec::new()));
    a.begin(&told).await.unwrap();
    node.restart().await;
    let a = node.caller(1).await;
    assert_eq!(a.finish(&told).await, Ok(()));
    assert_eq!(a.lies("k").await, ["s1", "s2"]);
    assert_eq!(node.deadline("k"), pin, "no pin is moved");
    node.assert_sound();
}

#[tokio::test]
async fn an_object_with_as_many_replicas_as_it_may_have_is_never_hot() {
    let (node, a, _b) = scene(&[ENFORCE]).await;
    replicate(&a, "k").await;
    node.pass(60_000);
    a.read("k", 20).await;
    assert_eq!(hot(&node), 1);
}

#[tokio::test]
async fn batches_count_and_what_does_not_read_does_not() {
    let (node, a, _b) = scene(&[ENFORCE]).await;
    let request = r::KeysRequest { keys: vec![b"k".as_slice(), b"absent"], tenant_id: TENANT };
    for _ in 0..7 {
        a.call::<c::BatchGetReplicaList>(&request).await;
    }
    for _ in 0..20 {
        assert!(a.exists("k").await);
        assert!(a.replicas("absent").await.is_err());
    }
    assert_eq!(hot(&node), 0);
    a.call::<c::BatchGetReplicaList>(&request).await;
    assert_eq!(hot(&node), 1);
}

#[tokio::test]
async fn the_flags_say_what_is_hot_and_how_many_replicas_there_may_be() {
    let flags = [
        ENFORCE,
        "--dynamic_replication_heat_window_seconds=2",
        "--dynamic_replication_admission_qps_threshold=1.25",
        "--dynamic_replication_max_memory_replicas=3",
    ];
    let (node, a, _b) = scene(&flags).await;
    node.owner(3, MIB).await;
    a.read("k", 2).await;
    node.pass(2_000);
    a.read("k", 2).await;
    assert_eq!(hot(&node), 0);
    for replicas in [2, 3] {
        a.read("k", 3).await;
        let told = told(&a.next_task_of_any(&node).await);
        let owner = node.caller(u64::from(told.source.as_bytes()[1] - b'0')).await;
        owner.begin(&told).await.unwrap();
        assert_eq!(owner.finish(&told).await, Ok(()));
        assert_eq!(a.lies("k").await.len(), replicas);
        node.pass(60_000);
    }
}

impl Caller {
    /// The next task of any of the clients 1 to 3.
    async fn next_task_of_any(&self, node: &TestNode) -> TaskAssignment<Owned> {
        let mut found = None;
        until("there is a task", async || {
            for n in 1..=3 {
                let tasks = node.caller(n).await.tasks().await;
                found = found.take().or(tasks.into_iter().next());
            }
            found.is_some()
        })
        .await;
        found.unwrap()
    }
}

#[tokio::test]
async fn observing_says_what_is_hot_and_does_nothing() {
    let (node, a, _b) = scene(&["--dynamic_replication_mode=observe"]).await;
    a.read("k", 8).await;
    looked_at(&node, 1).await;
    assert_eq!((hot(&node), reserved(&node)), (1, 0));
    assert_eq!(a.tasks().await, []);
}

#[tokio::test]
async fn by_default_no_read_is_counted() {
    let (node, a, _b) = scene(&[]).await;
    a.read("k", 50).await;
    assert_eq!(hot(&node), 0);
}

#[tokio::test]
async fn a_reservation_expires_after_30_s_and_its_task_fails() {
    let (node, a, _b) = scene(&[ENFORCE]).await;
    a.read("k", 8).await;
    until("it is reserved", async || reserved(&node) == 1).await;
    let id = node.look(|state| state.dynamic().reservations().next().unwrap().task);
    node.pass(30_000);
    until("it has expired", async || reserved(&node) == 0).await;
    let task = a.call::<c::QueryTask>(&id).await.unwrap();
    assert_eq!(
        (task.status, &*task.message),
        (TaskStatus::FAILED, b"dynamic replica lease expired".as_slice())
    );
    assert_eq!(a.tasks().await, []);
    replicate(&a, "k").await;
}

#[tokio::test]
async fn an_object_rests_half_a_minute_after_a_copy_and_a_minute_after_the_loss_of_one() {
    let (node, a, _b) = scene(&[ENFORCE]).await;
    a.read("k", 8).await;
    let first = told(&a.next_task().await);
    a.begin(&first).await.unwrap();
    assert_eq!(a.give_up(&first).await, Ok(()));
    node.pass(29_900);
    a.read("k", 8).await;
    looked_at(&node, 2).await;
    assert_eq!(a.tasks().await, [], "it rests");
    node.pass(10_000);
    replicate(&a, "k").await;
    // Read leases are over, and the copy may be cleared.
    node.pass(30_000);
    let request = r::BatchReplicaClearRequest {
        object_keys: vec![b"k".as_slice()],
        client_id: a.id,
        segment_name: b"s2",
    };
    assert_eq!(a.call::<c::BatchReplicaClear>(&request).await.unwrap().len(), 1);
    node.pass(50_000);
    let looked = hot(&node);
    a.read("k", 8).await;
    looked_at(&node, looked + 1).await;
    assert_eq!(a.tasks().await, [], "it rests longer");
    node.pass(10_000);
    replicate(&a, "k").await;
    node.assert_sound();
}

#[tokio::test]
async fn an_object_that_is_removed_and_written_again_does_not_rest() {
    let (node, a, _b) = scene(&[ENFORCE]).await;
    replicate(&a, "k").await;
    node.pass(11_000);
    assert_eq!(a.remove("k", true).await, Ok(()));
    a.put_on_s1("k").await;
    replicate(&a, "k").await;
}

#[tokio::test]
async fn an_object_that_is_being_written_or_copied_is_left_alone() {
    let (node, a, _b) = scene(&[ENFORCE]).await;
    let request = r::CopyStartRequest {
        client_id: a.id,
        key: b"k".as_slice(),
        tenant_id: TENANT,
        src_segment: b"s1",
        tgt_segments: vec![b"s2".as_slice()],
    };
    a.call::<c::CopyStart>(&request).await.unwrap();
    a.read("k", 8).await;
    looked_at(&node, 1).await;
    assert_eq!((reserved(&node), a.tasks().await), (0, Vec::new()));
}

#[tokio::test]
async fn a_further_replica_without_quota_was_not_counted_as_refused() {
    let node = TestNode::start(&[ENFORCE, "--enable_multi_tenants"]).await;
    until("the log knows of tenants", async || node.look(|state| state.quotas().is_enforced()))
        .await;
    node.master().set_policy(&Tenant::default(), 1500).await.unwrap().unwrap();
    let (a, _b) = (node.owner(1, MIB).await, node.owner(2, MIB).await);
    a.put_on_s1("k").await;
    a.read("k", 8).await;
    let told = told(&a.next_task().await);
    let started = a.begin(&told).await.map(|_| ());
    assert_eq!(started, refused(ErrorCode::TenantQuotaExceeded));
    let counts = node.master().quota_counts();
    assert_eq!(counts.get(&Tenant::default()).map(|counts| counts.rejected), Some(1));
}
