//! Errors of this crate, one type for each reader.
//!
//! Guards: an operator reads what, where and what now; a proposer can tell "refused" from
//! "outcome unknown"; nothing fatal is mapped to something that looks temporary.

use std::path::PathBuf;

use crate::config::ConfigError;
use crate::status::Peer;
use crate::types::NodeId;

/// Why a node could not be opened. Nothing on disk was changed unless stated.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Contradictory settings.
    #[error("configuration: {0}")]
    Config(#[from] ConfigError),
    /// Another process uses the directory.
    #[error(
        "data directory {dir} is in use by {holder}; stop that process or choose another directory"
    )]
    InUse {
        /// The directory.
        dir: PathBuf,
        /// Who holds it, as far as known.
        holder: String,
    },
    /// The directory belongs to another cluster.
    #[error(
        "data directory {dir} belongs to cluster {found:?}, not to {wanted:?}; \
         correct the cluster id or choose another directory"
    )]
    WrongCluster {
        /// The directory.
        dir: PathBuf,
        /// What it says.
        found: String,
        /// What was asked for.
        wanted: String,
    },
    /// The directory belongs to another node.
    #[error(
        "data directory {dir} belongs to node {found}, not to node {wanted}; \
         correct the node id or choose another directory"
    )]
    WrongNode {
        /// The directory.
        dir: PathBuf,
        /// What it says.
        found: NodeId,
        /// What was asked for.
        wanted: NodeId,
    },
    /// Written by a newer program.
    #[error(
        "data directory {dir} has format {found}, this program reads up to {known}; \
         start the newer program"
    )]
    NewerFormat {
        /// The directory.
        dir: PathBuf,
        /// Format found.
        found: u32,
        /// Newest format known.
        known: u32,
    },
    /// The file system refused.
    #[error("{what} {path}: {why}; check permissions, free space and the disk")]
    Io {
        /// What was being done.
        what: &'static str,
        /// To which file.
        path: PathBuf,
        /// Why it failed; not named `source`, which would be printed a second time after this text.
        why: std::io::Error,
    },
    /// Stored bytes are not what was written.
    #[error("{what} in {path}: {detail}; nothing was changed, {remedy}")]
    Damaged {
        /// What is damaged.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// How it shows.
        detail: String,
        /// What the operator can do.
        remedy: &'static str,
    },
    /// A file for TLS cannot be used.
    #[error(
        "TLS between nodes: {path}: {detail}; give certificate, key and authority as PEM files"
    )]
    Tls {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
    /// The address for peers could not be bound.
    #[error(
        "listen for peers on {addr}: {why}; give --raft_address and --peers an address of this host and a free port"
    )]
    Listen {
        /// The address.
        addr: String,
        /// Why it failed.
        why: std::io::Error,
    },
    /// Replication refused to start.
    #[error("raft: {0}")]
    Raft(String),
}

/// What to do about a damaged log or raft snapshot.
pub(crate) const REMEDY: &str = "move the directory away and add this node anew so that a peer \
     restores it; with a single node restore a catalog snapshot (docs/raft.md#damage)";

impl OpenError {
    pub(crate) fn io(
        what: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |why| Self::Io { what, path, why }
    }

    pub(crate) fn damaged(
        what: &'static str,
        path: impl Into<PathBuf>,
        detail: impl ToString,
    ) -> Self {
        Self::Damaged { what, path: path.into(), detail: detail.to_string(), remedy: REMEDY }
    }
}

/// Why a proposal yielded no reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// Not proposed: another node leads, or none. May be tried there.
    #[error("this node does not lead; {}", hint(.leader))]
    NotLeader {
        /// Who leads, if known.
        leader: Option<Peer>,
    },
    /// Proposed, then lost sight of: it may have been applied, now or later.
    #[error("outcome unknown: {0}")]
    OutcomeUnknown(String),
    /// Not proposed: the node has stopped.
    #[error("this node has stopped")]
    Stopped,
    /// Not proposed: larger than [`ENTRY_BYTES_MAX`](crate::ENTRY_BYTES_MAX).
    #[error("the entry has {size} bytes, the limit is {limit}")]
    TooLarge {
        /// Its size.
        size: usize,
        /// The limit.
        limit: usize,
    },
}

fn hint(leader: &Option<Peer>) -> String {
    match leader {
        Some(peer) => format!("node {} at {} does", peer.id, peer.addr),
        None => "no leader is known".to_owned(),
    }
}

/// Why a read cannot be answered here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// Another node leads, or none.
    #[error("this node does not lead; {}", hint(.leader))]
    NotLeader {
        /// Who leads, if known.
        leader: Option<Peer>,
    },
    /// This node led, but a quorum did not confirm it in time.
    #[error("no quorum confirmed that this node leads")]
    NoQuorum,
    /// The node has stopped.
    #[error("this node has stopped")]
    Stopped,
}

/// Why an operator's action on the cluster failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdminError {
    /// Another node leads, or none.
    #[error("this node does not lead; {}", hint(.leader))]
    NotLeader {
        /// Who leads, if known.
        leader: Option<Peer>,
    },
    /// The action makes no sense now.
    #[error("{0}")]
    Refused(String),
    /// Not done in time; it may still happen.
    #[error("{0} did not finish in time; look at the status before trying again")]
    Timeout(String),
    /// The node has stopped.
    #[error("this node has stopped")]
    Stopped,
}
