//! From bytes to a whole state, or an error with nothing touched.
//!
//! Exact: what the codec would repair or leave out in a catalog snapshot of unknown origin is an error here,
//! because a node that lacks one object would differ from its peers for ever.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;

use mooncake_ha_snapshot as snapshot;
use snapshot::{
    Decoder, Extension, Globals, ObjectImage, ObjectName, OffsetAllocatorImage, PinActionImage,
    ReplicaImage, ReplicaPlace, SegmentImage, SegmentRecord, TaskImage, TransferImage,
};

use super::ImageError;
use super::record::{SECTION, StateRecord};
use crate::alloc::{Handle, OffsetAllocator, RawAllocator, RawNode};
use crate::model::object::Lease;
use crate::model::replica::{DiskPlace, LocalDiskPlace};
use crate::model::{
    ClientId, Deadline, KeyBytes, Millis, NewObject, Object, ObjectKey, PendingPin, PinRequest,
    Place, Replica, ReplicaId, ReplicaStatus, Segment, SegmentId, SegmentIdx, SegmentStatus,
    TaskId, Tenant, Ttl, Uuid, WriterIdx,
};
use crate::state::State;
use crate::state::clients::ClientTable;
use crate::state::discards::Discard;
use crate::state::dynamic::command::DynamicToken;
use crate::state::put::{KeyAt, NO_OWNER};
use crate::state::segment_table::Mounted;
use crate::state::table::table_hash;
use crate::state::tasks::{Task, TaskStatus};
use crate::state::transfer::{Transfer, TransferKind};

/// Bytes of one section of the container at most.
const SECTION_BYTES_MAX: u64 = 16 << 30;

fn uuid(id: snapshot::Uuid) -> Uuid {
    Uuid { first: id.first, second: id.second }
}

fn inconsistent(what: impl Into<String>) -> ImageError {
    ImageError::Inconsistent(what.into())
}

/// Claims on allocator nodes, by segment, until the allocators are built.
type Claims = BTreeMap<SegmentId, Vec<Handle>>;

impl State {
    /// Reads what [`super::FrozenState::save`] wrote.
    ///
    /// Errors: by cause, see [`ImageError`].
    pub fn load(from: &mut dyn Read) -> Result<State, ImageError> {
        let payloads = snapshot::read_container(from, SECTION_BYTES_MAX)?;
        let mut decoder = Decoder::open(&payloads, &snapshot::Limits::default())?;
        let mut loader = Loader::new(decoder.globals())?;
        // One shard at a time, so that the objects are not in memory twice.
        while let Some(shard) = decoder.next_shard()? {
            loader.shard(shard.stored, shard.objects)?;
        }
        let (globals, findings) = decoder.finish();
        match findings.list.first() {
            Some(finding) => Err(inconsistent(finding.to_string())),
            None => loader.finish(&globals),
        }
    }
}

/// Builds a state from an image, shard by shard in ascending order: the same state that the image's bytes make.
pub struct Loader {
    state: State,
    /// Numbers that segments will get, in mount order.
    indices: BTreeMap<SegmentId, SegmentIdx>,
    record: StateRecord,
    claims: Claims,
    pending: BTreeMap<ObjectName, PendingPin>,
    writing: BTreeMap<ObjectName, ()>,
    /// The tenant of the last object, with its text.
    tenant: Option<(Arc<str>, Tenant)>,
}

impl Loader {
    /// Begins with everything that objects refer to.
    ///
    /// Errors: the image has no extension, or it cannot be understood.
    pub fn new(globals: &Globals) -> Result<Self, ImageError> {
        let extension = globals.extension.as_ref().ok_or_else(|| inconsistent("no extension"))?;
        let section = extension.sections.get(SECTION).map(Vec::as_slice).unwrap_or_default();
        let record = StateRecord::decode(section)?;
        let indices = record.mount_order.iter().zip((0..).map(SegmentIdx));
        let indices = indices.map(|(id, index)| (*id, index)).collect();
        let pending = extension.pending_pins.iter().map(|pin| {
            let request = match pin.action {
                PinActionImage::Preserve => PinRequest::Preserve,
                PinActionImage::Enable => PinRequest::Enable(Ttl(pin.ttl_ms)),
                PinActionImage::Disable => PinRequest::Disable,
            };
            let eligible = pin.eligible.iter().map(|id| ReplicaId(*id)).collect();
            (pin.name.clone(), PendingPin { request, eligible })
        });
        Ok(Loader {
            state: State::default(),
            indices,
            claims: Claims::new(),
            pending: pending.collect(),
            writing: extension.writes.iter().map(|write| (write.name.clone(), ())).collect(),
            record,
            tenant: None,
        })
    }

