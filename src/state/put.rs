//! PutStart, PutEnd, PutRevoke: the life of a write (behaviour 2).
//!
//! A write reserves replicas, becomes readable with its first End, and commits its soft-pin request exactly
//! then: when an End takes the object from no readable replica to one, by a replica of this very write.

use crate::alloc::Rng;
use crate::model::object::Lease;
use crate::model::soft_pin::commit;
use crate::model::{
    ClientId, Deadline, Eligible, ErrorCode, Millis, NewObject, Object, ObjectRef, PendingPin,
    Replica, ReplicaId, ReplicaSelect, ReplicaStatus, Replicas, Tenant, TenantIdx,
};

use super::State;
use super::command::{End, EndItem, Revoke, Start, StartItem};
use super::discards::Discard;
use super::reply::Started;
use super::table::table_hash;

/// A key on its way through a command: tenant, bytes, and where it is filed.
#[derive(Clone, Copy)]
pub(super) struct KeyAt<'a> {
    pub tenant: &'a Tenant,
    pub key: &'a [u8],
    pub hash: u64,
}

impl<'a> KeyAt<'a> {
    pub fn new(tenant: &'a Tenant, key: &'a [u8]) -> Self {
        KeyAt { tenant, key, hash: table_hash(tenant, key) }
    }
}

/// What a new object has from its request, or takes over from the object that it replaces.
pub(super) struct Origin {
    /// Its group; empty for none.
    pub group: Box<[u8]>,
    /// A committed pin that is in force and stays so until the write becomes readable or it ends.
    pub pin: Option<Deadline>,
    /// Never evicted.
    pub is_hard_pinned: bool,
    /// Leader-local: a removal of the key is in flight. It will meet this object, so its fence must, too;
    /// otherwise a reader could be given a lease on what the removal is about to free.
    pub is_fenced: bool,
}

impl Origin {
    pub fn of_request(start: &Start, item: &StartItem) -> Self {
        Origin {
            group: item.group.as_ref().map(|group| Box::from(&*group.0)).unwrap_or_default(),
            pin: None,
            is_hard_pinned: start.config.is_hard_pinned,
            is_fenced: false,
        }
    }
}

/// Bytes that the start of a write charges, whatever can be placed.
pub(super) fn charge(start: &Start, item: &StartItem) -> u64 {
    item.size.saturating_mul(u64::from(start.config.replica_num))
}

/// The replicas of a write that may commit its soft-pin request, ascending.
pub(super) fn eligible(replicas: &[Replica]) -> Eligible {
    let mut ids: Eligible = replicas.iter().map(|replica| replica.id).collect();
    ids.sort_unstable();
    ids
}

impl State {
    pub(super) fn put_start(&mut self, start: &Start, rng: &mut Rng) -> Vec<Started> {
        let tenant = start.tenant.clone().unwrap_or_default();
        self.note_host(start.client, &start.config.host_id);
        let mut preferred_by_first = None;
        let mut results = Vec::with_capacity(start.items.len());
        for item in &start.items {
            let at = KeyAt::new(&tenant, &item.key.0);
            let started = self.put_start_one(start, item, at, preferred_by_first.as_ref(), rng);
            if start.config.is_same_node_preferred
                && preferred_by_first.is_none()
                && let Ok(descriptors) = &started
            {
                preferred_by_first = super::allocate::last_endpoint(descriptors);
            }
            results.push(started);
        }
        results
    }

    fn put_start_one(
        &mut self,
        start: &Start,
        item: &StartItem,
        at: KeyAt<'_>,
        preferred: Option<&std::sync::Arc<str>>,
        rng: &mut Rng,
    ) -> Started {
        self.admit(at.tenant)?;
        let mut origin = Origin::of_request(start, item);
        if let Some(existing) = self.open_for_write(at) {
            origin.is_fenced = self.remove_zombie(existing, start)?;
        }
        self.check_quota(at.tenant, charge(start, item), 0)?;
        let replicas = self.allocate(start, item.size, at, preferred, rng)?;
        let object = self.insert_started(start, item, at, replicas, origin)?;
        Ok(self.describe_all(object))
    }

    /// Makes room for a new write where an unfinished one is older than the discard timeout. Returns whether a
    /// removal fence stood on it.
    ///
    /// Errors: `ObjectAlreadyExists` if anything is readable or the write is young.
    fn remove_zombie(&mut self, object: ObjectRef, start: &Start) -> Result<bool, ErrorCode> {
        let clock = self.clock;
        let is_zombie = self.view.table.peek(object, |object| {
            let give_up = object.put_start.0.saturating_add(start.rules.discard_timeout_ms);
            !object.has_complete() && give_up < clock.0
        });
        if is_zombie != Some(true) {
            return Err(ErrorCode::ObjectAlreadyExists);
        }
        // All that is left may be the target of a copy that began long after the object was put.
        let copied = self.transfers.get(object).map(|transfer| transfer.started);
        let promoted = self.tiers.promotions().get(object).map(|promotion| promotion.started);
        let copied = copied.max(promoted).unwrap_or_default();
        let started = self.view.table.peek(object, |object| object.put_start).unwrap_or_default();
        let started = started.max(copied);
        let release_at = Millis(started.0.saturating_add(start.rules.release_timeout_ms));
        self.discard_replicas(object, release_at, |replica| !replica.is_complete());
        Ok(self.erase(object))
    }

