//! Every invariant that the state can see, walked: what is derived is counted again from what is replicated.
//!
//! For tests, drills and the operator's doubt; costs in proportion to the whole state and changes nothing.
//! Guards architecture's list of what each room keeps, as far as one state shows it; that two states fed the
//! same entries are equal is left to the tests.

use std::collections::{BTreeMap, BTreeSet};

use super::State;
use super::discards::Discard;
use super::put::{KeyAt, NO_OWNER};
use super::segment_table::Mounted;
use super::tasks::TaskStatus;
use super::tenants::Usage;
use crate::model::ids::{SHARD_COUNT, shard_of};
use crate::model::{
    ClientId, Deadline, GroupIdx, Millis, Object, ObjectRef, Place, Replica, ReplicaId,
    ReplicaKind, SegmentIdx, SegmentStatus, Tenant, TenantIdx,
};

/// Findings that one check reports; more say nothing new about a damaged state.
const FINDINGS_MAX: usize = 64;

/// Who holds an allocation, and how much of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Claim {
    owner: u32,
    bytes: u64,
    address: u64,
}

/// What a walk over everything replicated counts.
#[derive(Default)]
struct Recount {
    findings: Vec<String>,
    claims: BTreeMap<(SegmentIdx, u32), Claim>,
    replica_ids: BTreeSet<ReplicaId>,
    /// Replicas of objects that something uses, with their use counts.
    used: BTreeMap<ReplicaId, u16>,
    pins: BTreeSet<(Deadline, ObjectRef)>,
    writes: BTreeMap<(Millis, ReplicaId), ObjectRef>,
    writers: BTreeMap<ClientId, u64>,
    tenants: BTreeMap<Tenant, u64>,
    usage: BTreeMap<TenantIdx, Usage>,
    groups: BTreeMap<GroupIdx, BTreeSet<ObjectRef>>,
    totals: super::Totals,
    files: BTreeMap<(ClientId, ReplicaId), ObjectRef>,
}

impl Recount {
    fn expect(&mut self, is_right: bool, what: impl FnOnce() -> String) {
        if !is_right && self.findings.len() < FINDINGS_MAX {
            self.findings.push(what());
        }
    }

    fn claim(&mut self, replica: &Replica, owner: u32, bytes: u64) {
        if let Place::Memory { segment, node, address } = replica.place {
            let claim = Claim { owner, bytes, address };
            let earlier = self.claims.insert((segment, node), claim);
            self.expect(earlier.is_none(), || {
                format!("node {node} of {segment:?} is claimed twice: {earlier:?}, {claim:?}")
            });
        }
    }

    fn replica_id(&mut self, id: ReplicaId, next: u64) {
        let is_new = self.replica_ids.insert(id);
        self.expect(is_new, || format!("{id:?} exists twice"));
        self.expect(id.0 < next, || format!("{id:?} is not below the next one, {next}"));
    }
}

impl State {
    /// Every invariant of the state, walked; empty if all hold. At most 64 findings, each a sentence.
    pub fn check(&self) -> Vec<String> {
        let mut recount = Recount::default();
        for shard in 0..SHARD_COUNT {
            for at in self.view.table.refs_in_shard(shard) {
                self.view
                    .table
                    .peek(at, |object| self.check_object(at, shard, object, &mut recount));
            }
        }
        for (key, discard) in self.discards.iter() {
            self.check_discard(key.release_at, discard, &mut recount);
        }
        self.check_transfers(&mut recount);
        self.check_tasks(&mut recount);
        self.check_snapshots(&mut recount);
        self.check_segments(&mut recount);
        self.check_indexes(&mut recount);
        self.check_numbers(&mut recount);
        self.check_directory(&mut recount);
        for finding in self.check_tenants(&recount.usage) {
            recount.expect(false, || finding);
        }
        for finding in self.check_dynamic() {
            recount.expect(false, || finding);
        }
        for finding in self.check_groups(&recount.groups) {
            recount.expect(false, || finding);
        }
        recount.findings
    }

