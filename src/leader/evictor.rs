//! When to evict, how much, and in which order (behaviour 7).
//!
//! Nothing is done on a read and nothing scans the table: objects lie in coarse buckets of time by the end
//! of the read lease seen at their last visit. When a bucket comes up, each of its objects is looked at
//! again: what was read since goes to a later bucket, the rest is ready, oldest first. A lease never gets
//! shorter, so an object in a later bucket is never older than one in an earlier. All of it is leader-local,
//! derived, and rebuilt by a walk over the table at take-over.

use std::cmp::Reverse;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use crate::model::{Deadline, Millis, Object, ObjectRef, ReplicaId};
use crate::state::evict::incarnation;
use crate::state::view::View;

use super::arrivals::Arrival;

/// Parts per million in the whole.
const PPM_WHOLE: u32 = 1_000_000;

/// Width of a bucket of time.
const BUCKET_MS: u64 = 100;

/// A candidate that cannot go now, for a reason that has no end time, is looked at again after this.
const BLOCKED_MS: u64 = 1_000;

/// Entries of objects that are gone are tolerated up to this many beside those of live ones.
const STALE_MAX: usize = 1 << 16;

/// The deployment's rules for eviction.
#[derive(Clone, Copy, Debug)]
pub struct EvictionRules {
    /// Share of objects that a pass evicts, in parts per million.
    pub ratio_ppm: u32,
    /// Share of used memory above which passes begin, in parts per million.
    pub high_watermark_ppm: u32,
    /// Whether the second pass may take soft-pinned objects.
    pub allows_soft_pinned: bool,
}

/// How many objects a pass is to evict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Goal {
    /// Wanted, of those that no pin protects.
    pub ideal: u64,
    /// Needed; the second pass takes soft-pinned objects for what is missing to it.
    pub lower: u64,
}

impl EvictionRules {
    /// Whether memory in use is above the share at which eviction starts.
    pub fn is_above(&self, used: u64, capacity: u64) -> bool {
        let high = u128::from(self.high_watermark_ppm);
        u128::from(used) * u128::from(PPM_WHOLE) > high * u128::from(capacity)
    }

    /// What a pass should do now; `None` if there is no reason for one. `evictable` counts the objects that
    /// eviction could ever take, leased and soft-pinned ones included.
    pub fn goal(
        &self,
        (used, capacity): (u64, u64),
        evictable: u64,
        is_needed: bool,
    ) -> Option<Goal> {
        let whole = u128::from(PPM_WHOLE);
        let (ratio, high) = (u128::from(self.ratio_ppm), u128::from(self.high_watermark_ppm));
        let used_ppm = match capacity {
            0 => 0,
            _ => u128::from(used) * whole / u128::from(capacity),
        };
        let is_asked_for = is_needed && ratio > 0;
        if !self.is_above(used, capacity) && !is_asked_for {
            return None;
        }
        let over = used_ppm.saturating_sub(high);
        let target = over + ratio;
        let lower = over.max(target / 2);
        let count = |ppm: u128| {
            let objects = (u128::from(evictable) * ppm).div_ceil(whole);
            u64::try_from(objects).unwrap_or(u64::MAX).min(evictable)
        };
        Some(Goal { ideal: count(target), lower: count(lower) })
    }
}

/// Names an object in the order: half of its incarnation is enough to tell, since apply compares the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Candidate {
    object: ObjectRef,
    incarnation: u32,
}

impl Candidate {
    /// The candidate that an object is.
    pub fn new(object: ObjectRef, incarnation: ReplicaId) -> Self {
        // The lower half: the upper one changes once in four thousand million replicas.
        Candidate { object, incarnation: incarnation.0 as u32 }
    }

    /// Where the object is.
    pub fn object(&self) -> ObjectRef {
        self.object
    }
}

