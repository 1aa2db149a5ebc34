//! Which shard an object belongs to: the peer's own hash (snapshot format 6.3).
//!
//! A saved shard is a live shard, so an object filed elsewhere would be invisible to a peer that
//! restores it. Readers ignore the stored number and place by this; writers must use it.

use crate::image::{ObjectImage, SHARD_COUNT};

const MULTIPLIER: u64 = 0xc6a4_a793_5bd1_e995;
const SEED: u64 = 0xc70f_6907;
const COMBINE_ADDEND: u64 = 0xe654_6b64;
/// The name of the tenant whose keys are hashed alone.
pub const DEFAULT_TENANT: &str = "default";

/// The shard of an object, below [`SHARD_COUNT`].
pub fn shard_of(object: &ObjectImage) -> u16 {
    shard_of_name(&object.name.tenant, &object.name.key, &object.group)
}

/// The shard of an object with this tenant, key and group (empty: none), below [`SHARD_COUNT`].
pub fn shard_of_name(tenant: &str, key: &[u8], group: &[u8]) -> u16 {
    let hash = if !group.is_empty() {
        hash_bytes(group)
    } else if tenant == DEFAULT_TENANT || tenant.is_empty() {
        hash_bytes(key)
    } else {
        combine(hash_bytes(tenant.as_bytes()), hash_by_byte(key))
    };
    (hash % u64::from(SHARD_COUNT)) as u16
}

/// `H`: a Murmur hash of 64 bits over little-endian words.
fn hash_bytes(bytes: &[u8]) -> u64 {
    let fold = |value: u64| value ^ (value >> 47);
    let step = |hash: u64, word: u64| (hash ^ word).wrapping_mul(MULTIPLIER);
    let (words, tail) = bytes.as_chunks::<8>();
    let mut hash = SEED ^ (bytes.len() as u64).wrapping_mul(MULTIPLIER);
    for word in words {
        let scrambled = fold(u64::from_le_bytes(*word).wrapping_mul(MULTIPLIER));
        hash = step(hash, scrambled.wrapping_mul(MULTIPLIER));
    }
    if !tail.is_empty() {
        let last = tail.iter().rev().fold(0, |value, &byte| (value << 8) | u64::from(byte));
        hash = step(hash, last);
    }
    fold(fold(hash).wrapping_mul(MULTIPLIER))
}

/// `C`: joins a value to a hash.
fn combine(hash: u64, value: u64) -> u64 {
    let scaled = value.wrapping_mul(MULTIPLIER);
    let mixed = (scaled ^ (scaled >> 47)).wrapping_mul(MULTIPLIER);
    (hash ^ mixed).wrapping_mul(MULTIPLIER).wrapping_add(COMBINE_ADDEND)
}

/// `B`: joins byte after byte. The peer's characters are signed, so bytes from 0x80 on are
/// sign-extended.
fn hash_by_byte(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |hash, byte| combine(hash, i64::from(byte.cast_signed()).cast_unsigned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_equals_the_peers_on_known_vectors() {
        assert_eq!(hash_bytes(b""), 0x553e_9390_1e46_2a6e);
        assert_eq!(hash_bytes(b"a"), 0x454d_dee4_88c1_ed6b);
        assert_eq!(hash_bytes(b"key-0"), 0xcd3d_1ac6_f077_42bf);
        assert_eq!(hash_bytes(b"obj-key-0123456789-7"), 0x0b28_44a6_3a61_b65e);
    }

    #[test]
    fn shards_equal_the_peers_on_known_vectors() {
        assert_eq!(shard_of_name("default", b"key-0", b""), 703);
        assert_eq!(shard_of_name("default", b"obj-key-0123456789-7", b""), 606);
        assert_eq!(shard_of_name("tA", b"same", b""), 362);
    }

    #[test]
    fn a_group_decides_alone() {
        assert_eq!(shard_of_name("tA", b"same", b"key-0"), 703);
    }
}
