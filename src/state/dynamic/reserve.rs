//! Reservations: made for a hot object, used by the start of a copy, or over after a while.

use std::sync::Arc;

use super::command::{DynamicToken, Reservations, Reserve};
use super::{RESERVED_MS, REST_MS, Reservation, Rest};
use crate::alloc::Rng;
use crate::model::{
    ErrorCode, Millis, Object, ObjectKey, ObjectRef, Replica, ReplicaId, ReplicaKind, TaskId,
};
use crate::state::State;
use crate::state::put::KeyAt;
use crate::state::tasks::TaskCreate;
use crate::state::transfer::{TransferKind, TransferStart, TransferStarted};

impl State {
    /// One result a wish, in order.
    pub(super) fn reserve_copies(
        &mut self,
        asked: &Reservations,
        rng: &mut Rng,
    ) -> Vec<Result<(), ErrorCode>> {
        self.dynamic.end_rests(self.clock);
        let wishes = asked.wishes.iter();
        wishes.map(|wish| self.reserve_copy(asked, wish, rng)).collect()
    }

    /// Errors: `ObjectNotFound`; `ObjectHasReplicationTask` while it is copied, moved or reserved;
    /// `UnavailableInCurrentStatus` while it rests; `InvalidVersion` if it was written again; `ReplicaIsNotReady`
    /// while it is being written; `ObjectAlreadyExists` with as many replicas as it may have, or one on the
    /// target; `ReplicaNotFound` without one on the source; those of the task.
    fn reserve_copy(
        &mut self,
        asked: &Reservations,
        wish: &Reserve,
        rng: &mut Rng,
    ) -> Result<(), ErrorCode> {
        let tenant = wish.tenant.clone().unwrap_or_default();
        let at = KeyAt::new(&tenant, &wish.key.0);
        let object = self.open_for_write(at).ok_or(ErrorCode::ObjectNotFound)?;
        if self.has_transfer(object) || self.is_reserved(object) {
            return Err(ErrorCode::ObjectHasReplicationTask);
        }
        if self.dynamic.rest(object).is_some_and(|until| until > self.clock) {
            return Err(ErrorCode::UnavailableInCurrentStatus);
        }
        let check = |found: &Object| self.check_wish(found, wish, asked.replicas_max);
        self.view.table.peek(object, check).unwrap_or(Err(ErrorCode::ObjectNotFound))?;
        let (mark, _) = self.find_source(object, &wish.source)?;
        let create = TaskCreate {
            id: wish.task,
            kind: TransferKind::Copy,
            tenant: wish.tenant.clone(),
            key: wish.key.clone(),
            source: Some(Arc::clone(&wish.source)),
            targets: vec![Arc::clone(&wish.target)],
            pending_max: asked.tasks_pending_max,
        };
        self.create_task(&create, wish.token, rng)?;
        // One that has expired is replaced before a sweep has seen it.
        self.expire_reservation(object);
        self.dynamic.counters.reserved += 1;
        let rest_until = Millis(self.clock.0.saturating_add(REST_MS));
        self.dynamic.let_rest(object, Rest { until: rest_until, mark });
        self.dynamic.insert(
            object,
            Reservation {
                name: ObjectKey { key: at.key.into(), tenant: tenant.clone() },
                token: wish.token,
                source: Arc::clone(&wish.source),
                target: Arc::clone(&wish.target),
                task: wish.task,
                expires: Millis(self.clock.0.saturating_add(RESERVED_MS)),
                mark,
            },
        );
        Ok(())
    }

    fn check_wish(
        &self,
        object: &Object,
        wish: &Reserve,
        replicas_max: u64,
    ) -> Result<(), ErrorCode> {
        if object.is_processing {
            return Err(ErrorCode::ReplicaIsNotReady);
        }
        if object.put_start.0 != wish.token.epoch {
            return Err(ErrorCode::InvalidVersion);
        }
        let readable = object.complete_count(ReplicaKind::Memory) as u64;
        let is_on_target = object.replicas.iter().any(|r| self.is_on(r, &wish.target));
        if readable >= replicas_max || is_on_target {
            return Err(ErrorCode::ObjectAlreadyExists);
        }
        Ok(())
    }

