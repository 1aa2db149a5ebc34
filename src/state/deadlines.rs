//! The deadline index: which soft pin ends next, without a walk over all objects.
//!
//! A min-heap of (deadline, object) beside the latest registration of each object (RFC "Deadline
//! index"). The map is the truth; a heap entry that differs from it is stale and dropped when it
//! comes up. Guards: every live registration is in the heap; the heap never exceeds
//! max([`HEAP_FLOOR`], 2 x live). Derived state: never saved, rebuilt from the objects. What the
//! answers depend on is the map alone, so a rebuilt index and a maintained one answer alike. The
//! caller compares the exact deadline with the object before it clears a pin.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::{BuildHasherDefault, Hasher};

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

use crate::model::ids::{ObjectRef, SHARD_COUNT};
use crate::model::{Deadline, Millis};

/// Below this length the heap is never compacted (RFC "TTL updates and stale heap entries").
pub const HEAP_FLOOR: usize = 4096;

const SHARD_BITS: u32 = SHARD_COUNT.trailing_zeros();

/// A deadline in two halves: 4-byte alignment makes an entry 12 bytes instead of 16.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Packed {
    high: u32,
    low: u32,
}

impl From<Deadline> for Packed {
    fn from(deadline: Deadline) -> Self {
        Packed { high: (deadline.0 >> 32) as u32, low: deadline.0 as u32 }
    }
}

impl From<Packed> for Deadline {
    fn from(packed: Packed) -> Self {
        Deadline(u64::from(packed.high) << 32 | u64::from(packed.low))
    }
}

/// Spreads object places over the map; fixed, so that equal histories cost alike on every node.
#[derive(Default)]
struct PlaceHasher(u64);

impl Hasher for PlaceHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u32(&mut self, place: u32) {
        // The map takes bucket bits from the bottom and tag bits from the top: both must be mixed.
        let product = u64::from(place).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ (product >> 32);
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

type Latest = HashMap<u32, Packed, BuildHasherDefault<PlaceHasher>>;
/// The second number is [`turned`]: it orders deadlines of one millisecond by shard, as on every node.
type HeapItem = Reverse<(Packed, u32)>;

/// An object's place with its shard in the upper bits and its slot in the lower ones.
fn turned(object: u32) -> u32 {
    object.rotate_right(SHARD_BITS)
}

/// The place that was turned.
fn turned_back(place: u32) -> u32 {
    place.rotate_left(SHARD_BITS)
}

/// The shard of a turned place.
fn shard_of_turned(place: u32) -> u16 {
    (place >> (u32::BITS - SHARD_BITS)) as u16
}

/// Deadlines of all active soft pins; see the file's head.
#[derive(Debug, Default)]
pub struct DeadlineIndex {
    /// Holds exactly the (object, deadline) of every object whose pin is active. Never iterated for
    /// an answer without sorting.
    latest: Latest,
    /// Superset of `latest`, in deadline order.
    heap: BinaryHeap<HeapItem>,
}

impl DeadlineIndex {
    /// An index without registrations.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers the deadline of an object in place of any earlier one. The same one again is a
    /// no-op.
    pub fn register(&mut self, deadline: Deadline, object: ObjectRef) {
        let packed = Packed::from(deadline);
        match self.latest.entry(object.0) {
            Entry::Occupied(entry) if *entry.get() == packed => return,
            Entry::Occupied(mut entry) => *entry.get_mut() = packed,
            Entry::Vacant(entry) => {
                entry.insert(packed);
            }
        }
        // Grow by an eighth, not by doubling: the slack of a doubled heap would cost 12 bytes a
        // pin.
        if self.heap.len() == self.heap.capacity() {
            self.heap.reserve_exact(self.heap.len() / 8 + 64);
        }
        self.heap.push(Reverse((packed, turned(object.0))));
        self.compact();
    }

    /// Removes an object's registration, whatever its deadline. Returns it.
    pub fn remove(&mut self, object: ObjectRef) -> Option<Deadline> {
        let gone = self.latest.remove(&object.0)?;
        self.settle_size();
        Some(gone.into())
    }

    /// Removes an object's registration only if it is this deadline. Returns whether it was.
    pub fn remove_if(&mut self, object: ObjectRef, deadline: Deadline) -> bool {
        let is_latest = self.latest.get(&object.0) == Some(&deadline.into());
        if is_latest {
            self.latest.remove(&object.0);
            self.settle_size();
        }
        is_latest
    }

    /// Takes the registrations due at `now`, at most `limit`, by ascending deadline, shard and slot.
    ///
    /// Fewer than `limit` means that nothing more is due. Costs O(log n) for each entry returned
    /// and for each stale one passed on the way.
    pub fn take_due(&mut self, now: Millis, limit: usize) -> Vec<(Deadline, ObjectRef)> {
        self.take_while(limit, |deadline, _| deadline.is_reached(now))
    }

    /// Takes the registrations due at `now` that lie before (`until`, `shards`) in the order of deadlines and
    /// shards: the same ones on every node. Costs as [`DeadlineIndex::take_due`].
    pub fn take_before(
        &mut self,
        until: Millis,
        shards: u16,
        now: Millis,
    ) -> Vec<(Deadline, ObjectRef)> {
        self.take_while(usize::MAX, |deadline, shard| {
            deadline.is_reached(now) && (deadline.0, shard) < (until.0, shards)
        })
    }

