//! This node's place in its cluster, from the configuration.

use std::net::SocketAddr;

use anyhow::Context;

use crate::config::{Config, Durability};

/// Replication as it is configured.
///
/// Errors: this node is not among the peers, or its raft address cannot be resolved.
pub(super) fn raft_config(config: &Config) -> anyhow::Result<mooncake_ha_raft::Config> {
    let raft = &config.raft;
    let cluster = &config.storage.cluster_id;
    let mut settings = mooncake_ha_raft::Config::new(raft.node_id, cluster, &raft.data_dir);
    settings.peers = raft.peers.iter().map(|p| (p.node_id, p.address.clone())).collect();
    settings.join = raft.is_joining;
    settings.secret =
        Some(raft.cluster_secret.reveal().to_owned()).filter(|secret| !secret.is_empty());
    settings.tls = raft.uses_tls().then(|| mooncake_ha_raft::TlsFiles {
        cert: raft.tls_cert.clone(),
        key: raft.tls_key.clone(),
        ca: raft.tls_ca.clone(),
    });
    if !raft.peers.is_empty() {
        settings.listen = Some(raft_listen(config)?);
    }
    settings.durability = match raft.durability {
        Durability::Sync => mooncake_ha_raft::Durability::Sync,
        Durability::Async => mooncake_ha_raft::Durability::Async,
    };
    settings.snapshot_log_bytes = raft.snapshot_log_bytes;
    settings.log_keep_bytes = raft.log_keep_bytes;
    Ok(settings)
}

/// Where the raft port listens: on all interfaces unless an address is given, at the port by which the peers know
/// this node.
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
    let host = if raft.address.is_empty() { "0.0.0.0" } else { &raft.address };
    format!("{host}:{port}")
        .parse()
        .with_context(|| format!("--raft_address {} is not an IP address", raft.address))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::PeerAddress;

    #[test]
    fn a_loopback_address_that_is_given_opens_the_raft_port_to_nobody_else() {
        let mut config = Config::default();
        config.raft.peers = vec![PeerAddress { node_id: 1, address: "h1:50061".into() }];
        let listen = |config: &Config| raft_listen(config).unwrap().to_string();
        assert_eq!(listen(&config), "0.0.0.0:50061");
        config.raft.address = "127.0.0.1".into();
        assert_eq!(listen(&config), "127.0.0.1:50061");
    }
}
