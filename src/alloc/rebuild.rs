//! A consistent allocator from the live ranges alone, for a saved table that is damaged.
//!
//! Every range keeps its address, because a client's memory already holds the bytes there; node
//! numbers and the order of free lists are new. Guards: the result passes `check`, and each range
//! that could not be placed is reported with the reason, so that its object is given up rather than
//! overlapped.

use super::AllocatorFault;
use super::bins::{NONE, bin_up, size_of};
use super::offset::{Node, OffsetAllocator};
use super::table::Row;

/// A range that must keep its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveRange {
    /// Start in units.
    pub offset_units: u32,
    /// Bytes that were asked for.
    pub requested_bytes: u64,
    /// The owner to store in the node.
    pub owner: u32,
}

/// Why a live range got no node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    /// 0 bytes, or more than one region can have.
    #[error("the size is not one that can be allocated")]
    BadSize,
    /// It ends after the end of the segment.
    #[error("the range passes the end of the segment")]
    OutOfSegment,
    /// A range that starts earlier, or the same one given first, covers part of it.
    #[error("the range overlaps that of owner {with}")]
    Overlaps {
        /// Owner of the range that was placed.
        with: u32,
    },
    /// The segment has no node slots left.
    #[error("all node slots of the segment are taken")]
    NoSlot,
}

/// What [`rebuild`] made.
#[derive(Clone, Debug)]
pub struct Rebuilt {
    /// The allocator that holds every range that was placed.
    pub allocator: OffsetAllocator,
    /// Node of each range, in the order in which the ranges were given.
    pub nodes: Vec<Result<u32, Misfit>>,
}

/// Builds an allocator for a segment of `size` bytes at `base` from its live ranges.
///
/// Free space below low addresses is handed out first among ranges of one class.
/// Errors: [`AllocatorFault::BadRange`] as in [`OffsetAllocator::new`].
pub fn rebuild(base: u64, size: u64, live: &[LiveRange]) -> Result<Rebuilt, AllocatorFault> {
    let mut allocator = OffsetAllocator::without_nodes(base, size)?;
    let mut order: Vec<usize> = (0..live.len()).collect();
    order.sort_by_key(|&place| live.get(place).map(|range| range.offset_units));
    let mut nodes = vec![Err(Misfit::BadSize); live.len()];
    let mut layer = Layer::default();
    for place in order {
        let (Some(range), Some(node)) = (live.get(place), nodes.get_mut(place)) else {
            continue;
        };
        *node = allocator.lay_used(&mut layer, *range);
    }
    let end = allocator.size;
    allocator.lay_gap(&mut layer, end);
    // Highest address first: each goes to the head of its list, so the lowest is found first.
    for &index in layer.gaps.iter().rev() {
        allocator.enlist(index);
    }
    Ok(Rebuilt { allocator, nodes })
}

/// How far the segment has been laid out.
#[derive(Default)]
struct Layer {
    /// First unit not laid out yet.
    cursor: u32,
    /// Node that ends at `cursor`, with its owner if it is used.
    last: Option<(u32, Option<u32>)>,
    /// Free nodes by ascending address; they enter their lists at the end.
    gaps: Vec<u32>,
}

impl OffsetAllocator {
    fn lay_used(&mut self, layer: &mut Layer, range: LiveRange) -> Result<u32, Misfit> {
        let units = self.units_of(range.requested_bytes);
        let size = size_of(bin_up(units.ok_or(Misfit::BadSize)?));
        let end = u64::from(range.offset_units) + u64::from(size);
        if end > u64::from(self.size) {
            return Err(Misfit::OutOfSegment);
        }
        if range.offset_units < layer.cursor {
            let with = layer.last.and_then(|(_, owner)| owner).unwrap_or(NONE);
            return Err(Misfit::Overlaps { with });
        }
        // A gap before, this node and a gap behind.
        if self.slots_max - self.taken < 3 {
            return Err(Misfit::NoSlot);
        }
        self.lay_gap(layer, range.offset_units);
        let node = Node {
            offset: range.offset_units,
            size,
            tag: range.owner,
            requested: range.requested_bytes,
            ..Node::blank(0)
        };
        let index = self.lay(layer, node);
        layer.last = Some((index, Some(range.owner)));
        self.used_bytes += range.requested_bytes;
        self.used_count += 1;
        Ok(index)
    }

    /// Covers `[cursor, until)`, if not empty, with a free node that stands in no list yet.
    fn lay_gap(&mut self, layer: &mut Layer, until: u32) {
        let (offset, size) = (layer.cursor, until - layer.cursor);
        if size == 0 {
            return;
        }
        let node = Node { offset, size, ..Node::blank(0) };
        let index = self.lay(layer, node);
        layer.gaps.push(index);
    }

    fn lay(&mut self, layer: &mut Layer, node: Node) -> u32 {
        let index = self.take_slot();
        self.slots = self.slots.max(self.taken);
        self.nodes.set(index, node);
        if let Some((last, _)) = layer.last {
            self.link(last, index);
        }
        layer.last = Some((index, None));
        layer.cursor = node.offset + node.size;
        index
    }
}
