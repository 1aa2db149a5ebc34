//! Networks that carry nothing, or one way only, between nodes. Clients reach every node all the time.

use std::time::Duration;

use anyhow::bail;

use super::{CALM, Stage, round};
use crate::drill::cluster::{cut_off, mute};
use crate::drill::link::Flow;

/// Longer than any lease of the leader, so that the other half has served for a while.
const CUT: Duration = Duration::from_secs(3);

/// The leader is cut off from the other nodes.
pub async fn leader_partition(stage: &mut Stage) -> anyhow::Result<()> {
    for number in 0..stage.rounds {
        stage.calm(CALM).await;
        let lost = stage.leader().await?;
        let round = round(stage, number);
        stage.cluster()?.set_links(cut_off(lost));
        stage.fault(format!("{round}the leader, node {}, is cut off", lost + 1));
        heal(stage, lost).await?;
    }
    Ok(())
}

/// A follower is cut off from the other nodes. Errors: it deposed the leader when it came back.
pub async fn follower_partition(stage: &mut Stage) -> anyhow::Result<()> {
    for number in 0..stage.rounds {
        stage.calm(CALM).await;
        let (leader, lost) = (stage.leader().await?, stage.follower().await?);
        let round = round(stage, number);
        stage.cluster()?.set_links(cut_off(lost));
        stage.fault(format!("{round}a follower, node {}, is cut off", lost + 1));
        stage.calm(CUT).await;
        mend(stage).await?;
        let leads = stage.leader().await?;
        if leads != leader {
            bail!("node {} leads instead of node {} after the cut", leads + 1, leader + 1);
        }
    }
    Ok(())
}

/// What the leader says does not arrive.
pub async fn one_way(stage: &mut Stage) -> anyhow::Result<()> {
    for number in 0..stage.rounds {
        stage.calm(CALM).await;
        let lost = stage.leader().await?;
        let round = round(stage, number);
        stage.cluster()?.set_links(mute(lost));
        stage.fault(format!("{round}what the leader, node {}, says does not arrive", lost + 1));
        heal(stage, lost).await?;
    }
    Ok(())
}

async fn heal(stage: &mut Stage, lost: usize) -> anyhow::Result<()> {
    let next = stage.leader_but(Some(lost)).await?;
    stage.say(&format!("node {} serves", next + 1));
    stage.calm(CUT).await;
    mend(stage).await
}

async fn mend(stage: &mut Stage) -> anyhow::Result<()> {
    stage.cluster()?.set_links(|_| Flow::default());
    stage.repair("the network is whole again");
    stage.calm(CALM).await;
    stage.caught_up().await
}
