//! Objects on their way from a client's disk back to memory (behaviour 10.4).
//!
//! A promotion begins when the leader has seen an object read often enough, waits for the client that has the
//! file, reserves memory when that client starts, and is over with its report, with its object, or by the
//! release timeout. Memory that is reserved counts as a target in use (`Replica::is_transfer_target`), so no
//! write can end or revoke it.

use smallvec::SmallVec;

use super::command::{Admission, Promote, PromotionEnd, PromotionStart, Work};
use super::jobs::{Job, Takers};
use crate::alloc::{Rng, place};
use crate::model::{
    ClientId, Descriptor, ErrorCode, Millis, Object, ObjectKey, ObjectRef, Place, Replica,
    ReplicaId, ReplicaKind, ReplicaStatus, Tenant,
};
use crate::state::State;
use crate::state::allocate::SegmentPool;
use crate::state::command::Key;
use crate::state::put::KeyAt;
use crate::state::settle::memory_node;

/// An object that a client is to read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promotion {
    /// The object, by name: references differ between nodes.
    pub name: ObjectKey,
    /// The file that is read.
    pub source: ReplicaId,
    /// Whose file it is.
    pub holder: ClientId,
    /// Bytes.
    pub size: u64,
    /// The memory that is written.
    pub staged: Option<ReplicaId>,
    /// Whether the client has been told.
    pub is_told: bool,
    /// When it began, or when memory was reserved.
    pub started: Millis,
}

impl Job for Promotion {
    fn takers(&self) -> Takers {
        std::iter::once((self.holder, self.is_told)).collect()
    }
}

impl State {
    /// One result a wish.
    pub(super) fn admit_promotions(&mut self, wishes: &Promote) -> Vec<Admission> {
        let in_flight_max = wishes.in_flight_max as usize;
        let admit = |(tenant, key): &(Option<Tenant>, Key)| {
            let tenant = tenant.clone().unwrap_or_default();
            self.admit_promotion(KeyAt::new(&tenant, &key.0), in_flight_max)
        };
        wishes.objects.iter().map(admit).collect()
    }

    fn admit_promotion(&mut self, at: KeyAt<'_>, in_flight_max: usize) -> Admission {
        let Some(object) = self.find_filed(at) else { return Admission::NotNeeded };
        if self.has_transfer(object) || self.tiers.promotions.get(object).is_some() {
            return Admission::NotNeeded;
        }
        let find = |found: &Object| {
            let is_in_memory = |replica: &Replica| replica.place.kind() == ReplicaKind::Memory;
            if found.is_processing || found.replicas.iter().any(is_in_memory) {
                return None;
            }
            let mut readable = found.replicas.iter().filter(|r| r.is_complete());
            let (source, holder) = readable.find_map(|replica| match &replica.place {
                Place::LocalDisk(disk) if !self.is_lost(replica) => Some((replica.id, disk.client)),
                _ => None,
            })?;
            Some((source, holder, found.size, self.name_of(found)?))
        };
        let found = self.view.table.peek(object, find).flatten();
        let Some((source, holder, size, name)) = found else { return Admission::NotNeeded };
        if self.tiers.promotions.len() >= in_flight_max {
            return Admission::Full;
        }
        if !self.tiers.disks.takes_objects(holder) {
            return Admission::NoTaker;
        }
        self.use_replica(object, source);
        let (staged, is_told, started) = (None, false, self.clock);
        let promotion = Promotion { name, source, holder, size, staged, is_told, started };
        self.tiers.promotions.push(object, promotion);
        self.tiers.counters.admitted += 1;
        Admission::Admitted
    }

    /// Errors: `SegmentNotFound` if the client has no disk here.
    pub(super) fn fetch_promotions(&mut self, client: ClientId, items_max: u32) -> Work {
        self.tiers.disks.get(client).ok_or(ErrorCode::SegmentNotFound)?;
        let objects = self.tiers.promotions.untold(client, items_max as usize);
        for object in &objects {
            self.tiers.promotions.change(*object, |promotion| promotion.is_told = true);
        }
        Ok(objects.into_iter().filter_map(|object| self.work_item(object)).collect())
    }

