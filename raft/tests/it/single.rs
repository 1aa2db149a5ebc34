//! One node: restart, compaction, refusals, damage.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mooncake_ha_raft::{Durability, OpenError, ProposeError, Role};

use crate::support::{Member, PANIC, add, eventually, single};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_node_leads_within_a_second_and_answers_reads() {
    let dir = tempfile::tempdir().unwrap();
    let start = Instant::now();
    let member = Member::open(single(dir.path())).await;
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert!(member.node.watch_role().borrow().is_ready_leader());
    assert!(member.node.read_lease().is_some());
    member.add(7).await;
    assert!(member.machine.has(7));
    let lease = member.node.read_barrier().await.unwrap();
    assert_eq!(lease.term(), member.node.status().term);
    member.node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_finds_everything_that_was_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let mut term = 0;
    for round in 0..4_u64 {
        let member = Member::open(single(dir.path())).await;
        assert_eq!(member.machine.len() as u64, round * 50);
        assert!(member.node.status().term > term, "a restart is a new term");
        term = member.node.status().term;
        for number in round * 50..(round + 1) * 50 {
            member.add(number).await;
        }
        member.node.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_decided_in_another_term_is_refused_where_it_would_be_appended() {
    let dir = tempfile::tempdir().unwrap();
    let member = Member::open(single(dir.path())).await;
    member.add(1).await;
    let term = member.node.status().term;
    for other in [term - 1, term + 1] {
        let refused = member.node.propose_in(other, add(2, 0)).await;
        assert!(matches!(refused, Err(ProposeError::NotLeader { .. })), "{refused:?}");
    }
    member.node.propose_in(term, add(3, 0)).await.unwrap();
    assert!(member.machine.has(3));
    member.node.shutdown().await;
    let member = Member::open(single(dir.path())).await;
    assert!(member.machine.has(1) && !member.machine.has(2) && member.machine.has(3));
    let past = member.node.propose_in(term, add(4, 0)).await;
    assert!(matches!(past, Err(ProposeError::NotLeader { .. })), "{past:?}");
    member.node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_proposers_share_flushes_and_all_are_answered() {
    let dir = tempfile::tempdir().unwrap();
    let member = Arc::new(Member::open(single(dir.path())).await);
    let tasks: Vec<_> = (0..64_u64)
        .map(|task| {
            let member = Arc::clone(&member);
            tokio::spawn(async move {
                for number in 0..50 {
                    member.add(task * 50 + number).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(member.machine.len(), 64 * 50);
    let status = member.node.status();
    assert_eq!(status.log_blobs, 0);
    assert!(status.log.committed >= status.log.applied);
    member.node.clone().shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_of_every_size_survive_and_one_too_large_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let sizes = [0, 1, 6_000, 6_200, 100_000, 1 << 20, 5 << 20];
    let member = Member::open(single(dir.path())).await;
    for (number, size) in (0..).zip(sizes) {
        member.node.propose(add(number, size)).await.unwrap();
    }
    let too_large = member.node.propose(add(99, 17 << 20)).await.unwrap_err();
    assert!(matches!(too_large, ProposeError::TooLarge { .. }));
    assert_eq!(member.node.status().log_blobs, 0);
    let want = member.machine.state();
    member.node.shutdown().await;
    let member = Member::open(single(dir.path())).await;
    assert_eq!(member.machine.state(), want);
    member.node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_is_compacted_and_a_restart_uses_the_raft_snapshot() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = single(dir.path());
    config.snapshot_log_bytes = 512 << 10;
    config.log_keep_bytes = 256 << 10;
    config.log_cache_bytes = 64 << 10;
    let member = Member::open(config.clone()).await;
    for number in 0..3000 {
        member.node.propose(add(number, 1000)).await.unwrap();
    }
    let node = member.node.clone();
    eventually("the log is purged", || node.status().log.purged > Some(100)).await;
    let status = member.node.status();
    let log = status.log;
    assert!(log.purged <= log.snapshot && log.snapshot <= log.applied, "{log:?}");
    assert!(log.applied <= log.committed && log.committed <= log.last, "{log:?}");
    assert!(status.snapshot_bytes > 0 && status.snapshot_error.is_none());
    let want = member.machine.state();
    // On a slow machine the next one may be half written; after this one there is nothing to write.
    node.trigger_snapshot().await.unwrap();
    drop(node);
    member.node.shutdown().await;
    let files = std::fs::read_dir(dir.path().join("snapshot")).unwrap().count();
    assert_eq!(files, 1, "one raft snapshot is kept");
    let member = Member::open(config).await;
    assert_eq!(member.machine.state(), want);
    member.node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_raft_snapshot_can_be_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let member = Member::open(single(dir.path())).await;
    member.add(1).await;
    let reached = member.node.trigger_snapshot().await.unwrap();
    assert_eq!(reached, member.node.status().log.applied);
    assert_eq!(member.node.trigger_snapshot().await.unwrap(), reached, "again: the same");
    member.add(2).await;
    let want = member.machine.state();
    member.node.shutdown().await;
    let member = Member::open(single(dir.path())).await;
    assert_eq!(member.machine.state(), want);
    member.node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_that_the_machine_cannot_read_stops_the_node() {
    let dir = tempfile::tempdir().unwrap();
    let member = Member::open(single(dir.path())).await;
    let mut fatal = member.node.watch_fatal();
    let outcome = member.node.propose(bytes::Bytes::from_static(b"bad")).await.unwrap_err();
    assert!(matches!(outcome, ProposeError::OutcomeUnknown(_)), "{outcome}");
    let reason = fatal.wait_for(Option::is_some).await.unwrap().clone().unwrap();
    assert!(reason.contains("cannot be applied: 3 bytes"), "{reason}");
    assert_eq!(member.node.propose(add(1, 0)).await.unwrap_err(), ProposeError::Stopped);
    let node = member.node.clone();
    eventually("the role is given up", || {
        matches!(*node.watch_role().borrow(), Role::Follower { .. })
    })
    .await;
    assert!(member.node.read_lease().is_none());
    drop(node);
    member.node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_in_the_machine_stops_the_node_with_its_text() {
    let dir = tempfile::tempdir().unwrap();
    let member = Member::open(single(dir.path())).await;
    let mut fatal = member.node.watch_fatal();
    let outcome = member.node.propose(add(PANIC, 0)).await.unwrap_err();
    assert!(matches!(outcome, ProposeError::OutcomeUnknown(_)), "{outcome}");
    let reason = fatal.wait_for(Option::is_some).await.unwrap().clone().unwrap();
    assert!(reason.contains("asked to panic"), "{reason}");
    member.node.shutdown().await;
    // A sole voter meets the entry again: it says so instead of serving a state without it.
    let error = Member::try_open(single(dir.path())).await.err().unwrap();
    assert!(error.to_string().contains("asked to panic"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_shutdown_everything_is_refused_and_the_directory_is_free() {
    let dir = tempfile::tempdir().unwrap();
    let member = Member::open(single(dir.path())).await;
    let other = member.node.clone();
    member.node.shutdown().await;
    assert!(other.propose(add(1, 0)).await.is_err());
    assert!(other.read_lease().is_none());
    assert!(other.read_barrier().await.is_err());
    assert!(other.trigger_snapshot().await.is_err());
    Member::open(single(dir.path())).await.node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_in_use_is_refused_with_the_holder() {
    let dir = tempfile::tempdir().unwrap();
    let member = Member::open(single(dir.path())).await;
    let error = Member::try_open(single(dir.path())).await.err().unwrap();
    assert!(matches!(error, OpenError::InUse { .. }), "{error}");
    assert!(error.to_string().contains(&format!("process {}", std::process::id())));
    member.node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn async_durability_survives_a_restart_too() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = single(dir.path());
    config.durability = Durability::Async;
    let member = Member::open(config.clone()).await;
    for number in 0..200 {
        member.add(number).await;
    }
    member.node.shutdown().await;
    let member = Member::open(config).await;
    assert_eq!(member.machine.len(), 200);
    member.node.shutdown().await;
}
