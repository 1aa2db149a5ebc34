//! What a client is told of a replica: enough to reach its bytes.

use std::sync::Arc;

use super::ids::{ClientId, ReplicaId};
use super::replica::ReplicaStatus;

/// A replica as clients see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Its number.
    pub id: ReplicaId,
    /// Where its bytes are.
    pub location: Location,
    /// How far its write has come.
    pub status: ReplicaStatus,
}

/// Where the bytes of a replica are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// In a client's memory.
    Memory {
        /// Bytes of the object.
        size: u64,
        /// Absolute address in the owner's process.
        address: u64,
        /// Transfer protocol of the segment.
        protocol: Arc<str>,
        /// The segment's endpoint.
        endpoint: Arc<str>,
    },
    /// A shared file.
    Disk {
        /// Path.
        path: String,
        /// Bytes.
        size: u64,
    },
    /// A file on a client's disk.
    LocalDisk {
        /// The client that holds it.
        client: ClientId,
        /// Bytes.
        size: u64,
        /// Where readers connect to.
        endpoint: String,
    },
}
