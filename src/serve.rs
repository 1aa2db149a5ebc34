//! One node from start to stop: opens the rooms in order, says that it serves, closes them in reverse.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::admin::{self, Door};
use crate::clock::SystemClock;
use crate::config::{Config, Durability};
use crate::metrics::Metrics;
use crate::node::MasterNode;
use crate::node::settings::NodeSettings;
use crate::rpc::{self, Service, StorageAnswer};

/// Runs a node until it is told to stop.
///
/// Errors: whatever keeps the node from serving, as a chain that ends with the cause.
pub async fn run(config: Config) -> anyhow::Result<()> {
    // Ports first: a node that cannot serve must not touch its data.
    let ports = Ports::bind(&config).await?;
    let clock = Arc::new(SystemClock::default());
    let metrics = Arc::new(Metrics::default());
    let (stop, stopping) = watch::channel(false);
    let (rpc_address, admin_address) = (ports.rpc.local_addr()?, ports.admin.local_addr()?);

    // The doors that can say "not ready" open while the log is replayed.
    let door = Arc::new(Door::new(&config, Arc::clone(&metrics), clock.clone()));
    let mut http = JoinSet::new();
    http.spawn(admin::serve(ports.admin, Arc::clone(&door), stopping.clone()));
    if let Some(listener) = ports.metadata {
        let door = Arc::clone(&door);
        http.spawn(admin::te_metadata::serve(listener, door, stopping.clone()));
    }

    let (rpc_told, admin_told) =
        (advertised(&config, rpc_address), advertised(&config, admin_address));
    let settings = NodeSettings::new(&config, &rpc_told, &admin_told);
    let node = MasterNode::open(raft_config(&config)?, settings, clock)
        .await
        .context("the data directory cannot be used")?;
    door.opened(node.clone());
    let reporter = config.admin.is_metric_reporting.then(|| tokio::spawn(admin::report(door)));

    let service = Arc::new(rpc_service(&config, &node, &metrics));
    let rpc_door = tokio::spawn(rpc::serve(ports.rpc, service, stopping.clone()));
    tracing::info!(
        rpc = %rpc_address,
        admin = %admin_address,
        data_dir = %config.raft.data_dir.display(),
        "ready: serving clients"
    );

    let reason = until_stopped(&node).await;
    let _ = stop.send(true);
    let _ = rpc_door.await;
    if let Some(reporter) = reporter {
        reporter.abort();
    }
    while http.join_next().await.is_some() {}
    node.shutdown().await;
    match reason {
        None => {
            tracing::info!("stopped");
            Ok(())
        }
        Some(fatal) => anyhow::bail!("{fatal}"),
    }
}

/// Every port of the node, open and not served yet.
struct Ports {
    rpc: TcpListener,
    admin: TcpListener,
    metadata: Option<TcpListener>,
}

impl Ports {
    async fn bind(config: &Config) -> anyhow::Result<Self> {
        let rpc = bind(&config.rpc.listen(), "rpc_port").await?;
        let admin = bind(&config.admin.listen(), "metrics_port").await?;
        let metadata = match config.http_metadata.is_enabled {
            true => Some(bind(&config.http_metadata.listen(), "http_metadata_server_port").await?),
            false => None,
        };
        Ok(Ports { rpc, admin, metadata })
    }
}

async fn bind(address: &str, flag: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address}; choose another --{flag}"))
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
        fsdir: String::new(),
        is_disk_eviction_enabled: config.storage.enable_disk_eviction,
        quota_bytes: config.storage.quota_bytes,
    };
    let idle = Some(u64::from(config.rpc.conn_timeout_sec)).filter(|seconds| *seconds > 0);
    let idle = idle.map(Duration::from_secs);
    Service::new(node.clone(), Arc::clone(metrics), storage, idle, config.rpc.tcp_no_delay)
}

/// Replication as it is configured.
///
/// Errors: this node is not among the peers, or its raft address cannot be resolved.
fn raft_config(config: &Config) -> anyhow::Result<mooncake_ha_raft::Config> {
    let raft = &config.raft;
    let cluster = &config.storage.cluster_id;
    let mut settings = mooncake_ha_raft::Config::new(raft.node_id, cluster, &raft.data_dir);
    settings.peers = raft.peers.iter().map(|p| (p.node_id, p.address.clone())).collect();
    settings.secret =
        Some(raft.cluster_secret.reveal().to_owned()).filter(|secret| !secret.is_empty());
    if !raft.peers.is_empty() {
        settings.listen = Some(raft_listen(config)?);
    }
    settings.durability = match raft.durability {
        Durability::Sync => mooncake_ha_raft::Durability::Sync,
        Durability::Async => mooncake_ha_raft::Durability::Async,
    };
    Ok(settings)
}

/// Where the raft port listens: with peers on all interfaces unless an address is given, at the port by which
/// the peers know this node.
fn raft_listen(config: &Config) -> anyhow::Result<SocketAddr> {
    let raft = &config.raft;
    let own = raft.peers.iter().find(|peer| peer.node_id == raft.node_id);
    let own = own.with_context(|| {
        format!("node {} is not among --peers; add it or correct --node_id", raft.node_id)
    })?;
    let (_, port) = own.address.rsplit_once(':').unwrap_or_default();
    let port: u16 = port.parse().with_context(|| {
        format!("--peers gives node {} the address {}, which has no port", own.node_id, own.address)
    })?;
    let host = if raft.address == "127.0.0.1" { "0.0.0.0" } else { &raft.address };
    format!("{host}:{port}")
        .parse()
        .with_context(|| format!("--raft_address {} is not an IP address", raft.address))
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
