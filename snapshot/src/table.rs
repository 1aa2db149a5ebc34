//! Node tables: is one sound, and one made new from live allocations (snapshot format 7.4, 7.5).
//!
//! The peer trusts a stored table blindly and crashes on a bad index. Here a table is used only if
//! every link, bin and sum agrees; otherwise, or when objects have been left out, it is derived
//! from the allocations that remain. Those keep their node index, so that no handle has to change.

use crate::image::{
    BIN_COUNT, LEAF_BITMAP_COUNT, NODE_NONE, NodeImage, NodeTableImage, size_class_down,
};

/// A live allocation: its node and the units that it covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveNode {
    /// First unit.
    pub offset: u32,
    /// Units.
    pub size: u32,
    /// Index into the node table.
    pub node: u32,
}

/// Checks every rule that a table must keep by itself.
///
/// Errors: the first broken rule in words. Each walk visits a node at most once, so cycles end.
pub fn check(table: &NodeTableImage) -> Result<(), String> {
    regions(table).map(|_| ())
}

/// As [`check`]; answers which nodes are regions of a sound table.
///
/// Errors: as there.
pub(crate) fn regions(table: &NodeTableImage) -> Result<Vec<bool>, String> {
    let count = table.nodes.len();
    if table.free_stack.len() != count {
        return Err(format!("{} stack entries for {count} nodes", table.free_stack.len()));
    }
    if count as u64 > u64::from(table.max_capacity) {
        return Err(format!("{count} nodes, but at most {} are allowed", table.max_capacity));
    }
    let mut is_region = vec![false; count];
    let walk = Walk { table };
    let free = walk.regions(&mut is_region)?;
    walk.stack(&is_region)?;
    walk.bins(&is_region, free)?;
    Ok(is_region)
}

/// What the walk over all regions found free.
#[derive(Clone, Copy)]
struct FreeSpace {
    regions: u64,
    units: u64,
}

struct Walk<'a> {
    table: &'a NodeTableImage,
}

