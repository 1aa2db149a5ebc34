//! The offset allocator of one segment: the same addresses for the same requests as the peer.
//!
//! Nodes are ranges of units; they tile the segment, each linked to its neighbours, free ones also
//! into the list of their class. Guards: no two used ranges overlap, neighbouring free ranges are
//! merged, and a clone (or a saved and restored table) answers every later request alike. Every
//! used node carries the handle of its owner, so that a lost segment finds its objects without a
//! walk over all objects. Saving and restoring is `raw.rs`, proving is `audit.rs`. Rule: behaviour
//! 6.6, snapshot format 7.5.

use super::AllocatorFault;
use super::bins::{FreeLists, NONE, UNITS_MAX, bin_down, bin_up, size_of};
use super::table::{LazyTable, Row};

/// Bounds of the initial number of node slots (one per 4 KiB between them).
const SLOTS_INITIAL: (u64, u64) = (1024, 65_536);

/// Bounds of the greatest number of node slots (one per KiB between them).
const SLOTS_LIMIT: (u64, u64) = (1 << 20, 1 << 26);

/// The greatest number of node slots that any segment may have.
pub const SLOTS_MAX: u32 = SLOTS_LIMIT.1 as u32;

/// A range that was handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Number of the node; names the allocation in [`OffsetAllocator::free`].
    pub node: u32,
    /// Start of the range in units of the segment.
    pub offset_units: u32,
}

/// A used node as the iterators show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsedNode {
    /// Number of the node.
    pub node: u32,
    /// Start in units.
    pub offset_units: u32,
    /// Length in units, rounded up to a size class.
    pub size_units: u32,
    /// Bytes that were asked for.
    pub requested_bytes: u64,
    /// Handle given at allocation or by [`OffsetAllocator::set_owner`].
    pub owner: u32,
}

/// The node was not in use: freed twice, or never allocated here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("node {node} of the segment is not allocated")]
pub struct NotAllocated {
    /// Number of the node.
    pub node: u32,
}

/// One range of units. A blank slot has size 0; a used node has `requested > 0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) offset: u32,
    pub(super) size: u32,
    /// Free: the previous node of the class list. Used: the owner (the peer keeps "none" here).
    pub(super) tag: u32,
    /// Free: the next node of the class list. Used: what it was when the node left its list;
    /// nothing reads it, but the peer saves it, so an equal table keeps it.
    pub(super) bin_next: u32,
    pub(super) left: u32,
    pub(super) right: u32,
    pub(super) requested: u64,
}

impl Node {
    pub(super) fn is_used(&self) -> bool {
        self.requested != 0
    }

    pub(super) fn is_free(&self) -> bool {
        self.size != 0 && self.requested == 0
    }

    /// First unit after the range.
    pub(super) fn end(&self) -> u64 {
        u64::from(self.offset) + u64::from(self.size)
    }

    fn shown(&self, node: u32) -> UsedNode {
        UsedNode {
            node,
            offset_units: self.offset,
            size_units: self.size,
            requested_bytes: self.requested,
            owner: self.tag,
        }
    }
}

impl Row for Node {
    fn blank(_: u32) -> Self {
        Node {
            offset: 0,
            size: 0,
            tag: NONE,
            bin_next: NONE,
            left: NONE,
            right: NONE,
            requested: 0,
        }
    }

    fn is_blank(&self, _: u32) -> bool {
        self.size == 0
    }
}

/// Allocates ranges of one segment. Cloning costs pointers: chunks of nodes are copied when
/// written.
#[derive(Clone, Debug)]
pub struct OffsetAllocator {
    /// `base + capacity` does not overflow.
    pub(super) base: u64,
    /// Bytes of the segment; at least 1.
    pub(super) capacity: u64,
    /// A unit is `1 << unit_bits` bytes; the least for which `capacity >> unit_bits <= UNITS_MAX`.
    pub(super) unit_bits: u32,
    /// Units managed: `capacity >> unit_bits`.
    pub(super) size: u32,
    /// Slots of the node table as the peer counts them; `taken <= slots <= slots_max`.
    pub(super) slots: u32,
    pub(super) slots_max: u32,
    /// Slots that hold a node; `stack[taken..slots]` are exactly the others, next one first.
    pub(super) taken: u32,
    /// Sum of the sizes of free nodes.
    pub(super) free_units: u32,
    /// Sum of the bytes asked for.
    pub(super) used_bytes: u64,
    /// Number of used nodes.
    pub(super) used_count: u64,
    pub(super) lists: Box<FreeLists>,
    pub(super) nodes: LazyTable<Node, 223>,
    pub(super) stack: LazyTable<u32, 890>,
}

