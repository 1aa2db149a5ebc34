//! Many clients at once: all come back, or all are gone.

use std::time::Duration;

use anyhow::bail;

use super::{CALM, Stage, round};
use crate::drill::checks::Gone;
use crate::drill::load::{Load, LoadPlan};

/// Clients that come back at once, how often each does something, and its segment.
const CROWD: u32 = 1_000;
const CROWD_PAUSE: Duration = Duration::from_secs(4);
const CROWD_SEGMENT_BYTES: u64 = 16 << 20;
/// How long the crowd may take to be at work.
const CROWD_MAX: Duration = Duration::from_secs(60);

/// Clients that are gone together.
const DOOMED: u32 = 50;
/// How long their segments may stay after that: the drill's client TTL and far more.
const EXPIRY_MAX: Duration = Duration::from_secs(60);

const LOOK_STEP: Duration = Duration::from_millis(100);

/// Number of the first client of a crowd.
const FIRST: u32 = 10_000;

fn crowd(stage: &Stage, clients: u32, pause: Duration) -> LoadPlan {
    LoadPlan {
        first: FIRST,
        writers: clients,
        has_readers: false,
        pause,
        segment_bytes: CROWD_SEGMENT_BYTES,
        ..stage.plan.clone()
    }
}

/// SIGKILL of the leader while a thousand clients are connected, who all come to the others at once.
pub async fn thundering_clients(stage: &mut Stage) -> anyhow::Result<()> {
    let plan = crowd(stage, CROWD, CROWD_PAUSE);
    let load = Load::start(&plan, &stage.doors, &stage.shared);
    stage.extra.push(load);
    at_work(stage, CROWD).await?;
    for number in 0..stage.rounds {
        stage.calm(CALM).await;
        let lost = stage.leader().await?;
        let round = round(stage, number);
        stage.kill(lost)?;
        stage.fault(format!(
            "{round}the leader, node {}, was killed under {CROWD} clients",
            lost + 1
        ));
        stage.leader_but(Some(lost)).await?;
        stage.calm(CALM * 2).await;
        stage.start(lost)?;
        stage.repair(format!("node {} was started again", lost + 1));
        stage.caught_up().await?;
    }
    Ok(())
}

/// Fifty clients are gone at once, with their memory; the others must not notice but for what lay there.
pub async fn client_mass_expiry(stage: &mut Stage) -> anyhow::Result<()> {
    let plan = crowd(stage, DOOMED, CALM / 4);
    let mut load = Load::start(&plan, &stage.doors, &stage.shared);
    at_work(stage, DOOMED).await?;
    stage.calm(CALM * 2).await;
    stage.doomed.extend(load.stop().await);
    load.end(&mut []).await;
    let endpoints = (FIRST..FIRST + DOOMED).map(|client| plan.segment_name(client)).collect();
    stage.gone = Gone { from: stage.shared.stopwatch.now(), endpoints };
    stage.fault(format!("{DOOMED} clients are gone without a word"));
    let start = stage.shared.stopwatch.now();
    let left = loop {
        let leader = stage.leader().await?;
        let segments = match stage.admins.get(leader) {
            Some(admin) => admin.segments().await.unwrap_or_default(),
            None => Vec::new(),
        };
        let is_theirs = |name: &&String| stage.gone.endpoints.contains(*name);
        let left = segments.iter().filter(is_theirs).count();
        let is_known = !segments.is_empty();
        if (is_known && left == 0) || stage.shared.stopwatch.is_over(start, EXPIRY_MAX) {
            break left;
        }
        tokio::time::sleep(LOOK_STEP).await;
    };
    if left > 0 {
        bail!("{left} segments of lost clients are there after {} s", EXPIRY_MAX.as_secs());
    }
    stage.repair("their segments were taken out");
    stage.calm(CALM).await;
    Ok(())
}

/// Waits until so many clients more than the usual ones work.
async fn at_work(stage: &Stage, wanted: u32) -> anyhow::Result<()> {
    let start = stage.shared.stopwatch.now();
    loop {
        let now = stage.shared.stopwatch.now();
        let clients = stage.shared.pulse.now(now).clients;
        if clients >= wanted as usize + stage.plan.writers as usize {
            stage.say(&format!("{clients} clients are at work"));
            return Ok(());
        }
        if stage.shared.stopwatch.is_over(start, CROWD_MAX) {
            bail!("only {clients} clients could mount in {} s", CROWD_MAX.as_secs());
        }
        tokio::time::sleep(LOOK_STEP).await;
    }
}