    /// Moves the chosen replicas of an object to the set-aside memory.
    pub(super) fn discard_replicas(
        &mut self,
        object: ObjectRef,
        release_at: Millis,
        is_chosen: impl Fn(&Replica) -> bool,
    ) {
        let taken = self.edit(object, |object| {
            let taken = object.take_replicas(&is_chosen);
            (taken, object.size)
        });
        let until = self.saved_until_of(object);
        let Some((replicas, size)) = taken else { return };
        self.set_aside(replicas, size, until, release_at);
    }

    /// Keeps the memory of replicas that are no object's any more until nobody can be writing it.
    pub(super) fn set_aside(
        &mut self,
        replicas: Vec<Replica>,
        size: u64,
        until: super::guard::SavedUntil,
        release_at: Millis,
    ) {
        if replicas.is_empty() {
            return;
        }
        for (segment, node) in replicas.iter().filter_map(super::settle::memory_node) {
            self.own(segment, node, NO_OWNER);
        }
        self.counters.discards += 1;
        let (release_at, held) = self.hold_longer(&replicas, until, release_at);
        self.discards.push(release_at, Discard { replicas, size, held });
    }

    /// Files the object of a started write, with its soft-pin request pending on all its replicas.
    ///
    /// Errors: `NoAvailableHandle` if the shard is full; the replicas are given back.
    pub(super) fn insert_started(
        &mut self,
        start: &Start,
        item: &StartItem,
        at: KeyAt<'_>,
        replicas: Replicas,
        origin: Origin,
    ) -> Result<ObjectRef, ErrorCode> {
        let places: Vec<_> = replicas.iter().map(|replica| replica.place.clone()).collect();
        let object = self.started(start, item, at, replicas, origin);
        let (writer, tenant, group) = (object.writer, object.tenant, object.group);
        if let Some(object) = self.file(at.hash, object) {
            return Ok(object);
        }
        places.iter().for_each(|place| self.free(place));
        self.release_numbers(writer, tenant, group);
        Err(ErrorCode::NoAvailableHandle)
    }

    /// The object of a started write, not filed yet, with its soft-pin request pending on all its replicas.
    pub(super) fn started(
        &mut self,
        start: &Start,
        item: &StartItem,
        at: KeyAt<'_>,
        replicas: Replicas,
        origin: Origin,
    ) -> Object {
        let eligible = eligible(&replicas);
        let tenant = self.acquire_tenant(at.tenant);
        let mut object = Object::new(NewObject {
            key: at.key.into(),
            tenant,
            size: item.size,
            put_start: self.clock,
            writer: crate::model::WriterIdx(self.writers.acquire(&start.client)),
            group: self.acquire_group(tenant, &origin.group),
            data_type: start.config.data_type,
            is_hard_pinned: origin.is_hard_pinned,
            replicas,
        });
        object.set_pending(Some(PendingPin { request: start.config.pin, eligible }));
        object.is_processing = true;
        object.set_pin(origin.pin);
        if origin.is_fenced {
            object.lease = Lease::fenced();
        }
        object
    }

    pub(super) fn put_end(&mut self, end: &End) -> Vec<Result<(), ErrorCode>> {
        let tenant = end.tenant.clone().unwrap_or_default();
        let finish = |item: &EndItem| {
            let object = self.open_as_writer(&tenant, &item.key.0, end.client)?;
            let clock = self.clock;
            self.edit(object, |object| finish(object, end.select, item.checksum, clock))
                .unwrap_or(Err(ErrorCode::ObjectNotFound))
        };
        end.items.iter().map(finish).collect()
    }

    pub(super) fn put_revoke(&mut self, revoke: &Revoke) -> Vec<Result<(), ErrorCode>> {
        let tenant = revoke.tenant.clone().unwrap_or_default();
        let take_back = |key: &super::command::Key| {
            let object = self.open_as_writer(&tenant, &key.0, revoke.client)?;
            self.revoke_one(object, revoke.select)
        };
        revoke.keys.iter().map(take_back).collect()
    }

    fn revoke_one(&mut self, object: ObjectRef, select: ReplicaSelect) -> Result<(), ErrorCode> {
        let taken = self.edit(object, |object| {
            let is_chosen = |replica: &Replica| {
                select.covers(replica.place.kind()) && !replica.is_transfer_target()
            };
            if !object.is_processing
                || object.replicas.iter().any(|r| is_chosen(r) && r.is_complete())
            {
                return Err(ErrorCode::InvalidWrite);
            }
            let taken = object.take_replicas(is_chosen);
            settle_write(object);
            Ok(taken)
        });
        // The writer says that no transfer is in flight, so the memory is free at once.
        self.release_all(object, taken.unwrap_or(Err(ErrorCode::ObjectNotFound))?);
        self.erase_if_gone(object);
        Ok(())
    }

