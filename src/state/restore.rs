//! A cold restore through the log: parts are staged beside the live state, which is replaced in one step or
//! not at all.
//!
//! The leader judges candidates and decides everything by one instant (`snapshot::restore`); what it sends is
//! the image of the state as it shall be, in the raft snapshot's own form, cut into parts. So all nodes take
//! over the same bytes, whenever they join. A restore is only taken over by an empty store. A failed or
//! forgotten one leaves nothing but its record.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::State;
use super::command::Key;
use super::guard::Guard;
use super::reply::Reply;
use crate::model::{ClientId, ErrorCode, Millis, Segment, SegmentId, SegmentIdx};
use crate::plant::{Bug, is_planted};

/// Bytes of the image in one part at most, so that no entry is large.
pub const PART_BYTES_MAX: usize = 256 << 10;

/// Parts of one restore at most: 64 GiB.
pub const PARTS_MAX: u32 = 1 << 18;

/// Bytes of a report in the log at most.
pub const REPORT_BYTES_MAX: usize = 1 << 20;

/// Opens a stage; one that is open is forgotten.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreBegin {
    /// Names the attempt; the leader never uses one twice.
    pub attempt: u64,
    /// The catalog snapshot.
    pub snapshot: Arc<str>,
    /// The one instant by which everything in it was decided.
    pub now: Millis,
    /// Parts that follow.
    pub parts: u32,
    /// CRC-32 of all of them in order.
    pub crc32: u32,
}

/// A piece of the image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestorePart {
    /// The attempt.
    pub attempt: u64,
    /// Which piece, from 0. They may come in any order.
    pub number: u32,
    /// The bytes.
    pub bytes: Key,
}

/// Takes the staged image over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreFinish {
    /// The attempt.
    pub attempt: u64,
    /// The last read lease that the snapshot has saved.
    pub leases_until: Millis,
    /// How it ends if it is taken over.
    pub outcome: RestoreOutcome,
    /// The report, JSON.
    pub report: Key,
}

/// Settles the question without an image: the cluster starts empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreDecide {
    /// Why.
    pub outcome: RestoreOutcome,
    /// The instant by which candidates were judged.
    pub now: Millis,
    /// The report, JSON.
    pub report: Key,
}

/// How a restore ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RestoreOutcome {
    /// A snapshot was taken over.
    Restored,
    /// A snapshot was taken over, but none of its objects had survived.
    NothingSurvived,
    /// There was none.
    NoSnapshot,
    /// None could be restored, and the operator wanted to start all the same.
    AllFailed,
}

/// Why a step of a restore was refused. Nothing has changed then, but that the stage may be forgotten.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreRefused {
    /// The store is in use.
    #[error(
        "the store is not empty: it has {objects} objects and {segments} segments; a restore needs an \
         empty one, so stop the clients and wait until they are given up, or start a new cluster"
    )]
    NotEmpty {
        /// Objects.
        objects: u64,
        /// Mounted segments.
        segments: u64,
    },
    /// The attempt is not the one that is open: another was begun, or a new leader gave it up.
    #[error("the attempt was given up")]
    NoStage,
    /// More than the limits.
    #[error("it has {parts} parts, and {PARTS_MAX} of {PART_BYTES_MAX} bytes are the most")]
    TooLarge {
        /// Parts.
        parts: u32,
    },
    /// The image cannot be taken over; another candidate may be.
    #[error("{0}")]
    Damaged(String),
}

/// The state that the parts of an attempt make, built before the last step, which then need not load it.
#[derive(Debug)]
pub struct Preloaded {
    /// The attempt.
    pub attempt: u64,
    /// CRC-32 of its parts in order.
    pub crc32: u32,
    /// What they hold.
    pub state: State,
}

/// Parts on their way to a whole image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// What was announced.
    pub begin: RestoreBegin,
    /// What has come.
    pub parts: BTreeMap<u32, Arc<[u8]>>,
}

/// What became of the restore.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreRecord {
    /// State time when it was decided.
    pub at: Millis,
    /// The instant by which candidates were judged.
    pub now: Millis,
    /// What was restored.
    pub snapshot: Option<Arc<str>>,
    /// How it ended.
    pub outcome: RestoreOutcome,
    /// The report, JSON.
    pub report: Key,
}

/// Everything about restores. Replicated.
#[derive(Clone, Debug, Default)]
pub struct Restore {
    /// The open attempt.
    pub(super) stage: Option<Stage>,
    /// How the newest one ended. A cluster that has one does not restore at a start.
    pub(super) record: Option<RestoreRecord>,
    /// Restored segments that their clients have not named yet. Invariant: each is mounted.
    pub(super) unclaimed: BTreeSet<SegmentId>,
}

