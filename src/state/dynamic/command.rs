//! Commands of dynamic replication. Variants and fields are only ever appended, as in `state::command`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::model::{TaskId, Tenant, Uuid};
use crate::state::command::Key;
use crate::state::transfer::{TransferEnd, TransferStart};

/// What a client names to carry out a reserved copy. All zeros stand for a plain copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DynamicToken {
    /// Which reservation.
    pub lease: Uuid,
    /// When the object was written, in Unix milliseconds: one that was written again has another.
    pub epoch: u64,
}

/// A further replica that the leader wishes for, as it saw the object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reserve {
    /// Name space; `None` is the default one.
    pub tenant: Option<Tenant>,
    /// The object. Invariant: UTF-8, because a task's payload is JSON.
    pub key: Key,
    /// What the client will have to name. The lease is chance, so rolled by the leader.
    pub token: DynamicToken,
    /// Segment name to read from.
    pub source: Arc<str>,
    /// Segment name to write to.
    pub target: Arc<str>,
    /// The task's id; chance, so rolled by the leader.
    pub task: TaskId,
}

/// Reserves copies of some objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservations {
    /// The objects.
    pub wishes: Vec<Reserve>,
    /// Readable replicas in memory that an object may have.
    pub replicas_max: u64,
    /// Tasks that may wait in the whole store.
    pub tasks_pending_max: u32,
}

/// Every change of dynamic replication.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DynamicCommand {
    /// Makes tasks for hot objects.
    Reserve(Reservations),
    /// Starts a reserved copy.
    Start {
        /// The copy.
        start: TransferStart,
        /// What the client names.
        token: DynamicToken,
    },
    /// Ends or revokes a copy.
    End {
        /// The copy.
        end: TransferEnd,
        /// What the client names.
        token: DynamicToken,
    },
}
