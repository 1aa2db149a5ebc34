//! One node from start to stop: opens the rooms in order, says that it serves, closes them in reverse.
//!
//! Ports are bound before the data directory is touched: a node that cannot serve must not hold its data. The
//! doors that can say "not ready" open while the log is replayed. On a stop leadership is handed over first,
//! while clients are still passed on to the new leader.

mod cluster;
mod core;
pub(crate) mod memory;
mod ports;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use mooncake_ha_snapshot::Catalog;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use self::core::Core;
use crate::admin::{self, Door};
use crate::clock::{Clock, SteppedClock, SystemClock};
use crate::config::{ClientRelease, Config};
use crate::discovery::{self, Discovery};
use crate::events::{self, Publisher};
use crate::metrics::Metrics;
use crate::node::MasterNode;
use crate::node::drive::Drive;
use crate::node::settings::NodeSettings;
use crate::restore::{self, Restorer};
use crate::rpc::{self, Service, StorageAnswer};
use crate::snapshotter::{self, Follower, Snapshotter};
use crate::wire::older::Release;
use ports::Ports;

/// How long a node that hands over waits to hear where its successor serves clients.
const ANNOUNCEMENT_WAIT_MAX: Duration = Duration::from_secs(5);

/// Time for clients to go to the successor, and then for the last ones to show that they did not. Longer than
/// the second between two pings of a client. Calls under way need longer.
const LINGER: Duration = Duration::from_millis(1_200);

/// How often that time is given while calls still come. Clients that know this node alone never stop calling.
const LINGER_TIMES_MAX: u32 = 4;

/// Runs a node until it is told to stop.
///
/// Errors: whatever keeps the node from serving, as a chain that ends with the cause.
pub async fn run(config: Config) -> anyhow::Result<()> {
    let ports = Ports::bind(&config).await?;
    let catalog = snapshotter::open_catalog(&config)?;
    let clock = clock_of(&config);
    let metrics = Arc::new(Metrics::default());
    let (rpc_address, admin_address) = (ports.rpc.local_addr()?, ports.admin.local_addr()?);
    let (stop, stopping) = watch::channel(false);
    let mut doors = JoinSet::new();

    let admin = Arc::new(Door::new(&config, Arc::clone(&metrics), clock.clone()));
    doors.spawn(admin::serve(ports.admin, Arc::clone(&admin), stopping.clone()));
    if let Some(listener) = ports.metadata {
        doors.spawn(admin::te_metadata::serve(listener, Arc::clone(&admin), stopping.clone()));
    }

    let (rpc_told, admin_told) =
        (advertised(&config, rpc_address), advertised(&config, admin_address));
    let settings = NodeSettings::new(&config, &rpc_told, &admin_told);
    let raft = cluster::raft_config(&config)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    memory::start().context("no thread for memory can be started")?;
    let core = Core::start(cores).context("threads for replication cannot be started")?;
    let drive = Drive { callers: Some(Handle::current()), ..Drive::default() };
    let opened = core.run(MasterNode::open_driven(raft, settings, clock.clone(), drive)).await;
    let node = opened.map_err(|why| anyhow::anyhow!("opening was interrupted: {why}"))?;
    let node = node.context("the node cannot be opened")?;
    if let Some(ended) = first_restore(&config, &node, &admin, catalog).await {
        let _ = stop.send(true);
        while doors.join_next().await.is_some() {}
        node.shutdown().await;
        return ended;
    }
    // The second is held to the end of the node: dropping it ends the follower's thread.
    let (snapshots, _follower) = take_snapshots(&config, &node, &admin, &metrics, clock)?.unzip();
    let reporter = config.admin.is_metric_reporting.then(|| tokio::spawn(admin::report(admin)));

    let service = Arc::new(rpc_service(&config, &node, &metrics));
    doors.spawn(rpc::serve(ports.rpc, Arc::clone(&service), stopping.clone()));
    if let Some(listener) = ports.discovery {
        doors.spawn(discovery::serve(listener, discovery_of(&node), stopping.clone()));
    }
    let publisher = Publisher::new(&config.events, node.clone(), Arc::clone(&metrics));
    if let (Some(listener), Some(publisher)) = (ports.events, publisher) {
        doors.spawn(events::serve(listener, publisher, stopping));
    }
    tracing::info!(
        rpc = %rpc_address,
        admin = %admin_address,
        data_dir = %config.raft.data_dir.display(),
        "ready: serving clients"
    );

    let reason = until_stopped(&node).await;
    reporter.into_iter().chain(snapshots).for_each(|task| task.abort());
    if node.hand_over().await {
        linger(&node, &service).await;
    }
    let _ = stop.send(true);
    while doors.join_next().await.is_some() {}
    node.shutdown().await;
    match reason {
        None => {
            tracing::info!("stopped");
            Ok(())
        }
        Some(fatal) => anyhow::bail!("{fatal}"),
    }
}

