//! Changes of the cluster by its operator, under load.

use anyhow::Context;

use super::{CALM, Stage, round};

/// Leadership is handed to another node.
pub async fn leader_transfer(stage: &mut Stage) -> anyhow::Result<()> {
    for number in 0..stage.rounds {
        stage.calm(CALM).await;
        let before = stage.leader().await?;
        let round = round(stage, number);
        stage.fault(format!("{round}leadership of node {} is handed over", before + 1));
        stage.change("/api/v1/cluster/transfer_leader").await?;
        stage.leader_but(Some(before)).await?;
        stage.calm(CALM).await;
    }
    Ok(())
}

/// A follower's disk is lost: it is removed, and a new node is added and votes. Needs one round only, because the
/// number of a node is used up.
pub async fn lost_node_replace(stage: &mut Stage) -> anyhow::Result<()> {
    stage.calm(CALM).await;
    let lost = stage.follower().await?;
    let node = stage.node(lost)?;
    node.process.kill();
    let data_dir = node.data_dir.clone();
    std::fs::remove_dir_all(&data_dir).with_context(|| format!("remove {}", data_dir.display()))?;
    stage.fault(format!("node {} and its disk were lost", lost + 1));
    stage.calm(CALM).await;
    replace(stage, lost).await?;
    stage.calm(CALM).await;
    stage.caught_up().await
}

/// Removes a node that is down, adds a new one and lets it vote; answers the new one's index.
pub async fn replace(stage: &mut Stage, lost: usize) -> anyhow::Result<usize> {
    stage.change(&format!("/api/v1/cluster/remove?node_id={}", lost + 1)).await?;
    let (at, address) = stage.cluster()?.start_joining()?;
    stage.repair(format!("node {} was removed, node {} is started in its place", lost + 1, at + 1));
    stage.replace_node(lost, at)?;
    let id = at + 1;
    stage.change(&format!("/api/v1/cluster/add?node_id={id}&address={address}")).await?;
    stage.change(&format!("/api/v1/cluster/promote?node_id={id}")).await?;
    stage.say(&format!("node {id} votes"));
    Ok(at)
}
