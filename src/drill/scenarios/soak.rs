//! Hours in minutes: a fault every few seconds under a load that goes on, and nothing may grow.
//!
//! The first node is paused and deposed but never ended, so that what its process uses can be followed from the
//! begin to the end.

use std::time::Duration;

use super::{CALM, Stage, round};
use crate::drill::finding::Kind;
use crate::drill::usage::{Course, LOOKS_MIN, Usage};

/// A round, waits for nodes that catch up not counted.
const ROUND: Duration = Duration::from_secs(8);
/// Longer than the leader's lease and an election.
const PAUSE: Duration = Duration::from_millis(2_500);

/// With the scenario's flags (`SOAK_FLAGS`): log, its kept rest and the raft snapshots around it, in a store that
/// takes space a segment at a time.
const DISK_BYTES_MAX: u64 = 96 << 20;

/// The node whose process lives from begin to end.
const LASTING: usize = 0;

/// One fault a round, in turn; at least [`LOOKS_MIN`] rounds.
pub async fn soak(stage: &mut Stage) -> anyhow::Result<()> {
    let mut looks: Vec<Usage> = Vec::new();
    stage.rounds = stage.rounds.max(LOOKS_MIN as u32);
    for number in 0..stage.rounds {
        let begun = stage.shared.stopwatch.now();
        let round = round(stage, number);
        match number % 5 {
            0 => kill_one(stage, &round).await?,
            1 => pause_leader(stage, &round).await?,
            2 => stop_one(stage, &round).await?,
            3 => depose_leader(stage, &round).await?,
            _ => write_snapshots(stage, &round).await?,
        }
        stage.caught_up().await?;
        while !stage.shared.stopwatch.is_over(begun, ROUND) {
            stage.calm(CALM / 10).await;
        }
        let node = stage.node(LASTING)?;
        let look = node.process.pid().and_then(|pid| Usage::of(pid, &node.data_dir));
        looks.extend(look);
    }
    judge(stage, &looks);
    Ok(())
}

fn judge(stage: &mut Stage, looks: &[Usage]) {
    let Some(course) = Course::of(LASTING + 1, looks) else {
        let what =
            format!("growth takes {LOOKS_MIN} rounds to see; there were {} looks", looks.len());
        return stage.find(Kind::NothingShown, what);
    };
    for finding in course.findings(DISK_BYTES_MAX) {
        stage.find(Kind::Growth, finding);
    }
    stage.courses.push(course);
}

/// The leader, or if that is the lasting node, a follower.
async fn victim(stage: &mut Stage) -> anyhow::Result<usize> {
    let leader = stage.leader().await?;
    if leader == LASTING { stage.follower().await } else { Ok(leader) }
}

async fn kill_one(stage: &mut Stage, round: &str) -> anyhow::Result<()> {
    let lost = victim(stage).await?;
    stage.kill(lost)?;
    stage.fault(format!("{round}node {} was killed", lost + 1));
    stage.calm(CALM).await;
    start_again(stage, lost)
}

async fn stop_one(stage: &mut Stage, round: &str) -> anyhow::Result<()> {
    let lost = victim(stage).await?;
    stage.fault(format!("{round}node {} was told to stop", lost + 1));
    stage.terminate(lost).await?;
    stage.calm(CALM / 2).await;
    start_again(stage, lost)
}

fn start_again(stage: &mut Stage, at: usize) -> anyhow::Result<()> {
    stage.start(at)?;
    stage.repair(format!("node {} was started again", at + 1));
    Ok(())
}

async fn pause_leader(stage: &mut Stage, round: &str) -> anyhow::Result<()> {
    let leader = stage.leader().await?;
    stage.halt(leader)?;
    stage.fault(format!("{round}the leader, node {}, stands still", leader + 1));
    stage.calm(PAUSE).await;
    stage.resume(leader)?;
    stage.repair(format!("node {} goes on", leader + 1));
    Ok(())
}

async fn depose_leader(stage: &mut Stage, round: &str) -> anyhow::Result<()> {
    let leader = stage.leader().await?;
    stage.fault(format!("{round}leadership of node {} is handed over", leader + 1));
    stage.change("/api/v1/cluster/transfer_leader").await?;
    stage.leader_but(Some(leader)).await?;
    Ok(())
}

async fn write_snapshots(stage: &mut Stage, round: &str) -> anyhow::Result<()> {
    stage.fault(format!("{round}every node writes a raft snapshot"));
    for admin in &stage.admins {
        admin.change("/api/v1/cluster/snapshot").await.map_err(anyhow::Error::msg)?;
    }
    Ok(())
}
