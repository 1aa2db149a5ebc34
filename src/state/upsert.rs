//! UpsertStart: new content under a key that may exist (behaviour 2.5). Ends and Revokes are those of a Put.
//!
//! Three ways to begin: nothing is there, so it is a Put; the size is the same, so the COMPLETE memory
//! replicas are written in place; anything else is written to new memory. New memory is found before the old
//! is given up, so an upsert that is refused leaves the object, its pin and an earlier unfinished write as
//! they were (the peer has lost them by then). Memory that a client may still be writing goes to the discards.

use crate::alloc::Rng;
use crate::model::{
    ErrorCode, Millis, Object, ObjectRef, PendingPin, Replica, ReplicaId, ReplicaKind,
    ReplicaStatus, WriterIdx,
};

use super::State;
use super::command::{Start, StartItem};
use super::put::{KeyAt, Origin, charge, eligible};
use super::reply::Started;
use super::settle::Charge;

fn is_memory(replica: &Replica) -> bool {
    replica.place.kind() == ReplicaKind::Memory
}

fn is_shared_file(replica: &Replica) -> bool {
    replica.place.kind() == ReplicaKind::Disk
}

impl State {
    pub(super) fn upsert_start(&mut self, start: &Start, rng: &mut Rng) -> Vec<Started> {
        let tenant = start.tenant.clone().unwrap_or_default();
        self.note_host(start.client, &start.config.host_id);
        let items = start.items.iter();
        let mut start_one = |item: &StartItem| {
            self.upsert_start_one(start, item, KeyAt::new(&tenant, &item.key.0), rng)
        };
        items.map(&mut start_one).collect()
    }

    fn upsert_start_one(
        &mut self,
        start: &Start,
        item: &StartItem,
        at: KeyAt<'_>,
        rng: &mut Rng,
    ) -> Started {
        self.admit(at.tenant)?;
        let Some(object) = self.open_for_write(at) else {
            self.check_quota(at.tenant, charge(start, item), 0)?;
            let replicas = self.allocate(start, item.size, at, None, rng)?;
            let origin = Origin::of_request(start, item);
            let object = self.insert_started(start, item, at, replicas, origin)?;
            return Ok(self.describe_all(object));
        };
        let check = |found: &Object| self.check_upsert(object, found, item);
        self.view.table.peek(object, check).unwrap_or(Err(ErrorCode::ObjectNotFound))?;
        let is_in_place = |found: &Object| {
            let mut replicas = found.replicas.iter();
            found.size == item.size && replicas.any(|r| is_memory(r) && r.is_complete())
        };
        if self.view.table.peek(object, is_in_place) == Some(true) {
            self.rewrite(object, start);
            return Ok(self.describe_all(object));
        }
        self.rewrite_elsewhere(object, start, item, at, rng)?;
        Ok(self.describe_all(object))
    }

    /// Errors, in the peer's order: `InvalidParams` for another group than the object's,
    /// `ObjectHasReplicationTask`, `ObjectReplicaBusy` while something reads from a replica.
    fn check_upsert(
        &self,
        at: ObjectRef,
        object: &Object,
        item: &StartItem,
    ) -> Result<(), ErrorCode> {
        let is_other = |group: &super::command::Key| group.0 != self.group_name(object);
        if item.group.as_ref().is_some_and(is_other) {
            return Err(ErrorCode::InvalidParams);
        }
        if self.has_transfer(at) || self.has_promotion(at) || self.is_being_offloaded(at) {
            return Err(ErrorCode::ObjectHasReplicationTask);
        }
        // An offload that nobody has begun is given up instead.
        let kept = self.untold_offload(at);
        let uses = |r: &Replica| r.references.saturating_sub(u16::from(Some(r.id) == kept));
        if object.replicas.iter().any(|replica| uses(replica) > 0) {
            return Err(ErrorCode::ObjectReplicaBusy);
        }
        Ok(())
    }

    /// When memory that is set aside now may be used again.
    fn release_at(&self, start: &Start) -> Millis {
        Millis(self.clock.0.saturating_add(start.rules.release_timeout_ms))
    }

