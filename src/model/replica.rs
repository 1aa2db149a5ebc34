//! A replica: one copy of an object, where it lies, and how far its write has come.
//!
//! Status only moves PROCESSING -> COMPLETE, except that a same-size upsert takes a COMPLETE replica back
//! (behaviour 1.4). Segments and clients are named by small indices of the state; the state owns the tables.

use serde::{Deserialize, Serialize};

use super::ids::{ClientId, ReplicaId};

/// Names a mounted segment inside the state; never reused while the state lives.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct SegmentIdx(pub u32);

/// How far the write of a replica has come, with the wire's numbers. The master produces no others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ReplicaStatus {
    /// Reserved; the writer is filling it. Number 2.
    Processing,
    /// Readable. Number 3.
    Complete,
}

impl ReplicaStatus {
    /// The wire's number.
    pub fn number(self) -> i32 {
        match self {
            ReplicaStatus::Processing => 2,
            ReplicaStatus::Complete => 3,
        }
    }
}

/// Where a replica lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a mounted segment.
    Memory {
        /// The segment.
        segment: SegmentIdx,
        /// The allocator node that holds the bytes.
        node: u32,
        /// Absolute address in the owner's process.
        address: u64,
    },
    /// A file under the shared root directory.
    Disk(Box<DiskPlace>),
    /// A file on a client's own disk.
    LocalDisk(Box<LocalDiskPlace>),
}

/// A shared-disk file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskPlace {
    /// Path as clients see it.
    pub path: String,
    /// Bytes.
    pub size: u64,
}

/// A file on a client's disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalDiskPlace {
    /// The client that holds it.
    pub client: ClientId,
    /// Bytes.
    pub size: u64,
    /// Where readers connect to.
    pub endpoint: String,
}

/// The kind of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ReplicaKind {
    /// Segment memory.
    Memory,
    /// Shared disk.
    Disk,
    /// A client's own disk.
    LocalDisk,
}

impl Place {
    /// The kind of this place.
    pub fn kind(&self) -> ReplicaKind {
        match self {
            Place::Memory { .. } => ReplicaKind::Memory,
            Place::Disk(_) => ReplicaKind::Disk,
            Place::LocalDisk(_) => ReplicaKind::LocalDisk,
        }
    }

    /// The segment, if the place is memory.
    pub fn segment(&self) -> Option<SegmentIdx> {
        match self {
            Place::Memory { segment, .. } => Some(*segment),
            _ => None,
        }
    }
}

/// Which replicas of an object an End or Revoke concerns (behaviour 1.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ReplicaSelect {
    /// Every kind but the disk kinds.
    All,
    /// Segment memory only.
    Memory,
    /// Shared-disk files only.
    Disk,
    /// Client-disk files only.
    LocalDisk,
    /// NVMe-oF segments, which this master never has: matches nothing.
    NoF,
    /// Distributed file systems, which this master never has: matches nothing.
    Dfs,
}

impl ReplicaSelect {
    /// Whether the selection covers replicas of `kind`.
    pub fn covers(self, kind: ReplicaKind) -> bool {
        match self {
            ReplicaSelect::All | ReplicaSelect::Memory => kind == ReplicaKind::Memory,
            ReplicaSelect::Disk => kind == ReplicaKind::Disk,
            ReplicaSelect::LocalDisk => kind == ReplicaKind::LocalDisk,
            ReplicaSelect::NoF | ReplicaSelect::Dfs => false,
        }
    }

    /// Whether an End with this selection replaces the stored checksum even by "none" (behaviour 2.3).
    pub fn replaces_checksum(self) -> bool {
        matches!(self, ReplicaSelect::All | ReplicaSelect::Memory | ReplicaSelect::NoF)
    }
}

/// One copy of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replica {
    /// Its number.
    pub id: ReplicaId,
    /// Where it lies.
    pub place: Place,
    /// Running copies, moves, offloads and promotions that read from it; 1 while it is a transfer's target.
    pub references: u16,
    /// How far its write has come.
    pub status: ReplicaStatus,
}

impl Replica {
    /// Whether the write is done.
    pub fn is_complete(&self) -> bool {
        self.status == ReplicaStatus::Complete
    }

    /// Whether a copy or move is filling it. Only its own End or Revoke may touch it then.
    pub fn is_transfer_target(&self) -> bool {
        !self.is_complete() && self.references > 0
    }

    /// Whether eviction may free it: readable memory that nothing uses.
    pub fn is_evictable(&self) -> bool {
        self.is_complete() && self.references == 0 && self.place.kind() == ReplicaKind::Memory
    }

    /// Whether a Put or Upsert is filling it.
    pub fn is_being_put(&self) -> bool {
        !self.is_complete() && self.references == 0
    }
}