    /// Starts a reserved copy, which uses the reservation up, whatever becomes of it.
    ///
    /// Errors, checked in this order: `ObjectNotFound`; `ObjectHasReplicationTask` while it is copied or moved;
    /// `UnavailableInCurrentStatus` without a reservation in force; `InvalidVersion` if the object was written
    /// again, which ends the reservation, or for another token; `ObjectHasReplicationTask` for another source or
    /// target; `IllegalClient` if the caller does not own the source; then, the reservation being used up,
    /// `ObjectAlreadyExists` if the target holds a replica, and those of a copy.
    pub(super) fn dynamic_start(
        &mut self,
        start: &TransferStart,
        token: DynamicToken,
        rng: &mut Rng,
    ) -> Result<TransferStarted, ErrorCode> {
        let tenant = start.tenant.clone().unwrap_or_default();
        let object = self.open_for_write(KeyAt::new(&tenant, &start.key.0));
        let object = object.ok_or(ErrorCode::ObjectNotFound)?;
        if self.has_transfer(object) {
            return Err(ErrorCode::ObjectHasReplicationTask);
        }
        let written = self.view.table.peek(object, |object| object.put_start.0);
        let is_old = |known: &Reservation| written != Some(known.token.epoch);
        if self.is_reserved(object) && self.dynamic.reservation(object).is_some_and(is_old) {
            self.drop_reservation(object, "the object was written again");
            return Err(ErrorCode::InvalidVersion);
        }
        self.check_reserved(object, start, token)?;
        self.dynamic.take(object);
        let target = start.targets.first().map(|target| &**target).unwrap_or_default();
        let holds = |found: &Object| found.replicas.iter().any(|r: &Replica| self.is_on(r, target));
        let started = match self.view.table.peek(object, holds) {
            Some(true) => Err(ErrorCode::ObjectAlreadyExists),
            _ => self.transfer_start(start, token, rng),
        };
        let counters = &mut self.dynamic.counters;
        match started {
            Ok(_) => counters.started += 1,
            Err(_) => counters.dropped += 1,
        }
        started
    }

    fn check_reserved(
        &self,
        object: ObjectRef,
        start: &TransferStart,
        token: DynamicToken,
    ) -> Result<(), ErrorCode> {
        let known = self.dynamic.reservation(object).filter(|_| self.is_reserved(object));
        let known = known.ok_or(ErrorCode::UnavailableInCurrentStatus)?;
        if token != known.token {
            return Err(ErrorCode::InvalidVersion);
        }
        if start.source != known.source || *start.targets != [Arc::clone(&known.target)] {
            return Err(ErrorCode::ObjectHasReplicationTask);
        }
        let mut owners = self.segments.named(&start.source).map(|(_, mounted)| mounted.owner);
        if owners.any(|owner| owner == start.client) {
            Ok(())
        } else {
            Err(ErrorCode::IllegalClient)
        }
    }

    /// Ends up to `items_max` reservations that no client has used in time. Returns how many.
    pub(in crate::state) fn sweep_reservations(&mut self, items_max: u32) -> u64 {
        let mut ended = 0;
        for _ in 0..items_max {
            let first = self.dynamic.by_expiry.first_key_value();
            let due = first.filter(|((expires, _), _)| *expires <= self.clock);
            let Some((_, &object)) = due else { break };
            self.expire_reservation(object);
            ended += 1;
        }
        ended
    }

    fn expire_reservation(&mut self, object: ObjectRef) {
        let Some(reservation) = self.dynamic.take(object) else { return };
        self.dynamic.counters.expired += 1;
        self.fail_waiting_task(reservation.task, "dynamic replica lease expired");
    }

    /// Ends the reservation of an object, if it has one, before its time.
    pub(super) fn drop_reservation(&mut self, object: ObjectRef, why: &str) {
        let Some(reservation) = self.dynamic.take(object) else { return };
        self.dynamic.counters.dropped += 1;
        self.fail_waiting_task(reservation.task, why);
    }

    /// A copy with a token is over: notes its replicas, if it made any.
    pub(in crate::state) fn note_dynamic_end(&mut self, object: ObjectRef, made: &[ReplicaId]) {
        let counters = &mut self.dynamic.counters;
        if made.is_empty() {
            counters.failed += 1;
            return;
        }
        let size = self.view.table.peek(object, |object| object.size).unwrap_or_default();
        counters.completed += made.len() as u64;
        counters.completed_bytes = counters.completed_bytes.saturating_add(size);
        self.dynamic.note_copies(object, made);
    }

    fn fail_waiting_task(&mut self, task: TaskId, why: &str) {
        self.tasks.fail_waiting(task, why, self.clock);
    }
}
