//! One drill from start to verdict.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};

use super::admin::AdminPort;
use super::cluster::{Cluster, ClusterPlan};
use super::finding::Kind;
use super::history::{ClientHistory, ClientNo, KeyNo};
use super::images;
use super::live::Live;
use super::load::{Doors, Load, LoadPlan, Shared, read_all, remove_all};
use super::moment::Stopwatch;
use super::report::{Material, Report, ScenarioReport, build};
use super::scenarios::{Reach, Scenario};
use super::stage::{Setting, Stage};
use super::watch::{Watch, look_at_pins};

/// Keys that there must be before anything is broken, and how long that may take.
const KEYS_FIRST: usize = 100;
const KEYS_FIRST_MAX: Duration = Duration::from_secs(60);
const LOOK_STEP: Duration = Duration::from_millis(50);

/// The number of the client that looks at every key in the end; no other has it.
const LAST_LOOK: ClientNo = ClientNo(u32::MAX);

/// A cluster that is running already.
#[derive(Clone, Debug)]
pub struct Target {
    /// Admin ports of its nodes.
    pub admins: Vec<String>,
    /// Whether the operator has said yes to scenarios that ask.
    pub is_agreed: bool,
}

/// What to drill.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The program that nodes of the drill's own run.
    pub program: PathBuf,
    /// The program that they run before an upgrade; none is the same one.
    pub from: Option<PathBuf>,
    /// How many.
    pub nodes: usize,
    /// Their further flags.
    pub flags: Vec<String>,
    /// How often each scenario breaks things.
    pub rounds: u32,
    /// Clients that write.
    pub clients: u32,
    /// A running cluster instead of nodes of the drill's own.
    pub target: Option<Target>,
    /// Keeps logs and data of the nodes in their directory if something was found.
    pub keeps: bool,
    /// Says nothing while it runs.
    pub is_quiet: bool,
}

