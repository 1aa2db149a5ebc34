//! SIGKILL at random moments of append, compaction and purge.

use std::collections::BTreeSet;
use std::time::Duration;

use mooncake_ha_raft::Durability;

use crate::child;
use crate::support::{Member, eventually};

async fn kills(rounds: u64, durability: Durability) {
    let dir = tempfile::tempdir().unwrap();
    let (data, acks) = (dir.path().join("data"), dir.path().join("acks"));
    let mut next = 0;
    for round in 0..rounds {
        let mut process = child::start(&data, &acks, next, durability);
        let before = child::acked(&acks).len();
        eventually("the child works", || child::acked(&acks).len() > before + 150).await;
        tokio::time::sleep(Duration::from_millis(round * 37 % 300)).await;
        process.kill().unwrap();
        process.wait().unwrap();
        let acked: BTreeSet<u64> = child::acked(&acks).into_iter().collect();
        let member = Member::open(child::config(&data)).await;
        for number in &acked {
            assert!(member.machine.has(*number), "round {round}: {number} is lost");
        }
        let status = member.node.status();
        assert_eq!(status.log_blobs, 0);
        next = member.machine.state().added.last_key_value().map_or(0, |(last, _)| last + 1);
        member.node.shutdown().await;
    }
    let files: Vec<_> = std::fs::read_dir(data.join("snapshot")).unwrap().collect();
    assert!(!files.is_empty(), "the log was never compacted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_by_sigkill() {
    kills(15, Durability::Sync).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_by_sigkill_without_disk_syncs_either() {
    kills(6, Durability::Async).await;
}
