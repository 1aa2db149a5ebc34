//! One node: the real master on simulated hardware, in a runtime of its own.
//!
//! Guards: a node runs only while it is stepped, one millisecond at a time, so nothing depends on
//! threads; a crash drops its runtime, and with it every task at whatever it waits for, or between
//! any two polls. Leaves to `run.rs` whose turn it is.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use mooncake_ha::config::Config;
use mooncake_ha::metrics::Metrics;
use mooncake_ha::model::Ttl;
use mooncake_ha::node::MasterNode;
use mooncake_ha::node::drive::Drive;
use mooncake_ha::node::settings::NodeSettings;
use mooncake_ha::rpc::{Service, StorageAnswer};
use mooncake_ha_raft::{OpenError, Surroundings, World};
use parking_lot::Mutex;
use rand::RngCore;
use tokio::runtime::{Builder, Runtime};

use crate::door::{self, NetRoad};
use crate::hardware::Hardware;
use crate::net::{Host, RAFT, RPC, address};

/// A thousand years, which no clock that somebody has set wrong is ahead: no write is given up as
/// unfinished, and no silent client.
const FOREVER: Duration = Duration::from_secs(1_000 * 365 * 24 * 3600);

/// What all nodes of a run have in common.
#[derive(Clone)]
pub struct Plan {
    /// The first voters.
    pub voters: Vec<Host>,
    /// Length of a read lease.
    pub lease_ms: u64,
    /// Silence after which a client is given up; `None`: never.
    pub client_ttl: Option<Duration>,
    /// Bytes of log after which a raft snapshot is made.
    pub snapshot_log_bytes: u64,
    /// Bytes of log kept behind it.
    pub log_keep_bytes: u64,
    /// Bytes of the log's tail in memory.
    pub log_cache_bytes: usize,
    /// Tasks polled between two looks at whether the node crashes.
    pub event_interval: u32,
}

/// What became of the opening of a node.
#[derive(Default)]
pub enum Opened {
    /// Not there yet.
    #[default]
    Opening,
    /// It runs.
    Running(MasterNode),
    /// It refused to start.
    Failed(OpenError),
}

/// See the file's head.
pub struct Node {
    /// What it runs on.
    pub hardware: Arc<Hardware>,
    plan: Plan,
    runtime: Option<Runtime>,
    opened: Arc<Mutex<Opened>>,
    /// Polls until it crashes in the midst of a step.
    bomb: Option<u32>,
    /// It waits to be added to a cluster instead of forming one.
    pub is_joining: bool,
}

impl Node {
    /// A node that does not run yet.
    pub fn new(hardware: Arc<Hardware>, plan: Plan) -> Self {
        let opened = Arc::default();
        Node { hardware, plan, runtime: None, opened, bomb: None, is_joining: false }
    }

    /// Its name.
    pub fn host(&self) -> Host {
        self.hardware.host
    }

    /// Whether it is on.
    pub fn is_up(&self) -> bool {
        self.runtime.is_some()
    }

    /// Starts it. Errors: the process has no room for a runtime.
    pub fn start(&mut self) -> std::io::Result<()> {
        let mut builder = Builder::new_current_thread();
        builder.enable_time().start_paused(true).event_interval(self.plan.event_interval);
        let runtime = builder.build()?;
        self.opened = Arc::default();
        self.hardware.net.up(self.host());
        let (raft, settings) = (self.raft_config(), self.settings());
        runtime.spawn(live(Arc::clone(&self.hardware), raft, settings, Arc::clone(&self.opened)));
        self.runtime = Some(runtime);
        Ok(())
    }

    /// Lets it live through one millisecond; `false` if it crashed meanwhile.
    pub fn step(&mut self) -> bool {
        let Some(runtime) = &self.runtime else { return true };
        match self.bomb.take() {
            None => {
                runtime.block_on(a_millisecond());
                true
            }
            Some(polls) => {
                runtime.block_on(Bomb(polls));
                false
            }
        }
    }

