//! Copies and moves of replicas between segments (behaviour 8.1 to 8.3), which clients carry out.
//!
//! A transfer reads one COMPLETE replica, the source, and writes PROCESSING ones, the targets. While it is
//! open the source is counted as used and no write can end or revoke a target. Guards: one transfer an
//! object; it goes with its object. It never starts, moves or clears a soft pin: only a write's own replica
//! does that (`put.rs`).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::State;
use super::allocate::SegmentPool;
use super::command::Key;
use super::dynamic::command::DynamicToken;
use super::put::KeyAt;
use crate::alloc::{Rng, allocate_on};
use crate::model::{
    ClientId, Descriptor, ErrorCode, Millis, Object, ObjectKey, ObjectRef, Replica, ReplicaId,
    ReplicaStatus, SegmentStatus, Tenant,
};

/// What becomes of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TransferKind {
    /// It stays.
    Copy,
    /// It goes when the target is complete.
    Move,
}

/// Starts a copy or a move.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransferStart {
    /// Who carries it out.
    pub client: ClientId,
    /// Name space; `None` is the default one.
    pub tenant: Option<Tenant>,
    /// The object.
    pub key: Key,
    /// Which of the two.
    pub kind: TransferKind,
    /// Segment name to read from.
    pub source: Arc<str>,
    /// Segment names to write to; exactly one for a move.
    pub targets: Vec<Arc<str>>,
}

/// How a transfer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TransferVerdict {
    /// The targets were written.
    Done,
    /// They were not, and nobody writes them any more.
    Revoked,
}

/// Ends or revokes a copy or a move.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransferEnd {
    /// Who started it.
    pub client: ClientId,
    /// Name space.
    pub tenant: Option<Tenant>,
    /// The object.
    pub key: Key,
    /// Which of the two the caller takes it for.
    pub kind: TransferKind,
    /// Whether it worked.
    pub verdict: TransferVerdict,
    /// Whether the caller names a dynamic replica without saying which. Only entries of before dynamic
    /// replication do; since then the token is told beside this.
    pub is_dynamic: bool,
    /// How long the memory of a moved replica stays reserved for those who still read it.
    pub release_timeout_ms: u64,
}

/// The replicas of a started transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransferStarted {
    /// To read.
    pub source: Descriptor,
    /// To write; a target that has a replica already is not among them.
    pub targets: Vec<Descriptor>,
}

/// An open copy or move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The object, by name: references differ between nodes.
    pub name: ObjectKey,
    /// Which of the two.
    pub kind: TransferKind,
    /// Who carries it out.
    pub client: ClientId,
    /// The replica that is read.
    pub source: ReplicaId,
    /// The replicas that are written.
    pub targets: Vec<ReplicaId>,
    /// When it started.
    pub started: Millis,
    /// What its end must name, too; all zeros for one that was not reserved.
    pub token: DynamicToken,
}

/// Every open transfer.
#[derive(Clone, Debug, Default)]
pub struct Transfers {
    by_object: BTreeMap<ObjectRef, Transfer>,
    /// Derived. Invariant: the same transfers in the order in which they end by themselves; the source's
    /// number makes it the same order on every node.
    by_start: BTreeMap<(Millis, ReplicaId), ObjectRef>,
}

impl Transfers {
    /// Adds the transfer of an object that has none.
    pub fn insert(&mut self, object: ObjectRef, transfer: Transfer) {
        self.by_start.insert((transfer.started, transfer.source), object);
        self.by_object.insert(object, transfer);
    }

    /// Takes the transfer of an object out.
    pub fn remove(&mut self, object: ObjectRef) -> Option<Transfer> {
        let transfer = self.by_object.remove(&object)?;
        self.by_start.remove(&(transfer.started, transfer.source));
        Some(transfer)
    }

    /// The transfer of an object.
    pub fn get(&self, object: ObjectRef) -> Option<&Transfer> {
        self.by_object.get(&object)
    }

    /// Sets the token of a transfer that an image has told of before.
    pub(super) fn set_token(&mut self, object: ObjectRef, token: DynamicToken) -> bool {
        let found = self.by_object.get_mut(&object);
        found.map(|transfer| transfer.token = token).is_some()
    }

