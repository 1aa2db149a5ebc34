//! Hits of reads, by where the first readable replica lies (behaviour 4.3).

use std::sync::atomic::{AtomicU64, Ordering};

use crate::model::{Descriptor, Location};

/// Counts of object reads.
#[derive(Debug, Default)]
pub struct CacheCounters {
    /// Reads.
    pub total_gets: AtomicU64,
    /// Reads that found something.
    pub valid_gets: AtomicU64,
    /// Reads served from memory.
    pub memory_hits: AtomicU64,
    /// Bytes of those.
    pub memory_hit_bytes: AtomicU64,
    /// Reads served from a disk.
    pub file_hits: AtomicU64,
    /// Bytes of those.
    pub file_hit_bytes: AtomicU64,
}

impl CacheCounters {
    /// Counts one read and what it found.
    pub fn record(&self, found: Option<(&[Descriptor], u64)>) {
        let add = |counter: &AtomicU64, value: u64| {
            counter.fetch_add(value, Ordering::Relaxed);
        };
        add(&self.total_gets, 1);
        let Some((replicas, size)) = found else { return };
        add(&self.valid_gets, 1);
        match replicas.first().map(|replica| &replica.location) {
            Some(Location::Memory { .. }) => {
                add(&self.memory_hits, 1);
                add(&self.memory_hit_bytes, size);
            }
            Some(_) => {
                add(&self.file_hits, 1);
                add(&self.file_hit_bytes, size);
            }
            None => {}
        }
    }
}
