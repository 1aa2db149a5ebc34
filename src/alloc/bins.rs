//! Size classes of the offset allocator and the heads of their free lists.
//!
//! A class is a tiny float: three mantissa bits above a five-bit exponent, so classes lie 1/8 of a
//! power of two apart. Guards: a mask bit is set exactly when the list below it has a head. Knows
//! nodes only by number; what a list links together is the business of `offset.rs`. Rule: behaviour
//! 6.6 and snapshot format 7.5, class for class.

/// "No node": the link value for an end of a list and for a missing neighbour (snapshot format
/// 7.4).
pub const NONE: u32 = u32::MAX;

/// Classes that the snapshot format names; those from 240 on are always empty.
pub const BINS: usize = 256;

/// Classes that a size up to [`UNITS_MAX`] can fall into.
pub const USABLE_BINS: usize = 240;

/// The greatest size, in units, of one region or request: the size of the last usable class.
pub const UNITS_MAX: u32 = 15 << 28;

/// The smallest class whose size is at least `units`. Precondition: `units <= UNITS_MAX`.
pub fn bin_up(units: u32) -> u8 {
    let (class, is_exact) = bin_and_exactness(units);
    class + u8::from(!is_exact)
}

/// The greatest class whose size is at most `units`.
pub fn bin_down(units: u32) -> u8 {
    bin_and_exactness(units).0
}

fn bin_and_exactness(units: u32) -> (u8, bool) {
    if units < 8 {
        return (units as u8, true);
    }
    let top_bit = 31 - units.leading_zeros();
    let dropped = top_bit - 3;
    let mantissa = (units >> dropped) & 7;
    let class = (top_bit - 2) * 8 + mantissa;
    (class as u8, units.trailing_zeros() >= dropped)
}

/// The size in units of a class. Precondition: `bin < USABLE_BINS`.
pub fn size_of(bin: u8) -> u32 {
    let (exponent, mantissa) = (u32::from(bin) >> 3, u32::from(bin) & 7);
    if exponent == 0 { mantissa } else { (8 | mantissa) << (exponent - 1) }
}

/// The heads of all free lists, with two levels of masks over them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FreeLists {
    /// Bit `t` is set exactly when `leaves[t]` is not 0.
    pub(super) top: u32,
    /// Bit `l` of `leaves[t]` is set exactly when `heads[8 * t + l]` is a node.
    pub(super) leaves: [u8; 32],
    /// First node of each class, or [`NONE`].
    pub(super) heads: [u32; BINS],
}

impl FreeLists {
    pub(super) fn new() -> Self {
        FreeLists { top: 0, leaves: [0; 32], heads: [NONE; BINS] }
    }

    pub(super) fn head(&self, bin: u8) -> u32 {
        self.heads.get(usize::from(bin)).copied().unwrap_or(NONE)
    }

    /// Makes `node` the head of a class ([`NONE`] empties it) and keeps the masks true.
    pub(super) fn set_head(&mut self, bin: u8, node: u32) {
        let group = bin >> 3;
        let leaf_bit = 1_u8 << (bin & 7);
        let group_bit = 1_u32 << group;
        if let Some(head) = self.heads.get_mut(usize::from(bin)) {
            *head = node;
        }
        if let Some(leaves) = self.leaves.get_mut(usize::from(group)) {
            if node == NONE {
                *leaves &= !leaf_bit;
            } else {
                *leaves |= leaf_bit;
            }
            if *leaves == 0 {
                self.top &= !group_bit;
            } else {
                self.top |= group_bit;
            }
        }
    }

    /// The lowest non-empty class that is at least `bin`.
    pub(super) fn first_at_least(&self, bin: u8) -> Option<u8> {
        let group = bin >> 3;
        let same_group = self.leaf_mask(group) & (u8::MAX << (bin & 7));
        if same_group != 0 {
            return Some((group << 3) | same_group.trailing_zeros() as u8);
        }
        let above = self.top & u32::MAX.checked_shl(u32::from(group) + 1).unwrap_or(0);
        if above == 0 {
            return None;
        }
        let group = above.trailing_zeros() as u8;
        Some((group << 3) | self.leaf_mask(group).trailing_zeros() as u8)
    }

    /// The greatest non-empty class.
    pub(super) fn highest(&self) -> Option<u8> {
        let group = self.top.checked_ilog2()? as u8;
        let leaf = self.leaf_mask(group).checked_ilog2()? as u8;
        Some((group << 3) | leaf)
    }

    fn leaf_mask(&self, group: u8) -> u8 {
        self.leaves.get(usize::from(group)).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_size_is_its_own_class_in_both_directions() {
        for bin in 0..USABLE_BINS as u8 {
            assert_eq!(bin_up(size_of(bin)), bin);
            assert_eq!(bin_down(size_of(bin)), bin);
        }
        assert_eq!(bin_up(UNITS_MAX), 239);
        assert_eq!(size_of(239), UNITS_MAX);
    }

    #[test]
    fn a_size_lies_between_its_lower_and_its_upper_class() {
        for units in (1..5000).chain([1 << 20, (1 << 20) + 1, (1 << 31) - 1, UNITS_MAX - 1]) {
            let (low, high) = (size_of(bin_down(units)), size_of(bin_up(units)));
            assert!(low <= units && units <= high, "{low} {units} {high}");
            assert!(bin_up(units) - bin_down(units) <= 1);
        }
    }

    #[test]
    fn requests_are_rounded_as_the_peer_rounds_them() {
        let vectors = [
            (17, 18),
            (33, 36),
            (100, 104),
            (1000, 1024),
            (1025, 1152),
            (5000, 5120),
            (100_000, 106_496),
            (1_100_000, 1_179_648),
        ];
        for (asked, got) in vectors {
            assert_eq!(size_of(bin_up(asked)), got);
        }
    }

    #[test]
    fn the_masks_find_the_lowest_list_that_can_serve() {
        let mut lists = FreeLists::new();
        assert_eq!((lists.first_at_least(0), lists.highest()), (None, None));
        lists.set_head(9, 1);
        lists.set_head(239, 2);
        assert_eq!(lists.first_at_least(0), Some(9));
        assert_eq!(lists.first_at_least(9), Some(9));
        assert_eq!(lists.first_at_least(10), Some(239));
        assert_eq!(lists.highest(), Some(239));
        lists.set_head(239, NONE);
        assert_eq!(lists.first_at_least(10), None);
        assert_eq!(lists.highest(), Some(9));
        assert_eq!(lists.first_at_least(255), None);
    }
}
