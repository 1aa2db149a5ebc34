//! Flags of the peer's about disks and promotion, all honoured (behaviour spec 12.1).

use super::{FlagSpec, Group, Kind};

pub(super) const FLAGS: &[FlagSpec] = &[
    FlagSpec::new(
        Group::Storage,
        "root_fs_dir",
        "",
        Kind::Text(|c, text| text.clone_into(&mut c.tiers.root_fs_dir)),
        "directory shared by all clients; set, every put gets a DISK replica",
    ),
    FlagSpec::new(
        Group::Storage,
        "global_file_segment_size",
        "9223372036854775807",
        Kind::Whole64(0, i64::MAX as u64, |c, bytes| c.tiers.shared_bytes = bytes),
        "capacity of root_fs_dir in bytes, for metrics; the default means no limit",
    ),
    FlagSpec::new(
        Group::Tiers,
        "enable_offload",
        "false",
        Kind::Switch(|c, on| c.tiers.is_offload_enabled = on),
        "keep copies on the clients' disks",
    ),
    FlagSpec::new(
        Group::Tiers,
        "offload_on_evict",
        "false",
        Kind::Switch(|c, on| c.tiers.offload_on_evict = on),
        "copy to disk when an object is about to be evicted, not at the end of its write",
    ),
    FlagSpec::new(
        Group::Tiers,
        "offload_force_evict",
        "false",
        Kind::Switch(|c, on| c.tiers.offload_force_evict = on),
        "evict an object even if its copy to disk cannot be queued",
    ),
    FlagSpec::new(
        Group::Tiers,
        "offloading_queue_limit",
        "50000",
        Kind::Whole64(1, 100_000_000, |c, number| c.tiers.offload_queue_max = number),
        "copies to disk that may wait for one client",
    ),
    FlagSpec::new(
        Group::Tiers,
        "offload_cap_ratio",
        "0.5",
        Kind::Ratio(|c, ppm| c.tiers.offload_cap_ppm = ppm),
        "share of the queue that one pass of eviction may fill before it evicts by force",
    ),
    FlagSpec::new(
        Group::Tiers,
        "promotion_on_hit",
        "false",
        Kind::Switch(|c, on| c.tiers.promotion_on_hit = on),
        "bring an object back to memory when it is read from a client's disk",
    ),
    FlagSpec::new(
        Group::Tiers,
        "promotion_admission_threshold",
        "2",
        Kind::Whole32(0, u32::MAX, |c, number| {
            c.tiers.promotion_threshold = u8::try_from(number.max(1)).unwrap_or(u8::MAX);
        }),
        "reads after which an object is brought back; from 1 to 255",
    ),
    FlagSpec::new(
        Group::Tiers,
        "promotion_queue_limit",
        "50000",
        Kind::Whole32(0, u32::MAX, |c, number| c.tiers.promotion_queue_max = number),
        "promotions that may be under way",
    ),
    FlagSpec::new(
        Group::Tiers,
        "promotion_max_per_heartbeat",
        "1",
        Kind::Whole32(0, u32::MAX, |c, number| {
            c.tiers.promotion_per_heartbeat = number.max(1);
        }),
        "promotions that one heartbeat hands out; at least 1",
    ),
];
