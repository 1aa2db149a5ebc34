//! The replicas of one object. Nearly all objects have one, which lies in place.

use std::ops::{Deref, DerefMut};

use super::replica::Replica;

#[derive(Clone, Debug, Default)]
enum Held {
    #[default]
    None,
    One(Replica),
    /// The box keeps the other forms small. Invariant: more than one, or some that were taken out since.
    #[expect(
        clippy::box_collection,
        reason = "a vector in place would be larger than a replica may be"
    )]
    Many(Box<Vec<Replica>>),
}

/// The replicas of one object, in insertion order; one needs no allocation.
#[derive(Clone, Debug, Default)]
pub struct Replicas(Held);

impl Replicas {
    /// Adds the newest one.
    pub fn push(&mut self, replica: Replica) {
        self.0 = match std::mem::take(&mut self.0) {
            Held::None => Held::One(replica),
            Held::One(first) => Held::Many(Box::new(vec![first, replica])),
            Held::Many(mut all) => {
                all.push(replica);
                Held::Many(all)
            }
        };
    }

    /// Drops those that are not wanted; the others keep their order.
    pub fn retain(&mut self, mut is_wanted: impl FnMut(&Replica) -> bool) {
        for replica in std::mem::take(self) {
            if is_wanted(&replica) {
                self.push(replica);
            }
        }
    }
}

impl Deref for Replicas {
    type Target = [Replica];

    #[inline]
    fn deref(&self) -> &[Replica] {
        match &self.0 {
            Held::None => &[],
            Held::One(one) => std::slice::from_ref(one),
            Held::Many(all) => all,
        }
    }
}

impl DerefMut for Replicas {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Replica] {
        match &mut self.0 {
            Held::None => &mut [],
            Held::One(one) => std::slice::from_mut(one),
            Held::Many(all) => all,
        }
    }
}

impl Extend<Replica> for Replicas {
    fn extend<I: IntoIterator<Item = Replica>>(&mut self, more: I) {
        more.into_iter().for_each(|replica| self.push(replica));
    }
}

impl FromIterator<Replica> for Replicas {
    fn from_iter<I: IntoIterator<Item = Replica>>(all: I) -> Self {
        let mut replicas = Replicas::default();
        replicas.extend(all);
        replicas
    }
}

impl<'a> IntoIterator for &'a Replicas {
    type Item = &'a Replica;
    type IntoIter = std::slice::Iter<'a, Replica>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a> IntoIterator for &'a mut Replicas {
    type Item = &'a mut Replica;
    type IntoIter = std::slice::IterMut<'a, Replica>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

/// Hands the replicas out one by one.
pub struct IntoReplicas {
    one: Option<Replica>,
    many: std::vec::IntoIter<Replica>,
}

impl Iterator for IntoReplicas {
    type Item = Replica;

    fn next(&mut self) -> Option<Replica> {
        self.one.take().or_else(|| self.many.next())
    }
}

impl IntoIterator for Replicas {
    type Item = Replica;
    type IntoIter = IntoReplicas;

    fn into_iter(self) -> IntoReplicas {
        let (one, many) = match self.0 {
            Held::None => (None, Vec::new()),
            Held::One(one) => (Some(one), Vec::new()),
            Held::Many(all) => (None, *all),
        };
        IntoReplicas { one, many: many.into_iter() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Place, ReplicaId, ReplicaStatus, SegmentIdx};

    fn replica(id: u64) -> Replica {
        let place = Place::Memory { segment: SegmentIdx(1), node: 2, address: 3 };
        Replica { id: ReplicaId(id), place, references: 0, status: ReplicaStatus::Complete }
    }

    fn ids(replicas: &Replicas) -> Vec<u64> {
        replicas.iter().map(|replica| replica.id.0).collect()
    }

    #[test]
    fn any_number_of_replicas_keeps_its_order() {
        let mut replicas = Replicas::default();
        for id in 1..=4 {
            assert_eq!(ids(&replicas), (1..id).collect::<Vec<_>>());
            replicas.push(replica(id));
        }
        replicas.iter_mut().for_each(|replica| replica.references = 7);
        assert!(replicas.clone().into_iter().all(|replica| replica.references == 7));
        replicas.retain(|replica| replica.id.0 % 2 == 0);
        assert_eq!(ids(&replicas), [2, 4]);
        replicas.retain(|replica| replica.id.0 == 4);
        assert_eq!(ids(&replicas), [4]);
        replicas.retain(|_| false);
        assert!(replicas.is_empty());
        assert_eq!(ids(&(1..=3).map(replica).collect()), [1, 2, 3]);
    }

    #[test]
    fn one_replica_needs_no_more_room_than_itself() {
        assert_eq!(size_of::<Replicas>(), size_of::<Replica>());
    }
}
