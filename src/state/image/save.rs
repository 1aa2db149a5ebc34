//! From frozen handles to bytes, shard by shard: one shard is in memory twice, not the table.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

use mooncake_ha_snapshot as snapshot;
use snapshot::{
    BufferAllocatorImage, DiscardedImage, Extension, Globals, HandleImage, NodeImage,
    NodeTableImage, ObjectImage, ObjectName, OffsetAllocatorImage, PendingPinImage, PinActionImage,
    ReplicaImage, ReplicaPlace, SegmentImage, SegmentRecord, SegmentsImage, SnapshotEncoder,
    TaskImage, TransferImage, WriteImage,
};

use super::record::{RECORD_VERSION, SECTION, StateRecord};
use super::{FrozenState, Leases};
use crate::alloc::{OffsetAllocator, RawAllocator};
use crate::model::ids::{placement_hash, shard_of};
use crate::model::{
    ClientId, Millis, Object, PinRequest, Place, Replica, ReplicaStatus, SegmentId, SegmentStatus,
    Tenant, TenantIdx, Uuid,
};
use crate::state::groups::FrozenGroup;
use crate::state::interner::Interner;
use crate::state::segment_table::Mounted;
use crate::state::table::{Kept, Shard};
use crate::state::tasks::{Task, TaskStatus};
use crate::state::transfer::{Transfer, TransferKind};

pub(super) fn uuid(id: Uuid) -> snapshot::Uuid {
    snapshot::Uuid::new(id.first, id.second)
}

/// The name of the tenant whose object came last, so that not every object needs a text of its own.
#[derive(Default)]
struct TenantTexts {
    last: Option<(TenantIdx, Arc<str>)>,
}

impl TenantTexts {
    fn of(&mut self, tenant: TenantIdx, tenants: &Interner<Tenant>) -> Arc<str> {
        match &self.last {
            Some((last, text)) if *last == tenant => Arc::clone(text),
            _ => {
                let text: Arc<str> =
                    Arc::from(tenants.name(tenant.0).map_or("default", |tenant| tenant.name()));
                self.last = Some((tenant, Arc::clone(&text)));
                text
            }
        }
    }
}

impl FrozenState {
    /// Writes the frozen state as one container.
    ///
    /// Errors: those of the writer, or of the compression library.
    pub fn save(mut self, to: &mut dyn Write) -> std::io::Result<()> {
        let mut extension = self.extension();
        extension.sections.extend(self.exact_sections().map_err(std::io::Error::other)?);
        let shards = std::mem::take(&mut self.shards);
        let payloads = self.encode(shards, extension, &|_| 0).map_err(std::io::Error::other)?;
        drop(self);
        snapshot::write_container(&payloads, to).map_err(std::io::Error::other)
    }

    /// The replica counter: no replica from here on is in it.
    pub fn next_replica_id(&self) -> u64 {
        self.next_replica_id
    }

    /// The files of a catalog snapshot of the state at this entry of this term, with the read leases that this
    /// leader has granted so far or, at a follower, those that it was given.
    ///
    /// Errors: those of the compression library, or a file beyond the format's bounds.
    pub fn payloads(
        mut self,
        applied_index: u64,
        applied_term: u64,
        given: Option<&Leases>,
    ) -> Result<snapshot::Payloads, snapshot::SnapshotError> {
        let extension = Extension { applied_index, applied_term, ..self.extension() };
        let shards = std::mem::take(&mut self.shards);
        match given {
            None => self.encode(shards, extension, &|object| self.lease_end(object).0),
            Some(leases) => self.encode(shards, extension, &|object| leases.end_ms(object)),
        }
    }

    /// Number of objects.
    pub fn objects(&self) -> u64 {
        self.shards.iter().map(|shard| shard.len() as u64).sum()
    }

    /// Lets go of each shard when it is encoded: from then on writers need not copy what they change in it.
    fn encode(
        &self,
        shards: Vec<Arc<Shard>>,
        mut extension: Extension,
        lease_ms: &dyn Fn(&Object) -> u64,
    ) -> Result<snapshot::Payloads, snapshot::SnapshotError> {
        let mut encoder = SnapshotEncoder::new()?;
        let mut tenants = TenantTexts::default();
        let mut grouped = self.grouped(&shards);
        for (index, shard) in (0_u16..).zip(shards) {
            let grouped = grouped.remove(&usize::from(index)).unwrap_or_default();
            let own = shard.objects().filter(|object| self.group_of(object).is_empty());
            let mut objects: Vec<&Object> =
                own.chain(grouped.iter().filter_map(Kept::get)).collect();
            objects.sort_unstable_by(|a, b| self.by_name(a, b));
            objects.iter().for_each(|object| self.note_progress(object, &mut extension));
            let images = objects.iter().map(|object| {
                let tenant = tenants.of(object.tenant, &self.tenants);
                self.object_image(object, tenant, lease_ms(object))
            });
            encoder.shard(index, images)?;
        }
        encoder.finish_with(&self.globals(extension), &|id| self.allocator_of(id))
    }

