//! Dynamic replication (behaviour 8.6): an object that is read often gets one more replica in memory.
//!
//! *Leader-local* (`leader::heat`): how often an object is read. *Replicated*: each reservation, from the task
//! that it makes to the start of the copy or its expiry; how long an object rests before its next one; and
//! which replicas came about this way. So a client that was given its task by one leader carries it out under
//! the next. The copy itself is a transfer (`transfer.rs`) with the reservation's token. None of it starts,
//! moves or clears a soft pin.

mod check;
pub mod command;
mod reserve;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::State;
use super::put::KeyAt;
use super::reply::Reply;
use super::transfer::Transfer;
use crate::alloc::Rng;
use crate::model::{Millis, Object, ObjectKey, ObjectRef, ReplicaId, TaskId};
use command::{DynamicCommand, DynamicToken};

/// How long a client has to start a reserved copy, in milliseconds.
pub const RESERVED_MS: u64 = 30_000;

/// How long after a reservation an object gets no other, in milliseconds.
pub const REST_MS: u64 = 30_000;

/// How long after the loss of such a replica an object gets no other, in milliseconds.
pub const REST_AFTER_LOSS_MS: u64 = 60_000;

/// Objects that rest at a time at most; the rest that ends first makes room.
pub const RESTS_MAX: usize = 50_000;

/// A copy that a client is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// The object, by name: references differ between nodes.
    pub name: ObjectKey,
    /// What the client must name.
    pub token: DynamicToken,
    /// Segment name to read from.
    pub source: Arc<str>,
    /// Segment name to write to.
    pub target: Arc<str>,
    /// The client's task.
    pub task: TaskId,
    /// When it ends by itself.
    pub expires: Millis,
    /// The replica that was to be read; orders equal times the same on every node.
    pub mark: ReplicaId,
}

/// The time in which an object gets no further replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rest {
    /// When it is over.
    pub until: Millis,
    /// A replica of the object; orders equal times the same on every node.
    pub mark: ReplicaId,
}

/// Counts that survive restarts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DynamicCounters {
    /// Reservations.
    pub reserved: u64,
    /// Copies that were started.
    pub started: u64,
    /// Replicas that became readable.
    pub completed: u64,
    /// Bytes of them.
    pub completed_bytes: u64,
    /// Copies that were started and came to nothing.
    pub failed: u64,
    /// Reservations that no client used in time.
    pub expired: u64,
    /// Reservations that had become void, or whose copy could not be started.
    pub dropped: u64,
}

/// Everything about dynamic replication.
#[derive(Clone, Debug, Default)]
pub struct DynamicTable {
    /// Replicated.
    reservations: BTreeMap<ObjectRef, Reservation>,
    /// Derived. Invariant: the same reservations in the order in which they expire.
    by_expiry: BTreeMap<(Millis, ReplicaId), ObjectRef>,
    /// Replicated.
    rests: BTreeMap<ObjectRef, Rest>,
    /// Derived. Invariant: the same rests in the order in which they end.
    by_end: BTreeMap<(Millis, ReplicaId), ObjectRef>,
    /// Replicated. Invariant: replicas that came about this way and are still their object's; not empty.
    copies: BTreeMap<ObjectRef, Vec<ReplicaId>>,
    /// Replicated.
    counters: DynamicCounters,
}

impl DynamicTable {
    /// The reservation of an object, expired or not.
    pub fn reservation(&self, object: ObjectRef) -> Option<&Reservation> {
        self.reservations.get(&object)
    }

    /// Every reservation, the one that expires first at the front.
    pub fn reservations(&self) -> impl Iterator<Item = &Reservation> {
        self.by_expiry.values().filter_map(|object| self.reservations.get(object))
    }

    /// Reservations that no client has used yet.
    pub fn reserved(&self) -> usize {
        self.reservations.len()
    }

    /// When the first reservation expires.
    pub fn next_expiry(&self) -> Option<Millis> {
        self.by_expiry.first_key_value().map(|((expires, _), _)| *expires)
    }

    /// Until when an object gets no further replica.
    pub fn rest(&self, object: ObjectRef) -> Option<Millis> {
        self.rests.get(&object).map(|rest| rest.until)
    }

    /// Replicas that came about this way.
    pub fn replicas(&self) -> usize {
        self.copies.values().map(Vec::len).sum()
    }

    /// Counts that survive restarts.
    pub fn counters(&self) -> &DynamicCounters {
        &self.counters
    }

    /// Adds the reservation of an object that has none.
    pub(super) fn insert(&mut self, object: ObjectRef, reservation: Reservation) {
        self.by_expiry.insert((reservation.expires, reservation.mark), object);
        self.reservations.insert(object, reservation);
    }