/// Opens the node to operators and waits until its first restore, if it is to have one, is decided. Answers how the
/// node ends if it must not serve: by what went wrong, or in order, because it was told to stop meanwhile.
async fn first_restore(
    config: &Config,
    node: &MasterNode,
    admin: &Door,
    catalog: Option<Catalog>,
) -> Option<anyhow::Result<()>> {
    let is_wanted = config.snapshot.is_restore_enabled;
    admin.set_restoring(is_wanted);
    admin.opened(node.clone());
    let restorer = Arc::new(Restorer::new(catalog?, node.clone()));
    admin.restores(Arc::clone(&restorer));
    if !is_wanted {
        return None;
    }
    tokio::select! {
        decided = restore::before_serving(config, node, &restorer) => {
            admin.set_restoring(decided.is_err());
            decided.err().map(|error| Err(error.into()))
        }
        reason = until_stopped(node) => Some(match reason {
            None => Ok(()),
            Some(fatal) => Err(anyhow::anyhow!("{fatal}")),
        }),
    }
}

/// Begins to take catalog snapshots, if they are on: while this node leads, and for the leader while it does not.
fn take_snapshots(
    config: &Config,
    node: &MasterNode,
    admin: &Door,
    metrics: &Arc<Metrics>,
    clock: Arc<dyn Clock>,
) -> anyhow::Result<Option<(JoinHandle<()>, Option<Follower>)>> {
    if !config.snapshot.is_enabled {
        return Ok(None);
    }
    let Some(catalog) = snapshotter::open_catalog(config)? else { return Ok(None) };
    let (node, metrics) = (node.clone(), Arc::clone(metrics));
    let snapshotter = Arc::new(Snapshotter::new(config, catalog, node, metrics, clock));
    admin.takes_snapshots(Arc::clone(&snapshotter));
    let follower =
        snapshotter.follow().context("no thread for catalog snapshots can be started")?;
    Ok(Some((tokio::spawn(snapshotter.run()), follower)))
}

/// The machine's clock, unless a drill wants to step it.
fn clock_of(config: &Config) -> Arc<dyn Clock> {
    let file = &config.raft.clock_offset_file;
    if file.as_os_str().is_empty() {
        return Arc::new(SystemClock::default());
    }
    tracing::warn!(file = %file.display(), "the wall clock is moved by a file; that is for drills only");
    Arc::new(SteppedClock::new(file.clone()))
}

/// The address that clients are sent to: this node's host as its peers know it, with the port that is open.
fn advertised(config: &Config, listening: SocketAddr) -> String {
    let own = config.raft.peers.iter().find(|peer| peer.node_id == config.raft.node_id);
    let host = own.and_then(|peer| peer.address.rsplit_once(':')).map(|(host, _)| host);
    match host {
        Some(host) => format!("{host}:{}", listening.port()),
        None if listening.ip().is_unspecified() => format!("127.0.0.1:{}", listening.port()),
        None => listening.to_string(),
    }
}

fn rpc_service(config: &Config, node: &MasterNode, metrics: &Arc<Metrics>) -> Service {
    let storage = StorageAnswer {
        is_disk_eviction_enabled: config.storage.enable_disk_eviction,
        quota_bytes: config.storage.quota_bytes,
    };
    let idle = Some(u64::from(config.rpc.conn_timeout_sec)).filter(|seconds| *seconds > 0);
    let idle = idle.map(Duration::from_secs);
    let release = match config.rpc.assumed_release {
        ClientRelease::V0312 => Release::V0312,
        ClientRelease::V0313 => Release::V0313,
    };
    Service::new(node.clone(), Arc::clone(metrics), storage, idle, config.rpc.tcp_no_delay)
        .assuming(release)
}

fn discovery_of(node: &MasterNode) -> Discovery {
    Discovery {
        leadership: node.machine().watch_leadership(),
        role: node.raft().watch_role(),
        node_id: node.settings().node_id,
    }
}

/// Keeps the doors open after a hand-over: clients hear here who leads now, and calls that still come are passed
/// on. A client that finds its old leader's port closed tries it for more than four seconds.
async fn linger(node: &MasterNode, service: &Service) {
    let own = node.settings().node_id;
    let mut leadership = node.machine().watch_leadership();
    let told = leadership.wait_for(|told| told.as_ref().is_some_and(|told| told.node_id != own));
    // Without an announcement there is nothing to wait for any longer.
    let _ = tokio::time::timeout(ANNOUNCEMENT_WAIT_MAX, told).await;
    for _ in 0..LINGER_TIMES_MAX {
        let before = service.passed_on();
        tokio::time::sleep(LINGER).await;
        if service.passed_on() == before {
            return;
        }
    }
}

/// Waits for a signal or for a failure that the node must not survive; answers the latter.
async fn until_stopped(node: &MasterNode) -> Option<String> {
    let mut fatal = node.raft().watch_fatal();
    let mut terminate =
        tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).ok();
    let terminated = async {
        match terminate.as_mut() {
            Some(signal) => signal.recv().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => None,
        _ = terminated => None,
        failed = fatal.wait_for(Option::is_some) => failed.ok().and_then(|reason| reason.clone()),
    }
}