impl Restore {
    /// The open attempt.
    pub fn stage(&self) -> Option<&Stage> {
        self.stage.as_ref()
    }

    /// How the newest restore ended.
    pub fn record(&self) -> Option<&RestoreRecord> {
        self.record.as_ref()
    }

    /// Restored segments that their clients have not named yet.
    pub fn unclaimed(&self) -> &BTreeSet<SegmentId> {
        &self.unclaimed
    }
}

impl Stage {
    /// The image.
    ///
    /// Errors: a part is missing, or the sum is not the announced one.
    fn image(&self) -> Result<Parts, RestoreRefused> {
        if self.parts.len() as u64 != u64::from(self.begin.parts) {
            let (came, parts) = (self.parts.len(), self.begin.parts);
            return Err(RestoreRefused::Damaged(format!("{came} of {parts} parts came")));
        }
        let mut sum = crc32fast::Hasher::new();
        self.parts.values().for_each(|part| sum.update(part));
        if sum.finalize() != self.begin.crc32 {
            return Err(RestoreRefused::Damaged("the parts are not those announced".into()));
        }
        Ok(Parts { parts: self.parts.values().cloned().collect(), at: 0 })
    }
}

/// Reads parts as one stream.
struct Parts {
    parts: std::collections::VecDeque<Arc<[u8]>>,
    /// Bytes of the first part that were read.
    at: usize,
}

impl Read for Parts {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        while let Some(part) = self.parts.front() {
            let mut rest = part.get(self.at..).unwrap_or_default();
            if !rest.is_empty() {
                let count = rest.read(buffer)?;
                self.at += count;
                return Ok(count);
            }
            self.parts.pop_front();
            self.at = 0;
        }
        Ok(0)
    }
}

impl State {
    /// What is known of restores.
    pub fn restore(&self) -> &Restore {
        &self.restore
    }

    /// Whether the store may be replaced: no objects, no segments.
    ///
    /// Errors: `NotEmpty`.
    pub fn expect_empty(&self) -> Result<(), RestoreRefused> {
        let (objects, segments) = (self.totals.keys, self.segments.len() as u64);
        if objects == 0 && segments == 0 {
            return Ok(());
        }
        Err(RestoreRefused::NotEmpty { objects, segments })
    }

    pub(super) fn restore_begin(&mut self, begin: &RestoreBegin) -> Result<(), RestoreRefused> {
        self.restore.stage = None;
        self.preloaded = None;
        self.expect_empty()?;
        if begin.parts > PARTS_MAX {
            return Err(RestoreRefused::TooLarge { parts: begin.parts });
        }
        self.restore.stage = Some(Stage { begin: begin.clone(), parts: BTreeMap::new() });
        Ok(())
    }

    pub(super) fn restore_part(&mut self, part: &RestorePart) -> Result<(), RestoreRefused> {
        let open = self.restore.stage.as_mut();
        let stage = open.filter(|stage| stage.begin.attempt == part.attempt);
        let stage = stage.ok_or(RestoreRefused::NoStage)?;
        if part.number >= stage.begin.parts || part.bytes.0.len() > PART_BYTES_MAX {
            return Err(RestoreRefused::TooLarge { parts: part.number.saturating_add(1) });
        }
        stage.parts.insert(part.number, Arc::from(&*part.bytes.0));
        Ok(())
    }

    /// Keeps what the parts of the open attempt hold, so that its last step need not load it; of any other
    /// attempt it is dropped. It is what loading the parts would give, so nodes with and without it stay equal.
    pub fn preload(&mut self, preloaded: Preloaded) {
        let open = self.restore.stage.as_ref().map(|stage| stage.begin.attempt);
        self.preloaded = (open == Some(preloaded.attempt)).then(|| Box::new(preloaded));
    }

    /// Whether loading these parts gives this state. Large images are believed: entries wait meanwhile.
    fn is_loaded_from(&self, image: &mut Parts) -> bool {
        const COMPARED_BYTES_MAX: usize = 1 << 20;
        if image.parts.iter().map(|part| part.len()).sum::<usize>() > COMPARED_BYTES_MAX {
            return true;
        }
        let saved = |state: &State| {
            let mut bytes = Vec::new();
            state.freeze().save(&mut bytes).map(|()| bytes).ok()
        };
        let loaded = State::load(image);
        loaded.is_ok_and(|loaded| saved(&loaded).is_some_and(|bytes| Some(bytes) == saved(self)))
    }

    pub(super) fn restore_abort(&mut self, attempt: u64) -> Reply {
        let is_meant = |stage: &mut Stage| stage.begin.attempt == attempt;
        // Dropping the stage is all there is to it.
        if self.restore.stage.take_if(is_meant).is_some() {
            self.preloaded = None;
        }
        Reply::Done
    }

