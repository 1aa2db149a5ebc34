//! Segments, their clients and local-disk state (snapshot format 7, 7.1, 7.2).

use serde::{Deserialize, Serialize};

use super::allocator::BufferAllocatorImage;
use super::object::ObjectName;
use super::uuid::Uuid;

/// The file `segments` as a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentsImage {
    /// Segment names in the order of the allocation list, one per distinct name.
    pub allocation_names: Vec<String>,
    /// Segments, ascending by id, no id twice.
    pub segments: Vec<SegmentImage>,
    /// Clients, ascending by id, with their segments in mount order.
    pub clients: Vec<(Uuid, Vec<Uuid>)>,
    /// Local-disk state by client, in file order.
    pub local_disks: Vec<(Uuid, LocalDiskImage)>,
}

impl SegmentsImage {
    /// The segment with this id.
    pub fn segment(&self, id: Uuid) -> Option<&SegmentImage> {
        let at = self.segments.binary_search_by_key(&id, |segment| segment.id).ok()?;
        self.segments.get(at)
    }
}

/// A mounted segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentImage {
    /// Its id.
    pub id: Uuid,
    /// Its name, usually host and port of the client.
    pub name: String,
    /// First address in the client's memory.
    pub base: u64,
    /// Bytes.
    pub size: u64,
    /// Transport endpoint.
    pub endpoint: String,
    /// Its status.
    pub status: SegmentStatus,
    /// Its allocator; `None` once the segment is being unmounted.
    pub allocator: Option<BufferAllocatorImage>,
    /// The host of its client; `None` if the file is of the older form without it.
    pub host_id: Option<String>,
}

/// Where a segment is in its life. The numbers are the format's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SegmentStatus {
    /// 0, never stored by a healthy master.
    Undefined,
    /// 1, receives allocations.
    Ok,
    /// 2, a drain job moves its objects away.
    Draining,
    /// 3, empty after a drain job.
    Drained,
    /// 4, unmounts after a grace time.
    GracefullyUnmounting,
    /// 5, going away.
    Unmounting,
}

impl SegmentStatus {
    /// The status with this number.
    pub fn from_number(number: i64) -> Option<Self> {
        Some(match number {
            0 => Self::Undefined,
            1 => Self::Ok,
            2 => Self::Draining,
            3 => Self::Drained,
            4 => Self::GracefullyUnmounting,
            5 => Self::Unmounting,
            _ => return None,
        })
    }

    /// The number of this status.
    pub fn number(self) -> u64 {
        self as u64
    }
}

/// Local-disk state of one client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalDiskImage {
    /// Whether the client accepts objects for its disk.
    pub offloading: bool,
    /// Objects queued for its disk, in file order.
    pub queue: Vec<LocalDiskTaskImage>,
    /// Capacity in bytes as the client reported it; `None` if the file does not have the field.
    pub capacity_bytes: Option<i64>,
}

/// An object queued for a client's disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalDiskTaskImage {
    /// The object.
    pub name: ObjectName,
    /// Its size in bytes.
    pub size: i64,
}