impl Walk<'_> {
    fn node(&self, index: u32) -> Result<&NodeImage, String> {
        let node = self.table.nodes.get(index as usize);
        node.ok_or_else(|| format!("node index {index} lies outside of the table"))
    }

    /// Walks the neighbours from unit 0 to the end; they must tile the space.
    fn regions(&self, is_region: &mut [bool]) -> Result<FreeSpace, String> {
        let mut found = FreeSpace { regions: 0, units: 0 };
        let mut at = self.first_region()?;
        let (mut previous, mut next_offset) = (NODE_NONE, 0_u64);
        while at != NODE_NONE {
            let node = self.node(at)?;
            match is_region.get_mut(at as usize) {
                Some(seen) if !*seen => *seen = true,
                _ => return Err(format!("the neighbours of node {at} form a circle")),
            }
            if u64::from(node.offset) != next_offset || node.neighbor_prev != previous {
                return Err(format!("node {at} does not continue its neighbour"));
            }
            if node.size == 0 {
                return Err(format!("node {at} covers nothing"));
            }
            if !node.used {
                found.regions += 1;
                found.units += u64::from(node.size);
            }
            next_offset += u64::from(node.size);
            (previous, at) = (at, node.neighbor_next);
        }
        if next_offset == u64::from(self.table.size) {
            Ok(found)
        } else {
            Err(format!("the regions cover {next_offset} of {} units", self.table.size))
        }
    }

    /// The node at unit 0: not in the unused part of the stack, covering something, without a
    /// neighbour before it.
    fn first_region(&self) -> Result<u32, String> {
        if self.table.size == 0 {
            return Ok(NODE_NONE);
        }
        let is_first =
            |node: &NodeImage| node.offset == 0 && node.size > 0 && node.neighbor_prev == NODE_NONE;
        let mut firsts = self.table.nodes.iter().zip(0_u32..).filter(|(node, _)| is_first(node));
        match (firsts.next(), firsts.next()) {
            (Some((_, index)), None) => Ok(index),
            (None, _) => Err("no node lies at the start of the space".into()),
            (Some(_), Some(_)) => Err("two nodes lie at the start of the space".into()),
        }
    }

    /// The unused part of the stack must hold exactly the nodes that are no region.
    fn stack(&self, is_region: &[bool]) -> Result<(), String> {
        let unused = self
            .table
            .free_stack
            .get(self.table.free_offset as usize..)
            .ok_or_else(|| format!("free offset {} lies outside", self.table.free_offset))?;
        let mut is_taken = is_region.to_vec();
        for index in unused {
            match is_taken.get_mut(*index as usize) {
                Some(taken) if !*taken => *taken = true,
                _ => return Err(format!("the free stack offers node {index} wrongly")),
            }
        }
        if is_taken.iter().all(|taken| *taken) {
            Ok(())
        } else {
            Err("a node is neither a region nor offered by the free stack".into())
        }
    }

    /// Every free region must be in the bin of its size class, and the bitmaps must say so.
    fn bins(&self, is_region: &[bool], free: FreeSpace) -> Result<(), String> {
        let mut left = free.regions;
        let mut leaf_bitmaps = [0_u8; LEAF_BITMAP_COUNT];
        for (head, class) in self.table.bin_heads.iter().zip(0_u32..) {
            let (mut at, mut previous) = (*head, NODE_NONE);
            if let Some(bitmap) = leaf_bitmaps.get_mut(class as usize / 8)
                && at != NODE_NONE
            {
                *bitmap |= 1 << (class % 8);
            }
            while at != NODE_NONE {
                let node = self.node(at)?;
                let is_live = is_region.get(at as usize).copied().unwrap_or(false);
                if node.used || !is_live || size_class_down(node.size) != class {
                    return Err(format!("node {at} does not belong in bin {class}"));
                }
                if node.bin_prev != previous {
                    return Err(format!("bin {class} is linked wrongly at node {at}"));
                }
                // Fails before a circle can run on: there are only so many free regions.
                left = left.checked_sub(1).ok_or("the bins hold more than the free regions")?;
                (previous, at) = (at, node.bin_next);
            }
        }
        if left > 0 {
            return Err("a free region is in no bin".into());
        }
        if leaf_bitmaps != self.table.leaf_bitmaps || self.table.top_bitmap != top_of(&leaf_bitmaps)
        {
            return Err("the bin bitmaps differ from the bins".into());
        }
        if free.units != u64::from(self.table.free_storage) {
            return Err(format!("{} units free, not {}", free.units, self.table.free_storage));
        }
        Ok(())
    }
}

fn top_of(leaf_bitmaps: &[u8; LEAF_BITMAP_COUNT]) -> u32 {
    let set = leaf_bitmaps.iter().zip(0_u32..).filter(|(bitmap, _)| **bitmap != 0);
    set.fold(0, |top, (_, bit)| top | (1 << bit))
}

/// Whether the used nodes of a sound table are exactly `live`, which is ascending by offset.
pub fn holds_exactly(table: &NodeTableImage, live: &[LiveNode]) -> bool {
    let used = table.nodes.iter().filter(|node| node.used).count();
    used == live.len()
        && live.iter().all(|live| {
            table.nodes.get(live.node as usize).is_some_and(|node| {
                node.used && node.offset == live.offset && node.size == live.size
            })
        })
}