    /// Finds an object for its writer.
    ///
    /// Errors: `ObjectNotFound`; `IllegalClient` if another client writes it.
    fn open_as_writer(
        &mut self,
        tenant: &Tenant,
        key: &[u8],
        client: ClientId,
    ) -> Result<ObjectRef, ErrorCode> {
        let object =
            self.open_for_write(KeyAt::new(tenant, key)).ok_or(ErrorCode::ObjectNotFound)?;
        let writer = self.view.table.peek(object, |object| object.writer);
        let is_writer = writer.and_then(|writer| self.writer_id(writer)) == Some(client);
        if is_writer { Ok(object) } else { Err(ErrorCode::IllegalClient) }
    }

    /// An object by name, whatever its state.
    pub(super) fn find_filed(&self, at: KeyAt<'_>) -> Option<ObjectRef> {
        let tenant = TenantIdx(self.tenants.number(at.tenant)?);
        self.view.table.locate(at.hash, tenant, at.key)
    }

    /// Finds an object for a change: replicas on segments or disks that are gone are dropped first, and the object
    /// with them if nothing is left (behaviour 1.5).
    pub(super) fn open_for_write(&mut self, at: KeyAt<'_>) -> Option<ObjectRef> {
        let object = self.find_filed(at)?;
        let is_gone = |replica: &Replica| self.is_lost(replica);
        let has_gone = self.view.table.peek(object, |object| object.replicas.iter().any(is_gone));
        if has_gone != Some(true) {
            return Some(object);
        }
        let gone: Vec<ReplicaId> = self.view.table.peek(object, |object| {
            object.replicas.iter().filter(|r| is_gone(r)).map(|r| r.id).collect()
        })?;
        self.drop_replicas(object, |replica| gone.contains(&replica.id));
        self.erase_if_gone(object);
        self.find_filed(at)
    }

    /// Drops the chosen replicas of an object and frees their space.
    pub(super) fn drop_replicas(
        &mut self,
        object: ObjectRef,
        is_chosen: impl Fn(&Replica) -> bool,
    ) {
        let dropped = self.edit(object, |object| {
            let dropped = object.take_replicas(&is_chosen);
            settle_write(object);
            dropped
        });
        self.release_all(object, dropped.unwrap_or_default());
    }

    /// Erases an object that has no replica left.
    pub(super) fn erase_if_gone(&mut self, object: ObjectRef) {
        if self.view.table.peek(object, |object| object.replicas.is_empty()) == Some(true) {
            self.erase(object);
        }
    }

    pub(super) fn describe_all(&self, object: ObjectRef) -> Vec<crate::model::Descriptor> {
        let directory = self.view.directory();
        let describe = |object: &Object| {
            let replicas = object.replicas.iter();
            replicas.filter_map(|replica| directory.describe(replica, object.size)).collect()
        };
        self.view.table.peek(object, describe).unwrap_or_default()
    }
}

/// Owner of an allocation that belongs to no object: memory that is set aside.
pub(super) const NO_OWNER: u32 = u32::MAX;

/// Ends the selected replicas of a write (behaviour 2.3).
///
/// Errors: `InvalidWrite` if no write is in progress and the selection is not simply done already.
fn finish(
    object: &mut Object,
    select: ReplicaSelect,
    checksum: Option<u64>,
    now: Millis,
) -> Result<(), ErrorCode> {
    let is_target = |replica: &Replica| select.covers(replica.place.kind());
    if !object.is_processing {
        let mut targets = object.replicas.iter().filter(|r| is_target(r)).peekable();
        let is_repeat = targets.peek().is_some() && targets.all(Replica::is_complete);
        return if is_repeat { Ok(()) } else { Err(ErrorCode::InvalidWrite) };
    }
    let had_complete = object.has_complete();
    let pin = object.pending().map(|pending| pending.eligible.clone());
    let eligible = pin.as_ref();
    let mut is_eligible_done = false;
    for replica in object.replicas.iter_mut().filter(|r| is_target(r) && r.is_being_put()) {
        replica.status = ReplicaStatus::Complete;
        is_eligible_done |= eligible.is_some_and(|ids| ids.contains(&replica.id));
    }
    if !had_complete
        && is_eligible_done
        && let Some(pending) = object.take_pending()
    {
        let change = commit(object.pin(), pending.request, now);
        object.set_pin(change.after);
    }
    if checksum.is_some() || select.replaces_checksum() {
        object.set_checksum(checksum);
    }
    settle_write(object);
    object.lease.stamp(now);
    Ok(())
}

/// Leaves the write when all its replicas are done (targets of a copy or move are not its own), and drops a
/// soft-pin request that can no longer be committed: no replica of its write is still being written (RFC
/// "Revoke, preemption").
pub(super) fn settle_write(object: &mut Object) {
    if !object.replicas.iter().any(Replica::is_being_put) {
        object.is_processing = false;
    }
    let can_commit = object.pending().is_some_and(|pending| {
        let mut open = object.replicas.iter().filter(|replica| !replica.is_complete());
        open.any(|replica| pending.eligible.contains(&replica.id))
    });
    if !can_commit {
        object.set_pending(None);
    }
}