    fn check_object(&self, at: ObjectRef, shard: usize, object: &Object, recount: &mut Recount) {
        let name = String::from_utf8_lossy(&object.key).into_owned();
        recount.expect(!object.replicas.is_empty(), || format!("{name} has no replica"));
        recount.expect(object.size > 0, || format!("{name} has no bytes"));
        recount.expect(object.put_start <= self.clock, || format!("{name} begins in the future"));
        for replica in &object.replicas {
            recount.replica_id(replica.id, self.next_replica_id);
            recount.claim(replica, at.0, object.size);
        }
        let is_open = object.replicas.iter().any(Replica::is_being_put);
        for replica in object.replicas.iter().filter(|replica| replica.references > 0) {
            recount.used.insert(replica.id, replica.references);
        }
        recount.expect(object.is_processing || !is_open, || {
            format!("{name} has unfinished replicas and no write in progress")
        });
        self.check_pending(&name, object, recount);
        if object.group != GroupIdx::NONE {
            recount.groups.entry(object.group).or_default().insert(at);
        }
        if let Some(file) = super::disk::local_file(object) {
            recount.files.insert(file, at);
        }
        if let Some(deadline) = object.pin() {
            recount.pins.insert((deadline, at));
        }
        if object.is_processing {
            let first = object.replicas.first().map(|replica| replica.id).unwrap_or_default();
            recount.writes.insert((object.put_start, first), at);
        }
        let (writer, tenant) = (self.writer_id(object.writer), self.tenant_name(object.tenant));
        recount.expect(writer.is_some(), || format!("{name} has an unknown writer"));
        recount.expect(tenant.is_some(), || format!("{name} has an unknown tenant"));
        if let (Some(writer), Some(tenant)) = (writer, tenant) {
            *recount.writers.entry(writer).or_default() += 1;
            *recount.tenants.entry(tenant.clone()).or_default() += 1;
            let hash = super::table::table_hash(tenant, &object.key);
            let found = self.view.table.locate(hash, object.tenant, &object.key);
            recount.expect(shard_of(hash) == shard, || format!("{name} is in a wrong shard"));
            recount.expect(found == Some(at), || format!("{name} is found as {found:?}"));
        }
        let usage = recount.usage.entry(object.tenant).or_default();
        usage.objects += 1;
        usage.charged += super::settle::Charge::of(object).bytes;
        let totals = &mut recount.totals;
        totals.keys += 1;
        totals.memory_cached += u64::from(object.complete_count(ReplicaKind::Memory) > 0);
        let on_disk = [ReplicaKind::Disk, ReplicaKind::LocalDisk];
        let is_on_disk = on_disk.iter().any(|kind| object.complete_count(*kind) > 0);
        totals.file_cached += u64::from(is_on_disk);
        totals.file_bytes += object.replicas.iter().map(file_bytes).sum::<u64>();
        totals.evictable += u64::from(object.is_evictable());
    }

    fn check_pending(&self, name: &str, object: &Object, recount: &mut Recount) {
        let Some(pending) = object.pending() else { return };
        let mut open = object.replicas.iter().filter(|replica| !replica.is_complete());
        let can_commit = open.any(|replica| pending.eligible.contains(&replica.id));
        recount.expect(can_commit, || format!("{name} has a pending pin that nothing can commit"));
        recount.expect(object.is_processing, || format!("{name} has a pin pending, but no write"));
    }

    /// Each transfer is its object's, and nothing but these and the tiers' work uses a replica.
    fn check_transfers(&self, recount: &mut Recount) {
        let mut uses = BTreeMap::new();
        for transfer in self.transfers.iter() {
            let name = &transfer.name;
            let object = self.find_filed(KeyAt::new(&name.tenant, &name.key));
            let found = object.and_then(|object| self.transfers.get(object));
            recount
                .expect(found == Some(transfer), || format!("{transfer:?} is found as {found:?}"));
            let is_past = transfer.started <= self.clock;
            recount.expect(is_past, || format!("{transfer:?} begins in the future"));
            let note = |object: &Object| {
                let used = |replica: &&Replica| {
                    replica.id == transfer.source || transfer.targets.contains(&replica.id)
                };
                object.replicas.iter().filter(used).map(|replica| replica.id).collect::<Vec<_>>()
            };
            let used = object.and_then(|object| self.view.table.peek(object, note));
            uses.extend(used.unwrap_or_default().into_iter().map(|id| (id, 1)));
        }
        let walk = self.walk_tiers();
        for (id, count) in walk.uses {
            *uses.entry(id).or_default() += count;
        }
        let files = std::mem::take(&mut recount.files);
        for finding in walk.findings.into_iter().chain(self.check_files(&files)) {
            recount.expect(false, || finding);
        }
        let used = std::mem::take(&mut recount.used);
        recount.expect(used == uses, || format!("replicas in use {used:?}, by work {uses:?}"));
    }

