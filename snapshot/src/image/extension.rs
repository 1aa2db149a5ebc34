//! What a node knows and the peer's format has no place for.
//!
//! Saved in one file of ours beside the peer's files; see `codec::extension` for its bytes. The
//! fields are the format: a new field means a new version of that file. Records whose owner wants
//! to change them without a new version go into `sections`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::object::ObjectName;
use super::uuid::Uuid;

/// Our additions to a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extension {
    /// Index of the last entry applied to the state that was saved.
    pub applied_index: u64,
    /// Term of that entry.
    pub applied_term: u64,
    /// The state clock, milliseconds since the Unix epoch. No restore decides by an earlier time.
    pub state_clock_ms: u64,
    /// Soft-pin requests of writes that are not readable yet.
    pub pending_pins: Vec<PendingPinImage>,
    /// Writes that have started and not ended.
    pub writes: Vec<WriteImage>,
    /// Copies, moves and promotions that have started and not ended.
    pub transfers: Vec<TransferImage>,
    /// What a mounted segment does not say, by segment.
    pub segments: Vec<SegmentRecord>,
    /// Clients that the state knows.
    pub clients: Vec<ClientRecord>,
    /// The embedded HTTP metadata server's pairs.
    pub http_metadata: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Quotas by tenant.
    pub tenant_policies: Vec<TenantPolicyImage>,
    /// Further records by name; opaque here. Saved outside of the versioned part.
    #[serde(skip)]
    pub sections: BTreeMap<String, Vec<u8>>,
}

/// A soft-pin request that waits for its write to become readable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingPinImage {
    /// The object.
    pub name: ObjectName,
    /// What is asked.
    pub action: PinActionImage,
    /// TTL of an enable in milliseconds, else 0.
    pub ttl_ms: u64,
    /// The replicas whose completion commits it.
    pub eligible: Vec<u64>,
}

/// What a write asks of the soft pin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PinActionImage {
    /// Keep an unexpired deadline.
    Preserve,
    /// Start a pin.
    Enable,
    /// Drop it.
    Disable,
}

/// A write that has started and not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteImage {
    /// The object.
    pub name: ObjectName,
    /// Who writes.
    pub writer: Uuid,
    /// When it started, milliseconds since the Unix epoch.
    pub started_ms: u64,
    /// The replicas being written.
    pub replicas: Vec<u64>,
}

/// A copy, move or promotion that has started and not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransferImage {
    /// The object.
    pub name: ObjectName,
    /// Which of them.
    pub kind: TransferKind,
    /// Who carries it out.
    pub client: Uuid,
    /// When it started, milliseconds since the Unix epoch.
    pub started_ms: u64,
    /// The replica that is read; it may not be freed meanwhile.
    pub source: u64,
    /// The replicas that are written.
    pub targets: Vec<u64>,
}

/// Which kind of transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TransferKind {
    /// The source stays.
    Copy,
    /// The source goes when the target is complete.
    Move,
    /// From a client's disk into memory.
    Promotion,
    /// From memory to a client's disk; has no target replica before its end.
    Offload,
}

/// What a mounted segment does not say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentRecord {
    /// The segment.
    pub id: Uuid,
    /// Its client.
    pub owner: Uuid,
    /// Its transport protocol, e.g. `tcp`.
    pub protocol: String,
    /// When a graceful unmount is over, milliseconds since the Unix epoch.
    pub unmount_deadline_ms: Option<u64>,
}

/// A client that the state knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientRecord {
    /// The client.
    pub id: Uuid,
    /// Its host; may be empty.
    pub host_id: String,
}

/// The quota of one tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TenantPolicyImage {
    /// The tenant.
    pub tenant: String,
    /// Its requested quota in bytes.
    pub quota_bytes: u64,
}
