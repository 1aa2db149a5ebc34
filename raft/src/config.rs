//! What an operator can say about replication, and whether it makes sense.
//!
//! Guards: intervals in their right order, limits above zero, this node among its peers.
//! Leaves to the root crate: flags, files, defaults of its own.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::types::NodeId;
use crate::world::World;

/// Largest entry that can be proposed.
pub const ENTRY_BYTES_MAX: usize = 16 << 20;
/// Proposals waiting for their outcome; more wait for a free place.
pub const PROPOSALS_IN_FLIGHT_MAX: usize = 4096;

/// Entries that a node may lack and still count as up to date: a learner that is to vote, a voter
/// that is to carry on without another one.
pub(crate) const CATCH_UP_LAG_MAX: u64 = 1000;

/// When an entry counts as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// On disk (fdatasync, many entries at once): survives a power cut.
    #[default]
    Sync,
    /// In the operating system's hands: survives the death of the process, not a power cut.
    /// Votes are on disk in either case.
    Async,
}

/// PEM files for mutual TLS between nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// This node's certificate, then what leads to the authority; for client and server use.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Certificates of the authority that has signed those of all nodes, and of nobody else.
    pub ca: PathBuf,
}

/// Settings of one node.
#[derive(Debug, Clone)]
pub struct Config {
    /// This node.
    pub node_id: NodeId,
    /// Which cluster the data belongs to; another one's data or messages are refused.
    pub cluster_id: String,
    /// Directory of the log and the raft snapshot; created if missing.
    pub data_dir: PathBuf,
    /// Where peers connect to; `None` with a single node. Without `peers` it is also the address
    /// that other nodes will be told, so a wildcard address is of no use then.
    pub listen: Option<SocketAddr>,
    /// Every voter of a new cluster, this node included, as `host:port`. Empty: one node.
    /// On a restart only the addresses matter, and they win over the stored ones.
    pub peers: BTreeMap<NodeId, String>,
    /// True for a node that is added to a running cluster: it waits to be added instead of
    /// forming a cluster from `peers`.
    pub join: bool,
    /// What peers must present; `None` asks for nothing.
    pub secret: Option<String>,
    /// Certificates; `None`: connections are neither encrypted nor proven by them.
    pub tls: Option<TlsFiles>,
    /// When a proposal counts as stored on a node.
    pub durability: Durability,
    /// How often a leader shows that it lives.
    pub heartbeat: Duration,
    /// Shortest silence after which a follower, its lease over, campaigns.
    pub election_min: Duration,
    /// Longest such silence; also the leader lease. Must be the same on all nodes.
    pub election_max: Duration,
    /// Bytes of log after which a raft snapshot is made, unless the last one was larger.
    pub snapshot_log_bytes: u64,
    /// Bytes of log kept behind the raft snapshot, for peers that lag.
    pub log_keep_bytes: u64,
    /// Bytes of the log's tail kept in memory.
    pub log_cache_bytes: usize,
    /// Bytes of memory for pages of the log store.
    pub store_cache_bytes: u64,
    /// How long a raft snapshot transfer may stand still before it is given up.
    pub snapshot_idle: Duration,
    /// The machine, or a simulation.
    #[doc(hidden)]
    pub world: World,
}

impl Config {
    /// Defaults for one node: no peers, sync durability, fail-over in about one and a half
    /// seconds.
    pub fn new(
        node_id: NodeId,
        cluster_id: impl Into<String>,
        data_dir: impl Into<PathBuf>,
    ) -> Self {
        Self {
            node_id,
            cluster_id: cluster_id.into(),
            data_dir: data_dir.into(),
            listen: None,
            peers: BTreeMap::new(),
            join: false,
            secret: None,
            tls: None,
            durability: Durability::Sync,
            heartbeat: Duration::from_millis(150),
            election_min: Duration::from_millis(500),
            election_max: Duration::from_millis(900),
            snapshot_log_bytes: 256 << 20,
            log_keep_bytes: 128 << 20,
            log_cache_bytes: 2 << 20,
            store_cache_bytes: 4 << 20,
            snapshot_idle: Duration::from_secs(20),
            world: World::default(),
        }
    }

