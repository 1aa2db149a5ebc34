//! The image: a plain, owned, ordered mirror of what a snapshot holds.
//!
//! It guards nothing by itself; a decoded image has been checked by `settle`, and an image that a
//! node builds is the node's responsibility. No live state, no locks, no clock. Conversion from and
//! to the state machine is the caller's work.

mod allocator;
mod extension;
mod object;
mod segment;
mod task;
mod uuid;

use std::collections::BTreeMap;

pub use allocator::{
    BIN_COUNT, BufferAllocatorImage, LEAF_BITMAP_COUNT, NODE_NONE, NodeImage, NodeTableImage,
    OFFSET_SPACE_MAX, OffsetAllocatorImage, multiplier_bits, size_class_down, size_class_up,
    size_of_class,
};
pub use extension::{
    ClientRecord, Extension, PendingPinImage, PinActionImage, SegmentRecord, TenantPolicyImage,
    TransferImage, TransferKind, WriteImage,
};
pub use object::{
    DiscardedImage, HandleImage, ObjectImage, ObjectName, ReplicaImage, ReplicaPlace, ReplicaStatus,
};
pub use segment::{LocalDiskImage, LocalDiskTaskImage, SegmentImage, SegmentStatus, SegmentsImage};
pub use task::{TaskImage, TaskKind, TaskStatus};
pub use uuid::{BadUuid, Uuid};

/// Number of shards of the object table; fixed by the format (snapshot format 6.2).
pub const SHARD_COUNT: u16 = 1024;

/// Everything a snapshot holds but the objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Globals {
    /// Segments, their allocators, their clients, local-disk state.
    pub segments: SegmentsImage,
    /// Copy and move tasks, ascending by id.
    pub tasks: Vec<TaskImage>,
    /// Replicas whose memory may not be reused yet.
    pub discarded: Vec<DiscardedImage>,
    /// The next replica id to hand out.
    pub replica_next_id: u64,
    /// What the peer's format has no place for; absent in the peer's own snapshots.
    pub extension: Option<Extension>,
}

/// A whole snapshot as a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// Objects by shard. Invariant after decoding: every object lies in the shard that
    /// [`crate::placement::shard_of`] gives, ascending by name, no name twice, no empty shard.
    pub shards: BTreeMap<u16, Vec<ObjectImage>>,
    /// Everything else.
    pub globals: Globals,
}

impl Image {
    /// All objects with their shard, in order.
    pub fn objects(&self) -> impl Iterator<Item = (u16, &ObjectImage)> {
        self.shards
            .iter()
            .flat_map(|(&shard, objects)| objects.iter().map(move |object| (shard, object)))
    }

    /// Number of objects.
    pub fn object_count(&self) -> u64 {
        self.shards.values().map(|objects| objects.len() as u64).sum()
    }
}