    fn check_tasks(&self, recount: &mut Recount) {
        let count = |status| self.tasks.iter().filter(|task| task.status == status).count();
        let counted = (count(TaskStatus::Pending), count(TaskStatus::Processing));
        let kept = (self.tasks.pending_count(), self.tasks.processing_count());
        recount.expect(kept == counted, || format!("tasks open {kept:?}, counted {counted:?}"));
        for task in self.tasks.iter() {
            let found = self.tasks.get(task.id);
            recount.expect(found == Some(task), || format!("{task:?} is found as {found:?}"));
        }
    }

    /// Guarded memory belongs to a snapshot that has begun, shortened pins to objects, restored segments that
    /// nobody has claimed to the mounted ones.
    fn check_snapshots(&self, recount: &mut Recount) {
        let (begun, published) = self.guard.generations();
        recount.expect(published <= begun, || format!("{published} is published, {begun} begun"));
        for (_, discard) in self.discards.iter() {
            let is_known = discard.held.is_none_or(|held| held.generation <= begun);
            recount.expect(is_known, || format!("{discard:?} waits for a snapshot to come"));
        }
        for name in self.guard.shortened().keys() {
            let found = self.find_filed(KeyAt::new(&name.tenant, &name.key));
            recount.expect(found.is_some(), || format!("{name:?} had a pin, but is not there"));
        }
        for id in self.restore.unclaimed() {
            let is_mounted = self.segments.index_of(*id).is_some();
            recount.expect(is_mounted, || format!("unclaimed segment {id} is not mounted"));
        }
    }

    fn check_discard(&self, release_at: Millis, discard: &Discard, recount: &mut Recount) {
        recount.expect(!discard.replicas.is_empty(), || {
            format!("the discard due at {} holds nothing", release_at.0)
        });
        for replica in &discard.replicas {
            recount.replica_id(replica.id, self.next_replica_id);
            recount.claim(replica, NO_OWNER, discard.size);
        }
    }

    /// Used nodes and claims are the same set, with equal owner, size and address.
    fn check_segments(&self, recount: &mut Recount) {
        let mut claims = std::mem::take(&mut recount.claims);
        for (index, mounted) in self.segments.iter() {
            let name = &mounted.segment.name;
            for fault in mounted.allocator.check() {
                recount.expect(false, || format!("allocator of {name}: {fault}"));
            }
            let range = (mounted.segment.base, mounted.segment.size);
            let covered = (mounted.allocator.base(), mounted.allocator.capacity());
            recount.expect(range == covered, || format!("allocator of {name} is not of its range"));
            let is_graceful = mounted.status == SegmentStatus::GracefullyUnmounting;
            recount.expect(is_graceful == mounted.unmount_at.is_some(), || {
                format!("{name} is {:?} and ends at {:?}", mounted.status, mounted.unmount_at)
            });
            self.check_nodes(index, mounted, &mut claims, recount);
        }
        for ((segment, node), claim) in claims {
            recount
                .expect(false, || format!("{claim:?} is on node {node} of {segment:?}, not used"));
        }
    }

    fn check_nodes(
        &self,
        index: SegmentIdx,
        mounted: &Mounted,
        claims: &mut BTreeMap<(SegmentIdx, u32), Claim>,
        recount: &mut Recount,
    ) {
        let mut end_before = mounted.segment.base;
        for used in mounted.allocator.used_by_address() {
            let address = mounted.allocator.address_of(used.offset_units);
            let found = Claim { owner: used.owner, bytes: used.requested_bytes, address };
            let claim = claims.remove(&(index, used.node));
            recount.expect(claim == Some(found), || {
                let name = &mounted.segment.name;
                format!("node {} of {name} is {found:?}, held as {claim:?}", used.node)
            });
            recount.expect(address >= end_before, || format!("{found:?} overlaps the one before"));
            end_before = address.saturating_add(used.requested_bytes);
        }
        let end = mounted.segment.base.saturating_add(mounted.segment.size);
        recount.expect(end_before <= end, || format!("{index:?} is used beyond its end"));
    }

