//! From the image of a catalog snapshot, judged and consistent, to that of the state that a restore makes.
//!
//! A catalog snapshot may be the peer's, which lacks what a state must have: who owns a segment, in which
//! order segments were mounted, which clients there are. All of it is decided here, once, at the leader; what
//! comes out is loaded exactly, as a raft snapshot is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mooncake_ha_snapshot as snapshot;
use snapshot::{
    Extension, Image, ObjectImage, ReplicaImage, ReplicaPlace, ReplicaStatus, SegmentRecord,
    SegmentStatus,
};

use super::record::{RECORD_VERSION, SECTION, StateRecord};
use crate::model::ids::TENANT_POLICIES_MAX;
use crate::model::{ClientId, Millis, SegmentId, TaskId, Tenant, Uuid};
use crate::state::Counters;
use crate::state::clients::ClientRecord;

/// An image that can be taken over.
#[derive(Debug)]
pub struct Prepared {
    /// The image.
    pub image: Image,
    /// The end of the last read lease in it.
    pub leases_until: Millis,
    /// The clients whose segments it has.
    pub clients: Vec<ClientId>,
}

fn uuid(id: snapshot::Uuid) -> Uuid {
    Uuid { first: id.first, second: id.second }
}

/// Completes an image that `snapshot::normalize` has judged at `now`.
///
/// Errors: the record cannot be encoded, which plain data of bounded size always can.
pub fn prepare(mut image: Image, now: Millis) -> Result<Prepared, snapshot::SnapshotError> {
    let old = image.globals.extension.take().unwrap_or_default();
    let owners = owners(&image, &old);
    let (mount_order, allocation_order) = orders(&image, &old);
    let settled = settle_objects(&mut image, now);
    let clients = clients(&owners, &settled.holders, &old);
    let record = StateRecord {
        version: RECORD_VERSION,
        counters: Counters::default(),
        leadership: None,
        last_incarnation: clients.len() as u64,
        mount_order,
        allocation_order,
        task_order: task_order(&image, &old),
        clients: clients.clone(),
    };
    let record = record.encode().map_err(|error| snapshot::SnapshotError::Unwritable {
        file: snapshot::SnapshotFile::Extension,
        what: error.to_string(),
    })?;
    let deadlines: BTreeMap<_, _> =
        old.segments.iter().map(|told| (told.id, told.unmount_deadline_ms)).collect();
    let protocols: BTreeMap<_, _> =
        old.segments.iter().map(|told| (told.id, told.protocol.clone())).collect();
    let segments = image.globals.segments.segments.iter().map(|segment| SegmentRecord {
        id: segment.id,
        owner: owners.get(&segment.id).copied().unwrap_or_default(),
        protocol: protocols.get(&segment.id).cloned().unwrap_or_default(),
        unmount_deadline_ms: match segment.status {
            SegmentStatus::GracefullyUnmounting => deadlines.get(&segment.id).copied().flatten(),
            _ => None,
        },
    });
    let is_valid = |told: &snapshot::TenantPolicyImage| {
        told.quota_bytes > 0 && !told.tenant.is_empty() && Tenant::parse(&told.tenant).is_some()
    };
    let policies = old.tenant_policies.into_iter().filter(is_valid).take(TENANT_POLICIES_MAX);
    image.globals.extension = Some(Extension {
        state_clock_ms: now.0,
        segments: segments.collect(),
        http_metadata: old.http_metadata,
        tenant_policies: policies.collect(),
        sections: [(SECTION.to_owned(), record)].into_iter().collect(),
        ..Extension::default()
    });
    // Offloading to clients' disks starts anew with their next report.
    image.globals.segments.local_disks.clear();
    image.globals.discarded.iter_mut().for_each(|item| settle_all(&mut item.replicas));
    let clients = clients.into_iter().map(|(client, _)| client).collect();
    Ok(Prepared { image, leases_until: Millis(settled.leases_until), clients })
}

/// What was found while objects were settled.
#[derive(Default)]
struct Settled {
    leases_until: u64,
    /// The clients that have files of objects on their disks.
    holders: BTreeSet<snapshot::Uuid>,
}

/// Settles all objects, on two threads.
fn settle_objects(image: &mut Image, now: Millis) -> Settled {
    let shards: Vec<&mut Vec<ObjectImage>> = image.shards.values_mut().collect();
    let bytes = |objects: &&mut Vec<ObjectImage>| {
        objects.len().saturating_mul(size_of::<ObjectImage>()) as u64
    };
    let halves = snapshot::in_halves(shards, bytes, |shards| {
        let mut settled = Settled::default();
        shards.into_iter().flatten().for_each(|object| settle(object, now, &mut settled));
        settled
    });
    let mut all = Settled::default();
    for half in halves {
        all.leases_until = all.leases_until.max(half.leases_until);
        all.holders.extend(half.holders);
    }
    all
}

