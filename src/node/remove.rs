//! Removal crosses a read lease only here: fence, propose, apply, unfence.
//!
//! A fence fails while a lease runs, and while it stands no lease is granted, so no reader ever holds a
//! descriptor of freed memory within its lease. A fence whose outcome is unknown stands until the state
//! shows it: the object is gone, or this node leads a new term and all earlier entries are decided.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::MasterNode;
use super::error::NodeError;
use super::regex::is_removable;
use crate::model::ids::SHARD_COUNT;
use crate::model::object::FenceRefused;
use crate::model::{ClientId, ErrorCode, Millis, Object, ObjectRef, Tenant, TenantIdx};
use crate::state::Reply;
use crate::state::command::{ClearReplicas, Command, KEYS_PER_COMMAND_MAX, Key, Remove};
use crate::state::table::table_hash;

/// Rounds that a removal tries before it gives up; at the step below, several seconds.
const FENCE_ROUNDS_MAX: u32 = 5_000;

/// Pause between two rounds.
const FENCE_ROUND_STEP: Duration = Duration::from_millis(1);

/// What is to go of each key.
enum Removal<'a> {
    /// The object of this tenant; with `force` also under a read lease.
    Whole { tenant: &'a Tenant, force: bool },
    /// The same, as a step of a removal of many: other calls go first.
    OfMany { tenant: &'a Tenant, force: bool },
    /// The replicas on segments of a name, or the object; of this writer only.
    Replicas { tenant: &'a Tenant, client: ClientId, segment: Option<Arc<str>> },
}

impl Removal<'_> {
    fn is_forced(&self) -> bool {
        matches!(self, Removal::Whole { force: true, .. } | Removal::OfMany { force: true, .. })
    }

    fn tenant(&self) -> &Tenant {
        match self {
            Removal::Whole { tenant, .. }
            | Removal::OfMany { tenant, .. }
            | Removal::Replicas { tenant, .. } => tenant,
        }
    }

    /// The command; `leased_until` is the end of the last read lease that it breaks.
    fn command(&self, keys: Vec<Key>, leased_until: Option<Millis>) -> Command {
        let tenant = self.tenant().for_command();
        match (self, leased_until) {
            (Removal::Whole { .. } | Removal::OfMany { .. }, Some(leased_until)) => {
                let remove = Remove { tenant, keys };
                Command::RemoveLeased { remove, leased_until }
            }
            (Removal::Whole { .. } | Removal::OfMany { .. }, None) => {
                Command::Remove(Remove { tenant, keys })
            }
            (Removal::Replicas { client, segment, .. }, _) => {
                let (client, segment) = (*client, segment.clone());
                Command::ClearReplicas(ClearReplicas { tenant, client, segment, keys })
            }
        }
    }
}

/// Why a key was not closed to new leases.
enum Unfenceable {
    /// Another removal of it is in flight.
    Busy,
    /// The answer for the client.
    Refused(ErrorCode),
}

fn set(results: &mut [Result<(), ErrorCode>], at: usize, result: Result<(), ErrorCode>) {
    if let Some(place) = results.get_mut(at) {
        *place = result;
    }
}

impl MasterNode {
    /// Removes keys of a tenant on request; one result a key, in order.
    ///
    /// Errors: the node cannot serve; see [`NodeError`].
    pub async fn remove(
        &self,
        tenant: &Tenant,
        keys: Vec<Vec<u8>>,
        force: bool,
    ) -> Result<Vec<Result<(), ErrorCode>>, NodeError> {
        self.remove_each(keys, &Removal::Whole { tenant, force }).await
    }

    /// As [`MasterNode::remove`], a step of a removal of many.
    ///
    /// Errors: as there.
    pub(super) async fn remove_of_many(
        &self,
        tenant: &Tenant,
        keys: Vec<Vec<u8>>,
        force: bool,
    ) -> Result<Vec<Result<(), ErrorCode>>, NodeError> {
        self.remove_each(keys, &Removal::OfMany { tenant, force }).await
    }

    /// Drops replicas of a writer's objects in the default tenant: those on segments of a name, or with `None`
    /// whole objects. One result a key, in order.
    ///
    /// Errors: the node cannot serve; see [`NodeError`].
    pub async fn clear_replicas(
        &self,
        keys: Vec<Vec<u8>>,
        client: ClientId,
        segment: Option<Arc<str>>,
    ) -> Result<Vec<Result<(), ErrorCode>>, NodeError> {
        let tenant = &Tenant::default();
        self.remove_each(keys, &Removal::Replicas { tenant, client, segment }).await
    }

    async fn remove_each(
        &self,
        keys: Vec<Vec<u8>>,
        removal: &Removal<'_>,
    ) -> Result<Vec<Result<(), ErrorCode>>, NodeError> {
        let mut results = Vec::with_capacity(keys.len());
        for chunk in keys.chunks(KEYS_PER_COMMAND_MAX) {
            let has_progress = !results.is_empty();
            let removed = self.remove_chunk(chunk, removal).await;
            results.extend(removed.map_err(|error| error.after_progress(has_progress))?);
        }
        Ok(results)
    }

    /// Removes some keys in rounds: a key whose fence somebody else holds waits for the next round, with none
    /// of our own fences standing meanwhile, so that two removals cannot wait for each other.
    async fn remove_chunk(
        &self,
        keys: &[Vec<u8>],
        removal: &Removal<'_>,
    ) -> Result<Vec<Result<(), ErrorCode>>, NodeError> {
        let mut results = vec![Err(ErrorCode::InternalError); keys.len()];
        let mut open: Vec<usize> = (0..keys.len()).collect();
        for round in 0..FENCE_ROUNDS_MAX {
            if round > 0 {
                tokio::time::sleep(FENCE_ROUND_STEP).await;
            }
            let now = self.leader_guard().await?.now();
            let (mut fenced, mut busy) = (Vec::new(), Vec::new());
            for at in open {
                let Some(key) = keys.get(at) else { continue };
                let verdict = match self.fence(removal.tenant(), key, now, removal.is_forced()) {
                    Ok(()) => {
                        fenced.push((at, Key(key.clone())));
                        continue;
                    }
                    Err(Unfenceable::Busy) => {
                        busy.push(at);
                        continue;
                    }
                    Err(Unfenceable::Refused(code)) => Err(code),
                };
                set(&mut results, at, verdict);
            }
            let done = self.remove_fenced(fenced, removal, now, &mut results).await;
            done.map_err(|error| error.after_progress(round > 0))?;
            open = busy;
            if open.is_empty() {
                return Ok(results);
            }
        }
        Err(NodeError::Unavailable("a removal of the same key is not decided".into()))
    }

    async fn remove_fenced(
        &self,
        fenced: Vec<(usize, Key)>,
        removal: &Removal<'_>,
        now: Millis,
        results: &mut [Result<(), ErrorCode>],
    ) -> Result<(), NodeError> {
        if fenced.is_empty() {
            return Ok(());
        }
        let (places, keys): (Vec<usize>, Vec<Key>) = fenced.into_iter().unzip();
        let ends = keys.iter().map(|key| self.lease_end(removal.tenant(), &key.0));
        let leased_until = ends.max().filter(|end| removal.is_forced() && *end > now);
        let command = removal.command(keys.clone(), leased_until);
        let reply = match removal {
            Removal::OfMany { .. } => self.propose_work(&command).await,
            Removal::Whole { .. } | Removal::Replicas { .. } => self.propose(&command).await,
        };
        // With an unknown outcome the fences stay: see the head of this file.
        if !matches!(reply, Err(NodeError::OutcomeUnknown(_))) {
            keys.iter().for_each(|key| self.unfence(removal.tenant(), &key.0));
        }
        if let Reply::Results(applied) = reply? {
            places.into_iter().zip(applied).for_each(|(at, result)| set(results, at, result));
        }
        Ok(())
    }

    /// Closes a key to new read leases.
    fn fence(
        &self,
        tenant: &Tenant,
        key: &[u8],
        now: Millis,
        force: bool,
    ) -> Result<(), Unfenceable> {
        let view = self.machine().view();
        let directory = view.directory();
        self.look_filed(tenant, key, |found| {
            let found = found.filter(|(_, object)| directory.exists(object));
            let (at, object) = found.ok_or(Unfenceable::Refused(ErrorCode::ObjectNotFound))?;
            if !force && object.has_complete() && self.may_be_promised(object.put_start, now) {
                return Err(Unfenceable::Refused(ErrorCode::ObjectHasLease));
            }
            view.fence(at, object, now, force).map_err(|refused| match refused {
                FenceRefused::Leased => Unfenceable::Refused(ErrorCode::ObjectHasLease),
                FenceRefused::AlreadyFenced => Unfenceable::Busy,
            })
        })
    }

    /// When the last read lease of a key ends, its own or its group's.
    fn lease_end(&self, tenant: &Tenant, key: &[u8]) -> Millis {
        let view = self.machine().view();
        self.look_filed(tenant, key, |found| {
            found.map(|(at, object)| view.lease_end(at, object)).unwrap_or_default()
        })
    }

    fn unfence(&self, tenant: &Tenant, key: &[u8]) {
        self.look_filed(tenant, key, |found| {
            if let Some((_, object)) = found {
                object.lease.unfence();
            }
        });
    }

    fn look_filed<R>(
        &self,
        tenant: &Tenant,
        key: &[u8],
        look: impl FnOnce(Option<(ObjectRef, &Object)>) -> R,
    ) -> R {
        let view = self.machine().view();
        match view.tenant_idx(tenant) {
            Some(index) => view.table.look_filed(table_hash(tenant, key), index, key, look),
            None => look(None),
        }
    }

    /// Opens every key: the fences of an earlier term have lost their meaning once this node leads again.
    pub(super) fn unfence_all(&self) {
        for shard in 0..SHARD_COUNT {
            self.machine().view().table.look_shard(shard, |shard| {
                shard.objects().for_each(|object| object.lease.unfence());
            });
        }
    }

    /// Removes every object of a tenant, or of all tenants, that may be removed, or with `force` also those under a
    /// read lease. Unfinished writes stay. Returns how many went.
    ///
    /// Errors: the node cannot serve; what was removed until then stays removed.
    pub async fn remove_all(&self, tenant: Option<&Tenant>, force: bool) -> Result<u64, NodeError> {
        let now = self.leader_guard().await?.now();
        let view = self.machine().view();
        let wanted = match tenant.map(|tenant| view.tenant_idx(tenant)) {
            Some(None) => return Ok(0),
            Some(wanted) => wanted,
            None => None,
        };
        let mut removed = 0;
        for shard in 0..SHARD_COUNT {
            let keys = view.table.look_shard(shard, |shard| {
                let is_open = |object: &&Object| {
                    let is_wanted = wanted.is_none_or(|wanted| object.tenant == wanted);
                    is_wanted && is_removable(object, now, force)
                };
                let mut keys: BTreeMap<TenantIdx, Vec<Vec<u8>>> = BTreeMap::new();
                for object in shard.objects().filter(is_open) {
                    keys.entry(object.tenant).or_default().push(object.key.to_vec());
                }
                keys
            });
            for (tenant, mut keys) in keys.unwrap_or_default() {
                let Some(tenant) = self.look(|state| state.tenant_name(tenant).cloned()) else {
                    continue;
                };
                keys.sort_unstable();
                let results = self.remove_of_many(&tenant, keys, force).await;
                let results = results.map_err(|error| error.after_progress(removed > 0))?;
                removed += results.iter().filter(|result| result.is_ok()).count() as u64;
            }
        }
        Ok(removed)
    }
}
