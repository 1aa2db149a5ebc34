//! Memory that a client may still be writing, set aside until its release time.
//!
//! A write that was replaced or preempted keeps its allocation for the release timeout, because nobody can
//! tell a writer to stop (behaviour 2.7). Released in order of time, then of arrival: the same on all nodes.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::model::{Millis, Place, Replica, ReplicaId, SegmentIdx};

/// Orders the set-aside items.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct DiscardKey {
    /// When the memory may be used again.
    pub release_at: Millis,
    /// Arrival number; never used twice.
    pub sequence: u64,
}

/// The replicas of one write that was set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discard {
    /// The replicas, as they were.
    pub replicas: Vec<Replica>,
    /// Bytes of each replica.
    pub size: u64,
    /// Why it waits longer than its own time, if it does.
    pub held: Option<Held>,
}

/// A catalog snapshot could bring the object of this memory back (`state::guard`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Snapshots begun when it was set aside; a later one does not hold the object.
    pub generation: u64,
    /// When it may be used again if no snapshot holds it; `None` for at once.
    pub earliest: Option<Millis>,
}

/// Guarded memory whose segment goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostDiscard {
    /// The replica that lay there.
    pub replica: ReplicaId,
    /// When it would have been used again.
    pub release_at: Millis,
    /// Why it waited.
    pub held: Held,
}

impl Discard {
    /// Bytes of the memory replicas.
    pub fn memory_bytes(&self) -> u64 {
        let in_memory = |r: &&Replica| matches!(r.place, Place::Memory { .. });
        self.size.saturating_mul(self.replicas.iter().filter(in_memory).count() as u64)
    }
}

/// Every set-aside item.
#[derive(Clone, Debug, Default)]
pub struct Discards {
    items: BTreeMap<DiscardKey, Discard>,
    next_sequence: u64,
    /// Invariant: the sum of `memory_bytes` of all items.
    staged_bytes: u64,
}

/// The last moment that the snapshot format can say (snapshot format 6), in the year 2262.
const RELEASE_AT_MAX: Millis = Millis(mooncake_ha_snapshot::codec::INSTANT_MS_MAX);

impl Discards {
    /// Sets replicas aside until `release_at`, or until the last moment that a snapshot can say: one beyond it
    /// would make an image that cannot be loaded.
    pub fn push(&mut self, release_at: Millis, discard: Discard) {
        let release_at = release_at.min(RELEASE_AT_MAX);
        self.staged_bytes += discard.memory_bytes();
        let key = DiscardKey { release_at, sequence: self.next_sequence };
        self.next_sequence += 1;
        self.items.insert(key, discard);
    }

    /// Takes the next item whose time has come.
    pub fn pop_due(&mut self, now: Millis) -> Option<Discard> {
        let first = self.items.first_entry().filter(|entry| entry.key().release_at <= now)?;
        let discard = first.remove();
        self.staged_bytes -= discard.memory_bytes();
        Some(discard)
    }

    /// A snapshot of this generation was published: what was set aside before it began waits for nothing but
    /// its own time. Costs in proportion to what is set aside.
    pub fn release_held(&mut self, generation: u64, now: Millis) {
        let is_over = |held: &Held| held.generation < generation;
        let over =
            self.items.iter().filter(|(_, discard)| discard.held.as_ref().is_some_and(is_over));
        let over: Vec<DiscardKey> = over.map(|(key, _)| *key).collect();
        for key in over {
            let Some(discard) = self.items.remove(&key) else { continue };
            let earliest = discard.held.and_then(|held| held.earliest).unwrap_or(now);
            // A fresh arrival number: a node that loaded a raft snapshot in between has other old ones.
            let sequence = self.next_sequence;
            self.next_sequence += 1;
            let release_at = earliest.min(key.release_at);
            self.items.insert(DiscardKey { release_at, sequence }, discard);
        }
    }

    /// Puts back why an item waits longer.
    pub fn set_held(&mut self, key: DiscardKey, held: Held) {
        if let Some(discard) = self.items.get_mut(&key) {
            discard.held = Some(held);
        }
    }

    /// Bytes of memory that only a catalog snapshot keeps from use.
    pub fn held_bytes(&self) -> u64 {
        let held = self.items.values().filter(|discard| discard.held.is_some());
        held.map(Discard::memory_bytes).sum()
    }

    /// Drops what lies on these nodes of an unmounting segment; items without a replica left go, too. Answers
    /// what a catalog snapshot could bring back there, by node.
    pub fn forget_nodes(
        &mut self,
        segment: SegmentIdx,
        nodes: &BTreeSet<u32>,
    ) -> BTreeMap<u32, LostDiscard> {
        let node_of = |replica: &Replica| match replica.place {
            Place::Memory { segment: on, node, .. } => {
                (on == segment && nodes.contains(&node)).then_some(node)
            }
            _ => None,
        };
        let is_gone = |replica: &Replica| node_of(replica).is_some();
        let mut lost = BTreeMap::new();
        self.items.retain(|key, discard| {
            if let Some(held) = discard.held {
                let release_at = key.release_at;
                let gone = discard.replicas.iter().filter_map(|r| Some((node_of(r)?, r.id)));
                lost.extend(
                    gone.map(|(node, replica)| (node, LostDiscard { replica, release_at, held })),
                );
            }
            self.staged_bytes -= discard.memory_bytes();
            discard.replicas.retain(|replica| !is_gone(replica));
            self.staged_bytes += discard.memory_bytes();
            !discard.replicas.is_empty()
        });
        lost
    }

    /// When the next item is due.
    pub fn next_release(&self) -> Option<Millis> {
        self.items.first_key_value().map(|(key, _)| key.release_at)
    }

    /// Memory bytes set aside.
    pub fn staged_bytes(&self) -> u64 {
        self.staged_bytes
    }

    /// Items in release order.
    pub fn iter(&self) -> impl Iterator<Item = (&DiscardKey, &Discard)> {
        self.items.iter()
    }
}
