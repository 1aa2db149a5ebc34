//! Disks that are full, that stall, or that have changed a byte.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};

use super::{CALM, Stage, members, round};
use crate::drill::stage::last_words;

/// How long a disk stalls.
const STALL: Duration = Duration::from_secs(2);
/// How long a node with a full disk may take to give up, once it cannot write.
const GIVE_UP_MAX: Duration = Duration::from_secs(30);
/// How long a node may take to say that it cannot use its directory.
const REFUSAL_MAX: Duration = Duration::from_secs(5);

/// The leader's disk runs full; room is made and the node started again.
pub async fn disk_full(stage: &mut Stage) -> anyhow::Result<()> {
    for number in 0..stage.rounds {
        stage.calm(CALM).await;
        let lost = stage.leader().await?;
        let round = round(stage, number);
        stage.cluster()?.disk(lost)?.fill()?;
        stage.fault(format!("{round}the disk of the leader, node {}, is full", lost + 1));
        // A node that cannot write what it promised must not go on as if it could.
        stage.node(lost)?.process.wait_ended(GIVE_UP_MAX).await.context("with a full disk")?;
        let words = last_words(stage.node(lost)?.process.log());
        stage.say(&format!("node {} has given up: {words}", lost + 1));
        stage.leader_but(Some(lost)).await?;
        stage.calm(CALM).await;
        stage.cluster()?.disk(lost)?.free()?;
        stage.start(lost)?;
        stage.repair(format!("room was made and node {} started again", lost + 1));
        stage.caught_up().await?;
    }
    Ok(())
}

/// The disks of the leader and then of a follower stall for two seconds.
pub async fn slow_disk(stage: &mut Stage) -> anyhow::Result<()> {
    for number in 0..stage.rounds {
        stage.calm(CALM).await;
        let leader = stage.leader().await?;
        let round = round(stage, number);
        for (at, who) in [(leader, "leader"), ((leader + 1) % stage.admins.len(), "follower")] {
            stage.cluster()?.disk(at)?.stall()?;
            let seconds = STALL.as_secs();
            stage.fault(format!(
                "{round}the disk of the {who}, node {}, stalls {seconds} s",
                at + 1
            ));
            stage.calm(STALL).await;
            stage.cluster()?.disk(at)?.go_on()?;
            stage.repair(format!("the disk of node {} goes on", at + 1));
            stage.calm(CALM).await;
        }
        stage.caught_up().await?;
    }
    Ok(())
}

/// A byte of a follower's log changes while the node is down. Either it says so and is replaced, or it has lost
/// nothing that counts; then the leader is killed, so that what this node holds is needed.
pub async fn corrupt_log(stage: &mut Stage) -> anyhow::Result<()> {
    stage.calm(CALM).await;
    let hurt = stage.follower().await?;
    stage.kill(hurt)?;
    let data_dir = stage.node(hurt)?.data_dir.clone();
    let damaged = flip_a_byte(&data_dir.join("log"), &[])?;
    let name = damaged.file_name().unwrap_or_default().to_string_lossy().into_owned();
    stage.fault(format!("node {} was killed, and a byte of its log file {name} changed", hurt + 1));
    stage.start(hurt)?;
    let refused = stage.node(hurt)?.process.wait_ended(REFUSAL_MAX).await;
    let mut other = hurt;
    if refused.is_ok() {
        let words = last_words(stage.node(hurt)?.process.log());
        stage.say(&format!("node {} refuses: {words}", hurt + 1));
        other = members::replace(stage, hurt).await?;
    } else {
        stage.repair(format!("node {} has started with what is left", hurt + 1));
    }
    stage.caught_up().await?;
    let leader = stage.leader_but(Some(other)).await?;
    stage.kill(leader)?;
    stage.fault(format!("the leader, node {}, was killed", leader + 1));
    stage.leader_but(Some(leader)).await?;
    stage.calm(CALM).await;
    stage.start(leader)?;
    stage.repair(format!("node {} was started again", leader + 1));
    stage.caught_up().await
}

/// Changes a byte in the middle of what the largest file of a directory holds, but for those that are to be spared;
/// answers which file.
pub fn flip_a_byte(dir: &Path, spared: &[PathBuf]) -> anyhow::Result<PathBuf> {
    let files = files(dir)?.into_iter().filter(|(_, path)| !spared.contains(path));
    let Some((_, path)) = files.max() else { bail!("{} holds no file", dir.display()) };
    let mut bytes = std::fs::read(&path).with_context(|| format!("read {}", path.display()))?;
    // Files are longer than what they hold; the rest is zeros.
    let held = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0);
    if let Some(byte) = bytes.get_mut(held / 2) {
        *byte ^= 0x55;
    }
    std::fs::write(&path, bytes).with_context(|| format!("write {}", path.display()))?;
    Ok(path)
}

/// Files below a directory with their length. Errors: it cannot be listed.
pub fn files(dir: &Path) -> anyhow::Result<Vec<(u64, PathBuf)>> {
    let mut files = Vec::new();
    list(dir, &mut files).with_context(|| format!("list {}", dir.display()))?;
    Ok(files)
}

fn list(dir: &Path, files: &mut Vec<(u64, PathBuf)>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            list(&entry.path(), files)?;
        } else if kind.is_file() {
            files.push((entry.metadata()?.len(), entry.path()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_byte_of_the_largest_file_changes_amid_what_it_holds() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("small"), [1; 10]).unwrap();
        let mut large = vec![2; 100];
        large.extend([0; 100]);
        std::fs::write(dir.path().join("large"), &large).unwrap();
        let path = flip_a_byte(dir.path(), &[]).unwrap();
        assert!(path.ends_with("large"));
        let now = std::fs::read(path).unwrap();
        let changed: Vec<usize> = (0..200).filter(|at| now[*at] != large[*at]).collect();
        assert_eq!(changed, [49]);
    }
}
