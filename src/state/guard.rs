//! Memory that a catalog snapshot could still bring back is not handed out again (`docs/snapshot.md`).
//!
//! A cold restore keeps an object whose soft pin is not over, and so reads its memory. Had that memory been
//! freed and given to another object since the snapshot, the restored object would show foreign bytes. So
//! memory that is freed while the newest snapshot could still restore its object is set aside among the
//! discards, until a newer snapshot is published or the pin (or a lease that a forced removal broke) is over.
//!
//! Snapshots are announced in the log before the state is frozen and again when they are published; the
//! generation, a count of beginnings, orders what is freed before and after them. A snapshot that began and
//! of which nothing more is heard counts as published: its leader may have died between the two.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::State;
use super::discards::{Discard, Held, LostDiscard};
use crate::alloc::{AllocatorFault, LiveRange, OffsetAllocator, Rebuilt, UsedNode, rebuild};
use crate::model::{
    Deadline, Millis, Object, ObjectKey, ObjectRef, Place, Replica, ReplicaId, ReplicaStatus,
    Segment, SegmentId, SegmentIdx,
};

/// A published catalog snapshot, as the node that took it tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Published {
    /// The generation that its beginning was given.
    pub generation: u64,
    /// The replica counter of the state that was saved: no replica from here on is in the snapshot.
    pub next_replica_id: u64,
}

/// A pin that was taken back or shortened while a snapshot may hold it as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shortened {
    /// The deadline before.
    pub until: Deadline,
    /// The generation in which it was shortened: the next snapshot does not hold it any more.
    pub generation: u64,
}

/// Memory that was set aside, or would have been, when its segment was taken away. The client may bring the same
/// segment back, and a restored snapshot would read there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gone {
    /// First address and size of the segment: another range is other memory.
    pub segment: (u64, u64),
    /// Start in the units of the segment's allocator.
    pub offset_units: u32,
    /// Bytes.
    pub size: u64,
    /// The replica that lay there.
    pub replica: ReplicaId,
    /// Until when the snapshot may bring it back.
    pub until: Millis,
    /// Snapshots begun when it went.
    pub generation: u64,
}

/// What is known of catalog snapshots. Replicated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guard {
    /// Snapshots begun so far; numbers them from 1.
    begun: u64,
    /// The newest published one. Invariant: at most `begun`.
    published: u64,
    /// Replicas below may be in the newest published snapshot.
    listed_below: u64,
    /// Up to here a restored object may be held by the read lease that its snapshot saved.
    leases_until: Millis,
    /// Invariant: each is an object of the table.
    shortened: BTreeMap<ObjectKey, Shortened>,
    /// By segments that are not mounted.
    gone: BTreeMap<SegmentId, Vec<Gone>>,
}

impl Guard {
    /// After a restore: the snapshot that was restored is the newest published one.
    pub(super) fn after_restore(
        before: &Guard,
        next_replica_id: u64,
        leases_until: Millis,
    ) -> Self {
        let begun = before.begun + 1;
        let (shortened, gone) = (BTreeMap::new(), BTreeMap::new());
        let listed_below = next_replica_id;
        Guard { begun, published: begun, listed_below, leases_until, shortened, gone }
    }

    /// Whether there may be a snapshot at all.
    fn is_on(&self) -> bool {
        self.begun > 0
    }

    /// Whether a replica may be in a snapshot that could be restored.
    fn may_list(&self, replica: ReplicaId) -> bool {
        self.begun > self.published || replica.0 < self.listed_below
    }

    /// Names whose pins were shortened.
    pub fn shortened(&self) -> &BTreeMap<ObjectKey, Shortened> {
        &self.shortened
    }

    /// Snapshots begun and the newest published.
    pub fn generations(&self) -> (u64, u64) {
        (self.begun, self.published)
    }
}

/// Until when the newest snapshot may bring an object back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SavedUntil(pub Millis);

impl SavedUntil {
    /// This, or a read lease that ends later.
    pub fn or(self, leased_until: Millis) -> Self {
        SavedUntil(self.0.max(leased_until))
    }
}

impl State {
    /// What is known of catalog snapshots.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Numbers a snapshot whose state is going to be frozen.
    pub(super) fn begin_snapshot(&mut self) -> u64 {
        self.guard.begun += 1;
        self.guard.begun
    }

