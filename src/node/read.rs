//! The only way to serve a read: prove that this node leads, then look and grant a read lease.
//!
//! A read makes no entry and never touches a soft pin. [`LeaderGuard`] can only be made by the leadership
//! check, so a read that takes one cannot forget it.

use std::sync::Arc;
use std::time::Duration;

use super::MasterNode;
use super::error::NodeError;
use crate::model::object::Fenced;
use crate::model::{Deadline, Descriptor, ErrorCode, Millis, Object, Tenant};
use crate::plant::{Bug, is_planted};
use crate::state::table::table_hash;
use crate::state::view::{Directory, View};

/// How often a read looks whether the removal of its key is decided, and how many times. Together several
/// seconds: longer means that the log does not move.
const FENCE_LOOK_STEP: Duration = Duration::from_millis(1);
const FENCE_LOOKS_MAX: u32 = 5_000;

/// Proof that this node may answer reads now. Use it at once and never keep it across a wait.
pub struct LeaderGuard<'a> {
    view: &'a View,
    directory: Arc<Directory>,
    now: Millis,
    lease_until: Deadline,
    term: u64,
}

/// What a read finds of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Readable replicas, in order; not empty.
    pub replicas: Vec<Descriptor>,
    /// Checksum that the writer gave.
    pub checksum: Option<u64>,
    /// Bytes.
    pub size: u64,
}

/// A read that has to be tried again: the key's removal is being decided.
pub type MaybeFenced<T> = Result<T, Fenced>;

impl MasterNode {
    /// Proves leadership from the lease, asking a quorum if it is stale.
    ///
    /// Errors: another node leads, or nobody does.
    pub async fn leader_guard(&self) -> Result<LeaderGuard<'_>, NodeError> {
        let lease = self.raft().read_barrier().await?;
        Ok(self.guard_now(lease.term()))
    }

    /// Proves leadership from the lease alone; `None` if it is stale.
    pub fn try_leader_guard(&self) -> Option<LeaderGuard<'_>> {
        self.raft().read_lease().map(|lease| self.guard_now(lease.term()))
    }

    fn guard_now(&self, term: u64) -> LeaderGuard<'_> {
        let view = self.machine().view();
        let now = self.clock().now(view.clock());
        let lease_until = now.after(self.settings().lease_ttl);
        LeaderGuard { view, directory: view.directory(), now, lease_until, term }
    }

    /// Reads one key, again until a removal of it is decided.
    ///
    /// Errors: leadership is lost, or the removal is not decided in time.
    pub async fn read<R: Read>(&self, tenant: &Tenant, key: &[u8]) -> Result<R::Found, NodeError> {
        // Nearly always the first look answers, so it costs no timer.
        if let Ok(found) = R::read(&self.leader_guard().await?, tenant, key) {
            return Ok(found);
        }
        self.read_fenced::<R>(tenant, key).await
    }

    async fn read_fenced<R: Read>(
        &self,
        tenant: &Tenant,
        key: &[u8],
    ) -> Result<R::Found, NodeError> {
        for _ in 0..FENCE_LOOKS_MAX {
            tokio::time::sleep(FENCE_LOOK_STEP).await;
            if let Ok(found) = R::read(&self.leader_guard().await?, tenant, key) {
                return Ok(found);
            }
        }
        let why = "a removal of the key is not decided; the log does not move";
        Err(NodeError::Unavailable(why.into()))
    }

    /// Reads many keys under one proof of leadership; the few whose removal is being decided are read again.
    ///
    /// Errors: as [`MasterNode::read`].
    pub async fn read_many<R: Read>(
        &self,
        tenant: &Tenant,
        keys: &[&[u8]],
    ) -> Result<Vec<R::Found>, NodeError> {
        let looks: Vec<MaybeFenced<R::Found>> = {
            let guard = self.leader_guard().await?;
            keys.iter().map(|key| R::read(&guard, tenant, key)).collect()
        };
        let mut found = Vec::with_capacity(looks.len());
        for (at, look) in looks.into_iter().enumerate() {
            found.push(match look {
                Ok(value) => value,
                Err(_fenced) => {
                    let key = keys.get(at).copied().unwrap_or_default();
                    self.read_fenced::<R>(tenant, key).await?
                }
            });
        }
        Ok(found)
    }
}

