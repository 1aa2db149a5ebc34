//! Proves that a table is consistent: the one walk behind both `check` and `from_raw`.
//!
//! Trusts no link: every number is looked up in the table, where an index out of range reads as a
//! blank slot, and every walk is bounded by the number of nodes. Reports, never repairs.

use super::AllocatorFault;
use super::bins::{BINS, NONE, USABLE_BINS, bin_down, bin_up, size_of};
use super::offset::{Node, OffsetAllocator};
use super::table::Row;

/// Faults that one check reports; more say nothing new about a damaged table.
const FINDINGS_MAX: usize = 16;

/// Collects faults up to [`FINDINGS_MAX`].
struct Findings(Vec<AllocatorFault>);

impl Findings {
    fn add(&mut self, fault: AllocatorFault) {
        if self.0.len() < FINDINGS_MAX {
            self.0.push(fault);
        }
    }

    fn node(&mut self, node: u32, is_right: bool, what: &'static str) {
        if !is_right {
            self.add(AllocatorFault::BadNode { node, what });
        }
    }

    fn list(&mut self, bin: u32, is_right: bool, what: &'static str) {
        if !is_right {
            self.add(AllocatorFault::BadList { bin, what });
        }
    }

    fn sum(&mut self, sum: &'static str, kept: u64, counted: u64) {
        if kept != counted {
            self.add(AllocatorFault::BadSum { sum, kept, counted });
        }
    }
}

impl OffsetAllocator {
    /// Every invariant of the allocator, walked; empty if all hold. At most 16 findings.
    ///
    /// Used and free ranges tile the segment, neighbours are linked and free ones merged, lists,
    /// masks and sums agree with the nodes, and the stack holds exactly the slots without a node.
    pub fn check(&self) -> Vec<AllocatorFault> {
        let mut findings = Findings(Vec::new());
        let mut order: Vec<(u32, Node)> = self.nodes.iter().map(|(i, node)| (i, *node)).collect();
        order.sort_by_key(|(_, node)| node.offset);
        self.check_tiling(&order, &mut findings);
        let free_nodes = order.iter().filter(|(_, node)| node.is_free()).count();
        self.check_lists(free_nodes, &mut findings);
        self.check_sums(&order, &mut findings);
        self.check_stack(order.len() as u64, &mut findings);
        findings.0
    }

    fn check_tiling(&self, order: &[(u32, Node)], findings: &mut Findings) {
        let mut unit = 0;
        let mut left = NONE;
        let mut left_is_free = false;
        let rights = order.iter().skip(1).map(|(index, _)| *index);
        for ((index, node), right) in order.iter().zip(rights.chain([NONE])) {
            if u64::from(node.offset) != unit {
                findings.add(AllocatorFault::NotTiled { unit });
            }
            findings.node(*index, *index < self.slots, "lies outside the table");
            findings.node(*index, node.left == left, "has a wrong left neighbour");
            findings.node(*index, node.right == right, "has a wrong right neighbour");
            let is_merged = !(left_is_free && node.is_free());
            findings.node(*index, is_merged, "is free beside a free neighbour");
            if node.is_used() {
                let size = self.units_of(node.requested).map(|u| size_of(bin_up(u)));
                let fits = size == Some(node.size);
                findings.node(*index, fits, "has a size that its bytes do not round to");
            }
            unit = node.end();
            left = *index;
            left_is_free = node.is_free();
        }
        if unit != u64::from(self.size) {
            findings.add(AllocatorFault::NotTiled { unit });
        }
    }

    fn check_lists(&self, free_nodes: usize, findings: &mut Findings) {
        let mut listed = 0;
        for (bin, &head) in (0..BINS as u32).zip(&self.lists.heads) {
            let leaves = self.lists.leaves.get((bin >> 3) as usize);
            let is_marked = leaves.is_some_and(|leaves| leaves >> (bin & 7) & 1 == 1);
            findings.list(bin, is_marked == (head != NONE), "mask and head differ");
            let is_possible = head == NONE || bin < USABLE_BINS as u32;
            findings.list(bin, is_possible, "no size falls into this class");
            let (mut index, mut previous) = (head, NONE);
            while index != NONE && listed <= free_nodes {
                let node = self.nodes.get(index);
                let is_right =
                    node.is_free() && u32::from(bin_down(node.size)) == bin && node.tag == previous;
                if !is_right {
                    findings.node(index, false, "does not belong where its free list has it");
                    break;
                }
                listed += 1;
                (previous, index) = (index, node.bin_next);
            }
        }
        for (group, &leaves) in (0..32_u32).zip(&self.lists.leaves) {
            let is_marked = self.lists.top >> group & 1 == 1;
            findings.list(group * 8, is_marked == (leaves != 0), "group mask differs");
        }
        findings.sum("listed free ranges", listed as u64, free_nodes as u64);
    }

    fn check_sums(&self, order: &[(u32, Node)], findings: &mut Findings) {
        let (mut free_units, mut used_bytes, mut used_count) = (0_u64, 0_u64, 0);
        for (_, node) in order {
            if node.is_used() {
                used_bytes = used_bytes.saturating_add(node.requested);
                used_count += 1;
            } else {
                free_units += u64::from(node.size);
            }
        }
        findings.sum("free units", self.free_units.into(), free_units);
        findings.sum("allocated bytes", self.used_bytes, used_bytes);
        findings.sum("allocations", self.used_count, used_count);
    }

    fn check_stack(&self, nodes: u64, findings: &mut Findings) {
        findings.sum("slots taken", self.taken.into(), nodes);
        let mut is_listed = vec![false; self.slots as usize];
        for at in self.taken..self.slots {
            let slot = self.stack.get(at);
            let why = match is_listed.get_mut(slot as usize) {
                None => Some("out of range"),
                Some(true) => Some("listed twice"),
                Some(listed) => {
                    *listed = true;
                    let is_blank = self.nodes.get(slot).is_blank(slot);
                    (!is_blank).then_some("taken")
                }
            };
            if let Some(why) = why {
                findings.add(AllocatorFault::BadStack { at, slot, why });
            }
        }
    }
}
