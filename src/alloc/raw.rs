//! The allocator as the peer saves it, and back.
//!
//! `raw` writes every field of snapshot format 7.4; `from_raw` accepts a table only when all of it
//! is consistent and every used node has exactly one handle, so that the restored allocator answers
//! as the saved one would. What the peer leaves behind in slots that hold no node is not kept:
//! nothing reads it, and such slots cost no memory here. Damaged tables go to `rebuild.rs`.

use super::AllocatorFault;
use super::bins::{BINS, NONE, bin_up, size_of};
use super::offset::{Node, OffsetAllocator, SLOTS_MAX};
use super::table::Row;

/// One row of the node table. [`NONE`] stands for a missing link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawNode {
    /// Whether the range is allocated.
    pub used: bool,
    /// Start in units.
    pub offset: u32,
    /// Length in units.
    pub size: u32,
    /// Previous free node of the class.
    pub bin_prev: u32,
    /// Next free node of the class; in a used node a left-over.
    pub bin_next: u32,
    /// Neighbour before.
    pub left: u32,
    /// Neighbour after.
    pub right: u32,
}

/// All fields of snapshot format 7.4; sizes in units unless said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawAllocator {
    /// Address of the segment.
    pub base: u64,
    /// A unit is `1 << unit_bits` bytes.
    pub unit_bits: u32,
    /// Bytes of the segment.
    pub capacity: u64,
    /// Bytes asked for by live allocations.
    pub allocated_bytes: u64,
    /// Number of live allocations.
    pub allocation_count: u64,
    /// Units managed.
    pub size: u32,
    /// Rows of the node table and of the stack.
    pub slots: u32,
    /// Greatest number of rows.
    pub slots_max: u32,
    /// Sum of free ranges.
    pub free_units: u32,
    /// Bit `t` set: some list of group `t` is not empty.
    pub top_mask: u32,
    /// One mask of eight lists a group.
    pub leaf_masks: [u8; 32],
    /// Head of each list.
    pub heads: [u32; BINS],
    /// The node table, `slots` rows.
    pub nodes: Vec<RawNode>,
    /// The stack of slots, `slots` entries.
    pub stack: Vec<u32>,
    /// Entries of the stack that are taken; the next slot is `stack[free_offset]`.
    pub free_offset: u32,
}

/// The claim of an object on a node of a saved table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle {
    /// Number of the node.
    pub node: u32,
    /// Start of the range in units; must be the node's.
    pub offset_units: u32,
    /// Bytes that were asked for.
    pub requested_bytes: u64,
    /// The owner to store in the node.
    pub owner: u32,
}

impl OffsetAllocator {
    /// The table as the peer saves it; costs in proportion to the slots.
    pub fn raw(&self) -> RawAllocator {
        let rows = (0..self.slots).map(|index| {
            let node = self.nodes.get(index);
            RawNode {
                used: node.is_used(),
                offset: node.offset,
                size: node.size,
                bin_prev: if node.is_used() { NONE } else { node.tag },
                bin_next: node.bin_next,
                left: node.left,
                right: node.right,
            }
        });
        RawAllocator {
            base: self.base,
            unit_bits: self.unit_bits,
            capacity: self.capacity,
            allocated_bytes: self.used_bytes,
            allocation_count: self.used_count,
            size: self.size,
            slots: self.slots,
            slots_max: self.slots_max,
            free_units: self.free_units,
            top_mask: self.lists.top,
            leaf_masks: self.lists.leaves,
            heads: self.lists.heads,
            nodes: rows.collect(),
            stack: (0..self.slots).map(|at| self.stack.get(at)).collect(),
            free_offset: self.taken,
        }
    }

