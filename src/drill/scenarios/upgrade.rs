//! From one version of the program to another, node by node, as the operations page says.

use std::time::Duration;

use anyhow::bail;

use super::{CALM, Stage, round};

/// How long a node may take to say that it can be stopped, once all nodes have caught up.
const SAFE_MAX: Duration = Duration::from_secs(30);
const LOOK_STEP: Duration = Duration::from_millis(50);

/// Each node is stopped when it says that it may be, and started with the other program, the leader last. A later
/// round stops and starts nodes that have it already.
pub async fn rolling_upgrade(stage: &mut Stage) -> anyhow::Result<()> {
    for number in 0..stage.rounds {
        stage.calm(CALM).await;
        let leader = stage.leader().await?;
        let nodes = stage.admins.len();
        for step in 1..=nodes {
            let at = (leader + step) % nodes;
            safe_to_stop(stage, at).await?;
            let before = version(stage, at).await;
            let round = round(stage, number);
            stage.fault(format!("{round}node {}, version {before}, was told to stop", at + 1));
            stage.terminate(at).await?;
            stage.cluster()?.upgrade(at)?;
            stage.start(at)?;
            stage.repair(format!("node {} was started with the other program", at + 1));
            stage.caught_up().await?;
            stage.say(&format!("node {} runs version {}", at + 1, version(stage, at).await));
        }
    }
    Ok(())
}

async fn version(stage: &Stage, at: usize) -> String {
    let page = match stage.admins.get(at) {
        Some(admin) => admin.cluster().await,
        None => None,
    };
    page.map_or_else(|| "unknown".to_owned(), |page| page.version)
}

/// Waits until a node says that it can be stopped. A version that does not say it has caught up, which must do.
async fn safe_to_stop(stage: &Stage, at: usize) -> anyhow::Result<()> {
    let start = stage.shared.stopwatch.now();
    let mut why = "it does not answer".to_owned();
    while !stage.shared.stopwatch.is_over(start, SAFE_MAX) {
        let page = match stage.admins.get(at) {
            Some(admin) => admin.cluster_before_stop().await,
            None => None,
        };
        match page.map(|page| page.stop) {
            Some(None) => return Ok(()),
            Some(Some(stop)) if stop.safe_to_stop => return Ok(()),
            Some(Some(stop)) => why = stop.why.unwrap_or_default(),
            None => {}
        }
        tokio::time::sleep(LOOK_STEP).await;
    }
    bail!("node {} cannot be stopped for {} s: {why}", at + 1, SAFE_MAX.as_secs())
}
