//! A segment: a region of a client's memory that the master hands out piece by piece.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::ids::{ClientId, SegmentId};

/// Life of a segment, with the wire's numbers (behaviour 5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SegmentStatus {
    /// Receives allocations. Number 1.
    Ok,
    /// A drain job is emptying it; readable. Number 2.
    Draining,
    /// Emptied by a drain job. Number 3.
    Drained,
    /// Waits for its grace time; readable. Number 4.
    GracefullyUnmounting,
    /// Gone for readers and writers; its objects are being dropped. Number 5.
    Unmounting,
}

impl SegmentStatus {
    /// The wire's number.
    pub fn number(self) -> i32 {
        match self {
            SegmentStatus::Ok => 1,
            SegmentStatus::Draining => 2,
            SegmentStatus::Drained => 3,
            SegmentStatus::GracefullyUnmounting => 4,
            SegmentStatus::Unmounting => 5,
        }
    }

    /// The name that the admin pages print.
    pub fn name(self) -> &'static str {
        match self {
            SegmentStatus::Ok => "OK",
            SegmentStatus::Draining => "DRAINING",
            SegmentStatus::Drained => "DRAINED",
            SegmentStatus::GracefullyUnmounting => "GRACEFULLY_UNMOUNTING",
            SegmentStatus::Unmounting => "UNMOUNTING",
        }
    }

    /// Whether replicas on it can be read.
    pub fn is_readable(self) -> bool {
        self != SegmentStatus::Unmounting
    }
}

/// What a client says of a segment when it mounts it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// Made by the client.
    pub id: SegmentId,
    /// The client's host name; several segments may share it.
    pub name: Arc<str>,
    /// First address in the client's process. Invariant: not 0.
    pub base: u64,
    /// Bytes. Invariant: not 0, and `base + size` does not overflow.
    pub size: u64,
    /// Where readers and writers of the memory connect to.
    pub endpoint: Arc<str>,
    /// Transfer protocol, such as `tcp`.
    pub protocol: Arc<str>,
    /// The host, or empty.
    pub host_id: Arc<str>,
}

impl Segment {
    /// Whether the address range is usable (behaviour 5.3).
    pub fn is_range_valid(&self) -> bool {
        self.base != 0 && self.size != 0 && self.base.checked_add(self.size).is_some()
    }
}

/// A mounted segment as readers see it.
#[derive(Clone, Debug)]
pub struct MountedView {
    /// What the client said.
    pub segment: Segment,
    /// The client that mounted it.
    pub owner: ClientId,
    /// Where it is in its life.
    pub status: SegmentStatus,
}
