//! The only caller of index and total updates: every change of an object passes through here.
//!
//! A change is settled by comparing the object's footprint before and after it. The gauge of soft pins is the
//! length of the index, so it cannot be counted twice (RFC "Metrics").

use smallvec::SmallVec;

use super::State;
use super::guard::SavedUntil;
use super::presence::Medium;
use crate::model::{
    ClientId, Deadline, GroupIdx, Millis, Object, ObjectRef, Place, Replica, ReplicaId,
    ReplicaKind, SegmentIdx, TenantIdx, WriterIdx,
};

/// The allocation of a memory replica.
pub(super) fn memory_node(replica: &Replica) -> Option<(SegmentIdx, u32)> {
    match replica.place {
        Place::Memory { segment, node, .. } => Some((segment, node)),
        _ => None,
    }
}

fn memory_nodes(object: &Object) -> SmallVec<[(SegmentIdx, u32); 2]> {
    object.replicas.iter().filter_map(memory_node).collect()
}

/// What an object costs its tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Charge {
    pub tenant: TenantIdx,
    /// 1 for an object in the table.
    pub objects: u64,
    /// Bytes of its memory replicas, unfinished ones included.
    pub bytes: u64,
}

impl Charge {
    pub fn of(object: &Object) -> Self {
        let in_memory = |replica: &&Replica| replica.place.kind() == ReplicaKind::Memory;
        let copies = object.replicas.iter().filter(in_memory).count() as u64;
        let bytes = object.size.saturating_mul(copies);
        Charge { tenant: object.tenant, objects: 1, bytes }
    }
}

/// In which media an object can be read: 1 or 0 for each.
pub(super) fn media_of(object: &Object) -> [(Medium, u64); 2] {
    let has = |kind| object.complete_count(kind) > 0;
    let on_disk = has(ReplicaKind::Disk) || has(ReplicaKind::LocalDisk);
    [(Medium::Memory, u64::from(has(ReplicaKind::Memory))), (Medium::Disk, u64::from(on_disk))]
}

/// Everything of an object that some index or total depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Footprint {
    pin: Option<Deadline>,
    write: Option<(Millis, ReplicaId)>,
    keys: u64,
    memory_cached: u64,
    file_cached: u64,
    file_bytes: u64,
    evictable: u64,
    /// The first replica, if eviction may ever take the object.
    candidate: Option<ReplicaId>,
    charge: Charge,
    /// The file on a client's disk.
    file: Option<(ClientId, ReplicaId)>,
}

impl Footprint {
    /// Nothing: the object is not in the table.
    const ABSENT: Footprint = Footprint {
        pin: None,
        write: None,
        keys: 0,
        memory_cached: 0,
        file_cached: 0,
        file_bytes: 0,
        evictable: 0,
        candidate: None,
        charge: Charge { tenant: TenantIdx(0), objects: 0, bytes: 0 },
        file: None,
    };

    fn of(object: &Object) -> Self {
        let incarnation = object.replicas.first().map(|replica| replica.id).unwrap_or_default();
        let [(_, memory_cached), (_, file_cached)] = media_of(object);
        let file_bytes = object.replicas.iter().map(|replica| match &replica.place {
            Place::Memory { .. } => 0,
            Place::Disk(disk) => disk.size,
            Place::LocalDisk(disk) => disk.size,
        });
        Footprint {
            pin: object.pin(),
            write: object.is_processing.then_some((object.put_start, incarnation)),
            keys: 1,
            memory_cached,
            file_cached,
            file_bytes: file_bytes.sum(),
            evictable: u64::from(object.is_evictable()),
            candidate: object.is_candidate().then_some(incarnation),
            charge: Charge::of(object),
            file: super::disk::local_file(object),
        }
    }
}

impl State {
    /// `gone` is the object, if it is not in the table any more.
    fn settle(
        &mut self,
        object: ObjectRef,
        gone: Option<&Object>,
        before: Footprint,
        after: Footprint,
    ) {
        if before.pin != after.pin {
            if after.keys > 0 {
                self.note_pin_change(object, before.pin, after.pin);
            }
            if before.pin.is_some() {
                self.deadlines.remove(object);
            }
            if let Some(deadline) = after.pin {
                self.deadlines.register(deadline, object);
            }
        }
        if before.write != after.write {
            if let Some(write) = before.write {
                self.writes.remove(&write);
            }
            if let Some(write) = after.write {
                self.writes.insert(write, object);
            }
        }
        let is_write_over = before.write.is_some() && after.write.is_none();
        self.ledger.settle(object, before.charge, after.charge, is_write_over);
        let media = [
            (Medium::Memory, before.memory_cached, after.memory_cached),
            (Medium::Disk, before.file_cached, after.file_cached),
        ];
        self.note_presence(object, gone, media);
        self.tiers.settle_file(object, before.file, after.file);
        if after.keys > 0 {
            self.settle_copies(object);
        }
        let totals = &mut self.totals;
        // Unsigned wrap-around cancels out: the sum of all settled differences is the true total.
        let shift = |total: &mut u64, before: u64, after: u64| {
            *total = total.wrapping_sub(before).wrapping_add(after);
        };
        shift(&mut totals.keys, before.keys, after.keys);
        shift(&mut totals.memory_cached, before.memory_cached, after.memory_cached);
        shift(&mut totals.file_cached, before.file_cached, after.file_cached);
        shift(&mut totals.file_bytes, before.file_bytes, after.file_bytes);
        shift(&mut totals.evictable, before.evictable, after.evictable);
        if let Some(incarnation) = after.candidate.filter(|_| before.candidate != after.candidate) {
            self.arrivals.push((object, incarnation));
        }
    }

