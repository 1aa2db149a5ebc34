//! Read leases on their way to another node.
//!
//! A lease is known only to the leader that granted it. A follower that writes a catalog snapshot is given the
//! leases that still run, by the hash of their keys; two keys of one hash would share the longer lease, which lets
//! an object survive a restore for seconds more and reads nothing wrong.

use super::FrozenState;
use crate::model::Millis;
use crate::state::table::table_hash;

/// Leases that one table holds at most; beyond it the leader writes the snapshot itself.
pub const LEASES_MAX: usize = 4 << 20;
/// Bytes of one entry: hash and end, both little-endian.
const ENTRY_BYTES: usize = 16;
/// Bytes of an encoded table at most.
pub const LEASE_BYTES_MAX: usize = LEASES_MAX * ENTRY_BYTES;

/// The leases that run, sorted by the hash of their keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leases(Vec<(u64, u64)>);

impl Leases {
    /// When the lease of the key with this hash ends, milliseconds since the epoch; 0 if none runs.
    pub fn end_ms(&self, hash: u64) -> u64 {
        let after = self.0.partition_point(|(known, _)| *known <= hash);
        let last = after.checked_sub(1).and_then(|at| self.0.get(at));
        last.filter(|(known, _)| *known == hash).map_or(0, |(_, end)| *end)
    }

    /// The table as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let entries = self.0.iter().flat_map(|(hash, end)| [*hash, *end]);
        entries.flat_map(u64::to_le_bytes).collect()
    }

    /// The table in these bytes; `None` if they are not whole entries in ascending order, or too many.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (entries, rest) = bytes.as_chunks::<ENTRY_BYTES>();
        if !rest.is_empty() || entries.len() > LEASES_MAX {
            return None;
        }
        let read = |entry: &[u8; ENTRY_BYTES]| {
            let number = u128::from_le_bytes(*entry);
            (number as u64, (number >> 64) as u64)
        };
        let entries: Vec<(u64, u64)> = entries.iter().map(read).collect();
        entries.is_sorted().then_some(Leases(entries))
    }
}

impl FrozenState {
    /// The leases that end after `now`; `None` if there are more than [`LEASES_MAX`].
    pub fn leases(&self, now: Millis) -> Option<Leases> {
        let mut found = Vec::new();
        for object in self.shards.iter().flat_map(|shard| shard.objects()) {
            let end = object.lease.end();
            if end > now {
                if found.len() >= LEASES_MAX {
                    return None;
                }
                found.push((self.hash_of(object), end.0));
            }
        }
        found.sort_unstable();
        Some(Leases(found))
    }

    pub(super) fn hash_of(&self, object: &crate::model::Object) -> u64 {
        let tenant = self.tenants.name(object.tenant.0).cloned().unwrap_or_default();
        table_hash(&tenant, &object.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_leases_travels_as_bytes() {
        let leases = Leases(vec![(1, 10), (7, 20), (7, 30), (u64::MAX, 5)]);
        let bytes = leases.encode();
        assert_eq!(bytes.len(), 64);
        let back = Leases::decode(&bytes).unwrap();
        assert_eq!(back, leases);
        assert_eq!([0, 1, 2, 7, u64::MAX].map(|hash| back.end_ms(hash)), [0, 10, 0, 30, 5]);
        assert_eq!(Leases::default().end_ms(3), 0);
    }

    #[test]
    fn bytes_that_are_no_table_are_refused() {
        assert_eq!(Leases::decode(&[0; 15]), None);
        let mut swapped = Leases(vec![(2, 1)]).encode();
        swapped.extend(Leases(vec![(1, 1)]).encode());
        assert_eq!(Leases::decode(&swapped), None);
    }
}
