//! Where a scenario plays: nodes, clients at work, and the hand that breaks things.
//!
//! A scenario says in which order things happen; everything it can do is here. Waiting always has a limit, and a
//! limit that passes ends the scenario with a sentence, which becomes a finding.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use nix::sys::signal::Signal;

use super::admin::AdminPort;
use super::checks::Gone;
use super::cluster::{Cluster, Node};
use super::finding::{Findings, Kind};
use super::history::ClientHistory;
use super::live::Live;
use super::load::{Doors, Load, LoadPlan, Shared};
use super::moment::Moment;
use super::usage::Course;
use super::watch::Watch;

/// How long service may be away before that is a finding. An election takes at most two seconds, a restart of a
/// small node about one; the rest is for slow machines.
pub const SERVICE_BACK_MAX: Duration = Duration::from_secs(30);
/// How long all nodes may take to hold what the leader holds.
const CAUGHT_UP_MAX: Duration = Duration::from_secs(60);
const LOOK_STEP: Duration = Duration::from_millis(25);
/// Entries by which a node that counts as caught up may be behind while the load goes on.
const LAG_MAX: u64 = 200;

/// Something that was done to the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// When it was done.
    pub at: Moment,
    /// What, in words.
    pub what: String,
    /// Whether clients may notice: false for a repair.
    pub is_break: bool,
}

/// The stage of one scenario.
pub struct Stage {
    /// The nodes, if the drill started them itself.
    cluster: Option<Cluster>,
    /// Admin ports of all nodes.
    pub admins: Vec<AdminPort>,
    /// Where clients connect.
    pub doors: Doors,
    /// What clients share.
    pub shared: Shared,
    /// Shape of the traffic.
    pub plan: LoadPlan,
    /// How often the scenario breaks things.
    pub rounds: u32,
    /// What was done so far.
    pub faults: Vec<Fault>,
    /// What was found so far.
    pub findings: Findings,
    /// Clients that a scenario has started beside the usual ones.
    pub extra: Vec<Load>,
    /// What clients saw that are gone.
    pub doomed: Vec<ClientHistory>,
    /// When a new cluster took the place of the one before: its terms begin anew.
    pub reborn: Vec<Moment>,
    /// Memory that is gone with its clients.
    pub gone: Gone,
    /// How what nodes use went.
    pub courses: Vec<Course>,
    /// Clients that were told on purpose that they are not known.
    pub may_forget: bool,
    live: Live,
    watch: Arc<Watch>,
}

/// What stands on a stage before a scenario begins.
pub struct Setting {
    /// The nodes, if the drill started them itself.
    pub cluster: Option<Cluster>,
    /// Admin ports of all nodes.
    pub admins: Vec<AdminPort>,
    /// Where clients connect.
    pub doors: Doors,
    /// What clients share.
    pub shared: Shared,
    /// Shape of the traffic.
    pub plan: LoadPlan,
    /// How often the scenario breaks things.
    pub rounds: u32,
    /// Where the talk goes.
    pub live: Live,
}

impl Stage {
    /// A stage with its clients and its watch not yet at work on it.
    pub fn new(setting: Setting, watch: Arc<Watch>) -> Self {
        let Setting { cluster, admins, doors, shared, plan, rounds, live } = setting;
        Stage {
            cluster,
            admins,
            doors,
            shared,
            plan,
            rounds,
            faults: Vec::new(),
            findings: Findings::default(),
            extra: Vec::new(),
            doomed: Vec::new(),
            reborn: Vec::new(),
            gone: Gone::default(),
            courses: Vec::new(),
            may_forget: false,
            live,
            watch,
        }
    }

    /// A node was started in addition: clients go to it instead of the one of index `instead_of`.
    pub fn replace_node(&mut self, instead_of: usize, by: usize) -> anyhow::Result<()> {
        let node = self.node(by)?;
        let (admin, rpc) = (node.admin.clone(), node.rpc.clone());
        self.watch.add(by, admin.clone());
        self.admins.push(admin);
        self.doors.replace(instead_of, rpc);
        Ok(())
    }

    /// The drill's own nodes. Errors: the cluster is somebody else's.
    pub fn cluster(&mut self) -> anyhow::Result<&mut Cluster> {
        self.cluster.as_mut().context("this scenario needs nodes that the drill has started itself")
    }

    /// The drill's own nodes, taken off the stage.
    pub fn take_cluster(&mut self) -> Option<Cluster> {
        self.cluster.take()
    }

    /// A node of the drill's own. Errors: there is none of that index.
    pub fn node(&mut self, at: usize) -> anyhow::Result<&mut Node> {
        self.cluster()?.at(at)
    }

    /// Tells people what happens.
    pub fn say(&self, what: &str) {
        self.live.say(what);
    }

    /// Notes that something is broken now.
    pub fn fault(&mut self, what: impl Into<String>) {
        self.note(what.into(), true);
    }

    /// Notes that something was repaired.
    pub fn repair(&mut self, what: impl Into<String>) {
        self.note(what.into(), false);
    }

