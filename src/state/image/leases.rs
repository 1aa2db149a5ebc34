//! Read leases on their way to another node.
//!
//! A lease is known only to the leader that granted it. A follower that writes a catalog snapshot is given the
//! leases that still run. They are told by the first replica of the object, whose id is never used again: an object
//! that was removed and written anew meanwhile does not inherit the lease of the one before.

use super::FrozenState;
use crate::model::{Millis, Object};

/// Leases that one table holds at most; beyond it the leader writes the snapshot itself.
pub const LEASES_MAX: usize = 4 << 20;
/// Bytes of one entry: replica and end, both little-endian.
const ENTRY_BYTES: usize = 16;
/// Bytes of an encoded table at most.
pub const LEASE_BYTES_MAX: usize = LEASES_MAX * ENTRY_BYTES;

/// The leases that run, ascending by the object's first replica.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leases(Vec<(u64, u64)>);

impl Leases {
    /// When the lease of the object ends, milliseconds since the epoch; 0 if none runs.
    pub fn end_ms(&self, object: &Object) -> u64 {
        first_replica(object).map_or(0, |replica| self.end_of(replica))
    }

    fn end_of(&self, replica: u64) -> u64 {
        let after = self.0.partition_point(|(known, _)| *known <= replica);
        let last = after.checked_sub(1).and_then(|at| self.0.get(at));
        last.filter(|(known, _)| *known == replica).map_or(0, |(_, end)| *end)
    }

    /// The table as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let entries = self.0.iter().flat_map(|(replica, end)| [*replica, *end]);
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
            let end = self.lease_end(object);
            if end > now {
                if found.len() >= LEASES_MAX {
                    return None;
                }
                found.extend(first_replica(object).map(|replica| (replica, end.0)));
            }
        }
        found.sort_unstable();
        Some(Leases(found))
    }
}

fn first_replica(object: &Object) -> Option<u64> {
    object.replicas.first().map(|replica| replica.id.0)
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
        assert_eq!([0, 1, 2, 7, u64::MAX].map(|replica| back.end_of(replica)), [0, 10, 0, 30, 5]);
        assert_eq!(Leases::default().end_of(3), 0);
    }

    #[test]
    fn bytes_that_are_no_table_are_refused() {
        assert_eq!(Leases::decode(&[0; 15]), None);
        let mut swapped = Leases(vec![(2, 1)]).encode();
        swapped.extend(Leases(vec![(1, 1)]).encode());
        assert_eq!(Leases::decode(&swapped), None);
    }
}
