//! Files of clients that are gone: unreadable at once, by one look at the directory, and dropped in steps.
//!
//! A client that comes back meanwhile may report new files: they have greater replica numbers than those that
//! are given up.

use crate::model::{ClientId, ObjectRef, Place, Replica, ReplicaId};
use crate::state::State;

impl State {
    /// Whether a replica cannot be reached any more, by its segment or by its disk.
    pub(in crate::state) fn is_lost(&self, replica: &Replica) -> bool {
        match &replica.place {
            Place::Memory { segment, .. } => {
                let mounted = self.segments.get(*segment);
                mounted.is_none_or(|mounted| !mounted.status.is_readable())
            }
            Place::LocalDisk(disk) => {
                self.tiers.lost.get(&disk.client).is_some_and(|bound| replica.id < *bound)
            }
            Place::Disk(_) => false,
        }
    }

    pub(super) fn give_up_files(&mut self, client: ClientId) {
        let mut files =
            self.tiers.files.range((client, ReplicaId(0))..=(client, ReplicaId(u64::MAX)));
        if files.next().is_some() {
            self.tiers.lost.insert(client, ReplicaId(self.next_replica_id));
        }
    }

    /// Offloads that wait for a client or were given to it are over; of promotions those for which no memory
    /// is reserved. One with memory runs out, because the client may still be writing there.
    pub(super) fn give_up_work(&mut self, client: ClientId) {
        for object in self.tiers.offloads.of_client(client) {
            self.leave_offload(object, client);
        }
        for object in self.tiers.promotions.of_client(client) {
            let is_staged = self.tiers.promotions.get(object).is_some_and(|p| p.staged.is_some());
            if !is_staged {
                self.cancel_promotion(object);
            }
        }
    }

    /// Drops up to `files_max` files that are given up; returns whether none is left.
    pub(super) fn drop_lost(&mut self, client: ClientId, files_max: u32) -> bool {
        let Some(&bound) = self.tiers.lost.get(&client) else { return true };
        let given_up = self.tiers.files.range((client, ReplicaId(0))..(client, bound));
        let batch: Vec<(ReplicaId, ObjectRef)> = given_up
            .map(|((_, replica), object)| (*replica, *object))
            .take(files_max as usize)
            .collect();
        let is_finished = batch.len() < files_max as usize;
        for (id, object) in batch {
            self.drop_replicas(object, |replica| replica.id == id);
            self.erase_if_gone(object);
        }
        if is_finished {
            self.tiers.lost.remove(&client);
            self.publish_directory();
        }
        is_finished
    }
}