    /// Takes the objects of a shard.
    ///
    /// Errors: one of them contradicts itself or the rest.
    pub fn shard(&mut self, number: u16, objects: Vec<ObjectImage>) -> Result<(), ImageError> {
        self.state.view.table.make_room(usize::from(number), objects.len());
        objects.into_iter().try_for_each(|object| self.object(object))
    }

    /// The state, after the last shard.
    ///
    /// Errors: the parts do not agree.
    pub fn finish(mut self, globals: &Globals) -> Result<State, ImageError> {
        let extension = globals.extension.clone().unwrap_or_default();
        self.state.clock = Millis(extension.state_clock_ms);
        self.state.next_replica_id = globals.replica_next_id;
        self.state.counters = self.record.counters;
        self.state.leadership = self.record.leadership.take();
        self.discards(globals)?;
        self.segments(globals, &extension)?;
        self.tasks(globals)?;
        for transfer in &extension.transfers {
            self.transfer(transfer)?;
        }
        let clients = std::mem::take(&mut self.record.clients);
        self.state.clients = ClientTable::restore(clients, self.record.last_incarnation);
        for (key, value) in &extension.http_metadata {
            self.state.metadata.put(key, value);
        }
        super::sections::load(&extension, &mut self.state)?;
        self.state.publish_directory();
        self.state.view.publish_clock(self.state.clock);
        Ok(self.state)
    }

    /// The tenant of an object; mostly that of the object before.
    fn tenant(&mut self, name: &ObjectName) -> Result<Tenant, ImageError> {
        if let Some((text, tenant)) = &self.tenant
            && *text == name.tenant
        {
            return Ok(tenant.clone());
        }
        let tenant = Tenant::parse(&name.tenant)
            .ok_or_else(|| inconsistent(format!("{name}: bad tenant")))?;
        self.tenant = Some((Arc::clone(&name.tenant), tenant.clone()));
        Ok(tenant)
    }

    fn object(&mut self, image: ObjectImage) -> Result<(), ImageError> {
        let tenant = self.tenant(&image.name)?;
        let hash = table_hash(&tenant, &image.name.key);
        let replicas = image.replicas.iter().map(|replica| self.replica(replica));
        let replicas = replicas.collect::<Result<_, _>>()?;
        let tenant = self.state.acquire_tenant(&tenant);
        let is_processing = self.writing.remove(&image.name).is_some();
        let pending = self.pending.remove(&image.name);
        let mut object = Object::new(NewObject {
            key: KeyBytes::from(&*image.name.key),
            tenant,
            size: image.size,
            put_start: Millis(image.put_start_ms),
            writer: WriterIdx(self.state.writers.acquire(&ClientId(uuid(image.writer)))),
            group: self.state.acquire_group(tenant, &image.group),
            data_type: image.data_type,
            is_hard_pinned: image.hard_pinned,
            replicas,
        });
        object.set_pin(image.soft_pin_ms.map(Deadline));
        object.set_checksum(image.checksum);
        // Only the image of a cold restore has leases; what its readers were promised stays promised.
        object.lease = Lease::until(Millis(image.lease_ms));
        object.is_processing = is_processing;
        object.set_pending(pending);
        let full = || inconsistent("an object has no room in its shard");
        let at = self.state.file_unowned(hash, object).ok_or_else(full)?;
        image.replicas.iter().for_each(|replica| self.claim(replica, at.0));
        Ok(())
    }

    fn replica(&self, image: &ReplicaImage) -> Result<Replica, ImageError> {
        let place = match &image.place {
            ReplicaPlace::Memory { address, segment, handle, .. } => {
                let segment = SegmentId(uuid(*segment));
                let index = self.indices.get(&segment).copied();
                let missing = || inconsistent(format!("replica {}: no allocation", image.id));
                let segment = index.ok_or_else(missing)?;
                let node = handle.ok_or_else(missing)?.node;
                Place::Memory { segment, node, address: *address }
            }
            ReplicaPlace::Disk { path, size } => {
                Place::Disk(Box::new(DiskPlace { path: path.clone(), size: *size }))
            }
            ReplicaPlace::LocalDisk { client, size, endpoint } => {
                Place::LocalDisk(Box::new(LocalDiskPlace {
                    client: ClientId(uuid(*client)),
                    size: *size,
                    endpoint: endpoint.clone(),
                }))
            }
            ReplicaPlace::Dfs { .. } => {
                return Err(inconsistent(format!("replica {}: a DFS place", image.id)));
            }
        };
        let status = match image.status {
            snapshot::ReplicaStatus::Processing => ReplicaStatus::Processing,
            snapshot::ReplicaStatus::Complete => ReplicaStatus::Complete,
            other => return Err(inconsistent(format!("replica {}: {other:?}", image.id))),
        };
        Ok(Replica { id: ReplicaId(image.id), place, references: 0, status })
    }