    /// Checks the settings against each other.
    ///
    /// # Errors
    /// The first contradiction, with both numbers.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let ms = |d: Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
        let ordered = |name, low: u64, than, high: u64| {
            if low < high {
                Ok(())
            } else {
                Err(ConfigError::NotBelow { name, value: low, than, limit: high })
            }
        };
        ordered("0", 0, "heartbeat (ms)", ms(self.heartbeat))?;
        let two_beats = ms(self.heartbeat).saturating_mul(2);
        ordered("twice the heartbeat (ms)", two_beats, "election-min (ms)", ms(self.election_min))?;
        let (min, max) = (ms(self.election_min), ms(self.election_max));
        ordered("election-min (ms)", min, "election-max (ms)", max)?;
        ordered("0", 0, "snapshot-log-bytes", self.snapshot_log_bytes)?;
        ordered("0", 0, "log-cache-bytes", self.log_cache_bytes as u64)?;
        ordered("0", 0, "snapshot-idle (ms)", ms(self.snapshot_idle))?;
        if self.cluster_id.is_empty() || self.cluster_id.len() > CLUSTER_ID_BYTES_MAX {
            return Err(ConfigError::ClusterId(self.cluster_id.len()));
        }
        if !self.peers.is_empty() {
            if !self.peers.contains_key(&self.node_id) {
                let peers = self.peers.keys().map(u64::to_string).collect::<Vec<_>>().join(", ");
                return Err(ConfigError::NotAPeer { node_id: self.node_id, peers });
            }
            if self.listen.is_none() {
                return Err(ConfigError::NoListen(self.peers.len()));
            }
            for (id, addr) in &self.peers {
                check_address(*id, addr)?;
            }
        }
        if self.join && self.listen.is_none() {
            return Err(ConfigError::NoListen(0));
        }
        Ok(())
    }

    /// The leader lease: how long followers refuse another leader after hearing from this one.
    pub(crate) fn lease(&self) -> Duration {
        self.election_max
    }
}

/// Longest cluster id, in bytes.
pub const CLUSTER_ID_BYTES_MAX: usize = 255;

/// Checks that an address reads `host:port`.
pub(crate) fn check_address(id: NodeId, addr: &str) -> Result<(), ConfigError> {
    let valid = addr.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)
    });
    if valid { Ok(()) } else { Err(ConfigError::Address { id, addr: addr.to_owned() }) }
}

/// Settings that contradict each other.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Two values in the wrong order.
    #[error("{name} is {value}, which must be below {than}, which is {limit}")]
    NotBelow {
        /// What must be smaller.
        name: &'static str,
        /// Its value.
        value: u64,
        /// What must be larger.
        than: &'static str,
        /// Its value.
        limit: u64,
    },
    /// An empty or overlong cluster id.
    #[error("the cluster id has {0} bytes; it must have 1 to {CLUSTER_ID_BYTES_MAX}")]
    ClusterId(usize),
    /// This node is missing in the list of peers.
    #[error("node {node_id} is not among the peers ({peers}); add it or correct the node id")]
    NotAPeer {
        /// This node.
        node_id: NodeId,
        /// The peers that were given.
        peers: String,
    },
    /// Several nodes need an address to talk on.
    #[error("{0} peers are given but no address to listen on for them")]
    NoListen(usize),
    /// An address that is not `host:port`.
    #[error("address {addr:?} of node {id} is not host:port")]
    Address {
        /// Whose address.
        id: NodeId,
        /// The address.
        addr: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid() {
        assert_eq!(Config::new(1, "c", "d").validate(), Ok(()));
    }

    #[test]
    fn a_contradiction_names_both_numbers() {
        let mut config = Config::new(1, "c", "d");
        config.heartbeat = Duration::from_millis(400);
        let text = config.validate().unwrap_err().to_string();
        assert!(text.contains("800") && text.contains("500"), "{text}");
    }

    #[test]
    fn a_node_missing_among_its_peers_is_refused() {
        let mut config = Config::new(9, "c", "d");
        config.peers.insert(1, "h:1".into());
        let text = config.validate().unwrap_err().to_string();
        assert!(text.contains("node 9") && text.contains("(1)"), "{text}");
    }

    #[test]
    fn an_address_without_a_port_is_refused() {
        let mut config = Config::new(1, "c", "d");
        config.listen = Some("127.0.0.1:1".parse().unwrap());
        config.peers.insert(1, "host".into());
        assert!(matches!(config.validate(), Err(ConfigError::Address { id: 1, .. })));
    }
}