/// A sound table of the same size whose used nodes are exactly `live`.
///
/// `live` is ascending by offset, disjoint, inside of the space, with distinct node indices inside
/// of the table. Free regions get the lowest vacant nodes; the lowest region of a size class is
/// handed out first.
///
/// Errors: one of these conditions is broken.
pub fn rebuild(old: &NodeTableImage, live: &[LiveNode]) -> Result<NodeTableImage, String> {
    let regions = tile(old.size, live)?;
    let count = old.nodes.len().max(regions.len());
    let mut is_taken = vec![false; count];
    for node in live {
        match is_taken.get_mut(node.node as usize) {
            Some(taken) if !*taken => *taken = true,
            _ => return Err(format!("node {} is used twice or does not exist", node.node)),
        }
    }
    let vacant: Vec<u32> = is_taken
        .iter()
        .zip(0_u32..)
        .filter(|(taken, _)| !**taken)
        .map(|(_, index)| index)
        .collect();
    let free_count = regions.len() - live.len();
    let (for_free, unused) = vacant.split_at_checked(free_count).ok_or("no vacant node left")?;
    let mut builder = Builder::new(old, count);
    let mut for_free = for_free.iter();
    let mut placed = Vec::with_capacity(regions.len());
    for region in &regions {
        let index = match region.node {
            NODE_NONE => *for_free.next().ok_or("no vacant node left")?,
            index => index,
        };
        placed.push((index, *region));
    }
    builder.link(&placed);
    builder.table.free_offset = placed.len() as u32;
    builder.table.free_stack = placed.iter().map(|(index, _)| *index).collect();
    builder.table.free_stack.extend_from_slice(unused);
    Ok(builder.table)
}

/// All regions in order; free ones carry [`NODE_NONE`].
fn tile(size: u32, live: &[LiveNode]) -> Result<Vec<LiveNode>, String> {
    let mut regions = Vec::with_capacity(2 * live.len() + 1);
    let mut at = 0_u32;
    for node in live {
        let gap = node.offset.checked_sub(at).ok_or("live ranges overlap or are out of order")?;
        if gap > 0 {
            regions.push(LiveNode { offset: at, size: gap, node: NODE_NONE });
        }
        regions.push(*node);
        at = node.offset.checked_add(node.size).ok_or("a live range exceeds the space")?;
    }
    let rest = size.checked_sub(at).ok_or("a live range exceeds the space")?;
    if rest > 0 {
        regions.push(LiveNode { offset: at, size: rest, node: NODE_NONE });
    }
    Ok(regions)
}

struct Builder {
    table: NodeTableImage,
}

impl Builder {
    fn new(old: &NodeTableImage, count: usize) -> Self {
        let table = NodeTableImage {
            size: old.size,
            max_capacity: old.max_capacity.max(u32::try_from(count).unwrap_or(u32::MAX)),
            free_storage: 0,
            top_bitmap: 0,
            leaf_bitmaps: [0; LEAF_BITMAP_COUNT],
            bin_heads: [NODE_NONE; BIN_COUNT],
            nodes: vec![NodeImage::VACANT; count],
            free_stack: Vec::new(),
            free_offset: 0,
        };
        Builder { table }
    }

    /// Fills in the nodes of all regions, last first, so that each bin starts with its lowest
    /// region.
    fn link(&mut self, placed: &[(u32, LiveNode)]) {
        let mut next = NODE_NONE;
        for (position, (index, region)) in placed.iter().enumerate().rev() {
            let before = position.checked_sub(1).and_then(|before| placed.get(before));
            let is_used = region.node != NODE_NONE;
            let node = NodeImage {
                used: is_used,
                offset: region.offset,
                size: region.size,
                bin_prev: NODE_NONE,
                bin_next: if is_used { NODE_NONE } else { self.push_free(*index, region.size) },
                neighbor_prev: before.map_or(NODE_NONE, |(index, _)| *index),
                neighbor_next: next,
            };
            if let Some(slot) = self.table.nodes.get_mut(*index as usize) {
                *slot = node;
            }
            next = *index;
        }
    }

    /// Makes a node the head of its bin; returns the former head.
    fn push_free(&mut self, index: u32, size: u32) -> u32 {
        let class = size_class_down(size);
        let table = &mut self.table;
        table.free_storage += size;
        table.top_bitmap |= 1 << (class / 8);
        if let Some(bitmap) = table.leaf_bitmaps.get_mut(class as usize / 8) {
            *bitmap |= 1 << (class % 8);
        }
        let Some(head) = table.bin_heads.get_mut(class as usize) else { return NODE_NONE };
        let former = std::mem::replace(head, index);
        if let Some(node) = table.nodes.get_mut(former as usize) {
            node.bin_prev = index;
        }
        former
    }
}

#[cfg(test)]
mod tests;