    fn claim(&mut self, replica: &ReplicaImage, owner: u32) {
        if let ReplicaPlace::Memory { segment, handle: Some(handle), .. } = &replica.place {
            self.claims.entry(SegmentId(uuid(*segment))).or_default().push(Handle {
                node: handle.node,
                offset_units: handle.offset,
                requested_bytes: handle.size,
                owner,
            });
        }
    }

    /// Puts the tasks back in the order of their creation.
    fn tasks(&mut self, globals: &Globals) -> Result<(), ImageError> {
        let images = globals.tasks.iter().map(|image| (TaskId(uuid(image.id)), image));
        let mut images: BTreeMap<TaskId, &TaskImage> = images.collect();
        for id in std::mem::take(&mut self.record.task_order) {
            let missing = || inconsistent(format!("task {id} is not in the image"));
            self.state.tasks.push(task(id, images.remove(&id).ok_or_else(missing)?));
        }
        match images.keys().next() {
            Some(id) => Err(inconsistent(format!("task {id} has no place in the order"))),
            None => Ok(()),
        }
    }

    /// Puts an open copy or move back, and the use counts of its replicas.
    fn transfer(&mut self, image: &TransferImage) -> Result<(), ImageError> {
        let lost = |why: &str| inconsistent(format!("transfer of {}: {why}", image.name));
        let tenant = Tenant::parse(&image.name.tenant).ok_or_else(|| lost("bad tenant"))?;
        let kind = match image.kind {
            snapshot::TransferKind::Copy => TransferKind::Copy,
            snapshot::TransferKind::Move => TransferKind::Move,
            // The tiers have a section of their own.
            snapshot::TransferKind::Promotion | snapshot::TransferKind::Offload => return Ok(()),
        };
        let key = &image.name.key;
        let object = self.state.find_filed(KeyAt::new(&tenant, key));
        let object = object.ok_or_else(|| lost("no such object"))?;
        let transfer = Transfer {
            name: ObjectKey { tenant, key: key.clone() },
            kind,
            client: ClientId(uuid(image.client)),
            source: ReplicaId(image.source),
            targets: image.targets.iter().copied().map(ReplicaId).collect(),
            started: Millis(image.started_ms),
            // Told by a section of its own, if it has one.
            token: DynamicToken::default(),
        };
        self.state.edit(object, |object| {
            for replica in object.replicas.iter_mut() {
                let is_used =
                    replica.id == transfer.source || transfer.targets.contains(&replica.id);
                replica.references += u16::from(is_used);
            }
        });
        self.state.transfers.insert(object, transfer);
        Ok(())
    }

    fn discards(&mut self, globals: &Globals) -> Result<(), ImageError> {
        for discarded in &globals.discarded {
            let replicas = discarded.replicas.iter().map(|replica| self.replica(replica));
            let replicas: Vec<Replica> = replicas.collect::<Result<_, _>>()?;
            discarded.replicas.iter().for_each(|replica| self.claim(replica, NO_OWNER));
            let size = discarded.replicas.iter().find_map(|replica| match &replica.place {
                ReplicaPlace::Memory { size, .. } => Some(*size),
                _ => None,
            });
            let discard = Discard { replicas, size: size.unwrap_or_default(), held: None };
            self.state.discards.push(Millis(discarded.release_at_ms), discard);
        }
        Ok(())
    }

