//! What of an image survives a cold restore (RFC "Snapshot and HA semantics").
//!
//! One `now` decides everything, so that all nodes which load the result agree. Only for restores
//! into a new cluster: a node that restarts or catches up loads its image exactly and forgets
//! nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::error::{SnapshotError, SnapshotFile};
use crate::finding::{DropReason, Effect, Findings, Tally};
use crate::halves::in_halves;
use crate::image::{
    Extension, Image, ObjectImage, ObjectName, ReplicaPlace, ReplicaStatus, SegmentRecord,
    SegmentStatus, SegmentsImage, TransferKind, Uuid,
};
use crate::settle::refit_allocators;

/// How long a gracefully unmounting segment stays if its own deadline is unknown (the peer does not
/// save it). Six times the peer's client TTL: a client that still lives has shown itself by then.
pub const GRACE_AFTER_RESTORE_MS: u64 = 60_000;

/// Which objects survive a cold restore. Every rule asks that all replicas be complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Survival {
    /// Read lease or soft pin is not over (the RFC).
    #[default]
    Rfc,
    /// Read lease is not over (the peer, release 0.3.13).
    Lease,
    /// Always. Right only if the clients kept their memory untouched since the snapshot, which the
    /// operator vouches for.
    Complete,
}

impl fmt::Display for Survival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Survival::Rfc => "rfc",
            Survival::Lease => "lease",
            Survival::Complete => "complete",
        })
    }
}

/// A text that names no survival rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no survival rule; it is one of rfc, lease, complete")]
pub struct UnknownSurvival(String);

impl FromStr for Survival {
    type Err = UnknownSurvival;

    fn from_str(text: &str) -> Result<Self, UnknownSurvival> {
        match text {
            "rfc" => Ok(Survival::Rfc),
            "lease" => Ok(Survival::Lease),
            "complete" => Ok(Survival::Complete),
            other => Err(UnknownSurvival(other.to_string())),
        }
    }
}

/// What survived and what did not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Normalized {
    /// The instant that decided, milliseconds since the Unix epoch.
    pub now_ms: u64,
    /// Objects kept.
    pub kept: Tally,
    /// Soft pins of kept objects that are still active.
    pub pins_kept: u64,
    /// Soft pins whose deadline had passed; their objects, if kept, are ordinary cache.
    pub pins_expired: u64,
    /// Active soft pins of objects that were dropped for another reason.
    pub pins_dropped: u64,
}

/// Applies the rules of a cold restore. What is dropped is counted in `findings` by reason.
///
/// The instant that decides is the later one of `now_ms` and the snapshot's own state clock: time
/// does not run backwards, so an expired pin cannot come back through a slow clock.
///
/// Errors: the image is not consistent, which [`crate::decode_image`] rules out.
pub fn normalize(
    image: &mut Image,
    now_ms: u64,
    survival: Survival,
    findings: &mut Findings,
) -> Result<Normalized, SnapshotError> {
    let clock_ms = image.globals.extension.as_ref().map_or(0, |extension| extension.state_clock_ms);
    let now_ms = now_ms.max(clock_ms);
    let dropped_before = sum(&findings.dropped).objects;
    let gone = settle_segments(image, now_ms, findings);
    let targets = forget_unfinished(image.globals.extension.as_mut());
    let rule = Rule { survival, now_ms, gone: &gone, targets: &targets };
    let (report, has_lost_replica) = judge_all(image, rule, findings);
    let has_dropped = sum(&findings.dropped).objects > dropped_before;
    for item in &mut image.globals.discarded {
        item.replicas.retain(|replica| !lies_on(&replica.place, &gone));
    }
    image.globals.discarded.retain(|item| !item.replicas.is_empty());
    forget_queued(image);
    if has_dropped || has_lost_replica {
        refit_allocators(image)?;
    }
    Ok(report)
}

