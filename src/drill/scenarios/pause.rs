//! A process that stands still and does not know it.

use std::time::Duration;

use super::{CALM, Stage, round};

/// Longer than any lease of the leader, so that another one has served for a while.
const PAUSE: Duration = Duration::from_secs(4);

/// SIGSTOP of the leader; it goes on when another one has served for a while.
///
/// Its own clients wait in their connections meanwhile, and ask it as soon as it answers again.
pub async fn leader_pause(stage: &mut Stage) -> anyhow::Result<()> {
    for number in 0..stage.rounds {
        stage.calm(CALM).await;
        let lost = stage.leader().await?;
        let round = round(stage, number);
        stage.halt(lost)?;
        stage.fault(format!("{round}the leader, node {}, stands still", lost + 1));
        let next = stage.leader_but(Some(lost)).await?;
        stage.say(&format!("node {} serves", next + 1));
        stage.calm(PAUSE).await;
        stage.resume(lost)?;
        stage.repair(format!("node {} goes on", lost + 1));
        stage.calm(CALM).await;
        stage.caught_up().await?;
    }
    Ok(())
}