    fn segments(&mut self, globals: &Globals, extension: &Extension) -> Result<(), ImageError> {
        let mut parts = Vec::new();
        for id in std::mem::take(&mut self.record.mount_order) {
            let key = snapshot::Uuid::new(id.0.first, id.0.second);
            let missing = || inconsistent(format!("segment {id} is not in the image"));
            let image = globals.segments.segment(key).ok_or_else(missing)?;
            let told = extension.segments.iter().find(|told| told.id == key).ok_or_else(missing)?;
            parts.push((id, image, told, self.claims.remove(&id).unwrap_or_default()));
        }
        // Proving the allocators is most of the work, and none depends on another.
        let bytes = |(.., claims): &(_, _, _, Vec<Handle>)| {
            claims.len().saturating_mul(size_of::<Handle>()) as u64
        };
        let mount = |parts: Vec<(SegmentId, &SegmentImage, &SegmentRecord, Vec<Handle>)>| {
            let mounted = parts.into_iter().map(|(id, image, told, claims)| {
                Ok(Mounted {
                    segment: segment(id, image, &told.protocol),
                    owner: ClientId(uuid(told.owner)),
                    status: status(image)?,
                    allocator: allocator(image, claims)?,
                    unmount_at: told.unmount_deadline_ms.map(Millis),
                })
            });
            mounted.collect::<Result<Vec<_>, ImageError>>()
        };
        for mounted in snapshot::in_halves(parts, bytes, mount) {
            for mounted in mounted? {
                self.state.segments.insert(mounted);
            }
        }
        self.state.segments.reorder_allocatable(&self.record.allocation_order);
        match self.claims.keys().next() {
            Some(id) => Err(inconsistent(format!("replicas on segment {id}, which is missing"))),
            None => Ok(()),
        }
    }
}

fn task(id: TaskId, image: &TaskImage) -> Task {
    let at = |epoch_ms: i64| Millis(u64::try_from(epoch_ms).unwrap_or_default());
    Task {
        id,
        kind: match image.kind {
            snapshot::TaskKind::Copy => TransferKind::Copy,
            snapshot::TaskKind::Move => TransferKind::Move,
        },
        status: match image.status {
            snapshot::TaskStatus::Pending => TaskStatus::Pending,
            snapshot::TaskStatus::Processing => TaskStatus::Processing,
            snapshot::TaskStatus::Failed => TaskStatus::Failed,
            snapshot::TaskStatus::Success => TaskStatus::Success,
        },
        payload: image.payload.clone(),
        created: at(image.created_ms),
        updated: at(image.updated_ms),
        message: image.message.clone(),
        client: ClientId(uuid(image.client)),
    }
}

fn segment(id: SegmentId, image: &SegmentImage, protocol: &str) -> Segment {
    Segment {
        id,
        name: Arc::from(&*image.name),
        base: image.base,
        size: image.size,
        endpoint: Arc::from(&*image.endpoint),
        protocol: Arc::from(protocol),
        host_id: Arc::from(image.host_id.as_deref().unwrap_or_default()),
    }
}

fn status(image: &SegmentImage) -> Result<SegmentStatus, ImageError> {
    Ok(match image.status {
        snapshot::SegmentStatus::Ok => SegmentStatus::Ok,
        snapshot::SegmentStatus::Draining => SegmentStatus::Draining,
        snapshot::SegmentStatus::Drained => SegmentStatus::Drained,
        snapshot::SegmentStatus::GracefullyUnmounting => SegmentStatus::GracefullyUnmounting,
        snapshot::SegmentStatus::Unmounting => SegmentStatus::Unmounting,
        snapshot::SegmentStatus::Undefined => {
            return Err(inconsistent(format!("segment {} has no status", image.id)));
        }
    })
}

fn allocator(image: &SegmentImage, claims: Vec<Handle>) -> Result<OffsetAllocator, ImageError> {
    let missing = || inconsistent(format!("segment {} has no allocator", image.id));
    let saved = image.allocator.as_ref().ok_or_else(missing)?;
    OffsetAllocator::from_raw(&raw(&saved.offset), claims)
        .map_err(|fault| inconsistent(format!("segment {}: {fault}", image.id)))
}

fn raw(image: &OffsetAllocatorImage) -> RawAllocator {
    let table = &image.table;
    let nodes = table.nodes.iter().map(|node| RawNode {
        used: node.used,
        offset: node.offset,
        size: node.size,
        bin_prev: node.bin_prev,
        bin_next: node.bin_next,
        left: node.neighbor_prev,
        right: node.neighbor_next,
    });
    RawAllocator {
        base: image.base,
        unit_bits: image.multiplier_bits,
        capacity: image.capacity,
        allocated_bytes: image.allocated_bytes,
        allocation_count: image.allocation_count,
        size: table.size,
        slots: u32::try_from(table.nodes.len()).unwrap_or(u32::MAX),
        slots_max: table.max_capacity,
        free_units: table.free_storage,
        top_mask: table.top_bitmap,
        leaf_masks: table.leaf_bitmaps,
        heads: table.bin_heads,
        nodes: nodes.collect(),
        stack: table.free_stack.clone(),
        free_offset: table.free_offset,
    }
}
