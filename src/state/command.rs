//! What an entry asks of the state.
//!
//! The leader has decided everything that needs a clock, chance, a float or a guess before a command exists.
//! bincode numbers enum variants by position: variants and fields are only ever appended, and
//! `docs/commands.md` lists them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::disk::command::TierCommand;
use super::drain::DrainCommand;
use super::dynamic::command::DynamicCommand;
use super::evict::Evict;
use super::guard::Published;
use super::leadership::Leadership;
use super::restore::{RestoreBegin, RestoreDecide, RestoreFinish, RestorePart};
use super::tasks::{TaskComplete, TaskCreate, TaskRules, TasksFetch};
use super::tenants::TenantChange;
use super::transfer::{TransferEnd, TransferStart};
use crate::alloc::Strategy;
use crate::model::{ClientId, Millis, PinRequest, ReplicaSelect, Segment, SegmentId, Tenant};

/// Commands that one entry carries at most; the proposer starts another entry beyond it.
pub const COMMANDS_PER_ENTRY_MAX: usize = 256;

/// Keys that one command names at most; a longer batch becomes several commands.
pub const KEYS_PER_COMMAND_MAX: usize = 256;

/// What the leader saw and rolled when it made an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// The leader's clock. The state's clock becomes the greater of this and its own.
    pub now: Millis,
    /// Seed of every random choice that applying the entry makes.
    pub seed: u64,
}

/// One entry of the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Time and chance.
    pub stamp: Stamp,
    /// Applied in order. Invariant: at most [`COMMANDS_PER_ENTRY_MAX`].
    pub commands: Vec<Command>,
}

/// A key in a command.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Key(#[serde(with = "serde_bytes")] pub Vec<u8>);

/// What a write asks for, request rules already checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteConfig {
    /// Copies wanted; fewer are accepted, none is not.
    pub replica_num: u32,
    /// What becomes of the soft pin.
    pub pin: PinRequest,
    /// Never evict.
    pub is_hard_pinned: bool,
    /// The wire's data type byte.
    pub data_type: u8,
    /// Segment names to try first.
    pub preferred: Vec<Arc<str>>,
    /// Prefer the writer's host.
    pub is_same_node_preferred: bool,
    /// The writer's host, or empty.
    pub host_id: Arc<str>,
}

/// The deployment's rules for writes, as the proposing leader has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteRules {
    /// After this an unfinished write may be replaced by a new Put.
    pub discard_timeout_ms: u64,
    /// After this the memory of an unfinished write is used again.
    pub release_timeout_ms: u64,
    /// How segments are chosen.
    pub strategy: Strategy,
}

/// One object of a Put.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartItem {
    /// The key.
    pub key: Key,
    /// Bytes; not 0.
    pub size: u64,
    /// Group asked for: `None` says nothing, empty says "no group".
    pub group: Option<Key>,
}

/// Starts the writes of some keys with one configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// The writer.
    pub client: ClientId,
    /// Name space; `None` is the default one.
    pub tenant: Option<Tenant>,
    /// The objects.
    pub items: Vec<StartItem>,
    /// What is asked.
    pub config: WriteConfig,
    /// The deployment's rules.
    pub rules: WriteRules,
}

/// One finished object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndItem {
    /// The key.
    pub key: Key,
    /// Checksum of the bytes, if the client computes them.
    pub checksum: Option<u64>,
}

/// Ends the writes of some keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// The writer.
    pub client: ClientId,
    /// Name space.
    pub tenant: Option<Tenant>,
    /// The objects.
    pub items: Vec<EndItem>,
    /// Which replicas are done.
    pub select: ReplicaSelect,
}

/// Takes back the writes of some keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revoke {
    /// The writer.
    pub client: ClientId,
    /// Name space.
    pub tenant: Option<Tenant>,
    /// The keys.
    pub keys: Vec<Key>,
    /// Which replicas are taken back.
    pub select: ReplicaSelect,
}

/// Removes objects on request. The leader has fenced their read leases.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remove {
    /// Name space.
    pub tenant: Option<Tenant>,
    /// The keys.
    pub keys: Vec<Key>,
}

/// Drops COMPLETE replicas of objects that the caller wrote. The leader has fenced their read leases.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClearReplicas {
    /// Name space.
    pub tenant: Option<Tenant>,
    /// The caller; objects of other writers are spared.
    pub client: ClientId,
    /// The name of the segments to clear; `None` removes whole objects.
    pub segment: Option<Arc<str>>,
    /// The keys.
    pub keys: Vec<Key>,
}

/// Ends soft pins, the earliest first. A count would not do as a bound: pins of one millisecond have no order
/// that all nodes share but that of their objects' shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepPins {
    /// Pins with an earlier deadline end; none that state time has not reached.
    pub until: Millis,
    /// Of those with this very deadline, the ones of objects in the shards below.
    pub shards: u16,
}

