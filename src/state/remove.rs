//! Removing objects on request (behaviour 4.4). The leader has fenced their read leases before.

use crate::model::{ErrorCode, Object};

use super::State;
use super::command::{Key, Remove};
use super::put::KeyAt;

impl State {
    pub(super) fn remove(&mut self, remove: &Remove) -> Vec<Result<(), ErrorCode>> {
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
            self.erase(object);
            Ok(())
        };
        remove.keys.iter().map(remove_one).collect()
    }
}
