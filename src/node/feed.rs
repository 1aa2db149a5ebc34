//! The newest changes of presence, for those who tell them to others (room `events`).
//!
//! Apply puts the changes of each entry down here and never waits for a reader. Every node keeps them, whoever
//! leads: a node that takes over can tell again what its predecessor may not have told. Bounded by events; what
//! is too old is dropped, and readers see that by the numbers.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::model::Millis;
use crate::state::presence::{BATCH_CHANGES_MAX, PresenceChange, PresenceCounts};

/// Changes told together.
#[derive(Debug)]
pub struct Batch {
    /// Its number: the same on every node.
    pub sequence: u64,
    /// The number of its first change: the same on every node.
    pub first_change: u64,
    /// State time of the entry.
    pub at: Millis,
    /// What changed, in order.
    pub changes: Vec<PresenceChange>,
    /// The message that tells it, made by whoever tells it first.
    pub message: OnceLock<Bytes>,
}

#[derive(Debug, Default)]
struct Ring {
    batches: VecDeque<Arc<Batch>>,
    /// Changes in all of them.
    changes: usize,
}

/// Where the batches wait to be told.
#[derive(Debug)]
pub struct Feed {
    ring: Mutex<Ring>,
    /// Changes that are kept.
    capacity: usize,
    newest: watch::Sender<u64>,
}

/// The batches that a reader asked for.
#[derive(Debug, Default)]
pub struct Read {
    /// Consecutive batches, the first not older than asked for.
    pub batches: Vec<Arc<Batch>>,
    /// Changes between what was asked for and the first batch, which are kept no longer.
    pub lost_changes: u64,
}

impl Feed {
    /// A feed that keeps up to `capacity` changes, and always the newest batch.
    pub fn new(capacity: usize) -> Self {
        Feed { ring: Mutex::default(), capacity, newest: watch::Sender::new(0) }
    }

    /// Puts down the changes of one entry; `counts` are those after it.
    pub fn put(&self, counts: PresenceCounts, at: Millis, changes: Vec<PresenceChange>) {
        if changes.is_empty() {
            return;
        }
        let told = changes.len() as u64;
        let mut sequence = counts.batches.saturating_sub(told.div_ceil(BATCH_CHANGES_MAX));
        let mut first_change = counts.changes.saturating_sub(told) + 1;
        let mut ring = self.ring.lock();
        let mut changes = changes.into_iter().peekable();
        while changes.peek().is_some() {
            let some: Vec<_> = changes.by_ref().take(BATCH_CHANGES_MAX as usize).collect();
            sequence += 1;
            let next = first_change + some.len() as u64;
            ring.changes += some.len();
            let message = OnceLock::new();
            ring.batches.push_back(Arc::new(Batch {
                sequence,
                first_change,
                at,
                changes: some,
                message,
            }));
            first_change = next;
        }
        while ring.changes > self.capacity && ring.batches.len() > 1 {
            if let Some(oldest) = ring.batches.pop_front() {
                ring.changes -= oldest.changes.len();
            }
        }
        drop(ring);
        self.newest.send_replace(sequence);
    }

    /// Forgets everything: the state was replaced, and what happened meanwhile is not known.
    pub fn clear(&self) {
        *self.ring.lock() = Ring::default();
    }

    /// Follows the number of the newest batch.
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    /// Number of the first kept batch of an entry at or after `at`; the next one's, if there is none.
    pub fn first_since(&self, at: Millis) -> u64 {
        let ring = self.ring.lock();
        let first = ring.batches.partition_point(|batch| batch.at < at);
        match (ring.batches.get(first), ring.batches.back()) {
            (Some(batch), _) => batch.sequence,
            (None, Some(newest)) => newest.sequence + 1,
            (None, None) => *self.newest.borrow() + 1,
        }
    }

    /// Up to `batches_max` batches from number `from` on, where a reader last read `last_change`.
    pub fn read(&self, from: u64, last_change: Option<u64>, batches_max: usize) -> Read {
        let ring = self.ring.lock();
        let first = ring.batches.partition_point(|batch| batch.sequence < from);
        let batches: Vec<_> = ring.batches.iter().skip(first).take(batches_max).cloned().collect();
        let lost_changes = match (last_change, batches.first()) {
            (Some(last), Some(batch)) => batch.first_change.saturating_sub(last + 1),
            _ => 0,
        };
        Read { batches, lost_changes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Tenant;
    use crate::state::presence::Medium;

    fn changes(count: usize) -> Vec<PresenceChange> {
        let change = PresenceChange {
            medium: Medium::Memory,
            is_stored: true,
            tenant: Tenant::default(),
            key: Box::from(b"k".as_slice()),
            group: Box::default(),
        };
        vec![change; count]
    }

    fn numbers(read: &Read) -> Vec<(u64, u64, usize)> {
        let batches = read.batches.iter();
        batches.map(|b| (b.sequence, b.first_change, b.changes.len())).collect()
    }

    #[test]
    fn an_entry_is_told_in_batches_whose_numbers_end_at_its_counts() {
        let feed = Feed::new(1_000);
        feed.put(PresenceCounts { changes: 230, batches: 13 }, Millis(5), changes(130));
        let expected = vec![(11, 101, 64), (12, 165, 64), (13, 229, 2)];
        assert_eq!(numbers(&feed.read(0, None, 10)), expected);
        assert_eq!(numbers(&feed.read(12, None, 1)), expected[1..2]);
        assert_eq!(*feed.watch().borrow(), 13);
        assert_eq!((feed.first_since(Millis(5)), feed.first_since(Millis(6))), (11, 14));
    }

    #[test]
    fn the_oldest_batches_make_room_and_a_reader_learns_what_it_lost() {
        let feed = Feed::new(10);
        for entry in 1..=8 {
            let counts = PresenceCounts { changes: entry * 4, batches: entry };
            feed.put(counts, Millis(entry), changes(4));
        }
        let read = feed.read(2, Some(4), 10);
        assert_eq!(numbers(&read), [(7, 25, 4), (8, 29, 4)]);
        assert_eq!(read.lost_changes, 20);
        assert_eq!(feed.read(8, Some(28), 10).lost_changes, 0);
    }

    #[test]
    fn one_batch_is_kept_however_small_the_capacity() {
        let feed = Feed::new(1);
        feed.put(PresenceCounts { changes: 64, batches: 1 }, Millis(1), changes(64));
        assert_eq!(numbers(&feed.read(0, None, 10)), [(1, 1, 64)]);
    }

    #[test]
    fn a_replaced_state_leaves_nothing_to_tell() {
        let feed = Feed::new(10);
        feed.put(PresenceCounts { changes: 1, batches: 1 }, Millis(1), changes(1));
        feed.clear();
        assert!(feed.read(0, None, 10).batches.is_empty());
        assert_eq!(feed.first_since(Millis(0)), 2);
    }
}