    /// The oldest transfer.
    pub fn oldest(&self) -> Option<(Millis, ObjectRef)> {
        self.by_start.first_key_value().map(|((started, _), object)| (*started, *object))
    }

    /// Every transfer, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Transfer> {
        self.by_start.values().filter_map(|object| self.by_object.get(object))
    }

    /// Number of open transfers.
    pub fn len(&self) -> usize {
        self.by_object.len()
    }

    /// Whether none is open.
    pub fn is_empty(&self) -> bool {
        self.by_object.is_empty()
    }
}

impl State {
    /// Whether a copy or move of the object is open.
    pub fn has_transfer(&self, object: ObjectRef) -> bool {
        self.transfers.get(object).is_some()
    }

    /// Open copies and moves.
    pub fn transfers(&self) -> &Transfers {
        &self.transfers
    }

    /// Errors, checked in this order: `InvalidParams` for a move onto itself; `TenantNotRegistered`;
    /// `SegmentNotFound` or `UnavailableInCurrentStatus` for a target; `ObjectNotFound`; `ObjectHasReplicationTask`,
    /// for a copy also while one of the object is reserved; `ReplicaNotFound` without a COMPLETE replica on the
    /// source; `TenantQuotaExceeded`; `NoAvailableHandle` if a target is full.
    pub(super) fn transfer_start(
        &mut self,
        start: &TransferStart,
        token: DynamicToken,
        rng: &mut Rng,
    ) -> Result<TransferStarted, ErrorCode> {
        let is_onto_itself = start.targets.contains(&start.source);
        if start.kind == TransferKind::Move && is_onto_itself {
            return Err(ErrorCode::InvalidParams);
        }
        let tenant = start.tenant.clone().unwrap_or_default();
        self.admit(&tenant)?;
        for target in &start.targets {
            self.check_target(target)?;
        }
        let at = KeyAt::new(&tenant, &start.key.0);
        let object = self.open_for_write(at).ok_or(ErrorCode::ObjectNotFound)?;
        let is_copy = start.kind == TransferKind::Copy;
        if self.has_transfer(object) || (is_copy && self.is_reserved(object)) {
            return Err(ErrorCode::ObjectHasReplicationTask);
        }
        let (source, size) = self.find_source(object, &start.source)?;
        let targets = self.reserve_targets(object, size, &start.targets, rng)?;
        self.transfers.insert(
            object,
            Transfer {
                name: ObjectKey { key: at.key.into(), tenant: tenant.clone() },
                kind: start.kind,
                client: start.client,
                source,
                targets: targets.iter().map(|replica| replica.id).collect(),
                started: self.clock,
                token,
            },
        );
        self.attach(object, source, targets)
    }

    /// Whether a segment name can take a replica.
    pub(super) fn check_target(&self, name: &str) -> Result<(), ErrorCode> {
        let mut statuses = self.segments.named(name).map(|(_, mounted)| mounted.status);
        let mut is_mounted = false;
        let is_ok = statuses.any(|status| {
            is_mounted |= status.is_readable();
            status == SegmentStatus::Ok
        });
        match (is_ok, is_mounted) {
            (true, _) => Ok(()),
            (false, true) => Err(ErrorCode::UnavailableInCurrentStatus),
            (false, false) => Err(ErrorCode::SegmentNotFound),
        }
    }

    /// Whether a replica lies on a segment of that name.
    pub(super) fn is_on(&self, replica: &Replica, name: &str) -> bool {
        let mounted = replica.place.segment().and_then(|segment| self.segments.get(segment));
        mounted
            .is_some_and(|mounted| mounted.status.is_readable() && &*mounted.segment.name == name)
    }

    /// The replica to read on a segment of that name, and its bytes. Errors: `ReplicaNotFound`.
    pub(super) fn find_source(
        &self,
        object: ObjectRef,
        name: &str,
    ) -> Result<(ReplicaId, u64), ErrorCode> {
        let find = |object: &Object| {
            let mut complete = object.replicas.iter().filter(|replica| replica.is_complete());
            let source = complete.find(|replica| self.is_on(replica, name))?;
            Some((source.id, object.size))
        };
        self.view.table.peek(object, find).flatten().ok_or(ErrorCode::ReplicaNotFound)
    }

