//! The generator of placement decisions; part of the entry format.
//!
//! Every node that applies an entry must draw the same numbers, so this is a fixed function of the
//! entry's seed: splitmix64, golden-tested. Changing a line here is a new entry version. Not for
//! secrets, and not for anything that the leader decides before it proposes.

/// Draws numbers from the seed in an entry's stamp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rng {
    state: u64,
}

/// The odd step of the sequence: 2^64 divided by the golden ratio.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Rng {
    /// The generator of a seed.
    pub fn new(seed: u64) -> Self {
        Rng { state: seed }
    }

    /// The generator of one command of an entry: `lane` is the command's place in the entry, so
    /// that adding a draw to one command does not move the draws of the next.
    pub fn lane(seed: u64, lane: u64) -> Self {
        let mut spread = Rng::new(seed ^ mix(lane.wrapping_mul(STEP)));
        Rng::new(spread.next_u64())
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        mix(self.state)
    }

    /// A number in `[0, bound)`, by the high half of a product: biased by less than `bound / 2^64`.
    /// 0 if `bound` is 0 or 1; draws in any case.
    pub fn below(&mut self, bound: usize) -> usize {
        let product = u128::from(self.next_u64()) * bound as u128;
        (product >> 64) as usize
    }
}

fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_of_a_seed_is_fixed_for_ever() {
        let mut rng = Rng::new(1_234_567);
        let drawn: Vec<u64> = (0..3).map(|_| rng.next_u64()).collect();
        // The published test vector of splitmix64 for this seed.
        let published =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(drawn, published);
    }

    #[test]
    fn draws_below_a_bound_and_lanes_are_fixed_for_ever() {
        let mut rng = Rng::new(7);
        let drawn: Vec<usize> = (0..8).map(|_| rng.below(10)).collect();
        assert_eq!(drawn, DRAWS_OF_SEED_7);
        let lanes: Vec<u64> = (0..3).map(|lane| Rng::lane(7, lane).next_u64()).collect();
        assert_eq!(lanes, LANES_OF_SEED_7);
        assert_eq!((rng.below(0), rng.below(1)), (0, 0));
    }

    const DRAWS_OF_SEED_7: [usize; 8] = [3, 0, 9, 5, 4, 2, 4, 3];
    const LANES_OF_SEED_7: [u64; 3] =
        [13_309_476_754_707_697_221, 5_651_114_593_729_759_386, 7_662_323_311_185_226_293];
}
