//! What readers share with apply: the object table, the directory of segments and clients, the clock.
//!
//! A read locks the directory once a call and one shard a key. Everything else of the state is behind the
//! node's lock. The directory is derived: `segments.rs` and `clients.rs` publish a new one on each change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use parking_lot::RwLock;

use super::groups::GroupIndex;
use super::table::ObjectTable;
use crate::model::{
    ClientId, Descriptor, Location, Millis, MountedView, Object, Place, Replica, ReplicaId,
    SegmentIdx, Tenant, TenantIdx,
};

/// What readers are told of a segment whose protocol is not known yet, as the peer tells them.
static PROTOCOL_DEFAULT: LazyLock<Arc<str>> = LazyLock::new(|| Arc::from("tcp"));

/// Segments and clients as readers see them.
#[derive(Clone, Debug, Default)]
pub struct Directory {
    /// Indexed by [`SegmentIdx`]; `None` where a segment has gone.
    pub segments: Vec<Option<Arc<MountedView>>>,
    /// Clients that have mounted or re-mounted and are known to be alive.
    pub alive: BTreeSet<ClientId>,
    /// Clients whose files below a replica number are given up.
    pub lost_files: BTreeMap<ClientId, ReplicaId>,
}

impl Directory {
    /// The segment, while it is mounted.
    pub fn segment(&self, index: SegmentIdx) -> Option<&MountedView> {
        self.segments.get(index.0 as usize)?.as_deref()
    }

    /// Whether a replica's bytes can be reached: memory needs a readable segment, a file on a client's disk that
    /// client.
    pub fn is_valid(&self, replica: &Replica) -> bool {
        match &replica.place {
            Place::Memory { segment, .. } => {
                self.segment(*segment).is_some_and(|view| view.status.is_readable())
            }
            Place::LocalDisk(disk) => {
                self.lost_files.get(&disk.client).is_none_or(|bound| replica.id >= *bound)
            }
            Place::Disk(_) => true,
        }
    }

    /// Whether the object exists for its users: some replica can be reached, whatever its status.
    pub fn exists(&self, object: &Object) -> bool {
        object.replicas.iter().any(|replica| self.is_valid(replica))
    }

    /// Whether somebody can read the object now.
    pub fn is_readable(&self, object: &Object) -> bool {
        object.replicas.iter().any(|replica| replica.is_complete() && self.is_valid(replica))
    }

    /// What a client is told of a replica; `None` if its segment has gone.
    pub fn describe(&self, replica: &Replica, size: u64) -> Option<Descriptor> {
        let location = match &replica.place {
            Place::Memory { segment, address, .. } => {
                let view = self.segment(*segment)?;
                // A restored segment has none until its client names it again (snapshot format 5).
                let protocol = match view.segment.protocol.is_empty() {
                    true => &*PROTOCOL_DEFAULT,
                    false => &view.segment.protocol,
                };
                Location::Memory {
                    size,
                    address: *address,
                    protocol: Arc::clone(protocol),
                    endpoint: Arc::clone(&view.segment.endpoint),
                }
            }
            Place::Disk(disk) => Location::Disk { path: disk.path.clone(), size: disk.size },
            Place::LocalDisk(disk) => Location::LocalDisk {
                client: disk.client,
                size: disk.size,
                endpoint: disk.endpoint.clone(),
            },
        };
        Some(Descriptor { id: replica.id, location, status: replica.status })
    }

    /// Descriptors of every readable replica, in order.
    pub fn describe_readable(&self, object: &Object) -> Vec<Descriptor> {
        let is_readable = |r: &&Replica| r.is_complete() && self.is_valid(r);
        let readable = object.replicas.iter().filter(is_readable);
        readable.filter_map(|replica| self.describe(replica, object.size)).collect()
    }
}

/// The part of the state that reads go to.
#[derive(Debug, Default)]
pub struct View {
    /// The objects.
    pub table: ObjectTable,
    /// The members of groups.
    pub groups: GroupIndex,
    directory: RwLock<Arc<Directory>>,
    /// Numbers of the tenants but the default one.
    tenants: RwLock<BTreeMap<Tenant, TenantIdx>>,
    is_enforced: AtomicBool,
    clock: AtomicU64,
}

impl View {
    /// The directory as it is now.
    pub fn directory(&self) -> Arc<Directory> {
        Arc::clone(&self.directory.read())
    }

    /// State time: the greatest stamp applied so far.
    pub fn clock(&self) -> Millis {
        Millis(self.clock.load(Ordering::Acquire))
    }

    pub(super) fn publish_directory(&self, directory: Directory) {
        *self.directory.write() = Arc::new(directory);
    }

    /// The number of a tenant that has objects or a policy. Numbers are not used again, so one that has just gone
    /// finds nothing.
    pub fn tenant_idx(&self, tenant: &Tenant) -> Option<TenantIdx> {
        match tenant.is_default() {
            true => Some(TenantIdx(0)),
            false => self.tenants.read().get(tenant).copied(),
        }
    }

    /// Whether only tenants with a policy may write.
    pub fn is_enforced(&self) -> bool {
        self.is_enforced.load(Ordering::Acquire)
    }

    pub(super) fn publish_enforced(&self, is_enforced: bool) {
        self.is_enforced.store(is_enforced, Ordering::Release);
    }

    pub(super) fn publish_tenant(&self, tenant: &Tenant, index: TenantIdx) {
        if !tenant.is_default() {
            self.tenants.write().insert(tenant.clone(), index);
        }
    }

    pub(super) fn forget_tenant(&self, tenant: &Tenant) {
        self.tenants.write().remove(tenant);
    }

    /// The numbers of the tenants but the default one.
    pub(super) fn tenants(&self) -> BTreeMap<Tenant, TenantIdx> {
        self.tenants.read().clone()
    }

    pub(super) fn replace_tenants(&self, tenants: BTreeMap<Tenant, TenantIdx>) {
        *self.tenants.write() = tenants;
    }

    pub(super) fn publish_clock(&self, clock: Millis) {
        self.clock.store(clock.0, Ordering::Release);
    }
}
