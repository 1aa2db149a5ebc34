//! What two settings must be together: every inequality, with a message that shows both numbers.
//!
//! Guards the invariants that the sections state across fields. Limits of single values are in the flag
//! table.

use super::error::ConfigError;
use super::sections::Config;

/// Checks `config` as a whole.
///
/// Errors: the first contradiction, as one sentence.
pub fn validate(config: &Config) -> Result<(), ConfigError> {
    let pins = &config.soft_pins;
    require(pins.default_ttl_ms <= pins.max_ttl_ms, || {
        format!(
            "default_kv_soft_pin_ttl={} is refused; it must be at most max_kv_soft_pin_ttl={} (both in ms)",
            pins.default_ttl_ms, pins.max_ttl_ms
        )
    })?;
    let writes = &config.writes;
    require(writes.release_timeout_sec > writes.discard_timeout_sec, || {
        format!(
            "put_start_release_timeout_sec={} is refused; it must be above \
             put_start_discard_timeout_sec={}",
            writes.release_timeout_sec, writes.discard_timeout_sec
        )
    })?;
    require(config.raft.peers.is_empty() || config.is_own_id_in_peers(), || {
        format!("node_id={} is refused; it must be one of the ids in peers", config.raft.node_id)
    })?;
    if config.events.is_published() {
        config.events.listen().map_err(ConfigError::Conflict)?;
    }
    whole_tls(config)?;
    distinct_ports(config)
}

/// A certificate without its key proves nothing, and without an authority anybody is let in.
fn whole_tls(config: &Config) -> Result<(), ConfigError> {
    let raft = &config.raft;
    let files = [
        ("raft_tls_cert", &raft.tls_cert),
        ("raft_tls_key", &raft.tls_key),
        ("raft_tls_ca", &raft.tls_ca),
    ];
    let given = files.iter().find(|(_, path)| !path.as_os_str().is_empty());
    let missing = files.iter().find(|(_, path)| path.as_os_str().is_empty());
    match (given, missing) {
        (Some((given, path)), Some((missing, _))) => Err(ConfigError::Conflict(format!(
            "{given}={} is refused without {missing}; give all three files or none",
            path.display()
        ))),
        _ => Ok(()),
    }
}

fn require(holds: bool, sentence: impl FnOnce() -> String) -> Result<(), ConfigError> {
    if holds { Ok(()) } else { Err(ConfigError::Conflict(sentence())) }
}

/// Two servers cannot listen on one port; saying so here beats "address in use" after the start.
fn distinct_ports(config: &Config) -> Result<(), ConfigError> {
    let mut servers = vec![
        ("rpc_port", config.rpc.address.as_str(), config.rpc.port),
        ("metrics_port", config.admin.host.as_str(), config.admin.port),
    ];
    if config.http_metadata.is_enabled {
        let server = &config.http_metadata;
        servers.push(("http_metadata_server_port", server.host.as_str(), server.port));
    }
    if let Some(port) = config.discovery.port {
        servers.push(("discovery_port", config.rpc.address.as_str(), port));
    }
    for (at, (name, host, port)) in servers.iter().enumerate() {
        for (other_name, other_host, other_port) in servers.iter().skip(at + 1) {
            let overlaps = host == other_host || is_any(host) || is_any(other_host);
            require(*port == 0 || port != other_port || !overlaps, || {
                format!("{other_name}={other_port} is refused; it must differ from {name}={port}")
            })?;
        }
    }
    Ok(())
}

fn is_any(host: &str) -> bool {
    matches!(host, "0.0.0.0" | "::" | "[::]")
}

impl Config {
    fn is_own_id_in_peers(&self) -> bool {
        self.raft.peers.iter().any(|peer| peer.node_id == self.raft.node_id)
    }
}