/// Bounds of one sweep; what is left over waits for the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sweep {
    /// Soft pins with a deadline up to here end, however many; leaders use [`SweepPins`] instead.
    pub pins_until: Millis,
    /// Items of each other kind at most.
    pub items_max: u32,
    /// Age at which an unfinished write is dropped.
    pub release_timeout_ms: u64,
    /// What becomes of old tasks.
    pub tasks: TaskRules,
}

/// A client that the leader has not heard for too long, as it saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpiredClient {
    /// The client.
    pub client: ClientId,
    /// Its incarnation when the leader looked; a client that came back since is spared.
    pub incarnation: u64,
}

/// Every change of state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Command {
    /// Puts a mark into the log and changes nothing but the clock.
    Noop,
    /// Starts Puts.
    PutStart(Start),
    /// Ends Puts or Upserts.
    PutEnd(End),
    /// Revokes Puts or Upserts.
    PutRevoke(Revoke),
    /// Removes objects on request.
    Remove(Remove),
    /// Mounts a segment.
    MountSegment {
        /// The segment.
        segment: Segment,
        /// Its owner.
        client: ClientId,
    },
    /// Mounts what is missing and makes the client alive.
    ReMountSegment {
        /// Segments that the client has.
        segments: Vec<Segment>,
        /// The client.
        client: ClientId,
    },
    /// Takes a segment away from readers and writers at once; its objects follow in steps.
    UnmountSegment {
        /// The segment.
        segment: SegmentId,
        /// Who asks.
        client: ClientId,
    },
    /// Drops some of the objects of an unmounting segment, and the segment with the last of them.
    DrainUnmounted {
        /// The segment.
        segment: SegmentId,
        /// Allocations to visit at most.
        allocations_max: u32,
    },
    /// Forgets clients and starts the unmount of their segments.
    ExpireClients(Vec<ExpiredClient>),
    /// Ends what has passed its time.
    Sweep(Sweep),
    /// Stores a value of the HTTP metadata server.
    MetadataPut {
        /// The key, as the client wrote it.
        key: Key,
        /// The value.
        value: Key,
    },
    /// Deletes a value of the HTTP metadata server.
    MetadataDelete {
        /// The key.
        key: Key,
    },
    /// The leader of a term announces that it serves.
    Lead(Leadership),
    /// Starts Upserts; a `PutEnd` or `PutRevoke` ends them.
    UpsertStart(Start),
    /// Drops replicas on request.
    ClearReplicas(ClearReplicas),
    /// Closes a segment to writers at once, and takes it away when its grace time is over.
    GracefulUnmount {
        /// The segment.
        segment: SegmentId,
        /// Who asks.
        client: ClientId,
        /// The grace time.
        grace_ms: u64,
    },
    /// Starts a copy or a move.
    TransferStart(TransferStart),
    /// Ends or revokes a copy or a move.
    TransferEnd(TransferEnd),
    /// Makes a copy or move task.
    TaskCreate(TaskCreate),
    /// Hands out waiting tasks.
    TasksFetch(TasksFetch),
    /// Reports the end of a task.
    TaskComplete(TaskComplete),
    /// Drops the memory of objects.
    Evict(Evict),
    /// Removes objects although somebody may be reading them.
    RemoveLeased {
        /// The objects.
        remove: Remove,
        /// When the last of their read leases would have ended.
        leased_until: Millis,
    },
    /// The state is going to be frozen for a catalog snapshot.
    SnapshotBegin,
    /// A catalog snapshot was published.
    SnapshotPublished(Published),
    /// Opens the stage of a cold restore.
    RestoreBegin(RestoreBegin),
    /// Puts a piece of the image on the stage.
    RestorePart(RestorePart),
    /// Replaces the empty store by the staged image.
    RestoreFinish(RestoreFinish),
    /// Gives a restore up.
    RestoreAbort {
        /// Which one.
        attempt: u64,
    },
    /// Records that the cluster starts empty.
    RestoreDecide(RestoreDecide),
    /// Ends soft pins that have passed their time.
    SweepPins(SweepPins),
    /// Changes what tenants may do.
    Tenants(TenantChange),
    /// Changes disks, and the way to and from them.
    Tier(TierCommand),
    /// Changes drain jobs.
    Drain(DrainCommand),
    /// Gives hot objects further replicas.
    Dynamic(DynamicCommand),
}

impl Command {
    /// Copies that each object of a write asks for; `None` for other commands.
    pub fn replicas_wanted(&self) -> Option<u32> {
        match self {
            Command::PutStart(start) | Command::UpsertStart(start) => {
                Some(start.config.replica_num)
            }
            Command::Tier(TierCommand::PutStart(put)) => Some(put.start.config.replica_num),
            _ => None,
        }
    }
}
