//! Which objects on disk are read often enough to come back to memory (behaviour 10.4).
//!
//! Reads put an object's name down here, a loop of the leader's picks it up: a read waits for nothing. A wish
//! that cannot be granted now is remembered for a while and tried again, later each time. All of it dies
//! with leadership; what was granted is replicated.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::model::{ObjectKey, Tenant};
use crate::state::table::table_hash;

/// Keys that wait for the loop at most; a read beyond it is forgotten.
pub const FRESH_MAX: usize = 50_000;
/// Wishes that are remembered at most.
pub const CANDIDATES_MAX: usize = 50_000;
/// Tries of a remembered wish.
const TRIES_MAX: u32 = 8;
/// How long a wish is remembered.
const REMEMBERED: Duration = Duration::from_secs(60);
/// Pause before the first new try; doubled for each further one up to the greatest.
const PAUSE_FIRST: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);

const ROWS: usize = 4;
const COLUMNS_LOG2: u32 = 12;
/// Counted reads after which all counts are halved, so that old ones fade.
const HALVE_AFTER: u32 = 16_384;

/// Counts reads in little memory: never too few, sometimes too many.
#[derive(Debug)]
pub struct Sketch {
    counts: Vec<u8>,
    counted: u32,
}

impl Default for Sketch {
    fn default() -> Self {
        Sketch { counts: vec![0; ROWS << COLUMNS_LOG2], counted: 0 }
    }
}

impl Sketch {
    /// Counts one read of an object, by the hash of its name; how many there were, about.
    pub fn hit(&mut self, hash: u64) -> u8 {
        const MULTIPLIERS: [u64; ROWS] = [
            0x9e37_79b9_7f4a_7c15,
            0xc2b2_ae3d_27d4_eb4f,
            0x1656_67b1_9e37_79f9,
            0xd6e8_feb8_6659_fd93,
        ];
        let mut least = u8::MAX;
        for (row, multiplier) in MULTIPLIERS.into_iter().enumerate() {
            let column = (hash.wrapping_mul(multiplier) >> (u64::BITS - COLUMNS_LOG2)) as usize;
            if let Some(count) = self.counts.get_mut((row << COLUMNS_LOG2) | column) {
                *count = count.saturating_add(1);
                least = least.min(*count);
            }
        }
        self.counted += 1;
        if self.counted >= HALVE_AFTER {
            self.counted = 0;
            self.counts.iter_mut().for_each(|count| *count /= 2);
        }
        least
    }
}

/// An object that somebody wants back in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Its name.
    pub object: Arc<ObjectKey>,
    /// Set once it was refused: until when it is remembered.
    expires: Option<Duration>,
    /// New tries so far.
    tries: u32,
    pause: Duration,
}

impl Wish {
    /// Whether it was refused before.
    pub fn is_retry(&self) -> bool {
        self.expires.is_some()
    }
}

/// What became of a refused wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remembered {
    /// It is tried again; for the first time.
    First,
    /// It is tried again.
    Again,
    /// It was tried often enough.
    GivenUp,
    /// Too many are remembered.
    NoRoom,
}

/// What is to be tried now.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Due {
    /// The wishes.
    pub wishes: Vec<Wish>,
    /// Remembered wishes whose time is over after some tries.
    pub expired_tried: u64,
    /// Remembered wishes whose time is over before any.
    pub expired_untried: u64,
}

/// Where wishes lie.
#[derive(Debug, Default)]
pub struct PromotionDesk {
    sketch: Sketch,
    fresh: VecDeque<Arc<ObjectKey>>,
    /// By the time of the next try and a number that tells equal times apart.
    candidates: BTreeMap<(Duration, u64), Wish>,
    next_number: u64,
    /// Invariant: the objects of both.
    known: HashSet<Arc<ObjectKey>>,
}

impl PromotionDesk {
    /// An object without memory was read from disk. Returns false if that was too seldom so far.
    pub fn hit(&mut self, tenant: &Tenant, key: &[u8], threshold: u8) -> bool {
        if self.sketch.hit(table_hash(tenant, key)) < threshold {
            return false;
        }
        if self.fresh.len() < FRESH_MAX {
            let object = Arc::new(ObjectKey { tenant: tenant.clone(), key: Box::from(key) });
            if self.known.insert(Arc::clone(&object)) {
                self.fresh.push_back(object);
            }
        }
        true
    }