    fn take(&mut self, object: ObjectRef) -> Option<Reservation> {
        let reservation = self.reservations.remove(&object)?;
        self.by_expiry.remove(&(reservation.expires, reservation.mark));
        Some(reservation)
    }

    /// Lets an object rest, at least as long as it does already.
    pub(super) fn let_rest(&mut self, object: ObjectRef, rest: Rest) {
        if self.rests.get(&object).is_some_and(|known| known.until >= rest.until) {
            return;
        }
        self.end_rest(object);
        if self.rests.len() >= RESTS_MAX
            && let Some((_, first)) = self.by_end.pop_first()
        {
            self.rests.remove(&first);
        }
        self.by_end.insert((rest.until, rest.mark), object);
        self.rests.insert(object, rest);
    }

    fn end_rest(&mut self, object: ObjectRef) {
        if let Some(rest) = self.rests.remove(&object) {
            self.by_end.remove(&(rest.until, rest.mark));
        }
    }

    /// Forgets the rests that are over.
    fn end_rests(&mut self, now: Millis) {
        while let Some(first) = self.by_end.first_entry().filter(|first| first.key().0 <= now) {
            let object = first.remove();
            self.rests.remove(&object);
        }
    }

    /// Notes replicas that came about this way.
    pub(super) fn note_copies(&mut self, object: ObjectRef, ids: &[ReplicaId]) {
        if !ids.is_empty() {
            self.copies.entry(object).or_default().extend(ids);
        }
    }

    /// Everything that is kept, by object: for images and checks.
    pub(super) fn all_rests(&self) -> impl Iterator<Item = (ObjectRef, Rest)> {
        self.rests.iter().map(|(object, rest)| (*object, *rest))
    }

    /// The objects with such replicas.
    pub(super) fn all_copies(&self) -> impl Iterator<Item = (ObjectRef, &[ReplicaId])> {
        self.copies.iter().map(|(object, ids)| (*object, ids.as_slice()))
    }

    pub(super) fn set_counters(&mut self, counters: DynamicCounters) {
        self.counters = counters;
    }
}

impl State {
    /// Dynamic replication.
    pub fn dynamic(&self) -> &DynamicTable {
        &self.dynamic
    }

    pub(super) fn replicate(&mut self, command: &DynamicCommand, rng: &mut Rng) -> Reply {
        match command {
            DynamicCommand::Reserve(asked) => Reply::Results(self.reserve_copies(asked, rng)),
            DynamicCommand::Start { start, token } => {
                Reply::Transfer(self.dynamic_start(start, *token, rng))
            }
            DynamicCommand::End { end, token } => Reply::Outcome(self.transfer_end(end, *token)),
        }
    }

    /// An object has changed: those of its dynamic replicas that are gone let it rest.
    pub(super) fn settle_copies(&mut self, object: ObjectRef) {
        let Some(known) = self.dynamic.copies.get(&object) else { return };
        let is_there = |object: &Object, id: &ReplicaId| {
            object.replicas.iter().any(|replica| replica.id == *id)
        };
        let split = |found: &Object| {
            let (left, lost): (Vec<ReplicaId>, Vec<ReplicaId>) =
                known.iter().partition(|id| is_there(found, id));
            (left, lost.last().copied())
        };
        let Some((left, Some(lost))) = self.view.table.peek(object, split) else { return };
        if left.is_empty() {
            self.dynamic.copies.remove(&object);
        } else {
            self.dynamic.copies.insert(object, left);
        }
        let until = Millis(self.clock.0.saturating_add(REST_AFTER_LOSS_MS));
        self.dynamic.let_rest(object, Rest { until, mark: lost });
    }

    /// Forgets everything about an object that is gone, with the transfer that was open.
    pub(super) fn forget_dynamic(&mut self, object: ObjectRef, transfer: Option<&Transfer>) {
        let is_dynamic = transfer.is_some_and(|open| open.token != DynamicToken::default());
        self.dynamic.counters.failed += u64::from(is_dynamic);
        self.drop_reservation(object, "the object is gone");
        self.dynamic.end_rest(object);
        self.dynamic.copies.remove(&object);
    }

    /// Whether a client may still start the reserved copy of an object.
    pub fn is_reserved(&self, object: ObjectRef) -> bool {
        let reservation = self.dynamic.reservation(object);
        reservation.is_some_and(|reservation| reservation.expires > self.clock)
    }

    /// Whether a copy or move of a key is reserved, expired or not, or under way.
    pub fn has_copy(&self, name: &ObjectKey) -> bool {
        let object = self.find_filed(KeyAt::new(&name.tenant, &name.key));
        object.is_some_and(|object| {
            self.dynamic.reservation(object).is_some() || self.has_transfer(object)
        })
    }
}
