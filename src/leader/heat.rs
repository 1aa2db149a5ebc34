//! Which objects are read so often that they should have one more replica in memory (behaviour 8.6).
//!
//! Reads are counted by object in windows; the read that makes one hot puts the object's name down here, and a
//! loop of the leader's picks it up: a read waits for nothing. All of it dies with leadership; what comes of it
//! is replicated.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::model::{ObjectKey, Tenant};
use crate::state::table::table_hash;

/// Objects whose reads are counted at a time at most; a read of another is not counted.
pub const TRACKED_MAX: usize = 50_000;
/// Hot objects that wait for the loop at most; one beyond it is forgotten.
pub const HOT_MAX: usize = 50_000;
/// Pause between two looks for windows that are over, while too many objects are counted.
const CLEAN_PAUSE: Duration = Duration::from_secs(1);

/// When an object is hot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeatRules {
    /// Length of a window; it begins with an object's first read.
    pub window: Duration,
    /// Reads within one window that make an object hot; at least 1.
    pub hits: u32,
}

/// Reads of one object.
#[derive(Clone, Copy, Debug)]
struct Window {
    begins: Duration,
    hits: u32,
}

impl Window {
    fn is_open(&self, now: Duration, rules: &HeatRules) -> bool {
        now.saturating_sub(self.begins) < rules.window
    }
}

/// Where reads are counted.
#[derive(Debug, Default)]
pub struct HeatDesk {
    /// By the hash of an object's name: objects that share one are hot a little early.
    windows: HashMap<u64, Window>,
    hot: VecDeque<Arc<ObjectKey>>,
    /// Invariant: the objects in `hot`.
    waiting: HashSet<Arc<ObjectKey>>,
    next_clean: Duration,
}

impl HeatDesk {
    /// An object was read; whether this very read made it hot.
    pub fn hit(&mut self, tenant: &Tenant, key: &[u8], now: Duration, rules: &HeatRules) -> bool {
        let hash = table_hash(tenant, key);
        if !self.windows.contains_key(&hash) && !self.has_room(now, rules) {
            return false;
        }
        let window = self.windows.entry(hash).or_insert(Window { begins: now, hits: 0 });
        if !window.is_open(now, rules) {
            *window = Window { begins: now, hits: 0 };
        }
        window.hits = window.hits.saturating_add(1);
        if window.hits != rules.hits {
            return false;
        }
        if self.hot.len() < HOT_MAX {
            let object = Arc::new(ObjectKey { tenant: tenant.clone(), key: Box::from(key) });
            if self.waiting.insert(Arc::clone(&object)) {
                self.hot.push_back(object);
            }
        }
        true
    }

    /// Makes room for one more window, if there is none.
    fn has_room(&mut self, now: Duration, rules: &HeatRules) -> bool {
        if self.windows.len() >= TRACKED_MAX && now >= self.next_clean {
            self.next_clean = now.saturating_add(CLEAN_PAUSE);
            self.windows.retain(|_, window| window.is_open(now, rules));
        }
        self.windows.len() < TRACKED_MAX
    }

    /// Whether an object is hot now.
    pub fn is_hot(&self, object: &ObjectKey, now: Duration, rules: &HeatRules) -> bool {
        let window = self.windows.get(&table_hash(&object.tenant, &object.key));
        window.is_some_and(|window| window.is_open(now, rules) && window.hits >= rules.hits)
    }

    /// Takes up to `objects_max` objects that became hot, in that order, and leaves out those that have cooled
    /// down since.
    pub fn take(
        &mut self,
        objects_max: usize,
        now: Duration,
        rules: &HeatRules,
    ) -> Vec<Arc<ObjectKey>> {
        let mut taken = Vec::new();
        for _ in 0..objects_max {
            let Some(object) = self.hot.pop_front() else { break };
            self.waiting.remove(&object);
            if self.is_hot(&object, now, rules) {
                taken.push(object);
            }
        }
        taken
    }
}

/// A number of a key and a segment name (FNV-1a): spreads the sources and targets of many objects over
/// segments that are equally good.
pub fn score(key: &[u8], segment: &str) -> u64 {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let bytes = key.iter().chain(std::iter::once(&0)).chain(segment.as_bytes());
    bytes.fold(BASIS, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: HeatRules = HeatRules { window: Duration::from_secs(10), hits: 3 };

    fn hit(desk: &mut HeatDesk, key: &str, at_ms: u64) -> bool {
        desk.hit(&Tenant::default(), key.as_bytes(), Duration::from_millis(at_ms), &RULES)
    }

    fn take(desk: &mut HeatDesk, at_ms: u64) -> Vec<String> {
        let taken = desk.take(8, Duration::from_millis(at_ms), &RULES);
        taken.iter().map(|object| String::from_utf8(object.key.to_vec()).unwrap()).collect()
    }

    #[test]
    fn exactly_one_read_of_a_window_makes_an_object_hot() {
        let mut desk = HeatDesk::default();
        let hot: Vec<bool> = (0..6).map(|_| hit(&mut desk, "k", 0)).collect();
        assert_eq!(hot, [false, false, true, false, false, false]);
        assert_eq!(take(&mut desk, 0), ["k"]);
        assert_eq!(take(&mut desk, 0), Vec::<String>::new());
        let hot: Vec<bool> = (0..3).map(|_| hit(&mut desk, "k", 10_000)).collect();
        assert_eq!(hot, [false, false, true], "the next window counts anew");
    }

    #[test]
    fn reads_that_are_spread_over_two_windows_make_nothing_hot() {
        let mut desk = HeatDesk::default();
        for at in [0, 9_999, 10_000, 19_999] {
            assert!(!hit(&mut desk, "k", at), "{at}");
        }
    }

    #[test]
    fn an_object_that_has_cooled_down_while_it_waited_is_left_out() {
        let mut desk = HeatDesk::default();
        (0..3).for_each(|_| {
            hit(&mut desk, "old", 0);
            hit(&mut desk, "new", 5_000);
        });
        assert_eq!(take(&mut desk, 10_000), ["new"]);
    }

    #[test]
    fn an_object_waits_once_however_often_it_becomes_hot() {
        let mut desk = HeatDesk::default();
        for window in 0..3 {
            let hot = (0..3).filter(|_| hit(&mut desk, "k", window * 10_000)).count();
            assert_eq!(hot, 1);
        }
        assert_eq!(take(&mut desk, 20_000), ["k"]);
        assert_eq!(take(&mut desk, 20_000), Vec::<String>::new());
    }

    #[test]
    fn too_many_objects_are_not_counted_until_some_windows_are_over() {
        let mut desk = HeatDesk::default();
        for n in 0..TRACKED_MAX {
            hit(&mut desk, &n.to_string(), 0);
        }
        (0..3).for_each(|_| assert!(!hit(&mut desk, "late", 5_000)));
        assert_eq!(desk.windows.len(), TRACKED_MAX);
        let hot: Vec<bool> = (0..3).map(|_| hit(&mut desk, "late", 10_000)).collect();
        assert_eq!(hot, [false, false, true]);
        assert_eq!(desk.windows.len(), 1);
    }

    #[test]
    fn the_score_is_that_of_the_published_hash() {
        assert_eq!(score(b"", ""), 0xaf63_bd4c_8601_b7df, "one zero byte");
        assert_ne!(score(b"a", "b"), score(b"ab", ""));
    }
}
