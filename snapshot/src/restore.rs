//! A cold restore: candidates from newest to oldest, and a report that hides nothing.
//!
//! A candidate is decoded, made consistent and normalized beside everything else, so one that fails
//! leaves nothing behind. A candidate that loses every object to damage has failed. Losing every
//! object to time is no failure, but it is not called success either.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::ops::Deref;

use serde::Serialize;

use crate::catalog::{Catalog, Listed, SnapshotId};
use crate::error::{SnapshotError, SnapshotFile};
use crate::finding::{DropReason, Effect, Findings, Tally};
use crate::image::Image;
use crate::normalize::{Normalized, Survival, normalize, sum};
use crate::settle::decode_image;
use crate::store::StoreError;

/// How many candidates are tried; older ones are named in the report as not tried.
pub const CANDIDATES_MAX: usize = 64;

/// How to restore.
#[derive(Clone, Copy, Debug)]
pub struct RestoreOptions {
    /// The one instant for all decisions, milliseconds since the Unix epoch.
    pub now_ms: u64,
    /// Which objects survive.
    pub survival: Survival,
    /// Only this candidate, whatever `latest.txt` says.
    pub only: Option<SnapshotId>,
}

/// How a restore ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A candidate was restored, objects and all (or it had none).
    Restored,
    /// A candidate was sound, but none of its objects survived the time since.
    NothingSurvived,
    /// There is no snapshot.
    NoSnapshot,
    /// There are snapshots, and none of them could be restored.
    AllFailed,
}

/// What became of one candidate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CandidateReport {
    /// Which one.
    pub id: SnapshotId,
    /// Why it cannot be restored; `None` if it can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Objects and bytes in its files.
    pub seen: Tally,
    /// Objects and bytes that a restore keeps.
    pub kept: Tally,
    /// Objects and bytes that it drops, by reason.
    pub dropped: BTreeMap<DropReason, Tally>,
    /// Soft pins that stay active, with their exact deadlines.
    pub pins_kept: u64,
    /// Soft pins that have expired.
    pub pins_expired: u64,
    /// Active soft pins whose object is dropped.
    pub pins_dropped: u64,
    /// The instant that decided, milliseconds since the Unix epoch.
    pub now_ms: u64,
    /// What is odd or broken in it.
    pub findings: Findings,
}

impl CandidateReport {
    fn new(id: SnapshotId) -> Self {
        CandidateReport {
            id,
            failure: None,
            seen: Tally::default(),
            kept: Tally::default(),
            dropped: BTreeMap::new(),
            pins_kept: 0,
            pins_expired: 0,
            pins_dropped: 0,
            now_ms: 0,
            findings: Findings::default(),
        }
    }

    /// Whether a restore takes it and nothing in it is damaged.
    pub fn is_clean(&self) -> bool {
        self.failure.is_none() && self.findings.is_clean()
    }
}

impl fmt::Display for CandidateReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(failure) = &self.failure {
            write!(f, "{}: failed: {failure}", self.id)?;
        } else {
            write!(f, "{}: {} of {} objects kept", self.id, self.kept.objects, self.seen.objects)?;
            write!(f, " ({} of {} bytes)", self.kept.bytes, self.seen.bytes)?;
            write!(f, ", {} soft pins kept, {} expired", self.pins_kept, self.pins_expired)?;
        }
        for (reason, tally) in &self.dropped {
            let (objects, bytes) = (tally.objects, tally.bytes);
            write!(f, ", {objects} ({bytes} bytes) dropped: {}", words(*reason))?;
        }
        Ok(())
    }
}

fn words(reason: DropReason) -> &'static str {
    match reason {
        DropReason::DamagedRecord => "damaged record",
        DropReason::DuplicateName => "name appears twice",
        DropReason::DamagedAllocation => "damaged allocation",
        DropReason::OverlappingMemory => "memory claimed twice",
        DropReason::SegmentUnusable => "segment unusable",
        DropReason::ForeignPlace => "on a distributed file system only",
        DropReason::Unfinished => "write unfinished",
        DropReason::LeaseOver => "read lease over",
        DropReason::LeaseAndPinOver => "read lease and soft pin over",
    }
}

