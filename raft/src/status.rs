//! What a node says about itself: role, log pointers, members, sizes.
//!
//! Guards: read-only and cheap; the pointers are read so that
//! `purged <= snapshot <= applied <= committed <= last` holds in what is shown.

use std::path::{Path, PathBuf};

use crate::types::NodeId;

/// A node with its address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Which node.
    pub id: NodeId,
    /// `host:port` for peers; empty with a single node.
    pub addr: String,
}

/// What this node is in the cluster right now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// It leads.
    Leader {
        /// Since which term; no other node leads in it.
        term: u64,
        /// True once everything that earlier leaders committed is applied here: only then may it
        /// serve.
        ready: bool,
    },
    /// It follows, campaigns or learns.
    Follower {
        /// The newest term it knows.
        term: u64,
        /// Whom it follows, if anybody.
        leader: Option<Peer>,
    },
}

impl Role {
    /// Leads and may serve.
    pub fn is_ready_leader(&self) -> bool {
        matches!(self, Role::Leader { ready: true, .. })
    }

    /// The term it speaks of.
    pub fn term(&self) -> u64 {
        match self {
            Role::Leader { term, .. } | Role::Follower { term, .. } => *term,
        }
    }
}

/// A member of the cluster as this node sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Which node.
    pub id: NodeId,
    /// `host:port` for peers.
    pub addr: String,
    /// Votes; a learner only receives entries.
    pub voter: bool,
    /// Newest entry known to be stored there; only a leader knows.
    pub matched: Option<u64>,
    /// Entries it lacks; only a leader knows.
    pub lag: Option<u64>,
    /// Milliseconds since it last answered; only a leader knows.
    pub heard_ms_ago: Option<u64>,
}

/// Positions in the log; `None` before the first one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogPointers {
    /// Entries up to here are gone.
    pub purged: Option<u64>,
    /// Entries up to here are in the raft snapshot.
    pub snapshot: Option<u64>,
    /// Entries up to here are in the state.
    pub applied: Option<u64>,
    /// Entries up to here will never be taken back.
    pub committed: Option<u64>,
    /// Newest entry stored or about to be.
    pub last: Option<u64>,
}

/// Everything about a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// This node.
    pub node_id: NodeId,
    /// Its cluster.
    pub cluster_id: String,
    /// What it is.
    pub role: Role,
    /// Its newest term.
    pub term: u64,
    /// Who leads, if known.
    pub leader: Option<Peer>,
    /// Positions in the log.
    pub log: LogPointers,
    /// Who belongs to the cluster.
    pub members: Vec<Member>,
    /// Bytes of entries that are stored and not purged.
    pub log_bytes: u64,
    /// Bytes of the data directory.
    pub data_dir_bytes: u64,
    /// Files in the log store's blob directory; anything but 0 is unsafe (see docs/raft.md).
    pub log_blobs: u64,
    /// Bytes of the raft snapshot.
    pub snapshot_bytes: u64,
    /// When the last raft snapshot was made or received by this process, ms since 1970.
    pub snapshot_at_ms: Option<u64>,
    /// Why the last attempt to make a raft snapshot failed, if it did.
    pub snapshot_error: Option<String>,
    /// Milliseconds the leader lease still lasts; `None` without one.
    pub lease_left_ms: Option<u64>,
    /// Why the node stopped, if it did.
    pub fatal: Option<String>,
    /// The data directory.
    pub data_dir: PathBuf,
}

/// Bytes of all files below `dir`; files that vanish meanwhile count nothing.
pub(crate) fn dir_bytes(dir: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => dir_bytes(&entry.path()),
            Ok(meta) => meta.len(),
            Err(_) => 0,
        })
        .fold(0, u64::saturating_add)
}

/// Number of entries in `dir`; a missing directory has none.
pub(crate) fn dir_entries(dir: &Path) -> u64 {
    std::fs::read_dir(dir).map_or(0, |entries| entries.count() as u64)
}
