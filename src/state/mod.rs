//! The replicated state machine: `(State, Stamp, Command) -> Reply`.
//!
//! Laws: no clock, no I/O, no chance, no floats, no async and no map order in here. Equal entries give equal
//! images, with or without a snapshot between (`check.rs`, `image/` and their tests). Three kinds of state:
//! *replicated* fields are in the image, *derived* ones are rebuilt from them, *leader-local* ones (read
//! leases) merely lie beside an object and are never read by apply.
//!
//! Read `apply.rs` first, then `put.rs`. Changing an object goes through `settle.rs`, which keeps every
//! derived index; nothing else touches them.

mod allocate;
mod apply;
mod check;
pub mod clients;
pub mod command;
pub mod deadlines;
pub mod discards;
pub mod disk;
pub mod drain;
pub mod dynamic;
pub mod encode;
pub mod evict;
pub mod groups;
pub mod guard;
pub mod image;
pub mod interner;
pub mod leadership;
pub mod metadata;
mod planted;
pub mod presence;
mod put;
mod remove;
pub mod reply;
pub mod restore;
pub mod segment_table;
mod segments;
mod settle;
mod sweep;
pub mod table;
pub mod tasks;
pub mod tenants;
pub mod transfer;
mod upsert;
pub mod view;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::{ClientId, Deadline, Millis, ObjectRef, ReplicaId, Tenant, TenantIdx};
use clients::ClientTable;
use deadlines::DeadlineIndex;
use discards::Discards;
use disk::Tiers;
use drain::DrainTable;
use dynamic::DynamicTable;
use groups::GroupName;
use guard::Guard;
use interner::Interner;
use leadership::Leadership;
use metadata::Metadata;
use presence::Presence;
use restore::{Preloaded, Restore};
use segment_table::SegmentTable;
use tasks::TaskTable;
use tenants::{Ledger, Quotas};
use transfer::Transfers;
use view::View;

pub use command::{Command, Entry, Stamp};
pub use reply::Reply;

/// Event counts that survive restarts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Counters {
    /// Unfinished or replaced writes whose memory was set aside.
    pub discards: u64,
    /// Set-aside memory that was released.
    pub releases: u64,
    /// Writes that got fewer replicas than they asked for.
    pub partial_allocations: u64,
    /// Writes that got none.
    pub allocation_failures: u64,
}

/// Sums over the objects. Derived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Objects in the table, readable or not.
    pub keys: u64,
    /// Objects with a COMPLETE memory replica.
    pub memory_cached: u64,
    /// Objects with a COMPLETE disk or local-disk replica.
    pub file_cached: u64,
    /// Bytes of disk and local-disk replicas.
    pub file_bytes: u64,
    /// Objects that eviction could take some time: not hard-pinned, with a COMPLETE memory replica that
    /// nothing uses.
    pub evictable: u64,
}

/// Everything that is replicated, and what is derived from it.
#[derive(Debug)]
pub struct State {
    /// The objects, and what readers see. Shared with them.
    view: Arc<View>,
    /// Replicated. The greatest stamp applied; never falls.
    clock: Millis,
    /// Replicated. The next replica's number; never used twice.
    next_replica_id: u64,
    /// Replicated.
    segments: SegmentTable,
    /// Replicated.
    clients: ClientTable,
    /// Replicated. Memory that may not be used again yet.
    discards: Discards,
    /// Replicated. Values of the HTTP metadata server.
    metadata: Metadata,
    /// Replicated.
    counters: Counters,
    /// Replicated. The newest announcement of a leader.
    leadership: Option<Leadership>,
    /// Replicated. Open copies and moves.
    transfers: Transfers,
    /// Replicated. Copy and move tasks.
    tasks: TaskTable,
    /// Replicated. Catalog snapshots, and what they could bring back.
    guard: Guard,
    /// Replicated. The cold restore.
    restore: Restore,
    /// Replicated. Who may use how much.
    quotas: Quotas,
    /// Derived, but for what is charged for replaced content.
    ledger: Ledger,
    /// Replicated. Disks, and the way to and from them.
    tiers: Tiers,
    /// Replicated. Jobs that empty segments.
    drains: DrainTable,
    /// Replicated. Further replicas of hot objects.
    dynamic: DynamicTable,
    /// Derived. Invariant: holds exactly the (deadline, object) of every object with a committed pin.
    deadlines: DeadlineIndex,
    /// Derived. Invariant: every object in progress, by the start and first replica of its write.
    writes: BTreeMap<(Millis, ReplicaId), ObjectRef>,
    /// Derived.
    totals: Totals,
    /// Neither: objects that became candidates for eviction in the newest entry, or are ones under another first
    /// replica since, each with it. For the leader; cleared with the next entry.
    arrivals: Vec<(ObjectRef, ReplicaId)>,
    /// Neither: the staged image, loaded beforehand. Dropped with the stage.
    preloaded: Option<Box<Preloaded>>,
    /// Replicated are its counts; the changes themselves are for whoever follows them.
    presence: Presence,
    /// Derived: small numbers in objects.
    writers: Interner<ClientId>,
    /// Derived: small numbers in objects. Number 0 is the default tenant for ever.
    tenants: Interner<Tenant>,
    /// Derived: small numbers in objects. Number 0 is "no group" for ever.
    groups: Interner<GroupName>,
}