/// A kind of read.
pub trait Read {
    /// What it finds.
    type Found: Send;

    /// Looks and grants. Errors: a removal of the key is being decided.
    fn read(guard: &LeaderGuard<'_>, tenant: &Tenant, key: &[u8]) -> MaybeFenced<Self::Found>;
}

/// Whether a key is readable.
pub struct Exists;

impl Read for Exists {
    type Found = bool;

    fn read(guard: &LeaderGuard<'_>, tenant: &Tenant, key: &[u8]) -> MaybeFenced<bool> {
        guard.exists(tenant, key)
    }
}

/// The readable replicas of a key.
pub struct FindReplicas;

impl Read for FindReplicas {
    type Found = Result<Found, ErrorCode>;

    fn read(guard: &LeaderGuard<'_>, tenant: &Tenant, key: &[u8]) -> MaybeFenced<Self::Found> {
        guard.replicas(tenant, key)
    }
}

impl LeaderGuard<'_> {
    /// The leader's time.
    pub fn now(&self) -> Millis {
        self.now
    }

    /// The term in which this node leads.
    pub fn term(&self) -> u64 {
        self.term
    }

    /// Segments and clients.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    fn look<R>(&self, tenant: &Tenant, key: &[u8], look: impl FnOnce(Option<&Object>) -> R) -> R {
        match self.view.tenant_idx(tenant) {
            Some(index) => self.view.table.look(table_hash(tenant, key), index, key, look),
            None => look(None),
        }
    }

    /// Whether a key is known, readable or not. Grants nothing.
    pub fn is_there(&self, tenant: &Tenant, key: &[u8]) -> bool {
        self.look(tenant, key, |object| object.is_some_and(|object| self.directory.exists(object)))
    }

    fn grant(&self, object: &Object) -> MaybeFenced<()> {
        let granted = object.lease.grant(self.lease_until);
        if is_planted(Bug::LeaseAfterFence) { Ok(()) } else { granted }
    }

    /// Whether a key is readable; grants a read lease to it and its group if so. Errors: a removal is being decided.
    pub fn exists(&self, tenant: &Tenant, key: &[u8]) -> MaybeFenced<bool> {
        let group = self.look(tenant, key, |object| match object {
            Some(object) if self.directory.is_readable(object) => {
                self.grant(object).map(|()| Some(object.group))
            }
            _ => Ok(None),
        })?;
        if let Some(group) = group {
            self.view.lease_group(group, self.lease_until);
        }
        Ok(group.is_some())
    }

    /// The readable replicas of a key under a read lease of it and its group.
    ///
    /// Inner errors: `ObjectNotFound`, `ReplicaIsNotReady`.
    pub fn replicas(&self, tenant: &Tenant, key: &[u8]) -> MaybeFenced<Result<Found, ErrorCode>> {
        let found = self.look(tenant, key, |object| {
            let Some(object) = object else { return Ok(Err(ErrorCode::ObjectNotFound)) };
            let replicas = self.directory.describe_readable(object);
            if replicas.is_empty() {
                let exists = self.directory.exists(object);
                let not_ready = ErrorCode::ReplicaIsNotReady;
                return Ok(Err(if exists { not_ready } else { ErrorCode::ObjectNotFound }));
            }
            self.grant(object)?;
            let found = Found { replicas, checksum: object.checksum(), size: object.size };
            Ok(Ok((found, object.group)))
        })?;
        // The members' locks are taken one by one, when the key's own is no longer held.
        Ok(found.map(|(found, group)| {
            self.view.lease_group(group, self.lease_until);
            found
        }))
    }
}
