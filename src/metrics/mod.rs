//! What a running node counts in memory, and how all of it is shown.
//!
//! Counters live here and die with the process. Gauges are computed from the state when somebody asks (the
//! admin door's `collect.rs`), so they cannot drift. `names.rs` says what there is, `text.rs` and `summary.rs`
//! print it.

pub mod cache;
pub mod events;
mod functions;
pub mod histogram;
pub mod names;
mod process;
pub mod rpc;
pub mod summary;
pub mod text;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::model::Descriptor;
use crate::wire::Function;
use histogram::Histogram;
use text::{Value, Values};

/// Bounds of the sizes of values, as the peer has them.
const VALUE_BYTES_BOUNDS: &[u64] =
    &[4_096, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216, 67_108_864];

/// Milliseconds, from a small table to a slow disk.
const SNAPSHOT_MS_BOUNDS: &[u64] = &[10, 50, 100, 500, 1_000, 5_000, 10_000, 60_000, 300_000];

/// Catalog snapshots that ended.
#[derive(Debug)]
pub struct SnapshotCounters {
    /// Published ones.
    pub successes: AtomicU64,
    /// Failed ones.
    pub failures: AtomicU64,
    /// Milliseconds that each took, failed ones included.
    pub times: Histogram,
}

impl Default for SnapshotCounters {
    fn default() -> Self {
        let (successes, failures) = (AtomicU64::new(0), AtomicU64::new(0));
        SnapshotCounters { successes, failures, times: Histogram::new(SNAPSHOT_MS_BOUNDS) }
    }
}

/// The counters of one process.
#[derive(Debug)]
pub struct Metrics {
    /// Calls by function.
    pub rpc: rpc::RpcCounters,
    /// Hits of reads.
    pub cache: cache::CacheCounters,
    /// Sizes of values whose write was started.
    pub value_sizes: Histogram,
    /// Catalog snapshots of this process.
    pub snapshots: SnapshotCounters,
    /// Client connections open now.
    pub connections: AtomicUsize,
    /// Calls answered in a form of release 0.3.12 that differs from today's.
    pub older_calls: AtomicU64,
    /// Events about objects.
    pub events: events::EventCounters,
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics {
            rpc: rpc::RpcCounters::default(),
            cache: cache::CacheCounters::default(),
            value_sizes: Histogram::new(VALUE_BYTES_BOUNDS),
            snapshots: SnapshotCounters::default(),
            connections: AtomicUsize::new(0),
            older_calls: AtomicU64::new(0),
            events: events::EventCounters::default(),
        }
    }
}

impl Metrics {
    /// Counts a read of an object by an operator, as the peer does: like a client's GetReplicaList.
    pub fn note_read(&self, found: Option<(&[Descriptor], u64)>) {
        self.cache.record(found);
        self.rpc.record(Function::GetReplicaList, 1, u64::from(found.is_none()));
    }

    /// Counts a removal of everything by an operator.
    pub fn note_remove_all(&self) {
        self.rpc.record(Function::RemoveAll, 1, 0);
    }

    /// Everything that is counted here, and what the system says of the process. May block for a moment.
    pub fn collect(&self) -> Values {
        let mut values = Values::default();
        functions::collect(&self.rpc, &mut values);
        let cache = &self.cache;
        for (name, counter) in [
            ("mem_cache_hit_nums_", &cache.memory_hits),
            ("mem_cache_hit_bytes_total", &cache.memory_hit_bytes),
            ("file_cache_hit_nums_", &cache.file_hits),
            ("file_cache_hit_bytes_total", &cache.file_hit_bytes),
            ("valid_get_nums_", &cache.valid_gets),
            ("total_get_nums_", &cache.total_gets),
            ("master_snapshot_success", &self.snapshots.successes),
            ("master_snapshot_fail", &self.snapshots.failures),
            ("master_rpc_older_client_calls_total", &self.older_calls),
            ("master_kv_event_batches_published_total", &self.events.published_batches),
            ("master_kv_events_published_total", &self.events.published_events),
            ("master_kv_events_dropped_total", &self.events.dropped_events),
            ("master_kv_events_unparsed_keys_total", &self.events.skipped_unparsed_keys),
        ] {
            values.count(name, counter);
        }
        values.set("master_value_size_bytes", Value::Histogram(self.value_sizes.view()));
        let times = self.snapshots.times.view();
        values.set("master_snapshot_duration_ms", Value::Histogram(times));
        let subscribers = self.events.subscribers.load(Ordering::Relaxed) as u64;
        values.number("master_kv_event_subscribers", subscribers);
        values.number("master_rpc_connections", self.connections.load(Ordering::Relaxed) as u64);
        process::collect(&mut values);
        values
    }
}