    /// Has it crash in its next step, after so many polls.
    pub fn arm(&mut self, polls: u32) {
        self.bomb = Some(polls);
    }

    /// Ends it at once: the process, or the machine's power.
    pub fn crash(&mut self, is_power_cut: bool, is_silent: bool) {
        self.hardware.net.down(self.host(), is_silent);
        let opened = std::mem::take(&mut *self.opened.lock());
        drop(self.runtime.take());
        drop(opened);
        self.bomb = None;
        self.hardware.crash(is_power_cut);
    }

    /// The master, while it runs.
    pub fn master(&self) -> Option<MasterNode> {
        match &*self.opened.lock() {
            Opened::Running(node) => Some(node.clone()),
            _ => None,
        }
    }

    /// Why it does not run any more, or never did.
    pub fn failure(&self) -> Option<String> {
        match &*self.opened.lock() {
            Opened::Running(node) => node.raft().watch_fatal().borrow().clone(),
            Opened::Failed(error) => Some(error.to_string()),
            Opened::Opening => None,
        }
    }

    /// Has something done in its runtime.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = &self.runtime {
            runtime.spawn(work);
        }
    }

    fn raft_config(&self) -> mooncake_ha_raft::Config {
        let mut raft =
            mooncake_ha_raft::Config::new(u64::from(self.host()), "sim", "simulated-disk");
        raft.listen = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, RAFT)));
        let voters = self.plan.voters.iter().chain([&self.hardware.host]);
        let peers: BTreeMap<u64, String> =
            voters.map(|host| (u64::from(*host), address(*host, RAFT))).collect();
        raft.peers = peers;
        raft.join = self.is_joining;
        raft.snapshot_log_bytes = self.plan.snapshot_log_bytes;
        raft.log_keep_bytes = self.plan.log_keep_bytes;
        raft.log_cache_bytes = self.plan.log_cache_bytes;
        raft.world = World::simulated(Arc::clone(&self.hardware) as Arc<dyn Surroundings>);
        raft
    }

    fn settings(&self) -> NodeSettings {
        let door = address(self.host(), RPC);
        let mut settings = NodeSettings::new(&Config::default(), &door, &door);
        settings.node_id = u64::from(self.host());
        settings.is_cluster = true;
        settings.lease_ttl = Ttl(self.plan.lease_ms);
        settings.client_ttl = self.plan.client_ttl.unwrap_or(FOREVER);
        let forever = u64::try_from(FOREVER.as_millis()).unwrap_or(u64::MAX);
        settings.rules.discard_timeout_ms = forever;
        settings.rules.release_timeout_ms = forever;
        settings
    }
}

/// Lets the time of a runtime go on.
pub async fn a_millisecond() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

/// Polls itself so often, then is done: everything else of the runtime has had as many turns.
struct Bomb(u32);

impl Future for Bomb {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.0 == 0 {
            return Poll::Ready(());
        }
        self.0 -= 1;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Opens the node and answers at its door.
async fn live(
    hardware: Arc<Hardware>,
    raft: mooncake_ha_raft::Config,
    settings: NodeSettings,
    opened: Arc<Mutex<Opened>>,
) {
    let dice = Arc::clone(&hardware);
    let chance = Box::new(move || dice.dice.lock().next_u64());
    let drive = Drive { chance, has_loops: true, callers: None };
    let clock = Arc::clone(&hardware.clock);
    let master = match MasterNode::open_driven(raft, settings, clock, drive).await {
        Ok(master) => master,
        Err(error) => {
            *opened.lock() = Opened::Failed(error);
            return;
        }
    };
    *opened.lock() = Opened::Running(master.clone());
    let road = NetRoad { net: hardware.net.clone(), from: hardware.host };
    let (metrics, storage) = (Arc::new(Metrics::default()), StorageAnswer::default());
    let service = Service::new(master, metrics, storage, None, true).with_road(Box::new(road));
    let service = Arc::new(service);
    while let Ok(halves) = hardware.net.clone().accept(hardware.host, RPC).await {
        tokio::spawn(door::serve(halves, Arc::clone(&service)));
    }
}