/// Plays the scenarios one after the other, each on a cluster of its own.
///
/// Errors: a scenario may not be played there, or cannot begin. What goes wrong later is a finding.
pub async fn run(scenarios: &[&'static Scenario], settings: &Settings) -> anyhow::Result<Report> {
    for scenario in scenarios {
        allowed(scenario, settings)?;
    }
    let began_ms = Stopwatch::default().wall_ms();
    let mut reports = Vec::new();
    for scenario in scenarios {
        let played = one(scenario, settings).await;
        reports.push(played.with_context(|| format!("scenario {}", scenario.name))?);
    }
    let cluster = match &settings.target {
        None => format!("{} nodes of its own", settings.nodes),
        Some(target) => target.admins.join(", "),
    };
    Ok(Report {
        version: env!("CARGO_PKG_VERSION"),
        began_ms,
        cluster,
        is_good: reports.iter().all(|report| report.is_good),
        scenarios: reports,
    })
}

/// Whether a scenario may be played where the settings say. Errors: a sentence why not.
pub fn allowed(scenario: &Scenario, settings: &Settings) -> anyhow::Result<()> {
    let name = scenario.name;
    if let Err(why) = scenario.disk.possible() {
        bail!("{name} cannot be played here: {why}");
    }
    match (&settings.target, scenario.reach) {
        (None, _)
        | (Some(_), Reach::Anywhere)
        | (Some(Target { is_agreed: true, .. }), Reach::Asks) => Ok(()),
        (Some(_), Reach::Asks) => {
            bail!("{name} disturbs a running cluster; say --yes if that is what you want")
        }
        (Some(_), Reach::OwnNodes) => {
            bail!(
                "{name} kills or cuts off nodes, so it is played on nodes of the drill's own only; leave out --target"
            )
        }
    }
}

async fn one(scenario: &'static Scenario, settings: &Settings) -> anyhow::Result<ScenarioReport> {
    let stopwatch = Stopwatch::default();
    let live = Live::new(stopwatch.clone(), settings.is_quiet);
    live.say(&format!("{}: {}", scenario.name, scenario.what));
    let run = format!("{:x}", stopwatch.wall_ms());
    let mut plan = LoadPlan::new(&run);
    plan.writers = settings.clients;
    plan.keys_each_max = scenario.keys_each_max;
    let shared = Shared::new(stopwatch);
    let setting = Setting {
        cluster: None,
        admins: Vec::new(),
        doors: Doors::default(),
        shared: shared.clone(),
        plan,
        rounds: settings.rounds,
        live: live.clone(),
    };
    let setting = match &settings.target {
        None => own_nodes(scenario, settings, setting).await?,
        Some(target) => running(target, setting).await?,
    };
    let follows = settings.target.is_some().then(|| setting.doors.clone());
    let watch = Watch::start(&setting.admins, &run, shared.stopwatch.clone(), follows);
    let watch = Arc::new(watch);
    let following = live.follow(scenario.name, shared.clone(), Arc::clone(&watch));
    let mut stage = Stage::new(setting, Arc::clone(&watch));
    let material = perform(scenario, &mut stage, &watch, settings).await?;
    drop(following);
    let report = build(material);
    live.say(if report.is_good { "nothing lost" } else { "there are findings" });
    if let Some(cluster) = stage.take_cluster()
        && settings.keeps
        && !report.is_good
    {
        live.say(&format!("logs and data of the nodes are in {}", cluster.keep().display()));
    }
    Ok(report)
}

async fn own_nodes(
    scenario: &Scenario,
    settings: &Settings,
    setting: Setting,
) -> anyhow::Result<Setting> {
    let before = settings.from.as_ref().filter(|_| scenario.is_upgrade);
    let plan = ClusterPlan {
        program: before.unwrap_or(&settings.program).clone(),
        next_program: settings.program.clone(),
        nodes: settings.nodes,
        // Short read leases, so that keys that are read can be removed as well.
        flags: ["--default_kv_lease_ttl=500".to_owned()]
            .into_iter()
            .chain(scenario.flags.iter().map(|flag| (*flag).to_owned()))
            .chain(settings.flags.iter().cloned())
            .collect(),
        has_links: scenario.has_links,
        disk: scenario.disk,
        has_catalog: scenario.has_catalog,
        has_clocks: scenario.has_clocks,
    };
    let cluster = Cluster::start(&plan).await?;
    let admins = cluster.nodes.iter().map(|node| node.admin.clone()).collect();
    let doors = Doors::new(cluster.nodes.iter().map(|node| node.rpc.clone()).collect());
    Ok(Setting { cluster: Some(cluster), admins, doors, ..setting })
}

/// A running cluster: clients go where its leader is, bring no memory of their own if it has some, and what they
/// put is pinned hard, so that a full store evicts nothing of it and it can be told from loss.
async fn running(target: &Target, mut setting: Setting) -> anyhow::Result<Setting> {
    setting.admins = target.admins.iter().map(|address| AdminPort::new(address)).collect();
    let asked = || target.admins.join(", ");
    let mut leader = None;
    for admin in &setting.admins {
        let page = admin.cluster().await;
        leader = leader.or(page.and_then(|page| page.leader?.rpc_address));
    }
    let leader = leader.with_context(|| {
        format!("{} did not say who leads; --target takes admin ports (--metrics_port)", asked())
    })?;
    let mut segments = None;
    for admin in &setting.admins {
        segments = segments.or(admin.segments().await);
    }
    let segments = segments.with_context(|| {
        format!("none of {} leads; give the admin port of the node that does, too", asked())
    })?;
    setting.doors = Doors::new(vec![leader]);
    // A segment of ours would be given to other writers as well, and there is no memory behind it.
    setting.plan.segment_bytes = if segments.is_empty() { setting.plan.segment_bytes } else { 0 };
    setting.plan.is_hard_pinned = true;
    Ok(setting)
}

async fn perform(
    scenario: &'static Scenario,
    stage: &mut Stage,
    watch: &Watch,
    settings: &Settings,
) -> anyhow::Result<Material> {
    let own = settings.target.is_none();
    stage.leader().await.context("no node serves clients, so there is nothing to drill")?;
    if own {
        stage.caught_up().await?;
    }
    let start = stage.shared.stopwatch.now();
    let mut load = Load::start(&stage.plan, &stage.doors, &stage.shared);
    first_keys(stage).await?;
    if let Err(error) = scenario.play(stage).await {
        stage.find(Kind::NoService, format!("{error:#}"));
    }
    let end = stage.shared.stopwatch.now();
    let mut clients = load.stop().await;
    let mut loads = std::mem::take(&mut stage.extra);
    for extra in &mut loads {
        clients.extend(extra.stop().await);
    }
    loads.push(load);
    clients.append(&mut stage.doomed);
    stage.say("clients have stopped; looking at everything");
    let (last_look, unread) = look_at_all(stage).await;
    let images = if own { compare(stage).await } else { 0 };
    let mut seen = watch.stop();
    if let Some(sample) = last_pins(stage).await {
        seen.pins.push(sample);
    }
    for load in loads {
        load.end(&mut clients).await;
    }
    if !own {
        let keys = stage.shared.board.all();
        remove_all(&keys, &stage.plan, &stage.doors).await;
    }
    Ok(Material {
        scenario,
        rounds: stage.rounds,
        run: stage.plan.run.clone(),
        start,
        end,
        over: stage.shared.stopwatch.now(),
        clients,
        last_look,
        unread,
        seen,
        faults: std::mem::take(&mut stage.faults),
        findings: std::mem::take(&mut stage.findings),
        reborn: std::mem::take(&mut stage.reborn),
        gone: std::mem::take(&mut stage.gone),
        courses: std::mem::take(&mut stage.courses),
        has_one_clock: own,
        may_forget: stage.may_forget,
        images,
        refused: stage.shared.pulse.refusals(),
    })
}

/// Waits until there is something to lose. Errors: clients can write next to nothing.
async fn first_keys(stage: &Stage) -> anyhow::Result<()> {
    let start = stage.shared.stopwatch.now();
    while stage.shared.board.len() < KEYS_FIRST {
        if stage.shared.stopwatch.is_over(start, KEYS_FIRST_MAX) {
            let refusals = stage.shared.pulse.refusals();
            bail!(
                "clients have written only {} keys in {} s; refusals: {refusals:?}",
                stage.shared.board.len(),
                KEYS_FIRST_MAX.as_secs()
            );
        }
        tokio::time::sleep(LOOK_STEP).await;
    }
    Ok(())
}

/// Reads every key once more; answers also how many gave no answer.
async fn look_at_all(stage: &mut Stage) -> (ClientHistory, u64) {
    let keys: Vec<KeyNo> = stage.shared.board.all();
    let (run, doors) = (stage.plan.run.clone(), stage.doors.clone());
    let history = read_all(LAST_LOOK, &keys, &run, &doors, &stage.shared).await;
    let unread = keys.len().saturating_sub(history.reads.len()) as u64;
    (history, unread)
}

/// Compares the nodes' states; answers how many pairs.
async fn compare(stage: &mut Stage) -> u64 {
    let compared = async {
        stage.caught_up_within(0).await?;
        images::compare(stage).await
    };
    match compared.await {
        Ok(pairs) => pairs,
        Err(error) => {
            stage.find(Kind::NoService, format!("the nodes' states cannot be compared: {error:#}"));
            0
        }
    }
}

/// Looks at the pins once more.
async fn last_pins(stage: &Stage) -> Option<super::checks::PinSample> {
    let leader = stage.leader().await.ok()?;
    let admin = stage.admins.get(leader)?;
    look_at_pins(admin, &stage.plan.run, &stage.shared.stopwatch).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drill::scenarios::find;

    fn settings(target: Option<Target>) -> Settings {
        Settings {
            program: PathBuf::new(),
            from: None,
            nodes: 3,
            flags: Vec::new(),
            rounds: 1,
            clients: 1,
            target,
            keeps: false,
            is_quiet: true,
        }
    }

    #[test]
    fn a_running_cluster_is_not_disturbed_unless_the_operator_agrees_and_never_killed() {
        let target = |is_agreed| Some(Target { admins: vec!["h:1".into()], is_agreed });
        let may = |name: &str, target| allowed(find(name).unwrap(), &settings(target)).is_ok();
        assert!(may("steady", target(false)));
        assert!(!may("leader-transfer", target(false)) && may("leader-transfer", target(true)));
        assert!(!may("leader-kill", target(true)) && may("leader-kill", None));
    }
}