/// What a look at a candidate shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// It is no candidate any more.
    Gone,
    /// A running copy or the like uses it.
    Blocked,
    /// Somebody may be reading it until then, which will be its rank.
    Leased(Millis),
    /// An earlier leader may have let somebody read it until then.
    Promised(Millis),
    /// Only a second pass may take it, before its pin ends.
    SoftPinned {
        /// Its rank: when it was used last.
        rank: Millis,
        /// The end of the pin.
        until: Deadline,
    },
    /// It can go.
    Open {
        /// Its rank: when it was used last.
        rank: Millis,
    },
}

/// The eyes of the evictor: the table, the time, and what an earlier leader may have promised.
#[derive(Clone, Copy)]
pub struct Eyes<'a> {
    /// The objects.
    pub view: &'a View,
    /// The leader's time.
    pub now: Millis,
    /// Objects whose write began no later than `since` may be leased by an earlier leader until this.
    pub promised_until: Deadline,
    /// When this node took over.
    pub since: Millis,
}

impl Eyes<'_> {
    /// Looks at a candidate.
    pub fn look(&self, candidate: Candidate) -> Seen {
        let look = |object: &Object| self.judge(object, candidate);
        self.view.table.peek(candidate.object, look).unwrap_or(Seen::Gone)
    }

    /// Until when somebody may be reading an object, whatever else protects it.
    pub fn leased_until(&self, candidate: Candidate) -> Option<Millis> {
        let at = candidate.object;
        let look = |object: &Object| self.lease_of(at, object).map(|(until, _)| until);
        self.view.table.peek(candidate.object, look).flatten()
    }

    /// The end of a read lease that may be running, and whether an earlier leader would have granted it.
    fn lease_of(&self, at: ObjectRef, object: &Object) -> Option<(Millis, bool)> {
        // Equality counts, as for removals: a slow clock takes over at the very stamp of the last entry.
        let may_be_promised = object.put_start <= self.since && object.has_complete();
        if may_be_promised && !self.promised_until.is_reached(self.now) {
            return Some((Millis(self.promised_until.0), true));
        }
        let end = self.view.lease_end(at, object);
        (end > self.now).then_some((end, false))
    }

    fn judge(&self, object: &Object, candidate: Candidate) -> Seen {
        let is_same = Candidate::new(candidate.object, incarnation(object)) == candidate;
        if !is_same || !object.is_candidate() {
            return Seen::Gone;
        }
        match self.lease_of(candidate.object, object) {
            Some((until, true)) => return Seen::Promised(until),
            Some((until, false)) => return Seen::Leased(until),
            None => {}
        }
        if !object.is_evictable() {
            return Seen::Blocked;
        }
        let rank = rank(self.view, candidate.object, object);
        match object.pin() {
            Some(until) if !until.is_reached(self.now) => Seen::SoftPinned { rank, until },
            _ => Seen::Open { rank },
        }
    }
}

/// When an object was used last. Leases die with their leader; an object that nobody has read since the
/// take-over counts from its write.
fn rank(view: &View, at: ObjectRef, object: &Object) -> Millis {
    view.lease_end(at, object).max(object.put_start)
}

/// What the order offers next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The oldest candidate that no pin protects; it has left the order.
    Oldest(Candidate),
    /// Enough looked at for one go; call again.
    Pause,
    /// Nothing can go now.
    Nothing,
}

/// Candidates by bucket of time.
#[derive(Debug, Default)]
struct Buckets {
    by_number: BTreeMap<u64, Vec<Candidate>>,
    /// Invariant: the number of candidates in all buckets.
    len: usize,
}

impl Buckets {
    fn add(&mut self, candidate: Candidate, at: Millis) {
        let bucket = at.0 / BUCKET_MS;
        self.len += 1;
        match self.by_number.entry(bucket) {
            Entry::Occupied(mut list) => return list.get_mut().push(candidate),
            Entry::Vacant(place) => _ = place.insert(vec![candidate]),
        }
        // Time has gone on, so the bucket before gets little more.
        if let Some((_, before)) = self.by_number.range_mut(..bucket).next_back() {
            before.shrink_to_fit();
        }
    }

