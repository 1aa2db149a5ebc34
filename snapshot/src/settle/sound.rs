//! Whether an image is consistent as it is, found out shard by shard while it is read.
//!
//! The usual snapshot has nothing to settle, and then one look at each object suffices: every
//! allocation is a used node of a sound table, no two are the same node, and there are no others. A
//! sound table's nodes do not overlap, so neither do the allocations. Guards: says yes only where
//! settling would change and find nothing. Anything else is `memory`'s business, which looks again.

use std::collections::BTreeMap;

use super::memory::{Geometry, geometries};
use crate::finding::Findings;
use crate::halves::in_halves;
use crate::image::{
    Globals, NodeTableImage, ObjectImage, ReplicaImage, ReplicaPlace, SegmentImage, Uuid,
};
use crate::table;

/// Segments that objects are compared with.
pub(super) struct Ground<'g> {
    globals: &'g Globals,
    /// Place in the list of segments, and what a handle is judged by.
    segments: BTreeMap<Uuid, (usize, Geometry)>,
}

impl<'g> Ground<'g> {
    /// The segments of an image; `None` if one of them must be settled.
    pub fn of(globals: &'g Globals) -> Option<Self> {
        let mut findings = Findings::default();
        let geometries = geometries(globals, &mut findings);
        if findings.total() > 0 {
            return None;
        }
        let places = globals.segments.segments.iter().enumerate();
        let places = places.map(|(place, segment)| {
            let geometry = geometries.get(&segment.id)?;
            Some((segment.id, (place, *geometry)))
        });
        Some(Ground { globals, segments: places.collect::<Option<_>>()? })
    }

    fn table(&self, place: usize) -> Option<&NodeTableImage> {
        let segment = self.globals.segments.segments.get(place)?;
        Some(&segment.allocator.as_ref()?.offset.table)
    }

    /// Whether the objects seen, with the discarded replicas, and the allocators agree. Answers the
    /// greatest id of a replica then.
    pub fn agrees(&self, seen: Vec<Seen>) -> Option<u64> {
        let mut all = Seen::new(self);
        for item in &self.globals.discarded {
            all.item(self, &item.replicas);
        }
        seen.into_iter().for_each(|half| all.append(half));
        let last_id = all.last_id?;
        let segments: Vec<_> = self.globals.segments.segments.iter().zip(all.claimed).collect();
        let nodes = |(segment, _): &(&SegmentImage, Claimed)| {
            segment.allocator.as_ref().map_or(0, |found| found.offset.table.nodes.len() as u64)
        };
        let is_sound = |some: Vec<(&SegmentImage, Claimed)>| {
            some.into_iter().all(|(segment, claimed)| claimed.is_all_of(segment))
        };
        in_halves(segments, nodes, is_sound).into_iter().all(|half| half).then_some(last_id)
    }
}

/// The allocations of one segment that are spoken for.
#[derive(Clone, Default)]
struct Claimed {
    /// A bit for each node.
    nodes: Vec<u64>,
    count: u64,
    bytes: u64,
}

impl Claimed {
    /// Notes a node; false if it was noted before.
    fn add(&mut self, node: u32, bytes: u64) -> bool {
        let Some(word) = self.nodes.get_mut(node as usize / 64) else { return false };
        let bit = 1 << (node % 64);
        let is_new = *word & bit == 0;
        *word |= bit;
        self.count += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        is_new
    }

    /// Notes what another thread has noted; false if both have noted a node.
    fn append(&mut self, other: &Claimed) -> bool {
        let mut is_new = true;
        for (word, more) in self.nodes.iter_mut().zip(&other.nodes) {
            is_new &= *word & more == 0;
            *word |= more;
        }
        self.count += other.count;
        self.bytes = self.bytes.saturating_add(other.bytes);
        is_new
    }

    /// Whether these are exactly the allocations of a sound allocator.
    fn is_all_of(&self, segment: &SegmentImage) -> bool {
        let Some(allocator) = &segment.allocator else { return false };
        let offset = &allocator.offset;
        let Ok(is_region) = table::regions(&offset.table) else { return false };
        let nodes = offset.table.nodes.iter().zip(is_region);
        // A used node outside of the walk would be an allocation that overlaps others.
        let used = nodes.filter(|(node, _)| node.used);
        let (count, is_sound) =
            used.fold((0, true), |(count, sound), (_, region)| (count + 1, sound && region));
        is_sound
            && count == self.count
            && (offset.allocation_count, offset.allocated_bytes) == (self.count, self.bytes)
            && allocator.used_bytes == self.bytes
    }
}

/// What one thread has seen.
pub(super) struct Seen {
    claimed: Vec<Claimed>,
    /// The greatest id of a replica; `None` once something was seen that must be settled.
    last_id: Option<u64>,
}

impl Seen {
    /// Nothing yet.
    pub fn new(ground: &Ground<'_>) -> Self {
        let nodes = |place| ground.table(place).map_or(0, |table| table.nodes.len());
        let claimed =
            |place| Claimed { nodes: vec![0; nodes(place).div_ceil(64)], ..Claimed::default() };
        let claimed = (0..ground.globals.segments.segments.len()).map(claimed).collect();
        Seen { claimed, last_id: Some(0) }
    }

    /// Looks at the objects of a shard.
    pub fn shard(&mut self, ground: &Ground<'_>, objects: &[ObjectImage]) {
        objects.iter().for_each(|object| self.item(ground, &object.replicas));
    }

    /// Looks at the replicas of an object or of a discarded item, which has some.
    fn item(&mut self, ground: &Ground<'_>, replicas: &[ReplicaImage]) {
        if replicas.is_empty() {
            self.last_id = None;
        }
        for replica in replicas {
            let Some(last_id) = self.last_id else { return };
            self.last_id = match self.claims(ground, replica) {
                true => Some(last_id.max(replica.id)),
                false => None,
            };
        }
    }

    /// Whether a replica is a used node that nobody has claimed, or lies elsewhere.
    fn claims(&mut self, ground: &Ground<'_>, replica: &ReplicaImage) -> bool {
        let ReplicaPlace::Memory { size, address, segment, handle } = &replica.place else {
            return true;
        };
        let (Some(handle), Some((place, geometry))) = (handle, ground.segments.get(segment)) else {
            return false;
        };
        let Ok(live) = geometry.range(*size, *address, handle) else { return false };
        let table = ground.table(*place);
        let node = table.and_then(|table| table.nodes.get(live.node as usize));
        let is_live = node
            .is_some_and(|node| node.used && node.offset == live.offset && node.size == live.size);
        let claimed = self.claimed.get_mut(*place);
        is_live && claimed.is_some_and(|claimed| claimed.add(live.node, *size))
    }

    fn append(&mut self, other: Seen) {
        let mut is_new = true;
        for (own, more) in self.claimed.iter_mut().zip(&other.claimed) {
            is_new &= own.append(more);
        }
        let last_id = self.last_id.zip(other.last_id).filter(|_| is_new);
        self.last_id = last_id.map(|(own, other)| own.max(other));
    }
}