impl OffsetAllocator {
    /// An empty segment of `size` bytes at address `base`.
    ///
    /// Errors: [`AllocatorFault::BadRange`] if `size` is 0 or the range passes the end of the
    /// address space.
    pub fn new(base: u64, size: u64) -> Result<Self, AllocatorFault> {
        let mut allocator = Self::without_nodes(base, size)?;
        allocator.insert_free(0, allocator.size);
        Ok(allocator)
    }

    /// An allocator whose units nobody owns yet: neither used nor free.
    pub(super) fn without_nodes(base: u64, capacity: u64) -> Result<Self, AllocatorFault> {
        if capacity == 0 || base.checked_add(capacity).is_none() {
            return Err(AllocatorFault::BadRange { base, capacity });
        }
        let unit_bits = unit_bits_of(capacity);
        let clamp = |value: u64, (low, high): (u64, u64)| value.clamp(low, high) as u32;
        Ok(OffsetAllocator {
            base,
            capacity,
            unit_bits,
            size: (capacity >> unit_bits) as u32,
            slots: clamp(capacity / 4096, SLOTS_INITIAL),
            slots_max: clamp(capacity / 1024, SLOTS_LIMIT),
            taken: 0,
            free_units: 0,
            used_bytes: 0,
            used_count: 0,
            lists: Box::new(FreeLists::new()),
            nodes: LazyTable::new(),
            stack: LazyTable::new(),
        })
    }

    /// Takes a range of at least `bytes` bytes for `owner`, an opaque handle of the caller.
    ///
    /// `None` if `bytes` is 0 or above the greatest region, if no free range of a sufficient class
    /// exists (a free range of exactly the size may not count, behaviour 6.6), or if all node slots
    /// are taken.
    pub fn allocate(&mut self, bytes: u64, owner: u32) -> Option<Allocation> {
        let class = bin_up(self.units_of(bytes)?);
        if self.taken == self.slots_max {
            return None;
        }
        if self.taken == self.slots {
            // The new slot's stack entry is its own number: what a blank row of the stack reads as.
            self.slots += 1;
            self.stack.set(self.slots - 1, self.slots - 1);
        }
        let bin = self.lists.first_at_least(class)?;
        let index = self.lists.head(bin);
        let found = self.nodes.get(index);
        self.lists.set_head(bin, found.bin_next);
        if found.bin_next != NONE {
            self.nodes.update(found.bin_next, |node| node.tag = NONE);
        }
        self.free_units -= found.size;
        let size = size_of(class);
        let mut right = found.right;
        if found.size > size {
            right = self.insert_free(found.offset + size, found.size - size);
            self.link(index, right);
            self.link(right, found.right);
        }
        self.nodes.update(index, |node| {
            node.size = size;
            node.tag = owner;
            node.right = right;
            node.requested = bytes;
        });
        self.used_bytes += bytes;
        self.used_count += 1;
        Some(Allocation { node: index, offset_units: found.offset })
    }

    /// Gives a range back and returns the bytes that were asked for.
    ///
    /// Errors: [`NotAllocated`] if the node is not in use; nothing changes then.
    pub fn free(&mut self, node: u32) -> Result<u64, NotAllocated> {
        let gone = self.nodes.get(node);
        if !gone.is_used() {
            return Err(NotAllocated { node });
        }
        let Node { mut offset, mut size, mut left, mut right, .. } = gone;
        // The order in which slots return (left, right, self) decides which slot is used next.
        let before = self.nodes.get(left);
        if before.is_free() {
            self.unlist(left, &before);
            offset = before.offset;
            size += before.size;
            left = before.left;
        }
        let after = self.nodes.get(right);
        if after.is_free() {
            self.unlist(right, &after);
            size += after.size;
            right = after.right;
        }
        self.return_slot(node);
        let merged = self.insert_free(offset, size);
        self.link(left, merged);
        self.link(merged, right);
        self.used_bytes -= gone.requested;
        self.used_count -= 1;
        Ok(gone.requested)
    }

    /// The address of the first byte of an allocation of this allocator.
    pub fn address(&self, allocation: Allocation) -> u64 {
        self.address_of(allocation.offset_units)
    }

    /// The address of a unit of the segment.
    pub fn address_of(&self, offset_units: u32) -> u64 {
        self.base.wrapping_add(u64::from(offset_units) << self.unit_bits)
    }

    /// The used node of that number, if it is one.
    pub fn used_node(&self, node: u32) -> Option<UsedNode> {
        let found = self.nodes.get(node);
        found.is_used().then(|| found.shown(node))
    }