    /// A snapshot can be restored from now on, and older ones count no more. Late news of an older one
    /// change nothing.
    pub(super) fn snapshot_published(&mut self, told: &Published) {
        let guard = &mut self.guard;
        if told.generation <= guard.published || told.generation > guard.begun {
            return;
        }
        guard.published = told.generation;
        guard.listed_below = told.next_replica_id;
        guard.leases_until = Millis(0);
        guard.shortened.retain(|_, shortened| shortened.generation >= told.generation);
        guard.gone.retain(|_, gone| {
            gone.retain(|range| range.generation >= told.generation);
            !gone.is_empty()
        });
        self.discards.release_held(told.generation, self.clock);
    }

    pub(super) fn name_of(&self, object: &Object) -> Option<ObjectKey> {
        let tenant = self.tenants.name(object.tenant.0)?.clone();
        Some(ObjectKey { tenant, key: object.key.boxed() })
    }

    /// Until when a snapshot may bring the object back, a running lease aside.
    pub(super) fn saved_until(&self, object: &Object) -> SavedUntil {
        if !self.guard.is_on() {
            return SavedUntil::default();
        }
        let pin = object.pin().map_or(0, |deadline| deadline.0);
        let shortened = match self.guard.shortened.is_empty() {
            true => None,
            false => self.name_of(object).and_then(|name| self.guard.shortened.get(&name)),
        };
        let shortened = shortened.map_or(0, |shortened| shortened.until.0);
        SavedUntil(Millis(pin.max(shortened).max(self.guard.leases_until.0)))
    }

    /// The same of an object in the table.
    pub(super) fn saved_until_of(&self, object: ObjectRef) -> SavedUntil {
        if !self.guard.is_on() {
            return SavedUntil::default();
        }
        let until = self.view.table.peek(object, |object| self.saved_until(object));
        until.unwrap_or_default()
    }

    /// Whether freeing the replica now would leave its memory set aside.
    pub(super) fn is_guarded(&self, replica: ReplicaId, until: SavedUntil) -> bool {
        until.0 > self.clock && self.guard.may_list(replica)
    }

    /// Notes that the pin of a living object ends earlier than a snapshot may say.
    pub(super) fn note_pin_change(
        &mut self,
        at: ObjectRef,
        before: Option<Deadline>,
        after: Option<Deadline>,
    ) {
        let Some(until) = before.filter(|before| !before.is_reached(self.clock)) else { return };
        if !self.guard.is_on() || after.is_some_and(|after| after >= until) {
            return;
        }
        let name = self.view.table.peek(at, |object| self.name_of(object)).flatten();
        let Some(name) = name else { return };
        let generation = self.guard.begun;
        let entry = self.guard.shortened.entry(name).or_insert(Shortened { until, generation });
        *entry = Shortened { until: entry.until.max(until), generation };
    }

    /// Forgets a shortened pin with its object.
    pub(super) fn forget_shortened(&mut self, object: &Object) {
        if self.guard.shortened.is_empty() {
            return;
        }
        if let Some(name) = self.name_of(object) {
            self.guard.shortened.remove(&name);
        }
    }

    /// Gives the space of a replica back, or sets it aside while a snapshot may bring its object back.
    pub(super) fn release(&mut self, replica: Replica, size: u64, until: SavedUntil) {
        let is_readable = |place: &Place| {
            let mounted = place.segment().and_then(|segment| self.segments.get(segment));
            mounted.is_some_and(|mounted| mounted.status.is_readable())
        };
        if !self.is_guarded(replica.id, until) || !is_readable(&replica.place) {
            self.free(&replica.place);
            return;
        }
        if let Some((segment, node)) = super::settle::memory_node(&replica) {
            self.own(segment, node, super::put::NO_OWNER);
        }
        let held = Some(Held { generation: self.guard.begun, earliest: None });
        self.discards.push(until.0, Discard { replicas: vec![replica], size, held });
    }

    /// Gives back the space of replicas that were taken from an object in the table.
    pub(super) fn release_all(&mut self, object: ObjectRef, replicas: Vec<Replica>) {
        let until = self.saved_until_of(object);
        let size = self.view.table.peek(object, |object| object.size).unwrap_or_default();
        for replica in replicas {
            self.release(replica, size, until);
        }
    }

