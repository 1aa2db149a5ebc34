//! Objects on their way to clients' disks (behaviour 10.2).
//!
//! An offload begins when a write ends or when memory runs short, as the leader's settings say. It keeps one
//! memory replica of the object, its source, from eviction, and waits for the clients that own such memory
//! until they fetch it. It ends with the first report, with its object, or by the release timeout.

use smallvec::SmallVec;

use super::command::{EndWithOffload, OffloadFetch, Work, WorkItem};
use super::jobs::{Job, Takers};
use crate::model::{
    ClientId, ErrorCode, Millis, Object, ObjectKey, ObjectRef, Replica, ReplicaId, ReplicaKind,
};
use crate::state::State;
use crate::state::command::EndItem;
use crate::state::put::KeyAt;

/// Objects that one command hands out at most; the caller asks again for the rest.
pub const OFFLOADS_PER_COMMAND_MAX: u32 = 4_096;

/// An object that clients are to write to disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offload {
    /// The object, by name: references differ between nodes.
    pub name: ObjectKey,
    /// The memory replica that stays until the end.
    pub source: ReplicaId,
    /// When it began.
    pub started: Millis,
    /// Who is to do it, and whether it has been told. Invariant: not empty, no client twice.
    pub takers: Takers,
}

impl Job for Offload {
    fn takers(&self) -> Takers {
        self.takers.clone()
    }
}

impl Offload {
    /// Whether nobody can have begun.
    pub fn is_untold(&self) -> bool {
        self.takers.iter().all(|(_, is_told)| !is_told)
    }

    /// Whether this client may have begun.
    pub fn is_told(&self, client: ClientId) -> bool {
        self.takers.contains(&(client, true))
    }
}

impl State {
    pub(super) fn put_end_with_offload(
        &mut self,
        put: &EndWithOffload,
    ) -> Vec<Result<(), ErrorCode>> {
        let tenant = put.end.tenant.clone().unwrap_or_default();
        let items = &put.end.items;
        let is_open = |item: &EndItem| {
            let object = self.find_filed(KeyAt::new(&tenant, &item.key.0))?;
            self.view.table.peek(object, |object| object.is_processing)
        };
        // A repeated End changes nothing, so it queues nothing either.
        let was_open: Vec<bool> = items.iter().map(|item| is_open(item) == Some(true)).collect();
        let results = self.put_end(&put.end);
        for ((item, was_open), result) in items.iter().zip(was_open).zip(&results) {
            if was_open && result.is_ok() {
                let object = self.find_filed(KeyAt::new(&tenant, &item.key.0));
                object.map(|object| self.queue_offload(object, usize::MAX, put.queue_max));
            }
        }
        results
    }

    /// Queues an object for up to `takers_max` of the clients that own its finished memory replicas. Returns
    /// whether one takes it. An object that is queued already stays as it is.
    pub(super) fn queue_offload(
        &mut self,
        object: ObjectRef,
        takers_max: usize,
        queue_max: u64,
    ) -> bool {
        if self.tiers.offloads.get(object).is_some() {
            return false;
        }
        let list = |found: &Object| {
            let is_source = |r: &&Replica| {
                r.is_complete() && r.place.kind() == ReplicaKind::Memory && !self.is_lost(r)
            };
            let owner = |replica: &Replica| {
                let segment = self.segments.get(replica.place.segment()?)?;
                Some((replica.id, segment.owner))
            };
            let sources = found.replicas.iter().filter(is_source).filter_map(owner);
            (sources.collect::<SmallVec<[_; 2]>>(), self.name_of(found))
        };
        let Some((sources, Some(name))) = self.view.table.peek(object, list) else { return false };
        let (mut first, mut takers) = (None, Takers::new());
        for (replica, client) in sources {
            let is_listed = takers.iter().any(|(known, _)| *known == client);
            let has_room = self.tiers.offloads.waiting(client) < queue_max;
            if takers.len() < takers_max
                && !is_listed
                && has_room
                && self.tiers.disks.takes_objects(client)
            {
                first.get_or_insert(replica);
                takers.push((client, false));
            }
        }
        let Some(source) = first else { return false };
        self.use_replica(object, source);
        let started = self.clock;
        self.tiers.offloads.push(object, Offload { name, source, started, takers });
        true
    }

    pub(super) fn use_replica(&mut self, object: ObjectRef, id: ReplicaId) {
        self.edit(object, |object| {
            let used = object.replicas.iter_mut().find(|replica| replica.id == id);
            used.into_iter().for_each(|used| used.references += 1);
        });
    }

    pub(super) fn release_replica(&mut self, object: ObjectRef, id: ReplicaId) {
        self.edit(object, |object| {
            let used = object.replicas.iter_mut().find(|replica| replica.id == id);
            used.into_iter().for_each(|used| used.references = used.references.saturating_sub(1));
        });
    }

    /// Ends an offload; whoever still waits for it is not told any more.
    pub(in crate::state) fn release_offload(&mut self, object: ObjectRef) -> Option<Offload> {
        let offload = self.tiers.offloads.remove(object)?;
        self.release_replica(object, offload.source);
        Some(offload)
    }

    /// A client does not do it; without another taker it is over.
    pub(super) fn leave_offload(&mut self, object: ObjectRef, client: ClientId) {
        let takers = |offload: &Offload| offload.takers.len();
        let left = self.tiers.offloads.get(object).map_or(0, takers);
        if left <= 1 {
            self.release_offload(object);
        } else {
            let leave = |offload: &mut Offload| offload.takers.retain(|(who, _)| *who != client);
            self.tiers.offloads.change(object, leave);
        }
    }

    /// Whether an object has an offload that may have begun: then it may not be written anew.
    pub(in crate::state) fn is_being_offloaded(&self, object: ObjectRef) -> bool {
        self.tiers.offloads.get(object).is_some_and(|offload| !offload.is_untold())
    }

    /// The replica that an offload keeps, if nobody can have begun with it.
    pub(in crate::state) fn untold_offload(&self, object: ObjectRef) -> Option<ReplicaId> {
        let offload = self.tiers.offloads.get(object)?;
        offload.is_untold().then_some(offload.source)
    }

    /// Hands out what waits for a client, or gives it up if the client takes nothing any more.
    ///
    /// Errors: `SegmentNotFound` if the client has no disk here.
    pub(super) fn fetch_offloads(&mut self, fetch: &OffloadFetch) -> Work {
        let client = fetch.client;
        self.tiers.disks.set_enabled(client, fetch.is_enabled)?;
        if !fetch.is_enabled {
            for object in self.tiers.offloads.untold(client, usize::MAX) {
                self.leave_offload(object, client);
            }
            return Ok(Vec::new());
        }
        let count = fetch.items_max.min(OFFLOADS_PER_COMMAND_MAX) as usize;
        let objects = self.tiers.offloads.untold(client, count);
        for object in &objects {
            self.tiers.offloads.change(*object, |offload| {
                let mine = offload.takers.iter_mut().find(|(who, _)| *who == client);
                mine.into_iter().for_each(|(_, is_told)| *is_told = true);
            });
        }
        Ok(objects.into_iter().filter_map(|object| self.work_item(object)).collect())
    }

    pub(super) fn work_item(&self, object: ObjectRef) -> Option<WorkItem> {
        let item = |object: &Object| {
            let ObjectKey { tenant, key } = self.name_of(object)?;
            Some(WorkItem { tenant, key, size: object.size })
        };
        self.view.table.peek(object, item).flatten()
    }
}