    fn take_while(
        &mut self,
        limit: usize,
        is_wanted: impl Fn(Deadline, u16) -> bool,
    ) -> Vec<(Deadline, ObjectRef)> {
        let mut taken = Vec::new();
        while taken.len() < limit {
            let Some(&Reverse((packed, place))) = self.heap.peek() else {
                break;
            };
            let deadline = Deadline::from(packed);
            if !is_wanted(deadline, shard_of_turned(place)) {
                break;
            }
            self.heap.pop();
            let object = turned_back(place);
            if self.latest.get(&object) == Some(&packed) {
                self.latest.remove(&object);
                taken.push((deadline, ObjectRef(object)));
            }
        }
        self.settle_size();
        taken
    }

    /// Up to where about `wanted` entries due at `now` lie, as a bound for [`DeadlineIndex::take_before`];
    /// more if so many have one deadline and one shard. `None` if nothing is due. Stale entries count, so a
    /// caller that wants progress drops them first, with [`DeadlineIndex::next_deadline`]. Costs
    /// O(wanted x log wanted).
    pub fn due_bound(&self, now: Millis, wanted: usize) -> Option<(Millis, u16)> {
        let first = self.heap.peek().filter(|item| Deadline::from(item.0.0).is_reached(now))?;
        let position = |item: &HeapItem| (item.0.0, shard_of_turned(item.0.1));
        let next = self.in_order().nth(wanted).map(|item| position(&item));
        Some(match next.map(|(packed, shard)| (Deadline::from(packed), shard)) {
            Some((deadline, shard)) if deadline.is_reached(now) => {
                let is_first = next == Some(position(first));
                (Millis(deadline.0), shard + u16::from(is_first))
            }
            // Nothing else is due.
            _ => (now, u16::MAX),
        })
    }

    /// The earliest registered deadline; drops stale entries that lie before it.
    pub fn next_deadline(&mut self) -> Option<Deadline> {
        while let Some(&Reverse((packed, place))) = self.heap.peek() {
            if self.latest.get(&turned_back(place)) == Some(&packed) {
                return Some(packed.into());
            }
            self.heap.pop();
        }
        None
    }

    /// The registered deadline of an object.
    pub fn get(&self, object: ObjectRef) -> Option<Deadline> {
        self.latest.get(&object.0).copied().map(Deadline::from)
    }

    /// Number of registrations: the number of active soft pins.
    pub fn len(&self) -> usize {
        self.latest.len()
    }

    /// Whether no soft pin is active.
    pub fn is_empty(&self) -> bool {
        self.latest.is_empty()
    }

    /// Entries of the heap, stale ones included.
    pub fn heap_len(&self) -> usize {
        self.heap.len()
    }

    /// The first `limit` registrations by ascending deadline, shard and slot, for listings. Costs O(log n) for
    /// each and for every stale entry that lies before the last of them.
    pub fn first_live(&self, limit: usize) -> Vec<(Deadline, ObjectRef)> {
        let mut live: Vec<(Deadline, ObjectRef)> = Vec::new();
        for Reverse((packed, place)) in self.in_order() {
            if live.len() >= limit {
                break;
            }
            let (deadline, object) = (Deadline::from(packed), ObjectRef(turned_back(place)));
            // A deadline that was left and taken again has two entries, one after the other.
            let is_first = live.last() != Some(&(deadline, object));
            if is_first && self.latest.get(&object.0) == Some(&packed) {
                live.push((deadline, object));
            }
        }
        live
    }

    /// Entries of the heap in their order, stale ones too.
    fn in_order(&self) -> impl Iterator<Item = HeapItem> + '_ {
        let items = self.heap.as_slice();
        // The entries next in turn: the children of those that have been passed.
        let mut frontier: BinaryHeap<_> =
            items.first().map(|first| (*first, 0)).into_iter().collect();
        std::iter::from_fn(move || {
            let (item, at) = frontier.pop()?;
            let children = [2 * at + 1, 2 * at + 2].into_iter();
            frontier.extend(children.filter_map(|child| Some((*items.get(child)?, child))));
            Some(item)
        })
    }

    /// Every registration, in no order, for checks.
    pub fn all_live(&self) -> impl Iterator<Item = (Deadline, ObjectRef)> + '_ {
        self.latest.iter().map(|(object, deadline)| ((*deadline).into(), ObjectRef(*object)))
    }

    /// Replaces everything by these registrations; of two for one object the later one counts.
    pub fn rebuild(&mut self, live: impl IntoIterator<Item = (Deadline, ObjectRef)>) {
        self.clear();
        for (deadline, object) in live {
            self.latest.insert(object.0, deadline.into());
        }
        self.latest.shrink_to_fit();
        self.rebuild_heap();
    }

    /// Forgets all registrations and gives their memory back.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    fn compact(&mut self) {
        let bound = self.latest.len().saturating_mul(2).max(HEAP_FLOOR);
        if self.heap.len() > bound {
            self.rebuild_heap();
        }
    }

    fn rebuild_heap(&mut self) {
        let mut items = Vec::with_capacity(self.latest.len());
        items.extend(self.latest.iter().map(|(o, d)| Reverse((*d, turned(*o)))));
        self.heap = BinaryHeap::from(items);
    }

    /// Compacts, and gives memory back once nearly all of it lies idle.
    fn settle_size(&mut self) {
        self.compact();
        // Not earlier: moving what is left stalls the caller, and a sixteenth is moved quickly.
        let is_idle = |len: usize, capacity: usize| capacity > HEAP_FLOOR && len < capacity / 16;
        if is_idle(self.heap.len(), self.heap.capacity()) {
            self.heap.shrink_to(self.heap.len() * 2);
        }
        if is_idle(self.latest.len(), self.latest.capacity()) {
            self.latest.shrink_to(self.latest.len() * 2);
        }
    }

    /// Bytes held, for the tests of the memory bound.
    #[cfg(test)]
    fn bytes(&self) -> usize {
        self.heap.capacity() * size_of::<HeapItem>() + self.latest.allocation_size()
    }
}

#[cfg(test)]
mod tests;
