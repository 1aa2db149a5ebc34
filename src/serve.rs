//! One node from start to stop: opens the rooms in order, says that it serves, closes them in reverse.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::clock::SystemClock;
use crate::config::{Config, DISCOVERY_PORT_DEFAULT, Durability, host_port};
use crate::discovery::{self, Discovery};
use crate::metrics::Metrics;
use crate::node::MasterNode;
use crate::node::settings::NodeSettings;
use crate::rpc::{self, Service, StorageAnswer};

/// Runs a node until it is told to stop.
///
/// Errors: whatever keeps the node from serving, as a chain that ends with the cause.
pub async fn run(config: Config) -> anyhow::Result<()> {
    // Ports first: a node that cannot serve must not touch its data.
    let rpc_listener = bind(&config.rpc.listen(), "rpc_port").await?;
    let clock = Arc::new(SystemClock::default());
    let discovery_listener = bind_discovery(&config).await?;
    let rpc_address = rpc_listener.local_addr()?;
    let settings = NodeSettings::new(&config, &advertised(&config, rpc_address), "");
    let node = MasterNode::open(raft_config(&config), settings, clock)
        .await
        .context("the data directory cannot be used")?;
    let metrics = Arc::new(Metrics::default());
    let (stop, stopping) = watch::channel(false);

    let service = Arc::new(rpc_service(&config, &node, &metrics));
    let rpc_door = tokio::spawn(rpc::serve(rpc_listener, service, stopping.clone()));
    let discovery_door = open_discovery(discovery_listener, &node, stopping.clone());
    tracing::info!(
        rpc = %rpc_address,
        data_dir = %config.raft.data_dir.display(),
        "ready: serving clients"
    );

    let reason = until_stopped(&node).await;
    let _ = stop.send(true);
    let _ = rpc_door.await;
    if let Some(door) = discovery_door {
        let _ = door.await;
    }
    node.shutdown().await;
    match reason {
        None => {
            tracing::info!("stopped");
            Ok(())
        }
        Some(fatal) => anyhow::bail!("{fatal}"),
    }
}

async fn bind(address: &str, flag: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address}; choose another --{flag}"))
}

/// A port that was given must be free. The default port may be another node's on the same machine: this node
/// then serves without the door.
async fn bind_discovery(config: &Config) -> anyhow::Result<Option<TcpListener>> {
    let address = |port| host_port(&config.rpc.address, port);
    if let Some(port) = config.discovery.port {
        return bind(&address(port), "discovery_port").await.map(Some);
    }
    let address = address(DISCOVERY_PORT_DEFAULT);
    match TcpListener::bind(&address).await {
        Ok(listener) => Ok(Some(listener)),
        Err(error) => {
            tracing::warn!(
                "clients cannot find the leader through this node: {address} cannot be listened on ({error}); \
                 choose another --discovery_port if etcd:// addresses are to name this node"
            );
            Ok(None)
        }
    }
}

fn open_discovery(
    listener: Option<TcpListener>,
    node: &MasterNode,
    stopping: watch::Receiver<bool>,
) -> Option<JoinHandle<()>> {
    let listener = listener?;
    if let Ok(address) = listener.local_addr() {
        tracing::info!(%address, "clients find the leader here");
    }
    let discovery = Discovery {
        leadership: node.machine().watch_leadership(),
        node_id: node.settings().node_id,
    };
    Some(tokio::spawn(discovery::serve(listener, discovery, stopping)))
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

fn raft_config(config: &Config) -> mooncake_ha_raft::Config {
    let raft = &config.raft;
    let cluster = &config.storage.cluster_id;
    let mut settings = mooncake_ha_raft::Config::new(raft.node_id, cluster, &raft.data_dir);
    settings.durability = match raft.durability {
        Durability::Sync => mooncake_ha_raft::Durability::Sync,
        Durability::Async => mooncake_ha_raft::Durability::Async,
    };
    settings
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