    /// The allocator of a saved table, with the handles of all objects that live in it.
    ///
    /// Errors: the first [`AllocatorFault`] found, in the order head, stack, nodes, handles, then
    /// everything that [`OffsetAllocator::check`] proves.
    pub fn from_raw(
        raw: &RawAllocator,
        handles: impl IntoIterator<Item = Handle>,
    ) -> Result<Self, AllocatorFault> {
        let mut allocator = Self::without_nodes(raw.base, raw.capacity)?;
        allocator.check_head(raw)?;
        allocator.slots = raw.slots;
        allocator.slots_max = raw.slots_max;
        allocator.taken = raw.free_offset;
        allocator.free_units = raw.free_units;
        allocator.used_bytes = raw.allocated_bytes;
        allocator.used_count = raw.allocation_count;
        allocator.lists.top = raw.top_mask;
        allocator.lists.leaves = raw.leaf_masks;
        allocator.lists.heads = raw.heads;
        let is_live = live_slots(raw)?;
        for (at, slot) in (0..).zip(&raw.stack) {
            if *slot != at {
                allocator.stack.set(at, *slot);
            }
        }
        let rows = (0..).zip(raw.nodes.iter().zip(is_live));
        let live = rows.filter(|(_, (_, is_live))| *is_live);
        let mut unclaimed = Vec::new();
        for (index, (row, _)) in live {
            allocator.nodes.set(index, node_of(index, row)?);
            if row.used {
                unclaimed.push(index);
            }
        }
        for handle in handles {
            allocator.claim(raw, handle)?;
        }
        let is_unclaimed = |index: &&u32| !allocator.nodes.get(**index).is_used();
        if let Some(&node) = unclaimed.iter().find(is_unclaimed) {
            return Err(AllocatorFault::NoHandle { node });
        }
        match allocator.check().into_iter().next() {
            Some(fault) => Err(fault),
            None => Ok(allocator),
        }
    }

    fn check_head(&self, raw: &RawAllocator) -> Result<(), AllocatorFault> {
        let equal = [
            ("unit bits", raw.unit_bits.into(), self.unit_bits.into()),
            ("size", raw.size.into(), self.size.into()),
            ("node rows", raw.nodes.len() as u64, raw.slots.into()),
            ("stack entries", raw.stack.len() as u64, raw.slots.into()),
        ];
        let at_most = [
            ("max slots", raw.slots_max, SLOTS_MAX),
            ("slots", raw.slots, raw.slots_max),
            ("free offset", raw.free_offset, raw.slots),
        ]
        .map(|(field, found, limit)| (field, u64::from(found), u64::from(limit)));
        let differs = equal.iter().find(|(_, found, wanted)| found != wanted);
        let exceeds = at_most.iter().find(|(_, found, limit)| found > limit);
        match differs.or(exceeds) {
            Some(&(field, found, expected)) => {
                Err(AllocatorFault::BadField { field, found, expected })
            }
            None => Ok(()),
        }
    }

    fn claim(&mut self, raw: &RawAllocator, handle: Handle) -> Result<(), AllocatorFault> {
        let Handle { node, owner, .. } = handle;
        let found = self.nodes.get(node);
        if found.is_used() {
            let first = found.tag;
            return Err(AllocatorFault::TwoHandles { node, first, second: owner });
        }
        let row = raw.nodes.get(node as usize);
        let is_used = found.size != 0 && row.is_some_and(|row| row.used);
        if !is_used || found.offset != handle.offset_units {
            return Err(AllocatorFault::StrayHandle { node, owner });
        }
        let bytes = handle.requested_bytes;
        let units = self.units_of(bytes);
        if units.is_none_or(|units| size_of(bin_up(units)) != found.size) {
            return Err(AllocatorFault::WrongSize { node, owner, bytes });
        }
        self.nodes.update(node, |node| {
            node.tag = owner;
            node.requested = bytes;
        });
        Ok(())
    }
}

/// Which slots hold a node: those that the open part of the stack does not name.
fn live_slots(raw: &RawAllocator) -> Result<Vec<bool>, AllocatorFault> {
    let mut is_live = vec![true; raw.nodes.len()];
    let open = (0..).zip(&raw.stack).skip(raw.free_offset as usize);
    for (at, &slot) in open {
        let fault = |why| AllocatorFault::BadStack { at, slot, why };
        match is_live.get_mut(slot as usize) {
            Some(live) if *live => *live = false,
            Some(_) => return Err(fault("listed twice")),
            None => return Err(fault("out of range")),
        }
    }
    Ok(is_live)
}

/// The node of a live row, not yet claimed by a handle.
fn node_of(index: u32, row: &RawNode) -> Result<Node, AllocatorFault> {
    let fault = |what| Err(AllocatorFault::BadNode { node: index, what });
    if row.size == 0 {
        return fault("holds a slot but has no units");
    }
    if row.used && row.bin_prev != NONE {
        return fault("is used but stands in a free list");
    }
    Ok(Node {
        offset: row.offset,
        size: row.size,
        tag: row.bin_prev,
        bin_next: row.bin_next,
        left: row.left,
        right: row.right,
        ..Node::blank(index)
    })
}