    /// Reserves one replica on each target that has none; all or nothing. A name that is listed twice gets
    /// one (the peer gives it two).
    fn reserve_targets(
        &mut self,
        object: ObjectRef,
        size: u64,
        names: &[Arc<str>],
        rng: &mut Rng,
    ) -> Result<Vec<Replica>, ErrorCode> {
        let mut free: SmallVec<[&Arc<str>; 4]> = SmallVec::new();
        for name in names {
            let is_taken = |o: &Object| o.replicas.iter().any(|replica| self.is_on(replica, name));
            let is_taken = self.view.table.peek(object, is_taken).unwrap_or(true);
            if !is_taken && !free.contains(&name) {
                free.push(name);
            }
        }
        let tenant = self.view.table.peek(object, |object| object.tenant);
        if let Some(tenant) = tenant.and_then(|tenant| self.tenant_name(tenant)) {
            self.check_quota(tenant, size.saturating_mul(free.len() as u64), 0)?;
        }
        let mut targets = Vec::with_capacity(free.len());
        for name in free {
            let position = self.segments.allocatable().position(name);
            let mut pool = SegmentPool { segments: &mut self.segments, size };
            let placed = position.map(|position| allocate_on(position, rng, &mut pool));
            let failure = match placed {
                Some(Some(placed)) => {
                    targets.push(self.new_memory_replica(&placed.space));
                    continue;
                }
                Some(None) => ErrorCode::NoAvailableHandle,
                None => ErrorCode::SegmentNotFound,
            };
            targets.iter().for_each(|target: &Replica| self.free(&target.place));
            return Err(failure);
        }
        Ok(targets)
    }

    /// Hangs reserved targets on the object and describes what was started.
    fn attach(
        &mut self,
        object: ObjectRef,
        source: ReplicaId,
        targets: Vec<Replica>,
    ) -> Result<TransferStarted, ErrorCode> {
        for (segment, node) in targets.iter().filter_map(super::settle::memory_node) {
            self.own(segment, node, object.0);
        }
        let used = targets.into_iter().map(|target| Replica { references: 1, ..target });
        let ids = self.edit(object, |object| {
            object.replicas.iter_mut().filter(|r| r.id == source).for_each(|r| r.references += 1);
            let first = object.replicas.len();
            object.replicas.extend(used);
            object.replicas.iter().skip(first).map(|replica| replica.id).collect::<Vec<_>>()
        });
        let ids = ids.unwrap_or_default();
        let directory = self.view.directory();
        let describe = |object: &Object| {
            let describe = |replica: &Replica| directory.describe(replica, object.size);
            let source = object.replicas.iter().find(|r| r.id == source).and_then(describe)?;
            let targets = object.replicas.iter().filter(|r| ids.contains(&r.id));
            Some(TransferStarted { source, targets: targets.filter_map(describe).collect() })
        };
        self.view.table.peek(object, describe).flatten().ok_or(ErrorCode::InternalError)
    }

    /// Errors, checked in this order: `ObjectNotFound`, `ObjectNoReplicationTask`, `IllegalClient`,
    /// `InvalidParams` if it is the other kind, `InvalidVersion` for another token than that of its start.
    /// `ReplicaIsGone` means that the transfer is over and not everything could be kept.
    pub(super) fn transfer_end(
        &mut self,
        end: &TransferEnd,
        token: DynamicToken,
    ) -> Result<(), ErrorCode> {
        let tenant = end.tenant.clone().unwrap_or_default();
        let at = KeyAt::new(&tenant, &end.key.0);
        let object = self.open_for_write(at).ok_or(ErrorCode::ObjectNotFound)?;
        let transfer = self.transfers.get(object).ok_or(ErrorCode::ObjectNoReplicationTask)?;
        if transfer.client != end.client {
            return Err(ErrorCode::IllegalClient);
        }
        if transfer.kind != end.kind {
            return Err(ErrorCode::InvalidParams);
        }
        if end.is_dynamic || transfer.token != token {
            return Err(ErrorCode::InvalidVersion);
        }
        let Some(transfer) = self.transfers.remove(object) else {
            return Err(ErrorCode::ObjectNoReplicationTask);
        };
        let ended = self.finish_transfer(object, &transfer, end);
        if token != DynamicToken::default() {
            let made = if ended.is_ok() && end.verdict == TransferVerdict::Done {
                transfer.targets.as_slice()
            } else {
                &[]
            };
            self.note_dynamic_end(object, made);
        }
        ended
    }