    /// Replaces the store by the staged image. Whatever happens, no stage is left.
    pub(super) fn restore_finish(&mut self, finish: &RestoreFinish) -> Result<(), RestoreRefused> {
        let is_meant = |stage: &mut Stage| stage.begin.attempt == finish.attempt;
        let stage = self.restore.stage.take_if(is_meant).ok_or(RestoreRefused::NoStage)?;
        let preloaded = self.preloaded.take();
        self.expect_empty()?;
        let mut image = stage.image()?;
        let wanted = (finish.attempt, stage.begin.crc32);
        let restored = match preloaded {
            Some(preloaded) if (preloaded.attempt, preloaded.crc32) == wanted => {
                debug_assert!(preloaded.state.is_loaded_from(&mut image));
                Ok(preloaded.state)
            }
            _ => {
                State::load(&mut image).map_err(|error| RestoreRefused::Damaged(error.to_string()))
            }
        };
        if restored.is_err() && is_planted(Bug::KeepIndex) {
            self.plant_kept_index();
        }
        let restored = restored?;
        self.take_over(restored, finish.leases_until);
        self.restore.record = Some(RestoreRecord {
            at: self.clock,
            now: stage.begin.now,
            snapshot: Some(stage.begin.snapshot),
            outcome: finish.outcome,
            report: finish.report.clone(),
        });
        Ok(())
    }

    /// Records that the cluster starts empty. A restore that was decided before stays.
    pub(super) fn restore_decide(&mut self, decide: &RestoreDecide) -> Reply {
        let RestoreDecide { outcome, now, ref report } = *decide;
        let (at, report) = (self.clock, report.clone());
        let record = RestoreRecord { at, now, snapshot: None, outcome, report };
        self.restore.record.get_or_insert(record);
        Reply::Done
    }

    /// The restored state in the place of this one, which keeps what is not the store's: its time, counts,
    /// who leads, and the clients and metadata that came since.
    fn take_over(&mut self, mut restored: State, leases_until: Millis) {
        let next_replica_id = restored.next_replica_id.max(self.next_replica_id);
        let guard = Guard::after_restore(&self.guard, next_replica_id, leases_until);
        let mut clients = std::mem::take(&mut self.clients);
        for (client, told) in restored.clients.iter() {
            let record = clients.touch(client);
            if record.host_id.is_empty() {
                record.host_id = Arc::clone(&told.host_id);
            }
        }
        for (key, value) in self.metadata.iter() {
            // What a client has said since counts more than what it said before the snapshot.
            restored.metadata.delete(key);
            restored.metadata.put(key, value);
        }
        restored.clients = clients;
        restored.clock = restored.clock.max(self.clock);
        restored.next_replica_id = next_replica_id;
        restored.counters = self.counters;
        std::mem::swap(&mut restored.presence, &mut self.presence);
        restored.leadership = self.leadership.take();
        restored.guard = guard;
        restored.keep_quotas(&self.quotas);
        restored.tiers.after_restore(&mut self.tiers);
        let unclaimed = restored.segments.iter().map(|(_, mounted)| mounted.segment.id).collect();
        restored.restore = Restore { unclaimed, ..Restore::default() };
        self.replace_with(restored);
        self.note_restored();
    }

    /// A client names a segment that is mounted: what the snapshot could not say of it is taken over.
    pub(super) fn claim_segment(&mut self, index: SegmentIdx, told: &Segment) {
        self.segments.adopt(index, told);
        self.restore.unclaimed.remove(&told.id);
    }

    /// A client has named all that it has: of its restored segments the others are gone, and their addresses
    /// may hold anything by now.
    pub(super) fn drop_unclaimed(&mut self, client: ClientId) {
        if self.restore.unclaimed.is_empty() {
            return;
        }
        let mine = self.segments.iter().filter(|(_, mounted)| mounted.owner == client);
        let lost = mine.filter(|(_, mounted)| self.restore.unclaimed.contains(&mounted.segment.id));
        let lost: Vec<SegmentIdx> = lost.map(|(index, _)| index).collect();
        for index in lost {
            self.begin_unmount(index);
        }
    }

    /// A restored segment that is not mounted any more waits for nobody.
    pub(super) fn forget_unclaimed(&mut self, segment: SegmentId) {
        self.restore.unclaimed.remove(&segment);
    }
}

/// The wire's word for a refused restore, for doors that have no other.
impl From<&RestoreRefused> for ErrorCode {
    fn from(refused: &RestoreRefused) -> Self {
        match refused {
            RestoreRefused::NotEmpty { .. } | RestoreRefused::NoStage => {
                ErrorCode::UnavailableInCurrentStatus
            }
            RestoreRefused::TooLarge { .. } => ErrorCode::InvalidParams,
            RestoreRefused::Damaged(_) => ErrorCode::InternalError,
        }
    }
}
