//! Settings of the tiers below memory: the shared directory, clients' disks, promotion.

use super::sections::Config;

/// Disks, and the way to and from them (behaviour spec 10).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierConfig {
    /// Directory that all clients share; empty for none.
    pub root_fs_dir: String,
    /// Its capacity in bytes; `i64::MAX` means no limit.
    pub shared_bytes: u64,
    /// Whether clients' disks are used.
    pub is_offload_enabled: bool,
    /// Whether objects are copied to disk when memory runs short, instead of at the end of their write.
    pub offload_on_evict: bool,
    /// Whether an object may be evicted that could not be queued for a disk.
    pub offload_force_evict: bool,
    /// Objects that may wait for one client.
    pub offload_queue_max: u64,
    /// Share of that queue that one pass of eviction may fill, in parts per million.
    pub offload_cap_ppm: u32,
    /// Whether objects come back to memory when they are read from a client's disk.
    pub promotion_on_hit: bool,
    /// Reads after which one does; at least 1, at most 255.
    pub promotion_threshold: u8,
    /// Promotions that may be under way.
    pub promotion_queue_max: u32,
    /// Promotions that one heartbeat hands out; at least 1.
    pub promotion_per_heartbeat: u32,
}

/// The capacity that means "no limit".
pub const SHARED_BYTES_UNLIMITED: u64 = i64::MAX as u64;

impl Default for TierConfig {
    fn default() -> Self {
        TierConfig {
            root_fs_dir: String::new(),
            shared_bytes: SHARED_BYTES_UNLIMITED,
            is_offload_enabled: false,
            offload_on_evict: false,
            offload_force_evict: false,
            offload_queue_max: 50_000,
            offload_cap_ppm: 500_000,
            promotion_on_hit: false,
            promotion_threshold: 2,
            promotion_queue_max: 50_000,
            promotion_per_heartbeat: 1,
        }
    }
}

impl Config {
    /// The directory of this cluster under the shared one, without a slash at its end; `None` unless both
    /// have a name.
    pub fn shared_directory(&self) -> Option<String> {
        let (root, cluster) = (&self.tiers.root_fs_dir, &self.storage.cluster_id);
        let is_set = !root.is_empty() && !cluster.is_empty();
        is_set.then(|| format!("{}/{cluster}", root.trim_end_matches('/')))
    }
}