    /// Changes an object and settles the change. `None` if there is no such object.
    pub(super) fn edit<R>(
        &mut self,
        object: ObjectRef,
        edit: impl FnOnce(&mut Object) -> R,
    ) -> Option<R> {
        let edited = self.view.table.edit(object, |object| {
            let before = Footprint::of(object);
            let result = edit(object);
            (result, before, Footprint::of(object))
        });
        let (result, before, after) = edited?;
        self.settle(object, None, before, after);
        Some(result)
    }

    /// Files a new object. `None`, with the object dropped, if its shard is full.
    pub(super) fn file(&mut self, hash: u64, object: Object) -> Option<ObjectRef> {
        let nodes = memory_nodes(&object);
        let at = self.file_unowned(hash, object)?;
        self.own_all(nodes, at);
        Some(at)
    }

    /// Puts a new object in the place of one of the same key, in one step for readers. The caller gets the old one
    /// with its replicas, whose memory is not given back yet, and until when a snapshot could bring it back.
    ///
    /// `None`, with the new object dropped, if there is no such object.
    pub(super) fn supersede(
        &mut self,
        object: ObjectRef,
        heir: Object,
    ) -> Option<(Object, SavedUntil)> {
        let (nodes, after, group) = (memory_nodes(&heir), Footprint::of(&heir), heir.group);
        let old = self.view.table.swap(object, heir)?;
        let until = self.forget(object, &old);
        self.join_group(group, object);
        self.settle(object, None, Footprint::ABSENT, after);
        self.own_all(nodes, object);
        self.release_numbers(old.writer, old.tenant, old.group);
        Some((old, until))
    }

    /// Forgets what was derived from an object that has just left the table, all but its numbers. Returns until when
    /// a snapshot could bring it back.
    fn forget(&mut self, object: ObjectRef, gone: &Object) -> SavedUntil {
        self.settle(object, Some(gone), Footprint::of(gone), Footprint::ABSENT);
        let transfer = self.transfers.remove(object);
        self.forget_dynamic(object, transfer.as_ref());
        self.forget_tiers(object);
        self.leave_group(gone.group, object);
        let until = self.saved_until(gone);
        self.forget_shortened(gone);
        until
    }

    fn own_all(&mut self, nodes: SmallVec<[(SegmentIdx, u32); 2]>, owner: ObjectRef) {
        for (segment, node) in nodes {
            self.own(segment, node, owner.0);
        }
    }

    /// As [`State::file`], while the allocators do not exist yet.
    pub(super) fn file_unowned(&mut self, hash: u64, object: Object) -> Option<ObjectRef> {
        let after = Footprint::of(&object);
        let group = object.group;
        let at = self.view.table.insert(hash, object)?;
        self.join_group(group, at);
        self.settle(at, None, Footprint::ABSENT, after);
        Some(at)
    }

    /// Takes an object out of the table, frees the memory of the replicas it still has, and forgets what was
    /// derived from it. Replicas that must stay reserved have been moved to the discards before.
    ///
    /// Returns whether a removal fence stood on it: an heir of its key must be closed to readers, too.
    pub(super) fn erase(&mut self, object: ObjectRef) -> bool {
        self.erase_as(object, Millis(0), None)
    }

    /// As [`State::erase`], of an object that a read lease protected until `leased_until`.
    pub(super) fn erase_leased(&mut self, object: ObjectRef, leased_until: Millis) {
        self.erase_as(object, leased_until, None);
    }

    /// As [`State::erase`], for an object one of whose allocations is free already.
    pub(super) fn erase_freed(&mut self, object: ObjectRef, freed: Option<(SegmentIdx, u32)>) {
        self.erase_as(object, Millis(0), freed);
    }

    fn erase_as(
        &mut self,
        object: ObjectRef,
        leased_until: Millis,
        freed: Option<(SegmentIdx, u32)>,
    ) -> bool {
        let hash = self.view.table.peek(object, |found| {
            let tenant = self.tenants.name(found.tenant.0)?;
            Some(super::table::table_hash(tenant, &found.key))
        });
        let Some(Some(hash)) = hash else { return false };
        let Some(erased) = self.view.table.remove(object, hash) else { return false };
        let until = self.forget(object, &erased).or(leased_until);
        let is_held = |replica: &&Replica| freed.is_none() || memory_node(replica) != freed;
        for replica in erased.replicas.iter().filter(is_held) {
            self.release(replica.clone(), erased.size, until);
        }
        self.release_numbers(erased.writer, erased.tenant, erased.group);
        erased.lease.is_fenced()
    }

    /// Gives the space of a replica back to its segment, which may be unmounting: a snapshot of that moment
    /// must find an owner for every allocation.
    pub(super) fn free(&mut self, place: &Place) {
        if let Place::Memory { segment, node, .. } = place
            && let Some(mounted) = self.segments.get_mut(*segment)
        {
            let freed = mounted.allocator.free(*node);
            debug_assert!(freed.is_ok(), "replica without allocation: {place:?}");
        }
    }

    /// Notes which object an allocation belongs to, so that a lost segment finds its objects.
    pub(super) fn own(&mut self, segment: SegmentIdx, node: u32, owner: u32) {
        if let Some(mounted) = self.segments.get_mut(segment) {
            let owned = mounted.allocator.set_owner(node, owner);
            debug_assert!(owned.is_ok(), "replica without allocation: {segment:?} {node}");
        }
    }

    pub(super) fn release_numbers(
        &mut self,
        writer: WriterIdx,
        tenant: TenantIdx,
        group: GroupIdx,
    ) {
        self.release_group(group);
        self.writers.release(writer.0);
        self.release_tenant(tenant);
    }
}
