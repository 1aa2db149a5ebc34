//! What a running node counts in memory. Gauges are computed from the state when somebody asks.

pub mod cache;
pub mod rpc;

/// The counters of one process.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Calls by function.
    pub rpc: rpc::RpcCounters,
    /// Hits of reads.
    pub cache: cache::CacheCounters,
}
