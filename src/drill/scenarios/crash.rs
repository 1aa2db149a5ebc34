//! Processes that end: by SIGKILL, by SIGTERM, one, two or all of them.

use super::{CALM, Stage, round};

/// SIGKILL of the leader; it is started again.
pub async fn leader_kill(stage: &mut Stage) -> anyhow::Result<()> {
    for number in 0..stage.rounds {
        stage.calm(CALM).await;
        let lost = stage.leader().await?;
        let round = round(stage, number);
        stage.kill(lost)?;
        stage.fault(format!("{round}the leader, node {}, was killed", lost + 1));
        let next = stage.leader_but(Some(lost)).await?;
        stage.say(&format!("node {} serves", next + 1));
        stage.calm(CALM).await;
        stage.start(lost)?;
        stage.repair(format!("node {} was started again", lost + 1));
        stage.caught_up().await?;
    }
    Ok(())
}

/// SIGTERM of the leader; it is started again.
pub async fn leader_stop(stage: &mut Stage) -> anyhow::Result<()> {
    for number in 0..stage.rounds {
        stage.calm(CALM).await;
        let lost = stage.leader().await?;
        let round = round(stage, number);
        stop_and_start(stage, lost, &format!("{round}the leader, node {},", lost + 1)).await?;
    }
    Ok(())
}

async fn stop_and_start(stage: &mut Stage, at: usize, who: &str) -> anyhow::Result<()> {
    stage.fault(format!("{who} was told to stop"));
    stage.terminate(at).await?;
    stage.calm(CALM / 2).await;
    stage.start(at)?;
    stage.repair(format!("node {} was started again", at + 1));
    stage.caught_up().await
}

/// SIGKILL of a follower; it is started again.
pub async fn follower_kill(stage: &mut Stage) -> anyhow::Result<()> {
    for number in 0..stage.rounds {
        stage.calm(CALM).await;
        let lost = stage.follower().await?;
        let round = round(stage, number);
        stage.kill(lost)?;
        stage.fault(format!("{round}a follower, node {}, was killed", lost + 1));
        stage.calm(CALM).await;
        stage.start(lost)?;
        stage.repair(format!("node {} was started again", lost + 1));
        stage.caught_up().await?;
    }
    Ok(())
}

/// SIGTERM and start of each node, the leader last.
pub async fn rolling_restart(stage: &mut Stage) -> anyhow::Result<()> {
    for number in 0..stage.rounds {
        stage.calm(CALM).await;
        let leader = stage.leader().await?;
        let nodes = stage.admins.len();
        for step in 1..=nodes {
            let at = (leader + step) % nodes;
            let round = round(stage, number);
            stop_and_start(stage, at, &format!("{round}node {}", at + 1)).await?;
        }
    }
    Ok(())
}

/// SIGKILL of all nodes at once; all are started again.
pub async fn cold_restart(stage: &mut Stage) -> anyhow::Result<()> {
    for number in 0..stage.rounds {
        stage.calm(CALM).await;
        let round = round(stage, number);
        let nodes = stage.admins.len();
        for at in 0..nodes {
            stage.kill(at)?;
        }
        stage.fault(format!("{round}all nodes were killed"));
        for at in 0..nodes {
            stage.start(at)?;
        }
        stage.repair("all nodes were started again");
        stage.caught_up().await?;
    }
    Ok(())
}

/// SIGKILL of as many nodes as the cluster may lose, the leader among them; they are started again.
pub async fn minority(stage: &mut Stage) -> anyhow::Result<()> {
    for number in 0..stage.rounds {
        stage.calm(CALM).await;
        let nodes = stage.admins.len();
        let leader = stage.leader().await?;
        let round = round(stage, number);
        let lost: Vec<usize> = (0..(nodes - 1) / 2).map(|step| (leader + step) % nodes).collect();
        for at in &lost {
            stage.kill(*at)?;
        }
        let names: Vec<String> = lost.iter().map(|at| (at + 1).to_string()).collect();
        let names = names.join(" and ");
        stage.fault(format!("{round}of {nodes} nodes {names} were killed, the leader first"));
        let next = stage.leader_but(Some(leader)).await?;
        stage.say(&format!("node {} serves", next + 1));
        stage.calm(CALM).await;
        for at in &lost {
            stage.start(*at)?;
        }
        stage.repair("they were started again");
        stage.caught_up().await?;
    }
    Ok(())
}

/// SIGKILL of the leader and of enough followers that no majority is left; all are started again.
pub async fn majority_loss(stage: &mut Stage) -> anyhow::Result<()> {
    for number in 0..stage.rounds {
        stage.calm(CALM).await;
        let leader = stage.leader().await?;
        let round = round(stage, number);
        let nodes = stage.admins.len();
        let lost: Vec<usize> = (0..nodes.div_ceil(2)).map(|step| (leader + step) % nodes).collect();
        for at in &lost {
            stage.kill(*at)?;
        }
        let names: Vec<String> = lost.iter().map(|at| (at + 1).to_string()).collect();
        stage.fault(format!("{round}nodes {} were killed, the leader first", names.join(" and ")));
        stage.calm(CALM * 2).await;
        for at in &lost {
            stage.start(*at)?;
        }
        stage.repair("they were started again");
        stage.caught_up().await?;
    }
    Ok(())
}