    fn note(&mut self, what: String, is_break: bool) {
        self.live.say(&what);
        self.faults.push(Fault { at: self.shared.stopwatch.now(), what, is_break });
    }

    /// Adds a finding.
    pub fn find(&mut self, kind: Kind, what: impl Into<String>) {
        let now = self.shared.stopwatch.now();
        self.findings.add(kind, now, what);
    }

    /// Lets the load run.
    pub async fn calm(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// Index of the node that serves, once one does. Errors: none does in time.
    pub async fn leader(&self) -> anyhow::Result<usize> {
        self.leader_but(None).await
    }

    /// The same, if it is another than `not`.
    pub async fn leader_but(&self, not: Option<usize>) -> anyhow::Result<usize> {
        let start = self.shared.stopwatch.now();
        while !self.shared.stopwatch.is_over(start, SERVICE_BACK_MAX) {
            for (at, admin) in self.admins.iter().enumerate() {
                if Some(at) == not {
                    continue;
                }
                if admin.health().await.is_some_and(|health| health.service_ready) {
                    return Ok(at);
                }
            }
            tokio::time::sleep(LOOK_STEP).await;
        }
        bail!("no node served clients for {} s", SERVICE_BACK_MAX.as_secs())
    }

    /// Index of a node that runs and does not serve.
    pub async fn follower(&mut self) -> anyhow::Result<usize> {
        let leader = self.leader().await?;
        let nodes = self.admins.len();
        (1..nodes).map(|step| (leader + step) % nodes).next().context("there is only one node")
    }

    /// Waits until every node that was started holds nearly what the leader holds.
    pub async fn caught_up(&mut self) -> anyhow::Result<()> {
        self.caught_up_within(LAG_MAX).await
    }

    /// Waits until no node is more than `lag` entries behind. Errors: one stays behind, or has ended.
    pub async fn caught_up_within(&mut self, lag: u64) -> anyhow::Result<()> {
        let start = self.shared.stopwatch.now();
        let mut behind = String::new();
        while !self.shared.stopwatch.is_over(start, CAUGHT_UP_MAX) {
            let leader = self.leader().await?;
            match self.behind(leader, lag).await? {
                None => return Ok(()),
                Some(node) => behind = node,
            }
            tokio::time::sleep(LOOK_STEP).await;
        }
        bail!("{behind} did not catch up within {} s", CAUGHT_UP_MAX.as_secs())
    }

    /// A node that is too far behind, in words.
    async fn behind(&mut self, leader: usize, lag: u64) -> anyhow::Result<Option<String>> {
        let Some(goal) = self.applied(leader).await else {
            return Ok(Some(format!("node {}", leader + 1)));
        };
        for at in 0..self.admins.len() {
            if let Some(cluster) = self.cluster.as_mut() {
                let node = cluster.at(at)?;
                if let Some(status) = node.process.ended() {
                    let log = last_words(node.process.log());
                    bail!("node {} has ended by itself ({status}): {log}", node.id);
                }
                if !node.process.is_started() {
                    continue;
                }
            }
            let applied = self.applied(at).await;
            if applied.is_none_or(|applied| applied + lag < goal) {
                let at = at + 1;
                return Ok(Some(format!("node {at} at entry {applied:?} of {goal}")));
            }
        }
        Ok(None)
    }

    /// The last entry in the state of a node, if it answers.
    pub async fn applied(&self, at: usize) -> Option<u64> {
        self.admins.get(at)?.cluster().await?.log.applied
    }

    /// SIGKILL.
    pub fn kill(&mut self, at: usize) -> anyhow::Result<()> {
        self.node(at)?.process.kill();
        Ok(())
    }

    /// SIGSTOP: it answers nothing and forgets nothing.
    pub fn halt(&mut self, at: usize) -> anyhow::Result<()> {
        self.node(at)?.process.signal(Signal::SIGSTOP)
    }

    /// SIGCONT.
    pub fn resume(&mut self, at: usize) -> anyhow::Result<()> {
        self.node(at)?.process.signal(Signal::SIGCONT)
    }

    /// Starts a node that is down.
    pub fn start(&mut self, at: usize) -> anyhow::Result<()> {
        self.node(at)?.process.start()
    }

    /// SIGTERM; waits until it has ended. Errors: it does not in time, or not well.
    pub async fn terminate(&mut self, at: usize) -> anyhow::Result<()> {
        let status = self.node(at)?.process.terminate().await?;
        if !status.success() {
            bail!("node {} ended with {status} after SIGTERM", at + 1);
        }
        Ok(())
    }

    /// Asks the node that leads for a change of the cluster. Errors: its sentence.
    pub async fn change(&self, path: &str) -> anyhow::Result<()> {
        let leader = self.leader().await?;
        let admin = self.admins.get(leader).context("the leader's admin port")?;
        admin.change(path).await.map_err(anyhow::Error::msg)
    }
}

/// The last line that a node has written.
pub fn last_words(log: &std::path::Path) -> String {
    let bytes = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    text.lines().next_back().unwrap_or("it has said nothing").to_owned()
}