    fn finish_transfer(
        &mut self,
        object: ObjectRef,
        transfer: &Transfer,
        end: &TransferEnd,
    ) -> Result<(), ErrorCode> {
        let is_source_there = self.release_source(object, transfer);
        if end.verdict == TransferVerdict::Revoked || !is_source_there {
            // The caller says that it does not write any more, so the memory is free at once.
            self.drop_replicas(object, |replica| transfer.targets.contains(&replica.id));
            self.erase_if_gone(object);
            let is_revoked = end.verdict == TransferVerdict::Revoked;
            return if is_revoked { Ok(()) } else { Err(ErrorCode::ReplicaIsGone) };
        }
        self.complete_targets(object, transfer)?;
        if transfer.kind == TransferKind::Move {
            let release_at = Millis(self.clock.0.saturating_add(end.release_timeout_ms));
            self.discard_replicas(object, release_at, |replica| replica.id == transfer.source);
        }
        Ok(())
    }

    /// Makes the targets readable.
    ///
    /// Errors: `ReplicaIsGone` if one has vanished; also if a move would leave nothing to read, because the
    /// replica that its target had already is gone (the peer drops the last copy then).
    fn complete_targets(
        &mut self,
        object: ObjectRef,
        transfer: &Transfer,
    ) -> Result<(), ErrorCode> {
        let is_kept = self.edit(object, |object| {
            let mut done = 0;
            for replica in object.replicas.iter_mut() {
                if transfer.targets.contains(&replica.id) {
                    replica.status = ReplicaStatus::Complete;
                    replica.references = 0;
                    done += 1;
                }
            }
            let mut others = object.replicas.iter().filter(|r| r.id != transfer.source);
            let is_movable =
                transfer.kind == TransferKind::Copy || others.any(Replica::is_complete);
            done == transfer.targets.len() && is_movable
        });
        if is_kept == Some(true) { Ok(()) } else { Err(ErrorCode::ReplicaIsGone) }
    }

    /// Stops counting the source as used; returns whether it can still be read.
    fn release_source(&mut self, object: ObjectRef, transfer: &Transfer) -> bool {
        let released = self.edit(object, |object| {
            let mut replicas = object.replicas.iter_mut();
            let source = replicas.find(|replica| replica.id == transfer.source)?;
            source.references = source.references.saturating_sub(1);
            Some(source.is_complete())
        });
        released.flatten() == Some(true)
    }

    /// Ends up to `items_max` transfers that are older than the release timeout. Their targets are set aside
    /// until that timeout, which is over. Returns how many.
    pub(super) fn sweep_transfers(&mut self, items_max: u32, release_timeout_ms: u64) -> u64 {
        let mut dropped = 0;
        for _ in 0..items_max {
            let Some((started, object)) = self.transfers.oldest() else { return dropped };
            let release_at = Millis(started.0.saturating_add(release_timeout_ms));
            if release_at > self.clock {
                return dropped;
            }
            let Some(transfer) = self.transfers.remove(object) else { return dropped };
            self.release_source(object, &transfer);
            self.discard_replicas(object, release_at, |r| transfer.targets.contains(&r.id));
            if transfer.token != DynamicToken::default() {
                self.note_dynamic_end(object, &[]);
            }
            self.erase_if_gone(object);
            dropped += 1;
        }
        dropped
    }
}

#[cfg(test)]
pub(crate) mod tests;
