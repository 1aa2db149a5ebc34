//! The ports of a node, bound together before anything else happens.

use anyhow::Context;
use tokio::net::TcpListener;

use crate::config::{Config, DISCOVERY_PORT_DEFAULT, host_port};

/// Bound listeners.
pub(super) struct Ports {
    pub rpc: TcpListener,
    pub admin: TcpListener,
    pub metadata: Option<TcpListener>,
    pub discovery: Option<TcpListener>,
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
        Ok(Ports { rpc, admin, metadata, discovery })
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
                %address,
                %error,
                "clients cannot find the leader through this node; choose another --discovery_port if \
                 etcd:// addresses are to name it"
            );
            Ok(None)
        }
    }
}
