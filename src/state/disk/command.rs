//! What an entry asks of the tiers, and what it is answered. Variants and fields are only appended.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::alloc::Strategy;
use crate::model::{ClientId, Descriptor, ErrorCode, ReplicaKind, Tenant};
use crate::state::command::{End, Key, Start};
use crate::state::evict::Evict;

/// Starts writes whose objects get a file under the shared directory, too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutWithFile {
    /// The write.
    pub start: Start,
    /// Whether it is an Upsert.
    pub is_upsert: bool,
    /// The directory of this cluster, without a slash at its end.
    pub directory: Arc<str>,
}

/// Ends writes whose objects are copied to disk from then on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndWithOffload {
    /// The End.
    pub end: End,
    /// Objects that may wait for one client.
    pub queue_max: u64,
}

/// Evicts objects, those without a copy on disk after one was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvictToDisk {
    /// The victims.
    pub evict: Evict,
    /// Objects that may wait for one client.
    pub queue_max: u64,
    /// Objects that this command may queue; the rest goes at once if that is allowed, else it stays.
    pub queued_max: u64,
    /// Whether an object may go without a copy when it cannot be queued.
    pub is_forced: bool,
}

/// What became of a victim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fate {
    /// Memory that came free.
    pub freed: u64,
    /// Whether a client is to write it to disk before the rest of its memory goes.
    pub is_queued: bool,
}

impl Fate {
    /// That of an ordinary eviction.
    pub fn evicted(freed: u64) -> Self {
        Fate { freed, is_queued: false }
    }
}

/// A client's heartbeat about offloading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OffloadFetch {
    /// Whose.
    pub client: ClientId,
    /// Whether it takes objects from now on. If not, what waits for it is given up.
    pub is_enabled: bool,
    /// At most so many are handed out.
    pub items_max: u32,
}

/// An object on the reporter's disk, or one that did not get there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OffloadedItem {
    /// Name space.
    pub tenant: Option<Tenant>,
    /// The object. Invariant: not empty.
    pub key: Key,
    /// Bytes on disk; `None` if it failed.
    pub size: Option<u64>,
    /// Where the client listens for readers.
    pub endpoint: Arc<str>,
}

/// What a client has on its disk now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OffloadReport {
    /// The client.
    pub client: ClientId,
    /// The objects.
    pub items: Vec<OffloadedItem>,
}

/// Drops files that are no longer there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvictFiles {
    /// Who says so; of files on clients' disks only its own go.
    pub client: ClientId,
    /// Name space.
    pub tenant: Option<Tenant>,
    /// The objects.
    pub keys: Vec<Key>,
    /// Which kind. Invariant: not memory.
    pub kind: ReplicaKind,
}

/// Objects that should be read back to memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promote {
    /// Name space and key of each.
    pub objects: Vec<(Option<Tenant>, Key)>,
    /// Promotions that may be under way.
    pub in_flight_max: u32,
}

/// What became of a wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It waits for the client that has the file.
    Admitted,
    /// Too many are under way.
    Full,
    /// The client that has the file takes none now.
    NoTaker,
    /// The object is gone, in memory, being written or on its way already.
    NotNeeded,
}

/// Reserves memory for an object that is read back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromotionStart {
    /// Who reads.
    pub client: ClientId,
    /// Name space.
    pub tenant: Option<Tenant>,
    /// The object.
    pub key: Key,
    /// Bytes, as the caller was told.
    pub size: u64,
    /// Segment names to try first.
    pub preferred: Vec<Arc<str>>,
    /// How segments are chosen.
    pub strategy: Strategy,
}

/// Ends a promotion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromotionEnd {
    /// Who read.
    pub client: ClientId,
    /// Name space.
    pub tenant: Option<Tenant>,
    /// The object.
    pub key: Key,
    /// Whether it worked.
    pub is_success: bool,
}

/// Every change of the tiers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum TierCommand {
    /// A client offers its disk.
    MountDisk {
        /// The client.
        client: ClientId,
        /// Whether it takes objects.
        is_enabled: bool,
    },
    /// A client withdraws its disk.
    UnmountDisk {
        /// The client.
        client: ClientId,
    },
    /// A client tells the size of its disk.
    ReportCapacity {
        /// The client.
        client: ClientId,
        /// Bytes.
        bytes: u64,
    },
    /// Clients are to empty their disks.
    WipeDisks {
        /// Which.
        clients: Vec<ClientId>,
    },
    /// A client asks whether it is to empty its disk, and is told once.
    TakeWipe {
        /// The client.
        client: ClientId,
    },
    /// Drops some of the files that are given up.
    DropLost {
        /// Whose.
        client: ClientId,
        /// At most so many.
        files_max: u32,
    },
    /// Drops files that are no longer there.
    EvictFiles(EvictFiles),
    /// Starts writes with a file under the shared directory.
    PutStart(PutWithFile),
    /// Ends writes and has their objects copied to disk.
    PutEnd(EndWithOffload),
    /// Evicts objects by way of a disk.
    Evict(EvictToDisk),
    /// Hands out objects to write to disk.
    OffloadFetch(OffloadFetch),
    /// Reports objects on disk.
    OffloadDone(OffloadReport),
    /// Asks for objects to be read back.
    Promote(Promote),
    /// Hands out objects to read back.
    PromotionFetch {
        /// To whom.
        client: ClientId,
        /// At most so many.
        items_max: u32,
    },
    /// Starts reading one back.
    PromotionStart(PromotionStart),
    /// Ends reading one back.
    PromotionEnd(PromotionEnd),
}

/// An object to write to disk or to read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkItem {
    /// Name space.
    pub tenant: Tenant,
    /// The object.
    pub key: Box<[u8]>,
    /// Bytes.
    pub size: u64,
}

/// Work for a client. Errors: `SegmentNotFound` if it has no disk here.
pub type Work = Result<Vec<WorkItem>, ErrorCode>;

/// Answers that no other family has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TierReply {
    /// Whether the client is to empty its disk.
    Wipe(Result<bool, ErrorCode>),
    /// One fate a victim.
    Evicted(Vec<Fate>),
    /// Objects to write to disk.
    Offloads(Work),
    /// One result a wish.
    Admissions(Vec<Admission>),
    /// Objects to read back.
    Promotions(Work),
    /// The memory of an object that is read back.
    Staged(Result<Descriptor, ErrorCode>),
}
