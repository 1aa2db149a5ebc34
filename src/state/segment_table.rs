//! Mounted segments with their allocators, by number, id and name, and the order of allocation.
//!
//! Only segments with status OK receive allocations; all but UNMOUNTING ones can be read. A number is never
//! used twice while the state lives, so a stale reference cannot reach another segment's memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::alloc::{HostNames, NameList, OffsetAllocator};
use crate::model::{ClientId, Millis, MountedView, Segment, SegmentId, SegmentIdx, SegmentStatus};

/// A mounted segment.
#[derive(Clone, Debug)]
pub struct Mounted {
    /// What the client said.
    pub segment: Segment,
    /// The client that mounted it.
    pub owner: ClientId,
    /// Where it is in its life.
    pub status: SegmentStatus,
    /// Its space.
    pub allocator: OffsetAllocator,
    /// When a graceful unmount ends; set exactly while the status is GRACEFULLY_UNMOUNTING.
    pub unmount_at: Option<Millis>,
}

/// Every mounted segment.
#[derive(Clone, Debug, Default)]
pub struct SegmentTable {
    /// Indexed by [`SegmentIdx`].
    slots: Vec<Option<Box<Mounted>>>,
    by_id: BTreeMap<SegmentId, SegmentIdx>,
    by_name: BTreeMap<Arc<str>, Vec<SegmentIdx>>,
    /// Segments with status OK by name, in allocation order: it decides where random placement starts.
    allocatable: NameList<SegmentIdx>,
    /// The same segments by host.
    hosts: HostNames,
}

impl SegmentTable {
    /// Adds a segment. The caller made sure that the id is new.
    pub fn insert(&mut self, mounted: Mounted) -> SegmentIdx {
        // A 32-bit count of mounts: at one mount a millisecond it lasts seven weeks without a restart.
        let index = SegmentIdx(u32::try_from(self.slots.len()).unwrap_or(u32::MAX));
        self.by_id.insert(mounted.segment.id, index);
        self.by_name.entry(Arc::clone(&mounted.segment.name)).or_default().push(index);
        if mounted.status == SegmentStatus::Ok {
            self.list(index, &mounted.segment);
        }
        self.slots.push(Some(Box::new(mounted)));
        index
    }

    /// Takes a segment out for good.
    pub fn remove(&mut self, index: SegmentIdx) -> Option<Mounted> {
        let mounted = self.slots.get_mut(index.0 as usize)?.take()?;
        self.by_id.remove(&mounted.segment.id);
        if let Some(indices) = self.by_name.get_mut(&mounted.segment.name) {
            indices.retain(|other| *other != index);
            if indices.is_empty() {
                self.by_name.remove(&mounted.segment.name);
            }
        }
        if mounted.status == SegmentStatus::Ok {
            self.unlist(index, &mounted.segment);
        }
        Some(*mounted)
    }

    /// Changes a segment's status and, with it, whether it receives allocations.
    pub fn set_status(&mut self, index: SegmentIdx, status: SegmentStatus) {
        let Some(mounted) = self.get_mut(index) else { return };
        let was_ok = mounted.status == SegmentStatus::Ok;
        mounted.status = status;
        if status != SegmentStatus::GracefullyUnmounting {
            mounted.unmount_at = None;
        }
        let segment = mounted.segment.clone();
        match (was_ok, status == SegmentStatus::Ok) {
            (false, true) => self.list(index, &segment),
            (true, false) => self.unlist(index, &segment),
            _ => {}
        }
    }

    /// Takes over what was not known of a segment that its client names again: the peer's snapshots hold no
    /// protocol, and older ones no host.
    pub fn adopt(&mut self, index: SegmentIdx, told: &Segment) {
        let Some(mounted) = self.get_mut(index) else { return };
        if mounted.segment.protocol.is_empty() {
            mounted.segment.protocol = Arc::clone(&told.protocol);
        }
        if !mounted.segment.host_id.is_empty() || told.host_id.is_empty() {
            return;
        }
        mounted.segment.host_id = Arc::clone(&told.host_id);
        if mounted.status == SegmentStatus::Ok {
            let name = Arc::clone(&mounted.segment.name);
            self.hosts.remove("", &name);
            self.hosts.add(&told.host_id, &name);
        }
    }

    fn list(&mut self, index: SegmentIdx, segment: &Segment) {
        self.allocatable.add(&segment.name, index);
        self.hosts.add(&segment.host_id, &segment.name);
    }

    fn unlist(&mut self, index: SegmentIdx, segment: &Segment) {
        self.allocatable.remove(&segment.name, &index);
        self.hosts.remove(&segment.host_id, &segment.name);
    }

    /// A segment by number.
    pub fn get(&self, index: SegmentIdx) -> Option<&Mounted> {
        self.slots.get(index.0 as usize)?.as_deref()
    }

    /// A segment by number, to change. Never change `status` here: use [`SegmentTable::set_status`].
    pub fn get_mut(&mut self, index: SegmentIdx) -> Option<&mut Mounted> {
        self.slots.get_mut(index.0 as usize)?.as_deref_mut()
    }

    /// The number of a segment id.
    pub fn index_of(&self, id: SegmentId) -> Option<SegmentIdx> {
        self.by_id.get(&id).copied()
    }

    /// The segments of a name, in the order in which they were mounted.
    pub fn named(&self, name: &str) -> impl Iterator<Item = (SegmentIdx, &Mounted)> {
        let indices = self.by_name.get(name).map(Vec::as_slice).unwrap_or_default();
        indices.iter().filter_map(|&index| Some((index, self.get(index)?)))
    }

    /// Every segment, ascending by id.
    pub fn iter(&self) -> impl Iterator<Item = (SegmentIdx, &Mounted)> {
        self.by_id.values().filter_map(|&index| Some((index, self.get(index)?)))
    }

    /// Every segment in the order in which they were mounted.
    pub fn in_mount_order(&self) -> impl Iterator<Item = &Mounted> {
        self.slots.iter().filter_map(Option::as_deref)
    }

    /// Names that receive allocations, in allocation order.
    pub fn allocatable(&self) -> &NameList<SegmentIdx> {
        &self.allocatable
    }

    /// The same names by host.
    pub fn hosts(&self) -> &HostNames {
        &self.hosts
    }

    /// Puts the allocation order of an image back. Names that the order lacks stay behind those it has.
    pub fn reorder_allocatable(&mut self, order: &[Arc<str>]) {
        let old = std::mem::take(&mut self.allocatable);
        let known = order.iter().filter_map(|name| Some((name, old.get(old.position(name)?)?.1)));
        for (name, members) in known.chain(old.iter()) {
            members.iter().for_each(|member| self.allocatable.add(name, *member));
        }
    }

    /// What readers see, indexed by number.
    pub fn views(&self) -> Vec<Option<Arc<MountedView>>> {
        let view = |mounted: &Mounted| {
            let segment = mounted.segment.clone();
            Arc::new(MountedView { segment, owner: mounted.owner, status: mounted.status })
        };
        self.slots.iter().map(|slot| slot.as_deref().map(view)).collect()
    }

    /// Requested bytes in use on segments that can be read, and their size.
    pub fn memory_usage(&self) -> (u64, u64) {
        let readable = self.iter().filter(|(_, mounted)| mounted.status.is_readable());
        readable.fold((0, 0), |(used, capacity), (_, mounted)| {
            (used + mounted.allocator.used_bytes(), capacity + mounted.segment.size)
        })
    }

    /// Number of mounted segments.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether nothing is mounted.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }
}
