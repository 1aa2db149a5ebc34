//! The keys of a load: fixed length, made from a number, so that neither side has to keep a list.

use super::BenchError;

/// Longest key that a load writes.
pub const KEY_BYTES_MAX: usize = 4_096;

/// Decimal digits of the number in a key.
const DIGITS: usize = 12;

/// How keys look: a prefix, filling, a number.
#[derive(Clone, Debug)]
pub struct KeyShape {
    prefix: Vec<u8>,
    bytes: usize,
}

impl KeyShape {
    /// Keys of `bytes` bytes that begin with `prefix`.
    ///
    /// Errors: there is no room for the number, or the key would be over [`KEY_BYTES_MAX`].
    pub fn new(prefix: &str, bytes: usize) -> Result<Self, BenchError> {
        let least = prefix.len() + DIGITS;
        if bytes < least || bytes > KEY_BYTES_MAX {
            let why = format!(
                "keys of {bytes} bytes do not fit: {prefix:?} and a number need {least}, \
                 and {KEY_BYTES_MAX} is the limit"
            );
            return Err(BenchError::Usage(why));
        }
        Ok(KeyShape { prefix: prefix.as_bytes().to_vec(), bytes })
    }

    /// Bytes of every key.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Always false; a key has at least its number.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Appends the key of a number. Numbers beyond twelve digits repeat.
    pub fn push(&self, number: u64, out: &mut Vec<u8>) {
        let end = out.len() + self.bytes;
        out.extend_from_slice(&self.prefix);
        out.resize(end, b'0');
        let mut rest = number;
        for digit in out.iter_mut().rev().take(DIGITS) {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
    }

    /// The key of a number.
    pub fn key(&self, number: u64) -> Vec<u8> {
        let mut key = Vec::with_capacity(self.bytes);
        self.push(number, &mut key);
        key
    }
}

/// A stream of numbers that looks random and is the same for the same seed.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// A stream for this seed.
    pub fn new(seed: u64) -> Self {
        Dice(seed)
    }

    /// The next number below `limit`; 0 if the limit is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        // SplitMix64; the product's upper half is even enough for picking keys.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^= word >> 31;
        ((u128::from(word) * u128::from(limit)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_the_length_asked_for_and_ends_with_its_number() {
        let shape = KeyShape::new("bench-", 21).unwrap();
        assert_eq!(shape.key(1_234), b"bench-000000000001234");
        assert_eq!(shape.key(1_234).len(), shape.len());
    }

    #[test]
    fn a_key_without_room_for_its_number_is_refused() {
        assert!(KeyShape::new("bench-", 17).is_err());
        assert!(KeyShape::new("bench-", 18).is_ok());
        assert!(KeyShape::new("bench-", KEY_BYTES_MAX + 1).is_err());
    }

    #[test]
    fn dice_stay_below_their_limit_and_reach_all_of_it() {
        let mut dice = Dice::new(1);
        let mut seen = [false; 8];
        for _ in 0..200 {
            seen[dice.below(8) as usize] = true;
        }
        assert_eq!(seen, [true; 8]);
        assert_eq!(dice.below(0), 0);
    }
}