    /// Grouped objects by shard of the image. One is filed by its key in the table and by its group in the
    /// image, because that is where a restored peer looks for it (snapshot format 6.3).
    fn grouped(&self, shards: &[Arc<Shard>]) -> BTreeMap<usize, Vec<Kept>> {
        let mut grouped: BTreeMap<usize, Vec<Kept>> = BTreeMap::new();
        if self.groups.iter().flatten().next().is_none() {
            return grouped;
        }
        let is_grouped = |object: &Object| !self.group_of(object).is_empty();
        for kept in shards.iter().flat_map(|shard| shard.keep(is_grouped)) {
            let Some(object) = kept.get() else { continue };
            let group = self.group_of(object);
            let at = shard_of(placement_hash(&Tenant::default(), &object.key, group));
            grouped.entry(at).or_default().push(kept);
        }
        grouped
    }

    fn by_name(&self, a: &Object, b: &Object) -> Ordering {
        match a.tenant == b.tenant {
            true => a.key.cmp(&b.key),
            false => self.name_of(a).cmp(&self.name_of(b)),
        }
    }

    fn group_of(&self, object: &Object) -> &[u8] {
        self.frozen_group(object).map(|group| &*group.name).unwrap_or_default()
    }

    fn frozen_group(&self, object: &Object) -> Option<&FrozenGroup> {
        self.groups.get(object.group.0 as usize)?.as_ref()
    }

    /// The end of an object's read lease. That of its group counts even if the object joined since: saying
    /// too much keeps an object over a restore, saying too little loses one.
    pub(super) fn lease_end(&self, object: &Object) -> Millis {
        let by_group = self.frozen_group(object).map(|group| group.leased_until);
        object.lease.end().max(by_group.unwrap_or_default())
    }

