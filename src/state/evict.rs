//! Dropping the memory of objects that the leader named (behaviour 7.2, 7.3).
//!
//! The leader chose them from what it saw, so apply looks again: another incarnation, a replica in use, a
//! hard pin, or in the first pass an active soft pin means that the object stays.

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::State;
use super::command::Key;
use super::put::KeyAt;
use crate::model::{Object, ObjectRef, ReplicaId, Tenant};

/// An object that is to lose its memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Victim {
    /// Name space; `None` is the default one.
    pub tenant: Option<Tenant>,
    /// The object.
    pub key: Key,
    /// Its first replica when the leader looked: one that was put again since has another.
    pub incarnation: ReplicaId,
}

/// Evicts objects whose read leases the leader has fenced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evict {
    /// The objects.
    pub victims: Vec<Victim>,
    /// Whether an active soft pin spares an object: yes in the first pass, no in the second.
    pub spares_soft_pinned: bool,
}

/// What tells an object from an earlier or later one of the same key.
pub fn incarnation(object: &Object) -> ReplicaId {
    object.replicas.first().map(|replica| replica.id).unwrap_or_default()
}

/// The memory of a victim that can go.
#[derive(Debug)]
pub(super) struct Chosen {
    /// The object.
    pub object: ObjectRef,
    /// Its evictable replicas.
    ids: SmallVec<[ReplicaId; 2]>,
    /// Bytes of each.
    size: u64,
    /// Whether there are no others.
    is_whole: bool,
}

impl Chosen {
    /// All but one of the replicas.
    pub fn without(mut self, kept: Option<ReplicaId>) -> Self {
        self.ids.retain(|id| Some(*id) != kept);
        self.is_whole &= kept.is_none();
        self
    }
}

impl State {
    /// Drops the evictable memory replicas of each victim; the bytes freed, 0 for one that was spared.
    pub(super) fn evict(&mut self, evict: &Evict) -> Vec<u64> {
        let spares_soft_pinned = evict.spares_soft_pinned;
        let victims = evict.victims.iter();
        victims.map(|victim| self.evict_one(victim, spares_soft_pinned).unwrap_or(0)).collect()
    }

    fn evict_one(&mut self, victim: &Victim, spares_soft_pinned: bool) -> Option<u64> {
        let chosen = self.choose_victim(victim, spares_soft_pinned)?;
        Some(self.drop_chosen(chosen))
    }

    /// Looks at a victim again; `None` if it is spared.
    pub(super) fn choose_victim(
        &self,
        victim: &Victim,
        spares_soft_pinned: bool,
    ) -> Option<Chosen> {
        let tenant = victim.tenant.clone().unwrap_or_default();
        let object = self.find_filed(KeyAt::new(&tenant, &victim.key.0))?;
        let directory = self.view.directory();
        let choose = |found: &Object| {
            let is_pinned = found.pin().is_some_and(|deadline| !deadline.is_reached(self.clock));
            let is_spared = found.is_hard_pinned || (is_pinned && spares_soft_pinned);
            if is_spared || incarnation(found) != victim.incarnation {
                return None;
            }
            let evictable =
                found.replicas.iter().filter(|r| r.is_evictable() && directory.is_valid(r));
            let ids: SmallVec<[ReplicaId; 2]> = evictable.map(|replica| replica.id).collect();
            // Memory that a snapshot could still bring back would not come free, so its object may as well stay.
            let until = self.saved_until(found);
            if ids.iter().any(|id| self.is_guarded(*id, until)) {
                return None;
            }
            let is_whole = ids.len() == found.replicas.len();
            Some(Chosen { object, ids, size: found.size, is_whole })
        };
        self.view.table.peek(object, choose).flatten()
    }

    /// Drops what was chosen; the bytes freed.
    pub(super) fn drop_chosen(&mut self, chosen: Chosen) -> u64 {
        let Chosen { object, ids, size, is_whole } = chosen;
        if is_whole {
            self.erase(object);
        } else {
            self.drop_replicas(object, |replica| ids.contains(&replica.id));
        }
        size.saturating_mul(ids.len() as u64)
    }
}

#[cfg(test)]
mod tests;