fn settle(object: &mut ObjectImage, now: Millis, settled: &mut Settled) {
    // Nothing begins in the future, whatever the clock of the node that saved it was.
    object.put_start_ms = object.put_start_ms.min(now.0);
    settled.leases_until = settled.leases_until.max(object.lease_ms);
    let holder = |replica: &ReplicaImage| match &replica.place {
        ReplicaPlace::LocalDisk { client, .. } => Some(*client),
        _ => None,
    };
    settled.holders.extend(object.replicas.iter().filter_map(holder));
    keep_one_local_file(object);
}

/// Memory that waits for its release is being written for all that is known.
fn settle_all(replicas: &mut Vec<ReplicaImage>) {
    replicas.retain(|replica| !matches!(replica.place, ReplicaPlace::Dfs { .. }));
    replicas.iter_mut().for_each(|replica| replica.status = ReplicaStatus::Processing);
}

/// Who mounted which segment.
fn owners(image: &Image, old: &Extension) -> BTreeMap<snapshot::Uuid, snapshot::Uuid> {
    let listed = image.globals.segments.clients.iter();
    let listed = listed.flat_map(|(client, ids)| ids.iter().map(|id| (*id, *client)));
    let told = old.segments.iter().map(|told| (told.id, told.owner));
    let known: BTreeMap<_, _> = listed.chain(told).collect();
    let segments = image.globals.segments.segments.iter().map(|segment| segment.id);
    // A segment of nobody is given to the client with the number nought, which is never heard of.
    segments.map(|id| (id, known.get(&id).copied().unwrap_or_default())).collect()
}

/// The clients that own a segment or have files on their disks, ascending. None is alive until it has named its
/// segments again.
fn clients(
    owners: &BTreeMap<snapshot::Uuid, snapshot::Uuid>,
    holders: &BTreeSet<snapshot::Uuid>,
    old: &Extension,
) -> Vec<(ClientId, ClientRecord)> {
    let owners: BTreeSet<snapshot::Uuid> = owners.values().chain(holders).copied().collect();
    let hosts: BTreeMap<_, _> =
        old.clients.iter().map(|client| (client.id, client.host_id.as_str())).collect();
    let record = |(id, incarnation): (snapshot::Uuid, u64)| {
        let host_id = Arc::from(hosts.get(&id).copied().unwrap_or_default());
        (ClientId(uuid(id)), ClientRecord { host_id, incarnation, is_alive: false })
    };
    owners.into_iter().zip(1..).map(record).collect()
}

/// Of several files on clients' disks, which the peer never has, only the first is known here.
fn keep_one_local_file(object: &mut ObjectImage) {
    let mut has_file = false;
    object.replicas.retain(|replica| {
        let is_file = matches!(replica.place, ReplicaPlace::LocalDisk { .. });
        let is_kept = !is_file || !has_file;
        has_file |= is_file;
        is_kept
    });
}

/// Segments in the order of their mounts, names in the order of allocation.
///
/// The peer saves the second one, each name once; names that it lacks come last, so that every segment
/// receives objects again (snapshot format 7).
fn orders(image: &Image, old: &Extension) -> (Vec<SegmentId>, Vec<Arc<str>>) {
    let segments = &image.globals.segments;
    let known = old.sections.get(SECTION).and_then(|bytes| StateRecord::decode(bytes).ok());
    let known = known.map(|record| record.mount_order).unwrap_or_default();
    let by_client = segments.clients.iter().flat_map(|(_, ids)| ids);
    let by_id = segments.segments.iter().map(|segment| &segment.id);
    let rest = by_client.chain(by_id).map(|id| SegmentId(uuid(*id)));
    let there: BTreeSet<SegmentId> =
        segments.segments.iter().map(|segment| SegmentId(uuid(segment.id))).collect();
    let mut seen = BTreeSet::new();
    let mut mount_order: Vec<SegmentId> = known.into_iter().chain(rest).collect();
    mount_order.retain(|id| there.contains(id) && seen.insert(*id));
    let allocation_order = segments.allocation_names.iter().map(|name| Arc::from(&**name));
    (mount_order, allocation_order.collect())
}

/// Tasks in the order of their creation, or by id if it is not known.
fn task_order(image: &Image, old: &Extension) -> Vec<TaskId> {
    let known = old.sections.get(SECTION).and_then(|bytes| StateRecord::decode(bytes).ok());
    let known = known.map(|record| record.task_order).unwrap_or_default();
    let there: BTreeSet<TaskId> =
        image.globals.tasks.iter().map(|task| TaskId(uuid(task.id))).collect();
    let mut seen = BTreeSet::new();
    let mut order: Vec<TaskId> = known.into_iter().chain(there.iter().copied()).collect();
    order.retain(|id| there.contains(id) && seen.insert(*id));
    order
}