    fn check_indexes(&self, recount: &mut Recount) {
        let live = self.deadlines.len();
        let indexed: BTreeSet<_> = self.deadlines.all_live().collect();
        let is_exact = indexed == recount.pins && indexed.len() == live;
        recount.expect(is_exact, || "the deadline index differs from the committed pins".into());
        let heap = self.deadlines.heap_len();
        let bound = live.saturating_mul(2).max(super::deadlines::HEAP_FLOOR);
        recount.expect((live..=bound).contains(&heap), || {
            format!("the deadline heap holds {heap} entries for {live} pins")
        });
        let is_exact = self.writes == recount.writes;
        recount.expect(is_exact, || "the index of writes differs from the open objects".into());
        let counted = recount.totals;
        recount.expect(self.totals == counted, || {
            format!("totals are {:?}, counted {counted:?}", self.totals)
        });
        let staged: u64 = self.discards.iter().map(|(_, discard)| discard.memory_bytes()).sum();
        let kept = self.discards.staged_bytes();
        recount.expect(kept == staged, || format!("{kept} bytes set aside, counted {staged}"));
    }

    fn check_numbers(&self, recount: &mut Recount) {
        let kept: BTreeMap<_, _> = self.writers.uses().map(|(name, n)| (*name, n)).collect();
        let counted = std::mem::take(&mut recount.writers);
        recount.expect(kept == counted, || format!("writers {kept:?}, counted {counted:?}"));
        let kept: BTreeMap<_, _> = self.tenants.uses().map(|(name, n)| (name.clone(), n)).collect();
        let mut counted = std::mem::take(&mut recount.tenants);
        // The default tenant is held once more, for ever.
        *counted.entry(Tenant::default()).or_default() += 1;
        for tenant in self.quotas.policies().keys() {
            *counted.entry(tenant.clone()).or_default() += 1;
        }
        recount.expect(kept == counted, || format!("tenants {kept:?}, counted {counted:?}"));
        let last = self.clients.last_incarnation();
        let incarnations: Vec<u64> = self.clients.iter().map(|(_, r)| r.incarnation).collect();
        let unique: BTreeSet<u64> = incarnations.iter().copied().collect();
        let is_right = unique.len() == incarnations.len() && unique.iter().all(|n| *n <= last);
        recount.expect(is_right, || format!("incarnations {incarnations:?}, the last is {last}"));
    }

    /// What readers are shown is what the tables say.
    fn check_directory(&self, recount: &mut Recount) {
        let directory = self.view.directory();
        for (index, mounted) in self.segments.iter() {
            let view = directory.segment(index);
            let is_shown = view.is_some_and(|view| {
                let told = (&view.segment, view.owner, view.status);
                told == (&mounted.segment, mounted.owner, mounted.status)
            });
            let name = &mounted.segment.name;
            recount.expect(is_shown, || format!("readers see segment {name} as {view:?}"));
            let is_ok = mounted.status == SegmentStatus::Ok;
            let members = self.segments.allocatable();
            let members = members.position(name).and_then(|at| members.get(at));
            let members = members.map(|(_, members)| members).unwrap_or_default();
            recount.expect(members.contains(&index) == is_ok, || {
                format!("segment {name} is {:?}, and allocatable contrary to it", mounted.status)
            });
            // A loaded state lists them so; another order here would place objects elsewhere there.
            let is_sorted = members.is_sorted();
            recount.expect(is_sorted, || format!("{name}: its segments are not in mount order"));
        }
        let shown = directory.segments.iter().flatten().count();
        let listed: usize = self.segments.allocatable().iter().map(|(_, m)| m.len()).sum();
        let is_ok = |mounted: &&Mounted| mounted.status == SegmentStatus::Ok;
        let ok = self.segments.in_mount_order().filter(is_ok).count();
        let mounted = self.segments.len();
        let counts = (shown, listed, self.segments.in_mount_order().count());
        recount.expect(counts == (mounted, ok, mounted), || {
            format!("segments shown, allocatable, in slots: {counts:?}; mounted {mounted}, OK {ok}")
        });
        let alive: BTreeSet<ClientId> = self.clients.alive().collect();
        let is_same = directory.lost_files.keys().copied().eq(self.tiers.lost());
        recount.expect(is_same, || "readers see other files given up".into());
        recount.expect(directory.alive == alive, || "readers see other clients alive".into());
        let clock = self.view.clock();
        recount.expect(clock == self.clock, || format!("readers see the clock at {}", clock.0));
    }
}

fn file_bytes(replica: &Replica) -> u64 {
    match &replica.place {
        Place::Memory { .. } => 0,
        Place::Disk(disk) => disk.size,
        Place::LocalDisk(disk) => disk.size,
    }
}
