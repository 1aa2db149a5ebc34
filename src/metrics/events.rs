//! Events about objects that this process has published.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

/// Counts of the publisher.
#[derive(Debug, Default)]
pub struct EventCounters {
    /// Whether events are published, by this node while it leads.
    pub is_enabled: AtomicBool,
    /// Messages published, whether anybody listened or not.
    pub published_batches: AtomicU64,
    /// Events in them.
    pub published_events: AtomicU64,
    /// Events that a subscriber was too slow for.
    pub dropped_events: AtomicU64,
    /// Events of keys that are no numbers.
    pub skipped_unparsed_keys: AtomicU64,
    /// Subscribers connected now.
    pub subscribers: AtomicUsize,
}