    /// Start of the first bucket.
    fn first(&self) -> Option<Millis> {
        let (bucket, _) = self.by_number.first_key_value()?;
        Some(Millis(bucket.saturating_mul(BUCKET_MS)))
    }

    /// Start of the first bucket, if all of its time is over.
    fn first_past(&self, now: Millis) -> Option<Millis> {
        self.first().filter(|start| start.0.saturating_add(BUCKET_MS) <= now.0)
    }

    fn take_first(&mut self) -> Vec<Candidate> {
        let taken = self.by_number.pop_first().map(|(_, list)| list).unwrap_or_default();
        self.len -= taken.len();
        taken
    }
}

/// The candidates, by age. See the head of this file.
#[derive(Debug, Default)]
pub struct EvictionOrder {
    /// By the rank seen at the last visit. Invariant: no rank lies before its bucket, but for an object whose
    /// first replica changed (it was moved): that counts as a use until the visit.
    ranked: Buckets,
    /// By when to look again, for those whose rank lies before: blocked ones, and soft-pinned ones by the end
    /// of their pin.
    returning: Buckets,
    /// When the bucket of that very time was looked at without new arrivals since. Part of it comes back, so
    /// it is looked at once a moment: what was just written must go before what is soft-pinned.
    current_seen: Option<Millis>,
    /// Rest of the bucket that is being looked at.
    loading: Vec<Candidate>,
    /// Looked at and open, oldest first.
    ready: BinaryHeap<Reverse<(Millis, Candidate)>>,
    /// Looked at and soft-pinned, oldest first. Each also returns when its pin ends.
    soft: BTreeSet<(Millis, Candidate)>,
}

impl EvictionOrder {
    /// Candidates that have just been put or changed.
    pub fn arrive(&mut self, arrivals: &[Arrival]) {
        if !arrivals.is_empty() {
            self.current_seen = None;
        }
        for arrival in arrivals {
            self.ranked.add(Candidate::new(arrival.object, arrival.incarnation), arrival.at);
        }
    }

    /// Adds the candidates of one shard.
    pub fn walk(&mut self, view: &View, shard: usize) {
        self.walk_chosen(view, shard, |_| true);
    }

    /// Adds those candidates of one shard that are chosen.
    pub fn walk_chosen(&mut self, view: &View, shard: usize, is_chosen: impl Fn(&Object) -> bool) {
        for object in view.table.refs_in_shard(shard) {
            let look = |found: &Object| {
                let is_wanted = found.is_candidate() && is_chosen(found);
                is_wanted.then(|| (incarnation(found), rank(view, object, found)))
            };
            if let Some(Some((incarnation, rank))) = view.table.peek(object, look) {
                self.ranked.add(Candidate::new(object, incarnation), rank);
            }
        }
    }

    /// Puts back a candidate that could not be evicted after all.
    pub fn put_back(&mut self, candidate: Candidate, now: Millis) {
        self.returning.add(candidate, Millis(now.0.saturating_add(BLOCKED_MS)));
    }

    /// Puts back a candidate that may be read until then.
    pub fn put_back_until(&mut self, candidate: Candidate, until: Millis) {
        self.returning.add(candidate, until);
    }

    /// Entries, those of vanished objects included.
    pub fn len(&self) -> usize {
        self.ranked.len
            + self.returning.len
            + self.loading.len()
            + self.ready.len()
            + self.soft.len()
    }

    /// Whether nothing is in the order.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether so many entries are of vanished objects that a new walk over the table is better.
    pub fn is_stale(&self, keys: u64) -> bool {
        let live = usize::try_from(keys).unwrap_or(usize::MAX);
        // Up to four entries an object: duplicates after a walk, and soft-pinned ones lie in two places.
        self.len() > live.saturating_mul(4).saturating_add(STALE_MAX)
    }