    fn name_of<'a>(&'a self, object: &'a Object) -> (&'a [u8], &'a [u8]) {
        let tenant = self.tenants.name(object.tenant.0);
        (tenant.map_or(&[], |tenant| tenant.name().as_bytes()), &object.key)
    }

    fn object_name(&self, object: &Object) -> ObjectName {
        let tenant = self.tenants.name(object.tenant.0).map_or("default", |t| t.name());
        ObjectName { tenant: Arc::from(tenant), key: object.key.boxed() }
    }

    fn writer_of(&self, object: &Object) -> snapshot::Uuid {
        let writer: ClientId = self.writers.name(object.writer.0).copied().unwrap_or_default();
        uuid(writer.0)
    }

    fn object_image(&self, object: &Object, tenant: Arc<str>, lease_ms: u64) -> ObjectImage {
        let replica = |replica: &Replica| self.replica_image(replica, object.size);
        ObjectImage {
            name: ObjectName { tenant, key: Box::from(&*object.key) },
            writer: self.writer_of(object),
            put_start_ms: object.put_start.0,
            size: object.size,
            lease_ms,
            soft_pin_ms: object.pin().map(|deadline| deadline.0),
            data_type: object.data_type,
            replicas: object.replicas.iter().map(replica).collect(),
            hard_pinned: object.is_hard_pinned,
            group: Box::from(self.group_of(object)),
            checksum: object.checksum(),
        }
    }

    fn replica_image(&self, replica: &Replica, size: u64) -> ReplicaImage {
        let place = match &replica.place {
            Place::Memory { segment, node, address } => {
                let mounted = self.segments.get(*segment);
                let used = mounted.and_then(|mounted| mounted.allocator.used_node(*node));
                let handle = used.map(|used| HandleImage {
                    address: *address,
                    size,
                    offset: used.offset_units,
                    node: *node,
                });
                let segment = mounted.map(|mounted| mounted.segment.id.0).unwrap_or_default();
                ReplicaPlace::Memory { size, address: *address, segment: uuid(segment), handle }
            }
            Place::Disk(disk) => ReplicaPlace::Disk { path: disk.path.clone(), size: disk.size },
            Place::LocalDisk(disk) => ReplicaPlace::LocalDisk {
                client: uuid(disk.client.0),
                size: disk.size,
                endpoint: disk.endpoint.clone(),
            },
        };
        let status = match replica.status {
            ReplicaStatus::Processing => snapshot::ReplicaStatus::Processing,
            ReplicaStatus::Complete => snapshot::ReplicaStatus::Complete,
        };
        ReplicaImage { id: replica.id.0, status, place }
    }

    /// Records what the peer's format forgets of an unfinished write.
    fn note_progress(&self, object: &Object, extension: &mut Extension) {
        if object.is_processing {
            let open = object.replicas.iter().filter(|replica| !replica.is_complete());
            extension.writes.push(WriteImage {
                name: self.object_name(object),
                writer: self.writer_of(object),
                started_ms: object.put_start.0,
                replicas: open.map(|replica| replica.id.0).collect(),
            });
        }
        if let Some(pending) = object.pending() {
            let (action, ttl_ms) = match pending.request {
                PinRequest::Preserve => (PinActionImage::Preserve, 0),
                PinRequest::Enable(ttl) => (PinActionImage::Enable, ttl.0),
                PinRequest::Disable => (PinActionImage::Disable, 0),
            };
            extension.pending_pins.push(PendingPinImage {
                name: self.object_name(object),
                action,
                ttl_ms,
                eligible: pending.eligible.iter().map(|id| id.0).collect(),
            });
        }
    }

    fn globals(&self, extension: Extension) -> Globals {
        let discarded = self.discards.iter().map(|(key, discard)| DiscardedImage {
            release_at_ms: key.release_at.0,
            memory_bytes: discard.memory_bytes(),
            replicas: discard
                .replicas
                .iter()
                .map(|replica| self.replica_image(replica, discard.size))
                .collect(),
        });
        Globals {
            segments: self.segments_image(),
            tasks: self.tasks.iter().map(task_image).collect(),
            discarded: discarded.collect(),
            replica_next_id: self.next_replica_id,
            extension: Some(extension),
        }
    }

    fn segments_image(&self) -> SegmentsImage {
        let names = self.segments.allocatable().iter().map(|(name, _)| name.to_string());
        let mut clients = BTreeMap::<_, Vec<_>>::new();
        for mounted in self.segments.in_mount_order() {
            clients.entry(uuid(mounted.owner.0)).or_default().push(uuid(mounted.segment.id.0));
        }
        SegmentsImage {
            allocation_names: names.collect(),
            segments: self.segments.iter().map(|(_, mounted)| segment_image(mounted)).collect(),
            clients: clients.into_iter().collect(),
            local_disks: self.local_disks(),
        }
    }

    fn allocator_of(&self, id: snapshot::Uuid) -> Option<BufferAllocatorImage> {
        let id = SegmentId(Uuid { first: id.first, second: id.second });
        let Mounted { segment, allocator, .. } = self.segments.get(self.segments.index_of(id)?)?;
        Some(BufferAllocatorImage {
            segment_name: segment.name.to_string(),
            base: segment.base,
            total_bytes: segment.size,
            used_bytes: allocator.used_bytes(),
            endpoint: segment.endpoint.to_string(),
            offset: allocator_image(allocator),
        })
    }

    fn extension(&self) -> Extension {
        let record = StateRecord {
            version: RECORD_VERSION,
            counters: self.counters,
            leadership: self.leadership.clone(),
            clients: self.clients.iter().map(|(client, record)| (client, record.clone())).collect(),
            last_incarnation: self.clients.last_incarnation(),
            mount_order: self.segments.in_mount_order().map(|m| m.segment.id).collect(),
            task_order: self.tasks.iter().map(|task| task.id).collect(),
            allocation_order: self.segments.allocatable().iter().map(|(n, _)| n.clone()).collect(),
        };
        // Plain data of bounded size: encoding it cannot fail, and an empty section would be refused on load.
        let record = record.encode().unwrap_or_default();
        let segments = self.segments.iter().map(|(_, mounted)| SegmentRecord {
            id: uuid(mounted.segment.id.0),
            owner: uuid(mounted.owner.0),
            protocol: mounted.segment.protocol.to_string(),
            unmount_deadline_ms: mounted.unmount_at.map(|at| at.0),
        });
        let clients = self.clients.iter().map(|(client, record)| snapshot::ClientRecord {
            id: uuid(client.0),
            host_id: record.host_id.to_string(),
        });
        let metadata = self.metadata.iter().map(|(key, value)| (key.to_vec(), value.to_vec()));
        let policies = self.quotas.policies().iter();
        let policies = policies.map(|(tenant, quota_bytes)| snapshot::TenantPolicyImage {
            tenant: tenant.name().to_owned(),
            quota_bytes: *quota_bytes,
        });
        let transfers = self.transfers.iter().map(transfer_image);
        Extension {
            state_clock_ms: self.clock.0,
            transfers: transfers.chain(self.promotion_images()).collect(),
            segments: segments.collect(),
            clients: clients.collect(),
            http_metadata: metadata.collect(),
            tenant_policies: policies.collect(),
            sections: [(SECTION.to_owned(), record)].into_iter().collect(),
            ..Extension::default()
        }
    }
}