    /// Reserves memory for a promotion and starts its time anew.
    ///
    /// Errors, in this order: `TenantNotRegistered`; `ObjectNotFound`; `ReplicaIsNotReady` while it is being
    /// written, without a promotion, or with memory of its own; `InvalidParams` for another client or size;
    /// `TenantQuotaExceeded`; `NoAvailableHandle`.
    pub(super) fn promotion_start(
        &mut self,
        start: &PromotionStart,
        rng: &mut Rng,
    ) -> Result<Descriptor, ErrorCode> {
        let tenant = start.tenant.clone().unwrap_or_default();
        let at = KeyAt::new(&tenant, &start.key.0);
        self.admit(&tenant)?;
        let object = self.open_for_write(at).ok_or(ErrorCode::ObjectNotFound)?;
        let is_busy = |object: &Object| {
            let is_in_memory = |replica: &Replica| replica.place.kind() == ReplicaKind::Memory;
            object.is_processing || object.replicas.iter().any(is_in_memory)
        };
        let not_ready = ErrorCode::ReplicaIsNotReady;
        let promotion = self.tiers.promotions.get(object).ok_or(not_ready)?;
        if self.view.table.peek(object, is_busy) != Some(false) || promotion.staged.is_some() {
            return Err(not_ready);
        }
        if promotion.holder != start.client || promotion.size != start.size {
            return Err(ErrorCode::InvalidParams);
        }
        self.check_quota(&tenant, start.size, 0)?;
        let staged = self.reserve_staged(start, rng)?;
        let id = staged.id;
        if let Some((segment, node)) = memory_node(&staged) {
            self.own(segment, node, object.0);
        }
        self.edit(object, |object| object.replicas.push(staged));
        if let Some(promotion) = self.tiers.promotions.remove(object) {
            let (staged, is_told, started) = (Some(id), true, self.clock);
            let promotion = Promotion { staged, is_told, started, ..promotion };
            self.tiers.promotions.push(object, promotion);
        }
        let described = self.describe_all(object).into_iter().find(|found| found.id == id);
        described.ok_or(ErrorCode::InternalError)
    }

    fn reserve_staged(
        &mut self,
        start: &PromotionStart,
        rng: &mut Rng,
    ) -> Result<Replica, ErrorCode> {
        let names = self.segments.allocatable();
        let preferred: SmallVec<[usize; 4]> =
            start.preferred.iter().filter_map(|name| names.position(name)).collect();
        let mut pool = SegmentPool { segments: &mut self.segments, size: start.size };
        let placed = place(start.strategy, 1, &preferred, rng, &mut pool)?;
        let placed = placed.into_iter().next().ok_or(ErrorCode::NoAvailableHandle)?;
        Ok(Replica { references: 1, ..self.new_memory_replica(&placed.space) })
    }

    /// Errors, in this order: `ObjectNotFound`; for a success `ReplicaIsNotReady` without a promotion that has
    /// memory, or if that memory is gone; `InvalidParams` for another client. A failure without a promotion is
    /// fine.
    pub(super) fn promotion_end(&mut self, end: &PromotionEnd) -> Result<(), ErrorCode> {
        let tenant = end.tenant.clone().unwrap_or_default();
        let at = KeyAt::new(&tenant, &end.key.0);
        let object = self.open_for_write(at).ok_or(ErrorCode::ObjectNotFound)?;
        let promotion = self.tiers.promotions.get(object);
        let Some((holder, staged)) = promotion.map(|known| (known.holder, known.staged)) else {
            return if end.is_success { Err(ErrorCode::ReplicaIsNotReady) } else { Ok(()) };
        };
        if end.is_success && staged.is_none() {
            return Err(ErrorCode::ReplicaIsNotReady);
        }
        if holder != end.client {
            return Err(ErrorCode::InvalidParams);
        }
        match end.is_success {
            true => self.finish_promotion(object),
            false => {
                self.tiers.counters.failed += 1;
                self.undo_promotion(object);
                Ok(())
            }
        }
    }

    fn finish_promotion(&mut self, object: ObjectRef) -> Result<(), ErrorCode> {
        let Some(promotion) = self.tiers.promotions.remove(object) else {
            return Err(ErrorCode::ReplicaIsNotReady);
        };
        self.release_replica(object, promotion.source);
        let committed = self.edit(object, |object| {
            let mut replicas = object.replicas.iter_mut();
            let staged = replicas.find(|replica| Some(replica.id) == promotion.staged)?;
            staged.status = ReplicaStatus::Complete;
            staged.references = 0;
            Some(())
        });
        if committed.flatten().is_none() {
            self.tiers.counters.cancelled += 1;
            return Err(ErrorCode::ReplicaIsNotReady);
        }
        self.tiers.counters.completed += 1;
        self.tiers.counters.completed_bytes += promotion.size;
        Ok(())
    }

    /// Ends a promotion whose client says that it does not write any more: its memory is free at once.
    fn undo_promotion(&mut self, object: ObjectRef) {
        let Some(promotion) = self.tiers.promotions.remove(object) else { return };
        self.release_replica(object, promotion.source);
        self.drop_replicas(object, |replica| Some(replica.id) == promotion.staged);
        self.erase_if_gone(object);
    }

    /// Ends a promotion for which no memory is reserved.
    pub(super) fn cancel_promotion(&mut self, object: ObjectRef) {
        self.tiers.counters.cancelled += 1;
        self.undo_promotion(object);
    }

    /// Ends a promotion that took too long. Its memory is set aside until the time that protects it is over.
    pub(super) fn expire_promotion(&mut self, object: ObjectRef, release_timeout_ms: u64) {
        let Some(promotion) = self.tiers.promotions.remove(object) else { return };
        self.tiers.counters.expired += 1;
        self.release_replica(object, promotion.source);
        let release_at = Millis(promotion.started.0.saturating_add(release_timeout_ms));
        self.discard_replicas(object, release_at, |replica| Some(replica.id) == promotion.staged);
        self.erase_if_gone(object);
    }

    /// Whether an object is being read back.
    pub(in crate::state) fn has_promotion(&self, object: ObjectRef) -> bool {
        self.tiers.promotions.get(object).is_some()
    }
}