    /// Whether a pass could find something: without this a full store would be searched again and again.
    pub fn has_work(&self, now: Millis, with_soft_pinned: bool) -> bool {
        let is_waiting =
            self.first_ranked(now).is_some() || self.returning.first_past(now).is_some();
        let is_open = !self.ready.is_empty() || !self.loading.is_empty() || is_waiting;
        is_open || (with_soft_pinned && !self.soft.is_empty())
    }

    /// Start of the first bucket that is to be looked at: one that is over, or once a moment the current one.
    fn first_ranked(&self, now: Millis) -> Option<Millis> {
        let start = self.ranked.first().filter(|start| *start <= now)?;
        let is_over = self.ranked.first_past(now).is_some();
        (is_over || self.current_seen != Some(now)).then_some(start)
    }

    /// Takes the oldest candidate that can go and has no active pin; looks at about `looks` objects at most.
    pub fn next(&mut self, eyes: &Eyes<'_>, mut looks: u32) -> Next {
        loop {
            if looks == 0 {
                return Next::Pause;
            }
            looks -= 1;
            if let Some(candidate) = self.loading.pop() {
                self.file(candidate, eyes);
                continue;
            }
            if self.returning.first_past(eyes.now).is_some() {
                self.loading = self.returning.take_first();
                continue;
            }
            let oldest = self.ready.peek().map(|Reverse((rank, _))| *rank);
            if let Some(start) = self.first_ranked(eyes.now)
                && oldest.is_none_or(|oldest| oldest >= start)
            {
                if self.ranked.first_past(eyes.now).is_none() {
                    self.current_seen = Some(eyes.now);
                }
                self.loading = self.ranked.take_first();
                continue;
            }
            let Some(Reverse((rank, candidate))) = self.ready.pop() else { return Next::Nothing };
            if eyes.look(candidate) == (Seen::Open { rank }) {
                return Next::Oldest(candidate);
            }
            self.file(candidate, eyes);
        }
    }

    /// Takes the oldest soft-pinned candidate that can go; looks at about `looks` objects at most.
    pub fn next_soft_pinned(&mut self, eyes: &Eyes<'_>, mut looks: u32) -> Next {
        while let Some((rank, candidate)) = self.soft.pop_first() {
            match eyes.look(candidate) {
                Seen::SoftPinned { rank: now, .. } if now == rank => {
                    return Next::Oldest(candidate);
                }
                // Used since: it takes its new place. Its entry in the bucket of its pin's end still stands.
                Seen::SoftPinned { rank, .. } => {
                    self.soft.insert((rank, candidate));
                }
                Seen::Open { rank } => self.ready.push(Reverse((rank, candidate))),
                Seen::Leased(until) => self.ranked.add(candidate, until),
                Seen::Promised(until) => self.put_back_until(candidate, until),
                Seen::Blocked => self.put_back(candidate, eyes.now),
                Seen::Gone => {}
            }
            looks = looks.saturating_sub(1);
            if looks == 0 {
                return Next::Pause;
            }
        }
        Next::Nothing
    }

    /// Looks at a candidate and puts it where it belongs.
    fn file(&mut self, candidate: Candidate, eyes: &Eyes<'_>) {
        match eyes.look(candidate) {
            Seen::Gone => {}
            Seen::Blocked => self.put_back(candidate, eyes.now),
            Seen::Leased(until) => self.ranked.add(candidate, until),
            Seen::Promised(until) => self.put_back_until(candidate, until),
            Seen::SoftPinned { rank, until } => {
                self.soft.insert((rank, candidate));
                self.put_back_until(candidate, Millis(until.0));
            }
            Seen::Open { rank } => self.ready.push(Reverse((rank, candidate))),
        }
    }
}

#[cfg(test)]
mod tests;