    /// The owner of a used node; `None` for any other.
    pub fn owner(&self, node: u32) -> Option<u32> {
        self.used_node(node).map(|used| used.owner)
    }

    /// Gives a used node to another owner.
    ///
    /// Errors: [`NotAllocated`] if the node is not in use.
    pub fn set_owner(&mut self, node: u32, owner: u32) -> Result<(), NotAllocated> {
        if !self.nodes.get(node).is_used() {
            return Err(NotAllocated { node });
        }
        self.nodes.update(node, |node| node.tag = owner);
        Ok(())
    }

    /// The used nodes by ascending node number; costs in proportion to the nodes ever live at once.
    pub fn used(&self) -> impl Iterator<Item = UsedNode> + '_ {
        let used = self.nodes.iter().filter(|(_, node)| node.is_used());
        used.map(|(index, node)| node.shown(index))
    }

    /// The used nodes by ascending address.
    pub fn used_by_address(&self) -> impl Iterator<Item = UsedNode> + '_ {
        let first = self.nodes.iter().find(|(_, node)| node.offset == 0);
        let nodes =
            std::iter::successors(first.map(|(index, node)| (index, *node)), |(_, node)| {
                (node.right != NONE).then(|| (node.right, self.nodes.get(node.right)))
            });
        nodes.filter(|(_, node)| node.is_used()).map(|(index, node)| node.shown(index))
    }

    /// Address of the segment.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Bytes of the segment.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Bytes asked for by what is allocated now; rounding is not counted (behaviour 6.6,
    /// accounting).
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    /// Number of allocations that are live now.
    pub fn used_count(&self) -> u64 {
        self.used_count
    }

    /// No request above this many bytes can succeed now; 0 when nothing is free.
    pub fn largest_free_upper_bound(&self) -> u64 {
        let units = self.lists.highest().map_or(0, size_of);
        u64::from(units) << self.unit_bits
    }

    /// Bytes of one unit.
    pub fn unit_bytes(&self) -> u64 {
        1 << self.unit_bits
    }

    /// Units that a request needs; `None` for 0 bytes and above [`UNITS_MAX`].
    pub(super) fn units_of(&self, bytes: u64) -> Option<u32> {
        let units = bytes.div_ceil(1 << self.unit_bits);
        let units = u32::try_from(units).ok()?;
        (1..=UNITS_MAX).contains(&units).then_some(units)
    }

    /// Puts a free range into the next slot and its class; the caller links the neighbours.
    pub(super) fn insert_free(&mut self, offset: u32, size: u32) -> u32 {
        let index = self.take_slot();
        let node = Node { offset, size, ..Node::blank(index) };
        self.nodes.set(index, node);
        self.enlist(index);
        index
    }

    /// Makes a free node, not in any list yet, the head of its class.
    pub(super) fn enlist(&mut self, index: u32) {
        let size = self.nodes.get(index).size;
        let bin = bin_down(size);
        let head = self.lists.head(bin);
        self.nodes.update(index, |node| node.bin_next = head);
        if head != NONE {
            self.nodes.update(head, |node| node.tag = index);
        }
        self.lists.set_head(bin, index);
        self.free_units += size;
    }

    /// Takes a free node out of its class and gives its slot back.
    fn unlist(&mut self, index: u32, node: &Node) {
        if node.tag == NONE {
            self.lists.set_head(bin_down(node.size), node.bin_next);
        } else {
            self.nodes.update(node.tag, |prev| prev.bin_next = node.bin_next);
        }
        if node.bin_next != NONE {
            self.nodes.update(node.bin_next, |next| next.tag = node.tag);
        }
        self.free_units -= node.size;
        self.return_slot(index);
    }

    /// Makes two nodes neighbours; either may be [`NONE`].
    pub(super) fn link(&mut self, left: u32, right: u32) {
        if left != NONE {
            self.nodes.update(left, |node| node.right = right);
        }
        if right != NONE {
            self.nodes.update(right, |node| node.left = left);
        }
    }

    pub(super) fn take_slot(&mut self) -> u32 {
        let index = self.stack.get(self.taken);
        self.taken += 1;
        index
    }

    fn return_slot(&mut self, index: u32) {
        self.taken -= 1;
        self.stack.set(self.taken, index);
        self.nodes.set(index, Node::blank(index));
    }
}

/// The least shift that brings a segment below [`UNITS_MAX`] units.
fn unit_bits_of(capacity: u64) -> u32 {
    let mut bits = 0;
    while capacity >> bits > u64::from(UNITS_MAX) {
        bits += 1;
    }
    bits
}