/// Decides segment by segment: those going away go, draining ones are ordinary again (drain jobs
/// are not saved), gracefully unmounting ones get a deadline. Returns those that went.
fn settle_segments(image: &mut Image, now_ms: u64, findings: &mut Findings) -> BTreeSet<Uuid> {
    let mut gone = BTreeSet::new();
    let mut leaving = Vec::new();
    let file = SnapshotFile::Segments;
    for segment in &mut image.globals.segments.segments {
        match segment.status {
            SegmentStatus::Ok | SegmentStatus::Drained => {}
            SegmentStatus::Draining => {
                segment.status = SegmentStatus::Ok;
                let what = "it was draining; the job is not saved, so it takes objects again";
                findings.item(file, segment.id, Effect::Accepted, what);
            }
            SegmentStatus::GracefullyUnmounting => leaving.push(segment.id),
            SegmentStatus::Unmounting | SegmentStatus::Undefined => {
                gone.insert(segment.id);
                let what = "it was being unmounted; it goes, and what lay on it";
                findings.item(file, segment.id, Effect::ItemDropped, what);
            }
        }
    }
    let segments = &mut image.globals.segments;
    segments.segments.retain(|segment| !gone.contains(&segment.id));
    for (_, ids) in &mut segments.clients {
        ids.retain(|id| !gone.contains(id));
    }
    for id in leaving {
        let extension = image.globals.extension.get_or_insert_default();
        let owner = owner_of(&image.globals.segments, id);
        let deadline_ms = set_deadline(extension, id, owner, now_ms);
        let what = format!("it is being unmounted gracefully, until {deadline_ms}");
        findings.item(file, id, Effect::Accepted, what);
    }
    gone
}

fn owner_of(segments: &SegmentsImage, id: Uuid) -> Uuid {
    let owner = segments.clients.iter().find(|(_, ids)| ids.contains(&id));
    owner.map_or(Uuid::default(), |(client, _)| *client)
}

/// Keeps a known deadline, else gives one; returns it.
fn set_deadline(extension: &mut Extension, id: Uuid, owner: Uuid, now_ms: u64) -> u64 {
    let fresh_ms = now_ms.saturating_add(GRACE_AFTER_RESTORE_MS);
    match extension.segments.iter_mut().find(|record| record.id == id) {
        Some(record) => *record.unmount_deadline_ms.get_or_insert(fresh_ms),
        None => {
            let unmount_deadline_ms = Some(fresh_ms);
            let protocol = String::new();
            extension.segments.push(SegmentRecord { id, owner, protocol, unmount_deadline_ms });
            fresh_ms
        }
    }
}

/// Forgets writes and transfers in flight; returns the replicas that transfers were making.
fn forget_unfinished(extension: Option<&mut Extension>) -> BTreeSet<u64> {
    let Some(extension) = extension else { return BTreeSet::new() };
    extension.pending_pins.clear();
    extension.writes.clear();
    let transfers = std::mem::take(&mut extension.transfers);
    let made = transfers.into_iter().filter(|transfer| transfer.kind != TransferKind::Offload);
    made.flat_map(|transfer| transfer.targets).collect()
}

/// Objects that went are not offloaded any more.
fn forget_queued(image: &mut Image) {
    let disks = &image.globals.segments.local_disks;
    let queued: BTreeSet<ObjectName> =
        disks.iter().flat_map(|(_, disk)| &disk.queue).map(|task| task.name.clone()).collect();
    if queued.is_empty() {
        return;
    }
    let there: BTreeSet<ObjectName> = image
        .objects()
        .filter(|(_, object)| queued.contains(&object.name))
        .map(|(_, object)| object.name.clone())
        .collect();
    for (_, disk) in &mut image.globals.segments.local_disks {
        disk.queue.retain(|task| there.contains(&task.name));
    }
}

fn lies_on(place: &ReplicaPlace, gone: &BTreeSet<Uuid>) -> bool {
    matches!(place, ReplicaPlace::Memory { segment, .. } if gone.contains(segment))
}

/// The rule for names of tenants (behaviour 1.1): no control characters, no underscore first.
fn is_tenant_valid(name: &str) -> bool {
    !name.starts_with('_') && name.bytes().all(|byte| byte >= 0x20 && byte != 0x7f)
}

/// What objects are judged by.
#[derive(Clone, Copy)]
struct Rule<'r> {
    survival: Survival,
    now_ms: u64,
    /// Segments that went.
    gone: &'r BTreeSet<Uuid>,
    /// Replicas that unfinished transfers were making.
    targets: &'r BTreeSet<u64>,
}

