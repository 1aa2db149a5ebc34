//! Dynamic replication in a raft snapshot: a section of its own, left out while there is nothing to say.
//!
//! Catalog snapshots have none of it: the tasks of reservations are not restored, and heat is counted anew.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{FrozenState, ImageError};
use crate::model::{Millis, ObjectKey, ObjectRef, ReplicaId, TaskId};
use crate::state::State;
use crate::state::dynamic::command::DynamicToken;
use crate::state::dynamic::{DynamicCounters, Reservation, Rest};
use crate::state::put::KeyAt;

/// Name of the section in the extension.
pub(super) const DYNAMIC: &str = "dynamic replication";

/// Changed only together with a new section name.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DynamicRecord {
    counters: DynamicCounters,
    /// The one that expires first at the front.
    reservations: Vec<ReservationRecord>,
    /// Open copies with a token, by name.
    tokens: BTreeMap<ObjectKey, DynamicToken>,
    rests: BTreeMap<ObjectKey, Rest>,
    copies: BTreeMap<ObjectKey, Vec<ReplicaId>>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ReservationRecord {
    name: ObjectKey,
    token: DynamicToken,
    source: std::sync::Arc<str>,
    target: std::sync::Arc<str>,
    task: TaskId,
    expires: Millis,
    mark: ReplicaId,
}

impl State {
    /// The names of the objects that rest or have replicas that came about this way.
    pub(super) fn dynamic_names(&self) -> BTreeMap<ObjectRef, ObjectKey> {
        let resting = self.dynamic.all_rests().map(|(object, _)| object);
        let copied = self.dynamic.all_copies().map(|(object, _)| object);
        let name = |object| {
            let found = self.view.table.peek(object, |found| self.name_of(found)).flatten()?;
            Some((object, found))
        };
        resting.chain(copied).filter_map(name).collect()
    }
}

impl DynamicRecord {
    pub(super) fn of(frozen: &FrozenState) -> Self {
        let dynamic = &frozen.dynamic;
        let record = |known: &Reservation| ReservationRecord {
            name: known.name.clone(),
            token: known.token,
            source: known.source.clone(),
            target: known.target.clone(),
            task: known.task,
            expires: known.expires,
            mark: known.mark,
        };
        let named = |object: ObjectRef| frozen.dynamic_names.get(&object).cloned();
        let open = frozen.transfers.iter();
        let open = open.filter(|transfer| transfer.token != DynamicToken::default());
        let rests = dynamic.all_rests().filter_map(|(at, rest)| Some((named(at)?, rest)));
        let copies = dynamic.all_copies().filter_map(|(at, ids)| Some((named(at)?, ids.to_vec())));
        DynamicRecord {
            counters: *dynamic.counters(),
            reservations: dynamic.reservations().map(record).collect(),
            tokens: open.map(|transfer| (transfer.name.clone(), transfer.token)).collect(),
            rests: rests.collect(),
            copies: copies.collect(),
        }
    }

    /// Puts everything back into a state whose objects and transfers are there already.
    ///
    /// Errors: an object or a transfer is not there.
    pub(super) fn put_back(self, state: &mut State) -> Result<(), ImageError> {
        for known in self.reservations {
            let object = find(state, &known.name)?;
            let ReservationRecord { name, token, source, target, task, expires, mark } = known;
            let reservation = Reservation { name, token, source, target, task, expires, mark };
            state.dynamic.insert(object, reservation);
        }
        for (name, token) in self.tokens {
            let object = find(state, &name)?;
            if !state.transfers.set_token(object, token) {
                return Err(missing(&name, "no copy"));
            }
        }
        for (name, rest) in self.rests {
            let object = find(state, &name)?;
            state.dynamic.let_rest(object, rest);
        }
        for (name, ids) in self.copies {
            let object = find(state, &name)?;
            state.dynamic.note_copies(object, &ids);
        }
        state.dynamic.set_counters(self.counters);
        Ok(())
    }
}

fn missing(name: &ObjectKey, what: &str) -> ImageError {
    ImageError::Inconsistent(format!("section {DYNAMIC}: {what} of {name:?}"))
}

fn find(state: &State, name: &ObjectKey) -> Result<ObjectRef, ImageError> {
    let found = state.find_filed(KeyAt::new(&name.tenant, &name.key));
    found.ok_or_else(|| missing(name, "no object"))
}
