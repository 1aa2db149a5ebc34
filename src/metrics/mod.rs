//! What a running node counts in memory, and how all of it is shown.
//!
//! Counters live here and die with the process. Gauges are computed from the state when somebody asks
//! (`collect.rs`), so they cannot drift. `names.rs` says what there is, `text.rs` and `summary.rs` print it.

pub mod cache;
pub mod collect;
mod functions;
pub mod names;
mod process;
pub mod rpc;
pub mod summary;
pub mod text;

use std::sync::atomic::AtomicUsize;

use crate::node::stats::Histogram;

/// Bounds of the sizes of values, as the peer has them.
const VALUE_BYTES_BOUNDS: &[u64] =
    &[4_096, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216, 67_108_864];

/// The counters of one process.
#[derive(Debug)]
pub struct Metrics {
    /// Calls by function.
    pub rpc: rpc::RpcCounters,
    /// Hits of reads.
    pub cache: cache::CacheCounters,
    /// Sizes of values whose write was started.
    pub value_sizes: Histogram,
    /// Client connections open now.
    pub connections: AtomicUsize,
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics {
            rpc: rpc::RpcCounters::default(),
            cache: cache::CacheCounters::default(),
            value_sizes: Histogram::new(VALUE_BYTES_BOUNDS),
            connections: AtomicUsize::new(0),
        }
    }
}