/// Judges all objects, on two threads; answers whether any has lost a replica, too.
fn judge_all(image: &mut Image, rule: Rule<'_>, findings: &mut Findings) -> (Normalized, bool) {
    let shards: Vec<(u16, &mut Vec<ObjectImage>)> =
        image.shards.iter_mut().map(|(shard, objects)| (*shard, objects)).collect();
    let bytes = |(_, objects): &(u16, &mut Vec<ObjectImage>)| {
        objects.len().saturating_mul(size_of::<ObjectImage>()) as u64
    };
    let halves = in_halves(shards, bytes, |shards| {
        let mut judge = Judge::new(rule);
        for (shard, objects) in shards {
            objects.retain_mut(|object| judge.survives(shard, object));
        }
        judge
    });
    image.shards.retain(|_, objects| !objects.is_empty());
    let mut report = Normalized { now_ms: rule.now_ms, ..Normalized::default() };
    let mut has_lost_replica = false;
    for half in halves {
        report.kept.append(half.report.kept);
        report.pins_kept += half.report.pins_kept;
        report.pins_expired += half.report.pins_expired;
        report.pins_dropped += half.report.pins_dropped;
        has_lost_replica |= half.has_lost_replica;
        findings.append(half.findings);
    }
    (report, has_lost_replica)
}

/// Judges objects one by one.
struct Judge<'r> {
    rule: Rule<'r>,
    /// Whether a replica was taken from any object, so that its space is free again.
    has_lost_replica: bool,
    report: Normalized,
    findings: Findings,
}

impl<'r> Judge<'r> {
    fn new(rule: Rule<'r>) -> Self {
        Judge {
            rule,
            has_lost_replica: false,
            report: Normalized::default(),
            findings: Findings::default(),
        }
    }

    /// Whether the object stays; if so, it is made as it will be loaded.
    fn survives(&mut self, shard: u16, object: &mut ObjectImage) -> bool {
        let now_ms = self.rule.now_ms;
        let has_pin = object.soft_pin_ms.is_some();
        object.soft_pin_ms = object.soft_pin_ms.filter(|deadline_ms| *deadline_ms > now_ms);
        let is_pinned = object.soft_pin_ms.is_some();
        self.report.pins_expired += u64::from(has_pin && !is_pinned);
        match self.loss(object, is_pinned) {
            None => {
                self.report.kept.add(object.size);
                self.report.pins_kept += u64::from(is_pinned);
                true
            }
            Some(reason) => {
                self.report.pins_dropped += u64::from(is_pinned);
                if reason.is_damage() {
                    let what = match reason {
                        DropReason::DamagedRecord => "it has no bytes, or no valid tenant",
                        _ => "no replica is left",
                    };
                    self.findings.lost(shard, Some(&object.name), object.size, reason, what);
                } else {
                    // Time is no fault of the snapshot: counted, but no finding.
                    self.findings.dropped.entry(reason).or_default().add(object.size);
                }
                false
            }
        }
    }

    fn loss(&mut self, object: &mut ObjectImage, is_pinned: bool) -> Option<DropReason> {
        if object.size == 0 || !is_tenant_valid(&object.name.tenant) {
            return Some(DropReason::DamagedRecord);
        }
        let is_foreign = |place: &ReplicaPlace| matches!(place, ReplicaPlace::Dfs { .. });
        if object.replicas.iter().all(|replica| is_foreign(&replica.place)) {
            return Some(DropReason::ForeignPlace);
        }
        let (Rule { gone, targets, now_ms, survival }, before) = (self.rule, object.replicas.len());
        object.replicas.retain(|replica| {
            let is_unfinished_copy =
                replica.status != ReplicaStatus::Complete && targets.contains(&replica.id);
            !is_unfinished_copy && !lies_on(&replica.place, gone) && !is_foreign(&replica.place)
        });
        self.has_lost_replica |= object.replicas.len() < before;
        let is_leased = object.lease_ms > now_ms;
        if object.replicas.is_empty() {
            return Some(DropReason::SegmentUnusable);
        }
        if !object.is_complete() {
            return Some(DropReason::Unfinished);
        }
        match survival {
            Survival::Complete => None,
            Survival::Rfc if is_leased || is_pinned => None,
            Survival::Rfc => Some(DropReason::LeaseAndPinOver),
            Survival::Lease if is_leased => None,
            Survival::Lease => Some(DropReason::LeaseOver),
        }
    }
}

/// Sums of a map of tallies.
pub(crate) fn sum(tallies: &BTreeMap<DropReason, Tally>) -> Tally {
    tallies.values().fold(Tally::default(), |sum, tally| Tally {
        objects: sum.objects + tally.objects,
        bytes: sum.bytes.saturating_add(tally.bytes),
    })
}
