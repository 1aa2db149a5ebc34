//! The offset allocator's state as a snapshot holds it, and its size classes (snapshot format 7.3
//! to 7.5).
//!
//! Only the plain value and the arithmetic that a reader needs to judge it: `check` and `rebuild`
//! work on it. Allocating and freeing is the live allocator's business.

/// Link value that means "none".
pub const NODE_NONE: u32 = u32::MAX;
/// Number of free lists, one per size class.
pub const BIN_COUNT: usize = 256;
/// Number of leaf bitmaps, one per eight size classes.
pub const LEAF_BITMAP_COUNT: usize = 32;
/// Greatest size of the offset space in units: 3.75 GiB; larger segments use coarser units.
pub const OFFSET_SPACE_MAX: u64 = 4_026_531_840;

/// The allocator of one segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferAllocatorImage {
    /// Name of the segment.
    pub segment_name: String,
    /// First address.
    pub base: u64,
    /// Bytes of the segment.
    pub total_bytes: u64,
    /// Sum of the requested sizes of all live allocations.
    pub used_bytes: u64,
    /// Transport endpoint.
    pub endpoint: String,
    /// Its offset allocator.
    pub offset: OffsetAllocatorImage,
}

/// The offset allocator proper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetAllocatorImage {
    /// First address.
    pub base: u64,
    /// A unit is `1 << multiplier_bits` bytes.
    pub multiplier_bits: u32,
    /// Bytes.
    pub capacity: u64,
    /// Sum of the requested sizes of all live allocations.
    pub allocated_bytes: u64,
    /// Number of live allocations.
    pub allocation_count: u64,
    /// Its node table.
    pub table: NodeTableImage,
}

/// The node table: regions in address order, linked as neighbours; free ones also in bins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeTableImage {
    /// Units managed.
    pub size: u32,
    /// Greatest number of nodes to which the table may grow. Invariant: `nodes.len() <=
    /// max_capacity`.
    pub max_capacity: u32,
    /// Sum of the free regions in units.
    pub free_storage: u32,
    /// Bit t is set if any bit of `leaf_bitmaps[t]` is.
    pub top_bitmap: u32,
    /// Bit l of entry t is set if bin `8 * t + l` is not empty.
    pub leaf_bitmaps: [u8; LEAF_BITMAP_COUNT],
    /// First node of each bin, or [`NODE_NONE`].
    pub bin_heads: [u32; BIN_COUNT],
    /// The nodes. The allocator's current capacity is this length.
    pub nodes: Vec<NodeImage>,
    /// Stack of node indices, as long as `nodes`; those at and after `free_offset` are not in use.
    pub free_stack: Vec<u32>,
    /// How many entries of the stack are taken. Invariant: `free_offset <= free_stack.len()`.
    pub free_offset: u32,
}

/// One node: a region, free or used, or an entry not in use (no size, no links).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeImage {
    /// Whether an allocation owns it.
    pub used: bool,
    /// First unit.
    pub offset: u32,
    /// Units.
    pub size: u32,
    /// Previous free region of the same bin.
    pub bin_prev: u32,
    /// Next free region of the same bin.
    pub bin_next: u32,
    /// The region before it.
    pub neighbor_prev: u32,
    /// The region after it.
    pub neighbor_next: u32,
}

impl NodeImage {
    /// An entry that is not in use.
    pub const VACANT: NodeImage = NodeImage {
        used: false,
        offset: 0,
        size: 0,
        bin_prev: NODE_NONE,
        bin_next: NODE_NONE,
        neighbor_prev: NODE_NONE,
        neighbor_next: NODE_NONE,
    };
}

/// The unit bits of a segment of `capacity` bytes: the smallest for which the offset space
/// suffices.
pub fn multiplier_bits(capacity: u64) -> u32 {
    (0..u64::BITS).find(|&bits| capacity >> bits <= OFFSET_SPACE_MAX).unwrap_or(u64::BITS - 1)
}

/// The smallest size class whose size is at least `units`.
pub fn size_class_up(units: u32) -> u32 {
    let Some(shift) = mantissa_shift(units) else { return units };
    let rounds_up = units & ((1 << shift) - 1) != 0;
    size_class_down(units) + u32::from(rounds_up)
}

/// The greatest size class whose size is at most `units`.
pub fn size_class_down(units: u32) -> u32 {
    let Some(shift) = mantissa_shift(units) else { return units };
    ((shift + 1) << 3) | ((units >> shift) & 7)
}

/// The size in units of a class below [`BIN_COUNT`].
pub fn size_of_class(class: u32) -> u64 {
    let (exponent, mantissa) = (class >> 3, u64::from(class & 7));
    if exponent == 0 { mantissa } else { (mantissa | 8) << (exponent - 1) }
}

/// Bits below the four leading ones of `units`; `None` below 8, where class and size are equal.
fn mantissa_shift(units: u32) -> Option<u32> {
    if units < 8 { None } else { Some(units.ilog2() - 3) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_classes_enclose_every_size() {
        for units in (1..5000).chain([u32::MAX / 3, 1 << 31, OFFSET_SPACE_MAX as u32]) {
            let (down, up) = (size_class_down(units), size_class_up(units));
            assert!(size_of_class(down) <= u64::from(units), "{units}");
            assert!(size_of_class(up) >= u64::from(units), "{units}");
            assert!(up - down <= 1, "{units}");
        }
        assert_eq!(size_of_class(size_class_up(100)), 104);
        assert_eq!(size_class_down(7), 7);
        assert_eq!(size_class_up(9), 9);
    }

    #[test]
    fn units_become_coarser_with_the_segment() {
        assert_eq!(multiplier_bits(OFFSET_SPACE_MAX), 0);
        assert_eq!(multiplier_bits(OFFSET_SPACE_MAX + 1), 1);
        assert_eq!(multiplier_bits(2 * OFFSET_SPACE_MAX + 2), 2);
        assert_eq!(multiplier_bits(5 << 30), 1);
    }
}