fn task_image(task: &Task) -> TaskImage {
    let epoch_ms = |at: Millis| i64::try_from(at.0).unwrap_or(i64::MAX);
    TaskImage {
        id: uuid(task.id.0),
        kind: match task.kind {
            TransferKind::Copy => snapshot::TaskKind::Copy,
            TransferKind::Move => snapshot::TaskKind::Move,
        },
        status: match task.status {
            TaskStatus::Pending => snapshot::TaskStatus::Pending,
            TaskStatus::Processing => snapshot::TaskStatus::Processing,
            TaskStatus::Failed => snapshot::TaskStatus::Failed,
            TaskStatus::Success => snapshot::TaskStatus::Success,
        },
        payload: task.payload.clone(),
        created_ms: epoch_ms(task.created),
        updated_ms: epoch_ms(task.updated),
        message: task.message.clone(),
        client: uuid(task.client.0),
    }
}

fn transfer_image(transfer: &Transfer) -> TransferImage {
    let name = &transfer.name;
    TransferImage {
        name: ObjectName { tenant: Arc::from(name.tenant.name()), key: name.key.clone() },
        kind: match transfer.kind {
            TransferKind::Copy => snapshot::TransferKind::Copy,
            TransferKind::Move => snapshot::TransferKind::Move,
        },
        client: uuid(transfer.client.0),
        started_ms: transfer.started.0,
        source: transfer.source.0,
        targets: transfer.targets.iter().map(|target| target.0).collect(),
    }
}

/// The segment without its allocator, which is made when it is written.
fn segment_image(mounted: &Mounted) -> SegmentImage {
    let segment = &mounted.segment;
    let status = match mounted.status {
        SegmentStatus::Ok => snapshot::SegmentStatus::Ok,
        SegmentStatus::Draining => snapshot::SegmentStatus::Draining,
        SegmentStatus::Drained => snapshot::SegmentStatus::Drained,
        SegmentStatus::GracefullyUnmounting => snapshot::SegmentStatus::GracefullyUnmounting,
        SegmentStatus::Unmounting => snapshot::SegmentStatus::Unmounting,
    };
    SegmentImage {
        id: uuid(segment.id.0),
        name: segment.name.to_string(),
        base: segment.base,
        size: segment.size,
        endpoint: segment.endpoint.to_string(),
        status,
        allocator: None,
        host_id: Some(segment.host_id.to_string()),
    }
}

fn allocator_image(allocator: &OffsetAllocator) -> OffsetAllocatorImage {
    let raw: RawAllocator = allocator.raw();
    let nodes = raw.nodes.into_iter().map(|node| NodeImage {
        used: node.used,
        offset: node.offset,
        size: node.size,
        bin_prev: node.bin_prev,
        bin_next: node.bin_next,
        neighbor_prev: node.left,
        neighbor_next: node.right,
    });
    let table = NodeTableImage {
        size: raw.size,
        max_capacity: raw.slots_max,
        free_storage: raw.free_units,
        top_bitmap: raw.top_mask,
        leaf_bitmaps: raw.leaf_masks,
        bin_heads: raw.heads,
        nodes: nodes.collect(),
        free_stack: raw.stack,
        free_offset: raw.free_offset,
    };
    OffsetAllocatorImage {
        base: raw.base,
        multiplier_bits: raw.unit_bits,
        capacity: raw.capacity,
        allocated_bytes: raw.allocated_bytes,
        allocation_count: raw.allocation_count,
        table,
    }
}
