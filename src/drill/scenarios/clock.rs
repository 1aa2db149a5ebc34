//! Wall clocks that step: by a wrong time server, an operator, a machine that comes back from a pause.

use std::time::Duration;

use super::{CALM, Stage, round};
use crate::drill::finding::Kind;

/// How far clocks step, in either direction: as long as the soft pins of a drill last.
const STEP_MS: i64 = 3_600_000;
/// Time for which the load runs with clocks that are wrong.
const WRONG: Duration = Duration::from_secs(3);

/// The leader's clock steps ahead, then the others' step back and one of them leads; in the end all are right again.
/// No pin may end early, late, or anywhere else than where it was to end.
pub async fn clock_step(stage: &mut Stage) -> anyhow::Result<()> {
    for number in 0..stage.rounds {
        stage.calm(CALM).await;
        let leader = stage.leader().await?;
        let round = round(stage, number);
        stage.cluster()?.step_clock(leader, STEP_MS)?;
        stage.fault(format!(
            "{round}the clock of the leader, node {}, steps an hour ahead",
            leader + 1
        ));
        stage.calm(WRONG).await;
        noticed(stage, leader).await;
        let nodes = stage.admins.len();
        for at in (0..nodes).filter(|at| *at != leader) {
            stage.cluster()?.step_clock(at, -STEP_MS)?;
        }
        stage.fault("the clocks of the others step an hour back, and one of them takes over");
        stage.change("/api/v1/cluster/transfer_leader").await?;
        let next = stage.leader_but(Some(leader)).await?;
        stage.calm(WRONG).await;
        noticed(stage, next).await;
        for at in 0..nodes {
            stage.cluster()?.step_clock(at, 0)?;
        }
        stage.repair("all clocks are right again");
        stage.calm(WRONG).await;
        stage.caught_up().await?;
    }
    Ok(())
}

/// A node that leads must have seen its clock step, or the drill has shown nothing.
async fn noticed(stage: &mut Stage, at: usize) {
    let page = match stage.admins.get(at) {
        Some(admin) => admin.cluster().await,
        None => None,
    };
    let steps = page.and_then(|page| page.clock).map_or(0, |clock| clock.steps);
    if steps == 0 {
        let what = format!("node {} does not say that its clock has stepped", at + 1);
        stage.find(Kind::NothingShown, what);
    }
}
