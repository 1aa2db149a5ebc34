//! Work that waits for clients: by age, by object, by client.
//!
//! Guards: one job an object; the indexes are in step with the jobs. The age is a number that grows with
//! each job, so the order is the same on every node although objects have other places there; only the order
//! is saved.

use std::collections::{BTreeMap, BTreeSet};

use smallvec::SmallVec;

use crate::model::{ClientId, ObjectRef};

/// The clients that a job is for, and whether each has been told.
pub type Takers = SmallVec<[(ClientId, bool); 1]>;

/// Something for clients to do.
pub trait Job {
    /// For whom, and who has been told.
    fn takers(&self) -> Takers;
}

/// Jobs, oldest first.
#[derive(Clone, Debug)]
pub struct Jobs<T> {
    jobs: BTreeMap<u64, (ObjectRef, T)>,
    next_number: u64,
    /// Derived.
    by_object: BTreeMap<ObjectRef, u64>,
    /// Derived. Invariant: exactly the takers of all jobs.
    by_client: BTreeSet<(ClientId, bool, u64)>,
    /// Derived. Invariant: how many of them have not been told, by client; none is 0.
    waiting: BTreeMap<ClientId, u64>,
}

impl<T> Default for Jobs<T> {
    fn default() -> Self {
        Jobs {
            jobs: BTreeMap::new(),
            next_number: 0,
            by_object: BTreeMap::new(),
            by_client: BTreeSet::new(),
            waiting: BTreeMap::new(),
        }
    }
}

impl<T: Job> Jobs<T> {
    /// Adds the job of an object that has none, behind all others.
    pub fn push(&mut self, object: ObjectRef, job: T) {
        let number = self.next_number;
        self.next_number += 1;
        self.index(number, &job.takers());
        self.by_object.insert(object, number);
        self.jobs.insert(number, (object, job));
    }

    /// Takes the job of an object out.
    pub fn remove(&mut self, object: ObjectRef) -> Option<T> {
        let number = self.by_object.remove(&object)?;
        let (_, job) = self.jobs.remove(&number)?;
        self.unindex(number, &job.takers());
        Some(job)
    }

    /// Changes the job of an object; it keeps its age.
    pub fn change(&mut self, object: ObjectRef, change: impl FnOnce(&mut T)) {
        let Some(&number) = self.by_object.get(&object) else { return };
        let Some((_, job)) = self.jobs.get_mut(&number) else { return };
        let before = job.takers();
        change(job);
        let after = job.takers();
        self.unindex(number, &before);
        self.index(number, &after);
    }

    fn index(&mut self, number: u64, takers: &Takers) {
        for &(client, is_told) in takers {
            if self.by_client.insert((client, is_told, number)) && !is_told {
                *self.waiting.entry(client).or_default() += 1;
            }
        }
    }

    fn unindex(&mut self, number: u64, takers: &Takers) {
        for &(client, is_told) in takers {
            if self.by_client.remove(&(client, is_told, number)) && !is_told {
                let left = self.waiting.get(&client).map_or(0, |count| count - 1);
                match left {
                    0 => self.waiting.remove(&client),
                    left => self.waiting.insert(client, left),
                };
            }
        }
    }

    /// The job of an object.
    pub fn get(&self, object: ObjectRef) -> Option<&T> {
        let (_, job) = self.jobs.get(self.by_object.get(&object)?)?;
        Some(job)
    }

    /// The oldest job.
    pub fn first(&self) -> Option<(ObjectRef, &T)> {
        self.jobs.first_key_value().map(|(_, (object, job))| (*object, job))
    }

    /// Every job, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (ObjectRef, &T)> {
        self.jobs.values().map(|(object, job)| (*object, job))
    }

    /// Number of jobs.
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Jobs that a client has not been told of.
    pub fn waiting(&self, client: ClientId) -> u64 {
        self.waiting.get(&client).copied().unwrap_or(0)
    }

    /// The objects of up to `count` jobs that a client has not been told of, oldest first.
    pub fn untold(&self, client: ClientId, count: usize) -> Vec<ObjectRef> {
        let range = (client, false, 0)..=(client, false, u64::MAX);
        self.objects(range).take(count).collect()
    }

    /// The objects of all jobs of a client, those first that it has not been told of.
    pub fn of_client(&self, client: ClientId) -> Vec<ObjectRef> {
        self.objects((client, false, 0)..=(client, true, u64::MAX)).collect()
    }

    fn objects(
        &self,
        range: std::ops::RangeInclusive<(ClientId, bool, u64)>,
    ) -> impl Iterator<Item = ObjectRef> {
        let numbers = self.by_client.range(range).map(|(_, _, number)| number);
        numbers.filter_map(|number| self.jobs.get(number).map(|(object, _)| *object))
    }

    /// What is wrong with the indexes.
    pub fn check(&self, what: &str) -> Vec<String> {
        let mut again = Jobs::<T>::default();
        for (number, (object, job)) in &self.jobs {
            again.index(*number, &job.takers());
            again.by_object.insert(*object, *number);
        }
        let is_same = again.by_client == self.by_client && again.waiting == self.waiting;
        let mut findings = Vec::new();
        if !is_same || again.by_object != self.by_object {
            findings.push(format!("the indexes of {what} differ from their jobs"));
        }
        if again.by_object.len() != self.jobs.len() {
            findings.push(format!("an object has two {what}"));
        }
        findings
    }
}