    /// Takes up to `wishes_max` wishes whose turn it is.
    pub fn take(&mut self, now: Duration, wishes_max: usize) -> Due {
        let mut due = Due::default();
        while due.wishes.len() < wishes_max {
            let first = self.candidates.first_entry().filter(|entry| entry.key().0 <= now);
            let Some(wish) = first.map(|entry| entry.remove()) else { break };
            self.known.remove(&wish.object);
            if wish.expires.is_none_or(|expires| expires > now) {
                due.wishes.push(wish);
            } else if wish.tries > 0 {
                due.expired_tried += 1;
            } else {
                due.expired_untried += 1;
            }
        }
        while due.wishes.len() < wishes_max {
            let Some(object) = self.fresh.pop_front() else { break };
            self.known.remove(&object);
            due.wishes.push(Wish { object, expires: None, tries: 0, pause: PAUSE_FIRST });
        }
        due
    }

    /// Remembers a wish that could not be granted.
    pub fn remember(&mut self, wish: Wish, now: Duration) -> Remembered {
        let is_first = !wish.is_retry();
        let tries = wish.tries + u32::from(!is_first);
        if tries >= TRIES_MAX {
            return Remembered::GivenUp;
        }
        if self.candidates.len() >= CANDIDATES_MAX {
            return Remembered::NoRoom;
        }
        let due = (now.saturating_add(wish.pause), self.next_number);
        self.next_number += 1;
        let pause = wish.pause.saturating_mul(2).min(PAUSE_MAX);
        let expires = wish.expires.or(Some(now.saturating_add(REMEMBERED)));
        if self.known.insert(Arc::clone(&wish.object)) {
            self.candidates.insert(due, Wish { expires, tries, pause, ..wish });
        }
        if is_first { Remembered::First } else { Remembered::Again }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hit(desk: &mut PromotionDesk, threshold: u8) -> bool {
        desk.hit(&Tenant::default(), b"k", threshold)
    }

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn the_second_read_is_a_wish_and_a_third_before_it_is_taken_is_the_same() {
        let mut desk = PromotionDesk::default();
        assert!(!hit(&mut desk, 2));
        assert!(hit(&mut desk, 2));
        assert!(hit(&mut desk, 2));
        let due = desk.take(ms(0), 8);
        assert_eq!(due.wishes.len(), 1);
        assert_eq!(desk.take(ms(0), 8), Due::default());
    }

    #[test]
    fn a_refused_wish_is_tried_again_after_ever_longer_pauses_and_then_given_up() {
        let mut desk = PromotionDesk::default();
        assert!(hit(&mut desk, 1));
        let mut wish = desk.take(ms(0), 8).wishes.remove(0);
        let (mut now, mut pauses) = (ms(0), Vec::new());
        let mut outcome = desk.remember(wish, now);
        assert_eq!(outcome, Remembered::First);
        while outcome != Remembered::GivenUp {
            let before = now;
            let due = loop {
                let due = desk.take(now, 8);
                if !due.wishes.is_empty() {
                    break due;
                }
                now += ms(1);
            };
            pauses.push((now - before).as_millis());
            wish = due.wishes.into_iter().next().unwrap();
            outcome = desk.remember(wish, now);
        }
        assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 640, 1_000]);
    }

    #[test]
    fn a_wish_is_not_remembered_for_ever() {
        let mut desk = PromotionDesk::default();
        assert!(hit(&mut desk, 1));
        let wish = desk.take(ms(0), 8).wishes.remove(0);
        assert_eq!(desk.remember(wish, ms(0)), Remembered::First);
        let due = desk.take(ms(60_000), 8);
        assert_eq!(due, Due { expired_untried: 1, ..Due::default() });
    }

    #[test]
    fn old_reads_fade() {
        let mut sketch = Sketch::default();
        for _ in 0..100 {
            sketch.hit(u64::MAX);
        }
        for n in 0..u64::from(HALVE_AFTER) {
            sketch.hit(n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        }
        let again = sketch.hit(u64::MAX);
        assert!((50..90).contains(&again), "{again}");
    }
}
