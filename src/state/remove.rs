//! Removing objects, or some of their replicas, on request (behaviour 4.4). The leader has fenced their read
//! leases before.

use crate::model::{ErrorCode, Millis, Object, ObjectRef, Replica, ReplicaId};

use super::State;
use super::command::{ClearReplicas, Key, Remove};
use super::put::KeyAt;

impl State {
    /// Removes objects; `leased_until` is the last of the read leases that are broken by it.
    pub(super) fn remove(
        &mut self,
        remove: &Remove,
        leased_until: Millis,
    ) -> Vec<Result<(), ErrorCode>> {
        let tenant = remove.tenant.clone().unwrap_or_default();
        let remove_one = |key: &Key| {
            let at = KeyAt::new(&tenant, &key.0);
            let object = self.open_for_write(at).ok_or(ErrorCode::ObjectNotFound)?;
            let is_done = self.view.table.peek(object, Object::is_all_complete);
            if is_done != Some(true) {
                return Err(ErrorCode::ReplicaIsNotReady);
            }
            if self.has_transfer(object) {
                return Err(ErrorCode::ObjectHasReplicationTask);
            }
            self.erase_leased(object, leased_until);
            Ok(())
        };
        remove.keys.iter().map(remove_one).collect()
    }

    pub(super) fn clear_replicas(&mut self, clear: &ClearReplicas) -> Vec<Result<(), ErrorCode>> {
        let tenant = clear.tenant.clone().unwrap_or_default();
        let clear_one = |key: &Key| {
            let at = KeyAt::new(&tenant, &key.0);
            let object = self.open_for_write(at).ok_or(ErrorCode::ObjectNotFound)?;
            let writer = self.view.table.peek(object, |object| object.writer);
            if writer.and_then(|writer| self.writer_id(writer)) != Some(clear.client) {
                return Err(ErrorCode::IllegalClient);
            }
            match &clear.segment {
                None => self.clear_object(object),
                Some(name) => self.clear_on(object, name),
            }
        };
        clear.keys.iter().map(clear_one).collect()
    }

    /// Errors: `ReplicaIsNotReady` while anything of it is being written.
    fn clear_object(&mut self, object: ObjectRef) -> Result<(), ErrorCode> {
        if self.view.table.peek(object, Object::is_all_complete) != Some(true) {
            return Err(ErrorCode::ReplicaIsNotReady);
        }
        self.erase(object);
        Ok(())
    }

    /// Drops the COMPLETE replicas on segments of a name, but for those that a copy or move reads from.
    ///
    /// Errors: `ReplicaNotFound` if there is none.
    fn clear_on(&mut self, object: ObjectRef, name: &str) -> Result<(), ErrorCode> {
        let is_there = |replica: &Replica| {
            let mounted = replica.place.segment().and_then(|index| self.segments.get(index));
            mounted.is_some_and(|mounted| &*mounted.segment.name == name)
        };
        let is_chosen = |r: &&Replica| r.is_complete() && r.references == 0 && is_there(r);
        let chosen = self.view.table.peek(object, |object| {
            let ids = object.replicas.iter().filter(is_chosen).map(|replica| replica.id);
            ids.collect::<Vec<ReplicaId>>()
        });
        let chosen = chosen.unwrap_or_default();
        if chosen.is_empty() {
            return Err(ErrorCode::ReplicaNotFound);
        }
        self.drop_replicas(object, |replica| chosen.contains(&replica.id));
        self.erase_if_gone(object);
        Ok(())
    }
}
