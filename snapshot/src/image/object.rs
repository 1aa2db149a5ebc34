//! Objects and their replicas as a snapshot holds them (snapshot format 4.2, 4.3, 5).

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::uuid::Uuid;

/// The identity of an object: tenant and key. Orders by tenant bytes, then key bytes, as the files
/// do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectName {
    /// The name space; `default` without multi-tenancy, never empty.
    pub tenant: Arc<str>,
    /// Arbitrary bytes.
    pub key: Box<[u8]>,
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.tenant.escape_debug(), self.key.escape_ascii())
    }
}

/// One object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectImage {
    /// Its identity.
    pub name: ObjectName,
    /// The client that wrote it.
    pub writer: Uuid,
    /// When its write started, milliseconds since the Unix epoch.
    pub put_start_ms: u64,
    /// Size in bytes.
    pub size: u64,
    /// End of its read lease, milliseconds since the Unix epoch; 0 if none was ever granted.
    pub lease_ms: u64,
    /// The committed soft-pin deadline, milliseconds since the Unix epoch.
    pub soft_pin_ms: Option<u64>,
    /// The peer's data type number; 0 is "unknown".
    pub data_type: u8,
    /// Its replicas, in order.
    pub replicas: Vec<ReplicaImage>,
    /// Whether it is never evicted.
    pub hard_pinned: bool,
    /// Its group; empty if it has none.
    pub group: Box<[u8]>,
    /// The client's checksum of the value, if it gave one.
    pub checksum: Option<u64>,
}

impl ObjectImage {
    /// Whether every replica is complete (true for an object without replicas, as at the peer).
    pub fn is_complete(&self) -> bool {
        self.replicas.iter().all(|replica| replica.status == ReplicaStatus::Complete)
    }
}

/// Where a replica is in its life. The numbers are the format's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReplicaStatus {
    /// 0, never stored by a healthy master.
    Undefined,
    /// 1, never used.
    Initialized,
    /// 2, being written.
    Processing,
    /// 3, readable.
    Complete,
    /// 4, waiting for its deletion.
    Removed,
    /// 5, never used.
    Failed,
}

impl ReplicaStatus {
    /// The status with this number.
    pub fn from_number(number: i64) -> Option<Self> {
        Some(match number {
            0 => Self::Undefined,
            1 => Self::Initialized,
            2 => Self::Processing,
            3 => Self::Complete,
            4 => Self::Removed,
            5 => Self::Failed,
            _ => return None,
        })
    }

    /// The number of this status.
    pub fn number(self) -> u64 {
        self as u64
    }
}

/// One copy of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicaImage {
    /// Its id; never reused.
    pub id: u64,
    /// Its status.
    pub status: ReplicaStatus,
    /// Where its bytes are.
    pub place: ReplicaPlace,
}

/// Where the bytes of a replica are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReplicaPlace {
    /// In a client's mounted segment.
    Memory {
        /// Bytes.
        size: u64,
        /// Address in the client's memory.
        address: u64,
        /// The segment.
        segment: Uuid,
        /// The allocation; `None` if its allocator is gone.
        handle: Option<HandleImage>,
    },
    /// In a file of a shared file system.
    Disk {
        /// The file.
        path: String,
        /// Bytes.
        size: u64,
    },
    /// On a client's own disk.
    LocalDisk {
        /// The client.
        client: Uuid,
        /// Bytes.
        size: u64,
        /// Where to fetch it.
        endpoint: String,
    },
    /// In a preallocated file of the distributed file system tier.
    Dfs {
        /// The file.
        path: String,
        /// Offset in it.
        offset: u64,
        /// Bytes.
        size: u64,
        /// Bytes with padding.
        aligned_size: u64,
        /// The file's shard.
        shard: i32,
    },
}

/// An allocation of the offset allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandleImage {
    /// Real address: base + (offset << multiplier bits).
    pub address: u64,
    /// Bytes requested.
    pub size: u64,
    /// Offset in allocator units.
    pub offset: u32,
    /// Index into the segment's node table.
    pub node: u32,
}

/// Replicas taken from an object whose memory may not be reused before a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscardedImage {
    /// When the memory is free, milliseconds since the Unix epoch.
    pub release_at_ms: u64,
    /// Sum of their memory bytes.
    pub memory_bytes: u64,
    /// The replicas.
    pub replicas: Vec<ReplicaImage>,
}
