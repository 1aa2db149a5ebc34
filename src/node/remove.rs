//! Removal crosses a read lease only here: fence, propose, apply, unfence.
//!
//! A fence fails while a lease runs, and while it stands no lease is granted, so no reader ever holds a
//! descriptor of freed memory within its lease. A fence whose outcome is unknown stands until the state
//! shows it: the object is gone, or this node leads a new term and all earlier entries are decided.

use super::MasterNode;
use super::error::NodeError;
use crate::model::ids::SHARD_COUNT;
use crate::model::object::FenceRefused;
use crate::model::{ErrorCode, Millis, Tenant, TenantIdx};
use crate::state::Reply;
use crate::state::command::{Command, KEYS_PER_COMMAND_MAX, Key, Remove};
use crate::state::table::table_hash;

impl MasterNode {
    /// Removes keys on request; one result a key, in order.
    ///
    /// Errors: the node cannot serve; see [`NodeError`].
    pub async fn remove(
        &self,
        keys: Vec<Vec<u8>>,
        force: bool,
    ) -> Result<Vec<Result<(), ErrorCode>>, NodeError> {
        let mut results = Vec::with_capacity(keys.len());
        let mut keys = keys.into_iter().peekable();
        while keys.peek().is_some() {
            let chunk: Vec<Vec<u8>> = keys.by_ref().take(KEYS_PER_COMMAND_MAX).collect();
            results.extend(self.remove_chunk(chunk, force).await?);
        }
        Ok(results)
    }

    async fn remove_chunk(
        &self,
        keys: Vec<Vec<u8>>,
        force: bool,
    ) -> Result<Vec<Result<(), ErrorCode>>, NodeError> {
        let now = self.leader_guard().await?.now();
        let verdicts: Vec<Result<(), ErrorCode>> =
            keys.iter().map(|key| self.fence(key, now, force)).collect();
        let admitted = keys.iter().zip(&verdicts).filter(|(_, verdict)| verdict.is_ok());
        let fenced: Vec<Key> = admitted.map(|(key, _)| Key(key.clone())).collect();
        if fenced.is_empty() {
            return Ok(verdicts);
        }
        let command = Command::Remove(Remove { tenant: None, keys: fenced.clone() });
        let reply = self.propose(&command).await;
        // With an unknown outcome the fences stay: see the head of this file.
        if !matches!(reply, Err(NodeError::OutcomeUnknown(_))) {
            fenced.iter().for_each(|key| self.unfence(&key.0));
        }
        let Reply::Results(applied) = reply? else { return Ok(verdicts) };
        let mut applied = applied.into_iter();
        let merge = |verdict: Result<(), ErrorCode>| {
            verdict.and_then(|()| applied.next().unwrap_or(Err(ErrorCode::InternalError)))
        };
        Ok(verdicts.into_iter().map(merge).collect())
    }

    /// Closes a key to new read leases.
    ///
    /// Errors: `ObjectHasLease` while one runs; `ObjectNotFound`; `ReplicaIsNotReady` while a write or another
    /// removal of it is in flight.
    fn fence(&self, key: &[u8], now: Millis, force: bool) -> Result<(), ErrorCode> {
        let directory = self.machine().view().directory();
        let is_early = !force && !self.is_removal_allowed(now);
        self.look(key, |object| {
            let object = object.filter(|object| directory.exists(object));
            let object = object.ok_or(ErrorCode::ObjectNotFound)?;
            // The previous leader may have promised this object to a reader.
            if is_early && object.has_complete() {
                return Err(ErrorCode::ObjectHasLease);
            }
            object.lease.fence(now, force).map_err(|refused| match refused {
                FenceRefused::Leased => ErrorCode::ObjectHasLease,
                FenceRefused::AlreadyFenced => ErrorCode::ReplicaIsNotReady,
            })
        })
    }

    fn unfence(&self, key: &[u8]) {
        self.look(key, |object| {
            if let Some(object) = object {
                object.lease.unfence();
            }
        });
    }

    fn look<R>(&self, key: &[u8], look: impl FnOnce(Option<&crate::model::Object>) -> R) -> R {
        let hash = table_hash(&Tenant::default(), key);
        self.machine().view().table.look(hash, TenantIdx(0), key, look)
    }

    /// Opens every key: the fences of an earlier term have lost their meaning once this node leads again.
    pub(super) fn unfence_all(&self) {
        for shard in 0..SHARD_COUNT {
            self.machine().view().table.look_shard(shard, |shard| {
                shard.objects().for_each(|object| object.lease.unfence());
            });
        }
    }

    /// Removes every object that may be removed, or with `force` also those under a read lease.
    /// Unfinished writes stay. Returns how many went.
    ///
    /// Errors: the node cannot serve; what was removed until then stays removed.
    pub async fn remove_all(&self, force: bool) -> Result<u64, NodeError> {
        let now = self.leader_guard().await?.now();
        let mut removed = 0;
        for shard in 0..SHARD_COUNT {
            let keys = self.machine().view().table.look_shard(shard, |shard| {
                let is_open = |object: &&crate::model::Object| {
                    object.is_all_complete() && (force || object.lease.end() <= now)
                };
                let mut keys: Vec<Vec<u8>> =
                    shard.objects().filter(is_open).map(|object| object.key.to_vec()).collect();
                keys.sort_unstable();
                keys
            });
            let keys = keys.unwrap_or_default();
            if keys.is_empty() {
                continue;
            }
            let results = self.remove(keys, force).await?;
            removed += results.iter().filter(|result| result.is_ok()).count() as u64;
        }
        Ok(removed)
    }
}
