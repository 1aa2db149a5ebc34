//! Findings: what is odd or broken in a snapshot, where, and what reading it does about that.
//!
//! One list serves decoding, verification and the restore report, so that an operator reads the
//! same words everywhere. The list is bounded; the counts are not.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::error::SnapshotFile;
use crate::image::ObjectName;

/// How many findings a list keeps in words. Further ones are only counted.
pub const FINDINGS_MAX: usize = 1000;

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The file.
    pub file: SnapshotFile,
    /// The shard as the file numbers it, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shard: Option<u16>,
    /// Tenant and key, or the id of a segment or task; printable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What is wrong.
    pub what: String,
    /// What a restore does about it.
    pub effect: Effect,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        if let Some(shard) = self.shard {
            write!(f, ": shard {shard}")?;
        }
        if let Some(key) = &self.key {
            write!(f, ": {key}")?;
        }
        write!(f, ": {} ({})", self.what, self.effect)
    }
}

/// What a restore does about a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Nothing is lost; the value is taken as the format means it.
    Accepted,
    /// Nothing is lost; derived data were rebuilt from what they are derived from.
    Repaired,
    /// The object is left out.
    ObjectDropped,
    /// A replica, task, queue entry or segment is left out.
    ItemDropped,
    /// The candidate as a whole is refused.
    CandidateFails,
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Effect::Accepted => "accepted",
            Effect::Repaired => "repaired",
            Effect::ObjectDropped => "the object is dropped",
            Effect::ItemDropped => "dropped",
            Effect::CandidateFails => "the candidate fails",
        })
    }
}

/// Why an object of a snapshot is not restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DropReason {
    /// Its record does not follow the format.
    DamagedRecord,
    /// Another record of the snapshot has its name.
    DuplicateName,
    /// Its allocation contradicts itself or its segment.
    DamagedAllocation,
    /// Its memory range is claimed by another object, too.
    OverlappingMemory,
    /// Its segment is not in the snapshot, or has no allocator.
    SegmentUnusable,
    /// It lies on a distributed file system only, which this master does not know.
    ForeignPlace,
    /// A replica was not complete.
    Unfinished,
    /// Its read lease was over, and the survival rule looks at nothing else.
    LeaseOver,
    /// Read lease and soft pin (if any) were over.
    LeaseAndPinOver,
}

impl DropReason {
    /// Whether the snapshot is at fault, not the time that has passed.
    pub fn is_damage(self) -> bool {
        match self {
            DropReason::DamagedRecord
            | DropReason::DuplicateName
            | DropReason::DamagedAllocation
            | DropReason::OverlappingMemory
            | DropReason::SegmentUnusable => true,
            DropReason::ForeignPlace
            | DropReason::Unfinished
            | DropReason::LeaseOver
            | DropReason::LeaseAndPinOver => false,
        }
    }
}

/// Objects and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Objects.
    pub objects: u64,
    /// Sum of their sizes; 0 for objects whose record could not be read.
    pub bytes: u64,
}

impl Tally {
    /// Counts one more object.
    pub fn add(&mut self, bytes: u64) {
        self.objects += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Counts what another tally has.
    pub(crate) fn append(&mut self, other: Tally) {
        self.objects += other.objects;
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// A bounded list of findings with unbounded counts, and the objects lost by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Findings {
    /// The first [`FINDINGS_MAX`] findings.
    pub list: Vec<Finding>,
    /// All findings by effect.
    pub counts: BTreeMap<Effect, u64>,
    /// Objects dropped, by reason.
    pub dropped: BTreeMap<DropReason, Tally>,
}

impl Findings {
    /// Adds a finding.
    pub fn add(&mut self, finding: Finding) {
        *self.counts.entry(finding.effect).or_default() += 1;
        if self.list.len() < FINDINGS_MAX {
            self.list.push(finding);
        }
    }

    /// Adds what was found after this.
    pub(crate) fn append(&mut self, later: Findings) {
        let room = FINDINGS_MAX.saturating_sub(self.list.len());
        self.list.extend(later.list.into_iter().take(room));
        for (effect, count) in later.counts {
            *self.counts.entry(effect).or_default() += count;
        }
        for (reason, tally) in later.dropped {
            self.dropped.entry(reason).or_default().append(tally);
        }
    }

    /// Adds a finding about a whole file.
    pub(crate) fn note(&mut self, file: SnapshotFile, effect: Effect, what: impl Into<String>) {
        self.add(Finding { file, shard: None, key: None, what: what.into(), effect });
    }

    /// Adds a finding about a segment, task or other named item.
    pub(crate) fn item(
        &mut self,
        file: SnapshotFile,
        key: impl fmt::Display,
        effect: Effect,
        what: impl Into<String>,
    ) {
        let key = Some(key.to_string());
        self.add(Finding { file, shard: None, key, what: what.into(), effect });
    }

    /// Adds an object that is dropped because the snapshot is damaged.
    pub(crate) fn lost(
        &mut self,
        shard: u16,
        name: Option<&ObjectName>,
        bytes: u64,
        reason: DropReason,
        what: impl Into<String>,
    ) {
        self.dropped.entry(reason).or_default().add(bytes);
        self.add(Finding {
            file: SnapshotFile::Metadata,
            shard: Some(shard),
            key: name.map(ToString::to_string),
            what: what.into(),
            effect: Effect::ObjectDropped,
        });
    }

    /// Number of findings, kept in words or not.
    pub fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    /// Whether anything was lost or the candidate refused.
    pub fn is_clean(&self) -> bool {
        self.counts.keys().all(|effect| *effect <= Effect::Repaired)
    }

    /// Objects lost because the snapshot is damaged.
    pub fn lost_to_damage(&self) -> u64 {
        let damage = self.dropped.iter().filter(|(reason, _)| reason.is_damage());
        damage.map(|(_, tally)| tally.objects).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_bounded_and_the_count_is_not() {
        let mut findings = Findings::default();
        for _ in 0..FINDINGS_MAX + 5 {
            findings.note(SnapshotFile::Segments, Effect::Accepted, "odd");
        }
        assert_eq!(findings.list.len(), FINDINGS_MAX);
        assert_eq!(findings.total(), FINDINGS_MAX as u64 + 5);
        assert!(findings.is_clean());
    }
}
