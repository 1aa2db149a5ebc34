//! Copy and move tasks (snapshot format 8).

use super::uuid::Uuid;

/// One task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskImage {
    /// Its id.
    pub id: Uuid,
    /// What it does.
    pub kind: TaskKind,
    /// How far it is.
    pub status: TaskStatus,
    /// The peer's JSON description.
    pub payload: String,
    /// When it was made, milliseconds since the Unix epoch.
    pub created_ms: i64,
    /// When it changed last, milliseconds since the Unix epoch.
    pub updated_ms: i64,
    /// Its result in words.
    pub message: String,
    /// Who is to do it.
    pub client: Uuid,
}

/// What a task does. The numbers are the format's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskKind {
    /// 0, copy a replica.
    Copy,
    /// 1, move a replica.
    Move,
}

impl TaskKind {
    /// The kind with this number.
    pub fn from_number(number: i64) -> Option<Self> {
        match number {
            0 => Some(Self::Copy),
            1 => Some(Self::Move),
            _ => None,
        }
    }

    /// The number of this kind.
    pub fn number(self) -> u64 {
        self as u64
    }
}

/// How far a task is. The numbers are the format's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskStatus {
    /// 0, waits for its client.
    Pending,
    /// 1, handed to its client.
    Processing,
    /// 2, over, without success.
    Failed,
    /// 3, over.
    Success,
}

impl TaskStatus {
    /// The status with this number.
    pub fn from_number(number: i64) -> Option<Self> {
        match number {
            0 => Some(Self::Pending),
            1 => Some(Self::Processing),
            2 => Some(Self::Failed),
            3 => Some(Self::Success),
            _ => None,
        }
    }

    /// The number of this status.
    pub fn number(self) -> u64 {
        self as u64
    }
}