    /// Begins to write an object where it is. An unfinished write by anybody is preempted: its own memory is
    /// set aside, and its soft-pin request is dropped for the new one. A committed pin stays in force.
    /// A copy on a client's disk holds the old bytes and goes.
    fn rewrite(&mut self, object: ObjectRef, start: &Start) {
        self.release_offload(object);
        self.drop_replicas(object, |replica| replica.place.kind() == ReplicaKind::LocalDisk);
        let release_at = self.release_at(start);
        let is_open = |replica: &Replica| is_memory(replica) && !replica.is_complete();
        self.discard_replicas(object, release_at, is_open);
        let writer = WriterIdx(self.writers.acquire(&start.client));
        let clock = self.clock;
        let begin = |object: &mut Object| {
            for replica in &mut object.replicas {
                replica.status = ReplicaStatus::Processing;
            }
            let eligible = eligible(&object.replicas);
            object.set_pending(Some(PendingPin { request: start.config.pin, eligible }));
            object.put_start = clock;
            object.is_processing = true;
            std::mem::replace(&mut object.writer, writer)
        };
        if let Some(before) = self.edit(object, begin) {
            self.writers.release(before.0);
        }
    }

    /// Begins to write an object to new memory and sets its old memory aside.
    ///
    /// An object with nothing readable was an unfinished write: all that is taken over from it is a pin that an
    /// earlier write had committed. A file of the same size under the shared directory stays, to be written
    /// again as in place.
    ///
    /// Errors: those of the allocation; nothing has changed then.
    fn rewrite_elsewhere(
        &mut self,
        object: ObjectRef,
        start: &Start,
        item: &StartItem,
        at: KeyAt<'_>,
        rng: &mut Rng,
    ) -> Result<(), ErrorCode> {
        let (kept, refund) = self.charges_of(object);
        self.check_quota(at.tenant, charge(start, item), refund)?;
        let mut replicas = self.allocate(start, item.size, at, None, rng)?;
        self.release_offload(object);
        let asked = item.group.as_ref().map(|group| group.0.as_slice()).unwrap_or_default();
        let clock = self.clock;
        let origin = self.view.table.peek(object, |old| {
            let is_kept = old.has_complete();
            let is_same = old.size == item.size;
            let on_disk = old.replicas.iter().filter(|replica| is_same && is_shared_file(replica));
            let origin = Origin {
                group: Box::from(if is_kept { self.group_name(old) } else { asked }),
                pin: old.pin().filter(|deadline| !deadline.is_reached(clock)),
                is_hard_pinned: start.config.is_hard_pinned || (is_kept && old.is_hard_pinned),
                // Taken over when the two change places: a removal may close the old one until then.
                is_fenced: false,
            };
            (origin, on_disk.cloned().collect::<Vec<_>>())
        });
        let Some((origin, on_disk)) = origin else { return Err(ErrorCode::ObjectNotFound) };
        let moved: Vec<ReplicaId> = on_disk.iter().map(|replica| replica.id).collect();
        for mut replica in on_disk {
            replica.status = ReplicaStatus::Processing;
            replicas.push(replica);
        }
        let heir = self.started(start, item, at, replicas, origin);
        let (old, until) = self.supersede(object, heir).ok_or(ErrorCode::ObjectNotFound)?;
        let left = old.replicas.iter().filter(|replica| !moved.contains(&replica.id)).cloned();
        let (written, others): (Vec<_>, Vec<_>) = left.partition(is_memory);
        self.set_aside(written, old.size, until, self.release_at(start));
        others.into_iter().for_each(|replica| self.release(replica, old.size, until));
        if self.quotas.is_enforced
            && let Some(tenant) = self.view.table.peek(object, |object| object.tenant)
        {
            self.ledger.keep_replaced(object, tenant, kept);
        }
        Ok(())
    }

    /// What an object's tenant is charged for its readable memory, which stays charged while the object is written
    /// anew, and for everything else of it, which does not.
    fn charges_of(&self, object: ObjectRef) -> (u64, u64) {
        let charges = |found: &Object| {
            let readable = found.complete_count(ReplicaKind::Memory) as u64;
            let readable = found.size.saturating_mul(readable);
            (readable, Charge::of(found).bytes.saturating_sub(readable))
        };
        let (readable, open) = self.view.table.peek(object, charges).unwrap_or_default();
        (readable, open.saturating_add(self.ledger.replaced_of(object)))
    }
}