/// What became of a restore.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RestoreReport {
    /// How it ended.
    pub outcome: Outcome,
    /// Which rule decided.
    pub survival: Survival,
    /// The candidates tried, in order; the last one is the one restored, if any was.
    pub candidates: Vec<CandidateReport>,
    /// Candidates that were not tried because there are more than [`CANDIDATES_MAX`].
    pub untried: u64,
}

/// Findings of one candidate that a short report names.
const FINDINGS_SHORT_MAX: usize = 20;
/// Characters of a text in a short report.
const TEXT_SHORT_MAX: usize = 200;

impl RestoreReport {
    /// The report with fewer and shorter findings, so that its size is bounded; counts stay.
    pub fn shortened(&self) -> RestoreReport {
        let mut short = self.clone();
        for candidate in &mut short.candidates {
            candidate.failure.as_mut().into_iter().for_each(shorten);
            candidate.findings.list.truncate(FINDINGS_SHORT_MAX);
            for finding in &mut candidate.findings.list {
                finding.key.as_mut().into_iter().for_each(shorten);
                shorten(&mut finding.what);
            }
        }
        short
    }
}

fn shorten(text: &mut String) {
    if let Some((end, _)) = text.char_indices().nth(TEXT_SHORT_MAX) {
        text.truncate(end);
        text.push_str("...");
    }
}

impl fmt::Display for RestoreReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.outcome {
            Outcome::Restored => "restored",
            Outcome::NothingSurvived => "restored without objects: none survived",
            Outcome::NoSnapshot => "there is no snapshot",
            Outcome::AllFailed => "no snapshot could be restored",
        })?;
        write!(f, " (survival rule: {})", self.survival)?;
        self.candidates.iter().try_for_each(|candidate| write!(f, "\n  {candidate}"))?;
        if self.untried > 0 {
            write!(f, "\n  {} older snapshots were not tried", self.untried)?;
        }
        Ok(())
    }
}

/// A restore: its report and, if a candidate was good, its image ready to load.
#[derive(Debug)]
pub struct Restored {
    /// What became of it.
    pub report: RestoreReport,
    /// The image and where it is from.
    pub image: Option<(SnapshotId, Image)>,
}

/// A restore under way: candidates are tried until one is good and the caller can load it.
pub struct Trial<C> {
    catalog: C,
    options: RestoreOptions,
    waiting: VecDeque<SnapshotId>,
    report: RestoreReport,
}

impl<C: Deref<Target = Catalog>> Trial<C> {
    /// Nothing is tried yet.
    ///
    /// Errors: the store can neither name the latest snapshot nor list any, so nothing is known
    /// about what there is; starting empty would be wrong then.
    pub fn new(catalog: C, options: RestoreOptions) -> Result<Self, StoreError> {
        let mut waiting = match options.only {
            Some(id) => VecDeque::from([id]),
            None => VecDeque::from(candidates(&catalog)?),
        };
        let untried = waiting.len().saturating_sub(CANDIDATES_MAX) as u64;
        waiting.truncate(CANDIDATES_MAX);
        let report = RestoreReport {
            outcome: if waiting.is_empty() { Outcome::NoSnapshot } else { Outcome::AllFailed },
            survival: options.survival,
            candidates: Vec::new(),
            untried,
        };
        Ok(Trial { catalog, options, waiting, report })
    }

    /// The next good candidate; `None` if there is none left.
    pub fn next_good(&mut self) -> Option<(SnapshotId, Image)> {
        while let Some(id) = self.waiting.pop_front() {
            let (candidate, image) = judge(&self.catalog, id, &self.options);
            let has_lost_all = candidate.seen.objects > 0 && candidate.kept.objects == 0;
            self.report.candidates.push(candidate);
            if let Some(image) = image {
                self.report.outcome =
                    if has_lost_all { Outcome::NothingSurvived } else { Outcome::Restored };
                return Some((id, image));
            }
        }
        None
    }

