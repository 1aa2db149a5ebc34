//! The openraft type set, and the only names under which the rest of the crate knows it.
//!
//! Guards: openraft's types stay inside this crate, and none of them goes to disk or wire as it
//! is (`record.rs` has our own forms). One leader a term, so a log id is (term, index).

use bytes::Bytes;
use openraft::alias;

use crate::machine::AnyReply;

/// Identity of a node of the cluster; chosen by the operator, never used again after a removal
/// unless the node is added anew.
pub type NodeId = u64;

/// What an entry carries: bytes that only the machine understands.
#[derive(Clone, PartialEq, Eq)]
pub struct EntryBytes(pub(crate) Bytes);

impl std::fmt::Debug for EntryBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "EntryBytes({})", self.0.len())
    }
}

impl std::fmt::Display for EntryBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

openraft::declare_raft_types!(
    /// The openraft configuration of this crate.
    pub TypeConfig:
        D = EntryBytes,
        R = AnyReply,
        NodeId = NodeId,
        Node = openraft::BasicNode,
        LeaderId = openraft::impls::leader_id_std::LeaderId<u64, u64>,
);

pub(crate) type LogId = alias::LogIdOf<TypeConfig>;
pub(crate) type Vote = alias::VoteOf<TypeConfig>;
pub(crate) type Entry = alias::EntryOf<TypeConfig>;
pub(crate) type Payload = openraft::EntryPayload<EntryBytes, NodeId, openraft::BasicNode>;
pub(crate) type Membership = openraft::Membership<NodeId, openraft::BasicNode>;
pub(crate) type StoredMembership = alias::StoredMembershipOf<TypeConfig>;
pub(crate) type SnapshotMeta = alias::SnapshotMetaOf<TypeConfig>;
pub(crate) type Metrics = openraft::RaftMetrics<TypeConfig>;
pub(crate) type Flushed = openraft::storage::IOFlushed<TypeConfig>;
pub(crate) type CommittedLeaderId = alias::CommittedLeaderIdOf<TypeConfig>;

/// A log id from its two numbers.
pub(crate) fn log_id(term: u64, index: u64) -> LogId {
    openraft::LogId { leader_id: CommittedLeaderId::new(term), index }
}

/// The term in a log id.
pub(crate) fn term_of(id: &LogId) -> u64 {
    id.leader_id.term
}
