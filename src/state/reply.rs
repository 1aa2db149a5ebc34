//! What applying a command tells the proposer. Never stored, never sent to another node.

use super::disk::command::TierReply;
use super::restore::RestoreRefused;
use super::tasks::Task;
use super::transfer::TransferStarted;
use crate::model::{Descriptor, ErrorCode, TaskId};

/// Result of starting one write.
pub type Started = Result<Vec<Descriptor>, ErrorCode>;

/// One variant a command family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Nothing to tell.
    Done,
    /// One result a key, in request order.
    Starts(Vec<Started>),
    /// One result a key, in request order.
    Results(Vec<Result<(), ErrorCode>>),
    /// One result for the whole command.
    Outcome(Result<(), ErrorCode>),
    /// What a sweep did.
    Swept(Swept),
    /// Progress of an unmount.
    Drained {
        /// Whether the segment is gone.
        is_finished: bool,
    },
    /// A started copy or move.
    Transfer(Result<TransferStarted, ErrorCode>),
    /// A new task.
    Task(Result<TaskId, ErrorCode>),
    /// Tasks handed out.
    Tasks(Vec<Task>),
    /// Bytes freed of each victim, 0 for one that was spared.
    Evicted(Vec<u64>),
    /// What became of a metadata value.
    Metadata(MetadataOutcome),
    /// The number of a catalog snapshot that begins.
    Generation(u64),
    /// A step of a restore.
    Restore(Result<(), RestoreRefused>),
    /// About disks.
    Tier(TierReply),
}

/// Counts of one sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Soft pins that ended.
    pub pins_expired: u64,
    /// Due registrations that no longer named a pin.
    pub pins_stale: u64,
    /// Unfinished writes dropped.
    pub writes_dropped: u64,
    /// Copies and moves dropped.
    pub transfers_dropped: u64,
    /// Tasks that took too long.
    pub tasks_failed: u64,
    /// Discarded allocations released.
    pub discards_released: u64,
    /// Segments whose grace time ended.
    pub segments_unmounted: u64,
    /// Offloads and promotions dropped.
    pub tier_jobs_dropped: u64,
    /// Reservations of dynamic replication that nobody used.
    pub reservations_expired: u64,
}

/// What became of a metadata value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetadataOutcome {
    /// Stored.
    Updated,
    /// The same value was there and must not be replaced.
    Unchanged,
    /// Another value is there and must not be replaced.
    Duplicate,
    /// Deleted.
    Deleted,
    /// Nothing was there.
    NotFound,
    /// The store is at its limit.
    Full,
}
