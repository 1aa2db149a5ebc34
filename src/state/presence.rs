//! Which objects can be read from memory and from disk, as changes that others may follow (behaviour 11).
//!
//! Every change of an object is settled in one place (`settle`), and there an object is seen to become readable
//! in a medium or to stop being so, whatever did it. The changes are numbered for ever, and so are the batches
//! that they are told in: the changes of an entry, [`BATCH_CHANGES_MAX`] at a time. Numbers are replicated, so
//! every node tells the same change by the same number. The changes themselves are kept only where somebody
//! follows them, and only until the next entry.

use serde::{Deserialize, Serialize};

use super::State;
use crate::model::{Object, ObjectRef, Tenant};

/// Changes told in one batch at most. Part of what is replicated: never change it.
pub const BATCH_CHANGES_MAX: u64 = 64;

/// Changes of one entry that are kept at most. Of an entry with more, which only a restore of as many objects
/// is, none are kept; their numbers are used all the same.
pub const CHANGES_KEPT_MAX: u64 = 1 << 20;

/// Where an object can be read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Medium {
    /// Segment memory.
    Memory,
    /// A disk, shared or a client's own.
    Disk,
}

/// An object became readable in a medium, or stopped being so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresenceChange {
    /// Where.
    pub medium: Medium,
    /// Whether it can be read there now.
    pub is_stored: bool,
    /// Its name space.
    pub tenant: Tenant,
    /// Its key.
    pub key: Box<[u8]>,
    /// Its group; empty for none.
    pub group: Box<[u8]>,
}

/// How much has been told since the cluster began. Replicated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PresenceCounts {
    /// Changes. The newest one has this number, the first has 1.
    pub changes: u64,
    /// Batches; numbered alike.
    pub batches: u64,
}

/// The changes of the newest entry.
#[derive(Debug, Default)]
pub struct Presence {
    /// Of everything up to the newest entry.
    counts: PresenceCounts,
    /// Changes of the entry that is being applied.
    in_entry: u64,
    /// Whether changes are kept.
    is_followed: bool,
    kept: Vec<PresenceChange>,
}

impl Presence {
    /// How much has been told.
    pub fn counts(&self) -> PresenceCounts {
        self.counts
    }

    /// Keeps the changes of each entry from now on.
    pub fn follow(&mut self) {
        self.is_followed = true;
    }

    /// Whether changes are kept.
    pub fn is_followed(&self) -> bool {
        self.is_followed
    }

    /// Takes the changes of the newest entry.
    pub fn take(&mut self) -> Vec<PresenceChange> {
        std::mem::take(&mut self.kept)
    }

    /// Goes on from counts that another state had.
    pub(super) fn resume(&mut self, counts: PresenceCounts) {
        self.counts = counts;
    }

    pub(super) fn begin_entry(&mut self) {
        self.kept.clear();
        self.in_entry = 0;
    }

    pub(super) fn end_entry(&mut self) {
        self.counts.changes += self.in_entry;
        self.counts.batches += self.in_entry.div_ceil(BATCH_CHANGES_MAX);
        if self.in_entry > CHANGES_KEPT_MAX {
            self.kept = Vec::new();
        }
    }

    /// Counts a change; `change` describes it, if it is kept.
    fn note(&mut self, change: impl FnOnce() -> Option<PresenceChange>) {
        self.in_entry += 1;
        if self.is_followed && self.in_entry <= CHANGES_KEPT_MAX {
            self.kept.extend(change());
        }
    }
}

impl State {
    /// What is told of objects coming and going.
    pub fn presence(&self) -> &Presence {
        &self.presence
    }

    /// The same, to follow it or to take what was told.
    pub fn presence_mut(&mut self) -> &mut Presence {
        &mut self.presence
    }

    /// Notes in which media an object can be read before and after a change. `gone` is the object, if it is not
    /// in the table any more.
    pub(super) fn note_presence(
        &mut self,
        at: ObjectRef,
        gone: Option<&Object>,
        media: [(Medium, u64, u64); 2],
    ) {
        for (medium, before, after) in media {
            if before == after {
                continue;
            }
            // The numbers must be right whether anybody follows or not, so the object is named afterwards.
            let mut presence = std::mem::take(&mut self.presence);
            presence.note(|| {
                let name = |object: &Object| self.name_presence(object, medium, after > 0);
                match gone {
                    Some(object) => name(object),
                    None => self.view.table.peek(at, name).flatten(),
                }
            });
            self.presence = presence;
        }
    }

    fn name_presence(
        &self,
        object: &Object,
        medium: Medium,
        is_stored: bool,
    ) -> Option<PresenceChange> {
        Some(PresenceChange {
            medium,
            is_stored,
            tenant: self.tenants.name(object.tenant.0)?.clone(),
            key: object.key.boxed(),
            group: self.group_name(object).into(),
        })
    }

    /// Notes that every object of a restored store has come, in the order of their names.
    pub(super) fn note_restored(&mut self) {
        let stored = self.totals.memory_cached + self.totals.file_cached;
        if !self.presence.is_followed || stored > CHANGES_KEPT_MAX {
            self.presence.in_entry += stored;
            return;
        }
        let mut come = Vec::new();
        for shard in self.view.table.freeze() {
            for object in shard.objects() {
                let media = super::settle::media_of(object);
                let there = media.into_iter().filter(|(_, there)| *there > 0);
                come.extend(there.filter_map(|(m, _)| self.name_presence(object, m, true)));
            }
        }
        come.sort_unstable_by(|a, b| {
            (a.tenant.name(), &a.key, a.medium).cmp(&(b.tenant.name(), &b.key, b.medium))
        });
        for change in come {
            self.presence.note(|| Some(change));
        }
    }
}
