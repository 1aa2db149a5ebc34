//! The worst day: all nodes and their disks are lost, and what is left is a catalog snapshot and clients' memory.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;

use super::disk::{files, flip_a_byte};
use super::{CALM, Stage, round};
use crate::drill::finding::Kind;

/// How long a restore of a small snapshot may take.
const DECIDED_MAX: Duration = Duration::from_secs(30);
const LOOK_STEP: Duration = Duration::from_millis(50);

/// A catalog snapshot is taken, everything else is lost, a new cluster starts from the snapshot.
///
/// Writers pause from before the snapshot until the new cluster serves: what they wrote after a snapshot would be
/// lost with the disks, and rightly. Readers go on.
pub async fn restore(stage: &mut Stage) -> anyhow::Result<()> {
    for number in 0..stage.rounds {
        stage.calm(CALM * 2).await;
        stage.shared.hold_writers().await;
        snapshot(stage).await?;
        let round = round(stage, number);
        lose_and_restore(stage, &round).await?;
    }
    Ok(())
}

/// The same with two snapshots, of which the newest is damaged.
pub async fn corrupt_snapshot_fallback(stage: &mut Stage) -> anyhow::Result<()> {
    for number in 0..stage.rounds {
        stage.calm(CALM * 2).await;
        stage.shared.hold_writers().await;
        snapshot(stage).await?;
        let catalog = stage.cluster()?.catalog();
        let spared: Vec<PathBuf> = files(&catalog)?.into_iter().map(|(_, path)| path).collect();
        snapshot(stage).await?;
        let damaged = flip_a_byte(&catalog, &spared)?;
        let name = damaged.strip_prefix(&catalog).unwrap_or(&damaged).display().to_string();
        let round = round(stage, number);
        stage.fault(format!("{round}a byte of the newest snapshot, {name}, changed"));
        lose_and_restore(stage, &round).await?;
    }
    Ok(())
}

/// How the restore ended, once it is decided; `None` if that takes too long.
async fn outcome(stage: &Stage) -> anyhow::Result<Option<String>> {
    let start = stage.shared.stopwatch.now();
    while !stage.shared.stopwatch.is_over(start, DECIDED_MAX) {
        let leader = stage.leader().await?;
        let admin = stage.admins.get(leader).context("the leader's admin port")?;
        if let Some(outcome) = admin.restore_outcome().await {
            return Ok(Some(outcome));
        }
        tokio::time::sleep(LOOK_STEP).await;
    }
    Ok(None)
}

async fn snapshot(stage: &Stage) -> anyhow::Result<()> {
    stage.change("/api/v1/snapshots").await.context("take a catalog snapshot")?;
    stage.say("a catalog snapshot was taken");
    Ok(())
}

async fn lose_and_restore(stage: &mut Stage, round: &str) -> anyhow::Result<()> {
    let nodes = stage.admins.len();
    for at in 0..nodes {
        stage.kill(at)?;
    }
    for at in 0..nodes {
        let data_dir = stage.node(at)?.data_dir.clone();
        std::fs::remove_dir_all(&data_dir)
            .with_context(|| format!("remove {}", data_dir.display()))?;
    }
    stage.fault(format!("{round}all nodes and their disks were lost"));
    // The restored cluster knows a client again when it has mounted again.
    stage.may_forget = true;
    stage.reborn.push(stage.shared.stopwatch.now());
    for at in 0..nodes {
        stage.start(at)?;
    }
    stage.repair("a new cluster starts from the snapshot");
    match outcome(stage).await?.as_deref() {
        Some("restored") => stage.say("the snapshot was restored"),
        outcome => {
            let what = format!("the restore ended with {outcome:?} instead of \"restored\"");
            stage.find(Kind::NothingShown, what);
        }
    }
    stage.calm(CALM).await;
    stage.shared.release_writers();
    stage.calm(CALM).await;
    stage.caught_up().await
}