impl Default for State {
    fn default() -> Self {
        State {
            view: Arc::default(),
            clock: Millis(0),
            next_replica_id: 1,
            segments: SegmentTable::default(),
            clients: ClientTable::default(),
            discards: Discards::default(),
            metadata: Metadata::default(),
            counters: Counters::default(),
            leadership: None,
            transfers: Transfers::default(),
            tasks: TaskTable::default(),
            guard: Guard::default(),
            restore: Restore::default(),
            quotas: Quotas::default(),
            ledger: Ledger::default(),
            tiers: Tiers::default(),
            drains: DrainTable::default(),
            dynamic: DynamicTable::default(),
            deadlines: DeadlineIndex::default(),
            writes: BTreeMap::new(),
            totals: Totals::default(),
            arrivals: Vec::new(),
            preloaded: None,
            presence: Presence::default(),
            writers: Interner::default(),
            tenants: Interner::with_first(Tenant::default()),
            groups: Interner::with_first(GroupName::none()),
        }
    }
}

impl State {
    /// The part that readers share.
    pub fn view(&self) -> &Arc<View> {
        &self.view
    }

    /// State time.
    pub fn clock(&self) -> Millis {
        self.clock
    }

    /// The mounted segments.
    pub fn segments(&self) -> &SegmentTable {
        &self.segments
    }

    /// The known clients.
    pub fn clients(&self) -> &ClientTable {
        &self.clients
    }

    /// Memory set aside.
    pub fn discards(&self) -> &Discards {
        &self.discards
    }

    /// Values of the HTTP metadata server.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The newest announcement of a leader.
    pub fn leadership(&self) -> Option<&Leadership> {
        self.leadership.as_ref()
    }

    /// The soft-pin deadline index.
    pub fn deadlines(&self) -> &DeadlineIndex {
        &self.deadlines
    }

    /// Event counts.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Objects that the newest entry made candidates for eviction, with their first replicas.
    pub fn arrivals(&self) -> &[(ObjectRef, ReplicaId)] {
        &self.arrivals
    }

    /// Sums over the objects.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// The first deadline of the index. Drops stale registrations on the way, which changes no answer.
    pub fn next_deadline(&mut self) -> Option<Deadline> {
        self.deadlines.next_deadline()
    }

    /// When the oldest write in progress began.
    pub fn oldest_write(&self) -> Option<Millis> {
        self.writes.first_key_value().map(|((start, _), _)| *start)
    }

    /// The number of a tenant that some object or command has named.
    pub fn tenant_idx(&self, tenant: Option<&Tenant>) -> Option<TenantIdx> {
        match tenant {
            None => Some(TenantIdx(0)),
            Some(tenant) => self.tenants.number(tenant).map(TenantIdx),
        }
    }

    /// The name of a tenant number found in an object.
    pub fn tenant_name(&self, tenant: TenantIdx) -> Option<&Tenant> {
        self.tenants.name(tenant.0)
    }

    /// The client behind a writer number found in an object.
    pub fn writer_id(&self, writer: crate::model::WriterIdx) -> Option<ClientId> {
        self.writers.name(writer.0).copied()
    }
}

#[cfg(test)]
mod tests;
