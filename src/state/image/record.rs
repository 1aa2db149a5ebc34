//! What neither the peer's format nor the snapshot crate's extension has a field for: one named section.

use std::sync::Arc;

use bincode::Options;
use serde::{Deserialize, Serialize};

use super::ImageError;
use crate::model::{ClientId, SegmentId, TaskId};
use crate::state::Counters;
use crate::state::clients::ClientRecord;
use crate::state::leadership::Leadership;

/// Name of the section in the extension.
pub(super) const SECTION: &str = "state";

/// Bytes of the section at most, so that a damaged length allocates nothing.
const RECORD_BYTES_MAX: u64 = 1 << 30;

/// The section, version 1. Fields are appended only, together with a new version.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StateRecord {
    pub version: u16,
    pub counters: Counters,
    pub leadership: Option<Leadership>,
    pub clients: Vec<(ClientId, ClientRecord)>,
    pub last_incarnation: u64,
    /// Segments in the order in which they were mounted.
    pub mount_order: Vec<SegmentId>,
    /// Names in allocation order.
    pub allocation_order: Vec<Arc<str>>,
    /// Tasks in the order of creation; the codec sorts them by id.
    pub task_order: Vec<TaskId>,
}

/// The version that this build writes and reads.
pub(super) const RECORD_VERSION: u16 = 1;

fn options() -> impl Options {
    bincode::DefaultOptions::new().with_fixint_encoding().with_limit(RECORD_BYTES_MAX)
}

impl StateRecord {
    pub fn encode(&self) -> Result<Vec<u8>, bincode::Error> {
        options().serialize(self)
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, ImageError> {
        let damaged = |why: String| ImageError::Inconsistent(format!("section {SECTION}: {why}"));
        let record: StateRecord =
            options().deserialize(bytes).map_err(|error| damaged(error.to_string()))?;
        if record.version != RECORD_VERSION {
            return Err(damaged(format!("version {} is not known", record.version)));
        }
        Ok(record)
    }
}
