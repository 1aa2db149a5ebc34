//! Identities: clients, segments, replicas, tasks, tenants, keys, and the shard of a key.
//!
//! The shard function is the peer's own (snapshot format, section 6.3), because a saved shard is a live
//! shard: an object filed under another number would be invisible to a peer that restores it.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Number of shards of the object table; fixed by the snapshot format.
pub const SHARD_COUNT: usize = 1024;

/// Tenants that can have a quota.
pub const TENANT_POLICIES_MAX: usize = 10_000;

/// Two 64-bit halves; the peer's form of a UUID. `(0, 0)` means none.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Uuid {
    /// The first half.
    pub first: u64,
    /// The second half.
    pub second: u64,
}

impl Uuid {
    /// The value that means "none".
    pub const NIL: Uuid = Uuid { first: 0, second: 0 };
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.second)
    }
}

/// A text that is not two decimal numbers joined by a dash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an id of the form <decimal>-<decimal>")]
pub struct BadUuid;

impl FromStr for Uuid {
    type Err = BadUuid;

    fn from_str(text: &str) -> Result<Self, BadUuid> {
        let (first, second) = text.split_once('-').ok_or(BadUuid)?;
        let half = |digits: &str| {
            let is_decimal = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
            if is_decimal { digits.parse().map_err(|_| BadUuid) } else { Err(BadUuid) }
        };
        Ok(Uuid { first: half(first)?, second: half(second)? })
    }
}

macro_rules! uuid_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        pub struct $name(pub Uuid);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

uuid_type!(
    /// A client process; random, made by the client at set-up.
    ClientId
);
uuid_type!(
    /// A mounted region of a client's memory; made by the client.
    SegmentId
);
uuid_type!(
    /// A copy or move task.
    TaskId
);

/// A replica; counted from 1, never reused.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct ReplicaId(pub u64);

/// Where an object lives in the table: its shard in the low 10 bits, its slot above. Derived state: never
/// saved, and no decision may depend on its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectRef(pub u32);

/// A name space of keys. Without multi-tenancy everything lives in [`Tenant::default`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Tenant(Arc<str>);

impl Tenant {
    /// The name of the default tenant.
    pub const DEFAULT_NAME: &'static str = "default";

    /// A tenant of that name; the empty name means the default tenant.
    ///
    /// Returns `None` for a name that starts with `_` or holds a control character (behaviour 1.1).
    pub fn parse(name: &str) -> Option<Self> {
        let name = if name.is_empty() { Self::DEFAULT_NAME } else { name };
        let is_valid = !name.starts_with('_') && name.bytes().all(|b| b >= 0x20 && b != 0x7f);
        is_valid.then(|| Tenant(Arc::from(name)))
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// The name as commands hold it: `None` is the default tenant.
    pub fn for_command(&self) -> Option<Self> {
        (!self.is_default()).then(|| self.clone())
    }

    /// Whether this is the default tenant.
    pub fn is_default(&self) -> bool {
        &*self.0 == Self::DEFAULT_NAME
    }
}

impl Default for Tenant {
    fn default() -> Self {
        Tenant(Arc::from(Self::DEFAULT_NAME))
    }
}

/// The identity of an object: tenant and key. Keys are arbitrary non-empty bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectKey {
    /// The name space.
    pub tenant: Tenant,
    /// The key within it.
    pub key: Box<[u8]>,
}

/// The peer's 64-bit string hash (snapshot format 6.3, `H`).
pub fn key_hash(bytes: &[u8]) -> u64 {
    const MULTIPLIER: u64 = 0xc6a4_a793_5bd1_e995;
    const SEED: u64 = 0xc70f_6907;
    let shift_mix = |value: u64| value ^ (value >> 47);
    let mut hash = SEED ^ (bytes.len() as u64).wrapping_mul(MULTIPLIER);
    let (words, tail) = bytes.as_chunks::<8>();
    for word in words {
        let mixed = shift_mix(u64::from_le_bytes(*word).wrapping_mul(MULTIPLIER));
        hash = (hash ^ mixed.wrapping_mul(MULTIPLIER)).wrapping_mul(MULTIPLIER);
    }
    if !tail.is_empty() {
        let rest = tail.iter().rev().fold(0_u64, |acc, &byte| (acc << 8) | u64::from(byte));
        hash = (hash ^ rest).wrapping_mul(MULTIPLIER);
    }
    shift_mix(shift_mix(hash).wrapping_mul(MULTIPLIER))
}

/// The peer's hash combination (snapshot format 6.3, `C`).
fn combine(hash: u64, value: u64) -> u64 {
    const MULTIPLIER: u64 = 0xc6a4_a793_5bd1_e995;
    let mut mixed = value.wrapping_mul(MULTIPLIER);
    mixed ^= mixed >> 47;
    mixed = mixed.wrapping_mul(MULTIPLIER);
    (hash ^ mixed).wrapping_mul(MULTIPLIER).wrapping_add(0xe654_6b64)
}

/// The hash by which an object is filed: of its group if it has one, else of tenant and key.
pub fn placement_hash(tenant: &Tenant, key: &[u8], group: &[u8]) -> u64 {
    if !group.is_empty() {
        return key_hash(group);
    }
    if tenant.is_default() {
        return key_hash(key);
    }
    // The peer feeds signed characters: bytes from 0x80 on are sign-extended.
    let key_part =
        key.iter().fold(0_u64, |hash, &byte| combine(hash, i64::from(byte.cast_signed()) as u64));
    combine(key_hash(tenant.name().as_bytes()), key_part)
}

/// The shard, in `0..SHARD_COUNT`, of a placement hash.
pub fn shard_of(hash: u64) -> usize {
    (hash % SHARD_COUNT as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_equals_the_peers_on_known_vectors() {
        assert_eq!(key_hash(b""), 0x553e_9390_1e46_2a6e);
        assert_eq!(key_hash(b"a"), 0x454d_dee4_88c1_ed6b);
        assert_eq!(key_hash(b"key-0"), 0xcd3d_1ac6_f077_42bf);
        assert_eq!(key_hash(b"obj-key-0123456789-7"), 0x0b28_44a6_3a61_b65e);
    }

    #[test]
    fn shards_equal_the_peers_on_known_vectors() {
        let default = Tenant::default();
        assert_eq!(shard_of(placement_hash(&default, b"key-0", b"")), 703);
        assert_eq!(shard_of(placement_hash(&default, b"obj-key-0123456789-7", b"")), 606);
        let tenant = Tenant::parse("tA").unwrap();
        assert_eq!(shard_of(placement_hash(&tenant, b"same", b"")), 362);
        assert_eq!(
            placement_hash(&tenant, b"x", b"key-0"),
            placement_hash(&default, b"key-0", b"")
        );
    }

    #[test]
    fn ids_are_written_and_read_in_the_peers_form() {
        let id = Uuid { first: 7, second: u64::MAX };
        assert_eq!(id.to_string().parse(), Ok(id));
        for bad in ["", "7", "-7", "7-", "7-x", "+7-7", "7-18446744073709551616"] {
            assert_eq!(bad.parse::<Uuid>(), Err(BadUuid), "{bad}");
        }
    }

    #[test]
    fn tenant_names_follow_the_peers_rule() {
        assert!(Tenant::parse("").unwrap().is_default());
        assert!(Tenant::parse("a/b").is_some());
        assert!(Tenant::parse("_x").is_none());
        assert!(Tenant::parse("a\u{7f}").is_none());
        assert!(Tenant::parse("a\nb").is_none());
    }
}
