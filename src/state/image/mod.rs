//! The state as a raft snapshot: exact, clockless, nothing dropped.
//!
//! `freeze` takes handles under the node's lock, `save` turns them into bytes on another thread, `load` builds
//! a whole state from bytes or fails with nothing touched. Equal states give equal bytes; read leases are
//! leader-local and are written as 0 here. The bytes are the peer's snapshot files and our extension in one
//! container: one codec, two callers (`snapshot` crate).

mod dynamic;
mod leases;
mod load;
mod prepare;
mod record;
mod save;
mod sections;
mod tiers;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Counters;
use super::State;
use super::clients::ClientTable;
use super::discards::Discards;
use super::disk::Tiers;
use super::drain::DrainTable;
use super::dynamic::DynamicTable;
use super::groups::FrozenGroup;
use super::guard::Guard;
use super::interner::Interner;
use super::leadership::Leadership;
use super::metadata::Metadata;
use super::presence::PresenceCounts;
use super::restore::Restore;
use super::segment_table::SegmentTable;
use super::table::Shard;
use super::tasks::TaskTable;
use super::tenants::Quotas;
use super::transfer::Transfers;
use crate::model::{ClientId, Millis, ObjectKey, ObjectRef, Tenant};

pub use leases::{LEASE_BYTES_MAX, LEASES_MAX, Leases};
pub use load::Loader;
pub use prepare::{Prepared, prepare};

/// A state that cannot be read back.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The bytes are damaged, foreign or of a newer version.
    #[error("raft snapshot cannot be read: {0}")]
    Codec(#[from] mooncake_ha_snapshot::SnapshotError),
    /// The parts do not agree.
    #[error("raft snapshot contradicts itself: {0}")]
    Inconsistent(String),
}

/// Handles of a state at one entry; writers copy what they change from then on.
#[derive(Debug)]
pub struct FrozenState {
    shards: Vec<Arc<Shard>>,
    clock: Millis,
    next_replica_id: u64,
    segments: SegmentTable,
    clients: ClientTable,
    discards: Discards,
    transfers: Transfers,
    tasks: TaskTable,
    metadata: Metadata,
    counters: Counters,
    presence: PresenceCounts,
    guard: Guard,
    restore: Restore,
    quotas: Quotas,
    /// What is charged for replaced content, by the object's name.
    replaced: Vec<(ObjectKey, u64)>,
    tiers: Tiers,
    drains: DrainTable,
    dynamic: DynamicTable,
    /// The names of the objects in it.
    dynamic_names: BTreeMap<ObjectRef, ObjectKey>,
    leadership: Option<Leadership>,
    writers: Interner<ClientId>,
    tenants: Interner<Tenant>,
    /// By number.
    groups: Vec<Option<FrozenGroup>>,
}

impl State {
    /// Takes handles to everything that is replicated.
    pub fn freeze(&self) -> FrozenState {
        FrozenState {
            shards: self.view.table.freeze(),
            clock: self.clock,
            next_replica_id: self.next_replica_id,
            segments: self.segments.clone(),
            clients: self.clients.clone(),
            discards: self.discards.clone(),
            transfers: self.transfers.clone(),
            tasks: self.tasks.clone(),
            metadata: self.metadata.clone(),
            counters: self.counters,
            presence: self.presence.counts(),
            guard: self.guard.clone(),
            restore: self.restore.clone(),
            quotas: self.quotas.clone(),
            replaced: self.replaced_names(),
            tiers: self.tiers.clone(),
            drains: self.drains.clone(),
            dynamic: self.dynamic.clone(),
            dynamic_names: self.dynamic_names(),
            leadership: self.leadership.clone(),
            writers: self.writers.clone(),
            tenants: self.tenants.clone(),
            groups: self.view.groups.freeze(),
        }
    }

    /// What is charged for replaced content, ascending by name.
    fn replaced_names(&self) -> Vec<(ObjectKey, u64)> {
        let named = self.ledger.replaced().filter_map(|(object, bytes)| {
            let (tenant, key) =
                self.view.table.peek(object, |object| (object.tenant, object.key.boxed()))?;
            Some((ObjectKey { tenant: self.tenant_name(tenant)?.clone(), key }, bytes))
        });
        let mut named: Vec<_> = named.collect();
        named.sort_unstable();
        named
    }

    /// Takes over everything of another state, for readers as well.
    pub fn replace_with(&mut self, other: State) {
        let view = Arc::clone(&self.view);
        let is_followed = self.presence.is_followed();
        view.table.replace_with(&other.view.table);
        view.groups.replace_with(&other.view.groups);
        view.replace_tenants(other.view.tenants());
        view.publish_enforced(other.quotas.is_enforced());
        *self = State { view, ..other };
        if is_followed {
            self.presence.follow();
        }
        self.publish_directory();
        self.view.publish_clock(self.clock);
    }
}