    /// Notes an allocation that goes with its segment, if a snapshot may bring its object back.
    pub(super) fn note_gone(&mut self, index: SegmentIdx, used: &UsedNode) {
        let object = ObjectRef(used.owner);
        let until = self.saved_until_of(object);
        if until.0 <= self.clock {
            return;
        }
        let is_there =
            |replica: &&Replica| super::settle::memory_node(replica) == Some((index, used.node));
        let find = |object: &Object| object.replicas.iter().find(is_there).map(|found| found.id);
        let Some(Some(replica)) = self.view.table.peek(object, find) else { return };
        if self.is_guarded(replica, until) {
            let generation = self.guard.begun;
            self.push_gone(index, used, replica, until.0, generation);
        }
    }

    /// Notes guarded memory of no object any more that goes with its segment.
    pub(super) fn note_gone_discard(
        &mut self,
        index: SegmentIdx,
        used: &UsedNode,
        lost: &LostDiscard,
    ) {
        if lost.release_at > self.clock {
            self.push_gone(index, used, lost.replica, lost.release_at, lost.held.generation);
        }
    }

    fn push_gone(
        &mut self,
        index: SegmentIdx,
        used: &UsedNode,
        replica: ReplicaId,
        until: Millis,
        generation: u64,
    ) {
        let Some(mounted) = self.segments.get(index) else { return };
        let segment = (mounted.segment.base, mounted.segment.size);
        let (offset_units, size) = (used.offset_units, used.requested_bytes);
        let gone = Gone { segment, offset_units, size, replica, until, generation };
        self.guard.gone.entry(mounted.segment.id).or_default().push(gone);
    }

    /// The allocator of a segment that is mounted, with what a snapshot may still bring back there set aside.
    ///
    /// Errors: the range is not one that a segment can have.
    pub(super) fn allocator_for(
        &mut self,
        segment: &Segment,
    ) -> Result<(OffsetAllocator, Vec<(u32, Gone)>), AllocatorFault> {
        let clock = self.clock;
        let mut gone = self.guard.gone.remove(&segment.id).unwrap_or_default();
        gone.retain(|range| range.until > clock && range.segment == (segment.base, segment.size));
        if gone.is_empty() {
            return Ok((OffsetAllocator::new(segment.base, segment.size)?, Vec::new()));
        }
        let live = gone.iter().map(|range| LiveRange {
            offset_units: range.offset_units,
            requested_bytes: range.size,
            owner: super::put::NO_OWNER,
        });
        let live: Vec<LiveRange> = live.collect();
        let Rebuilt { allocator, nodes } = rebuild(segment.base, segment.size, &live)?;
        // Ranges of one life of the segment cannot overlap, so each has its node.
        let placed =
            nodes.into_iter().zip(gone).filter_map(|(node, gone)| Some((node.ok()?, gone)));
        Ok((allocator, placed.collect()))
    }

    /// Sets the ranges aside that [`State::allocator_for`] has kept.
    pub(super) fn hold_again(&mut self, index: SegmentIdx, kept: Vec<(u32, Gone)>) {
        for (node, gone) in kept {
            let Some(mounted) = self.segments.get(index) else { return };
            let address = mounted.allocator.address_of(gone.offset_units);
            let place = Place::Memory { segment: index, node, address };
            let status = ReplicaStatus::Complete;
            let replica = Replica { id: gone.replica, place, references: 0, status };
            let held = Some(Held { generation: gone.generation, earliest: None });
            let discard = Discard { replicas: vec![replica], size: gone.size, held };
            self.discards.push(gone.until, discard);
        }
    }

    /// The time until which replicas that are set aside anyway stay so, and why longer than `release_at`.
    pub(super) fn hold_longer(
        &self,
        replicas: &[Replica],
        until: SavedUntil,
        release_at: Millis,
    ) -> (Millis, Option<Held>) {
        let is_listed = replicas.iter().any(|replica| self.is_guarded(replica.id, until));
        if !is_listed || until.0 <= release_at {
            return (release_at, None);
        }
        (until.0, Some(Held { generation: self.guard.begun, earliest: Some(release_at) }))
    }
}