    /// The candidate that was returned last could not be loaded.
    pub fn refuse(&mut self, why: String) {
        self.report.outcome = Outcome::AllFailed;
        let Some(candidate) = self.report.candidates.last_mut() else { return };
        let file = SnapshotFile::Metadata;
        candidate.findings.note(file, Effect::CandidateFails, why.clone());
        candidate.failure = Some(why);
    }

    /// What has become of it, if the candidate that was returned last is the one.
    pub fn report(&self) -> &RestoreReport {
        &self.report
    }
}

/// Tries candidates from newest to oldest and returns the first that can be restored.
///
/// Errors: see [`Trial::new`].
pub fn restore(catalog: &Catalog, options: &RestoreOptions) -> Result<Restored, StoreError> {
    let mut trial = Trial::new(catalog, *options)?;
    let image = trial.next_good();
    Ok(Restored { report: trial.report, image })
}

/// The order of trial: the latest first, then all older ones that are listed (snapshot format 9.1).
/// Ones newer than the latest were never finished; without a latest, all count.
///
/// Errors: neither the latest nor the list can be read.
pub fn candidates(catalog: &Catalog) -> Result<Vec<SnapshotId>, StoreError> {
    let latest = catalog.latest().unwrap_or_else(|error| {
        tracing::warn!(%error, "the latest snapshot cannot be told; going by the listing");
        None
    });
    let listed = match catalog.list() {
        Ok(listed) => listed,
        Err(error) => {
            let latest = latest.ok_or(error)?;
            tracing::warn!("snapshots cannot be listed; trying the latest only");
            return Ok(vec![latest.id]);
        }
    };
    let listed = listed.into_iter().map(|Listed { id, .. }| id);
    Ok(match latest {
        Some(latest) => {
            let older = listed.filter(|id| *id < latest.id);
            std::iter::once(latest.id).chain(older).collect()
        }
        None => listed.collect(),
    })
}

/// What a restore would do with each of these candidates, without stopping at the first good one.
pub fn verify(
    catalog: &Catalog,
    ids: &[SnapshotId],
    options: &RestoreOptions,
) -> Vec<CandidateReport> {
    ids.iter().map(|id| judge(catalog, *id, options).0).collect()
}

/// Everything about one candidate, and its image if it can be restored.
fn judge(
    catalog: &Catalog,
    id: SnapshotId,
    options: &RestoreOptions,
) -> (CandidateReport, Option<Image>) {
    let mut report = CandidateReport::new(id);
    match attempt(catalog, id, options, &mut report) {
        Ok(image) if report.failure.is_none() => (report, Some(image)),
        Ok(_) => (report, None),
        Err(error) => {
            let file = error.file().unwrap_or(SnapshotFile::Manifest);
            report.findings.note(file, Effect::CandidateFails, error.what());
            report.failure = Some(error.to_string());
            (report, None)
        }
    }
}

fn attempt(
    catalog: &Catalog,
    id: SnapshotId,
    options: &RestoreOptions,
    report: &mut CandidateReport,
) -> Result<Image, SnapshotError> {
    let payloads = catalog.fetch_for_restore(id)?;
    let decoded = decode_image(&payloads, catalog.limits())?;
    drop(payloads);
    report.seen = Tally { objects: decoded.objects_seen, bytes: decoded.bytes_seen };
    report.findings = decoded.findings;
    let mut image = decoded.image;
    let findings = &mut report.findings;
    let Normalized { now_ms, kept, pins_kept, pins_expired, pins_dropped } =
        normalize(&mut image, options.now_ms, options.survival, findings)?;
    report.kept = kept;
    report.dropped = report.findings.dropped.clone();
    (report.pins_kept, report.pins_expired, report.pins_dropped) =
        (pins_kept, pins_expired, pins_dropped);
    report.now_ms = now_ms;
    let damaged = report.findings.lost_to_damage();
    if kept.objects == 0 && damaged > 0 {
        let dropped = sum(&report.dropped).objects;
        let what = format!("none of its {dropped} objects is left, {damaged} are lost to damage");
        report.findings.note(SnapshotFile::Metadata, Effect::CandidateFails, what.clone());
        report.failure = Some(what);
    }
    Ok(image)
}
