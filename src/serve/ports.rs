//! The ports of a node, bound together before anything else happens.

use anyhow::Context;
use tokio::net::TcpListener;

use crate::config::{Config, DISCOVERY_PORT_DEFAULT, EventsConfig, host_port};

/// Bound listeners.
pub(super) struct Ports {
    pub rpc: TcpListener,
    pub admin: TcpListener,
    pub metadata: Option<TcpListener>,
    pub discovery: Option<TcpListener>,
    pub events: Option<TcpListener>,
}

impl Ports {
    /// Errors: a port is taken or its address is not this machine's; the flag is named.
    pub async fn bind(config: &Config) -> anyhow::Result<Self> {
        let rpc = bind(&config.rpc.listen(), "rpc_port").await?;
        let admin = bind(&config.admin.listen(), "metrics_port").await?;
        let metadata = match config.http_metadata.is_enabled {
            true => Some(bind(&config.http_metadata.listen(), "http_metadata_server_port").await?),
            false => None,
        };
        let discovery = bind_discovery(config).await?;
        let events = bind_events(&config.events).await?;
        Ok(Ports { rpc, admin, metadata, discovery, events })
    }
}

async fn bind(address: &str, flag: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address}; choose another --{flag}"))
}

/// As at the peer, events without a place or a name are not published, and the node serves all the same.
async fn bind_events(config: &EventsConfig) -> anyhow::Result<Option<TcpListener>> {
    if config.is_enabled && !config.is_published() {
        tracing::warn!(
            "events are not published: enable_kv_events needs kv_events_bind_endpoint and \
             kv_events_backend_id"
        );
    }
    if !config.is_published() {
        return Ok(None);
    }
    let address = config.listen().map_err(anyhow::Error::msg)?;
    bind(&address, "kv_events_bind_endpoint").await.map(Some)
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
                %address,
                %error,
                "clients cannot find the leader through this node; choose another --discovery_port if \
                 etcd:// addresses are to name it"
            );
            Ok(None)
        }
    }
}
