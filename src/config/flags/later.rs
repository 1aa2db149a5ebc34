//! Flags of the peer's that this build does not act on yet (behaviour spec 12.1).
//!
//! Guards that a configuration made for the peer is accepted: values are checked for form, the flags are
//! named in one warning, and nothing else happens. A row moves to `built` with the work it names.

use super::{FlagSpec, Group, Kind, Status};

const fn later(
    group: Group,
    name: &'static str,
    default: &'static str,
    kind: Kind,
    help: &'static str,
) -> FlagSpec {
    FlagSpec::new(group, name, default, kind, help).status(Status::Later)
}

pub(super) const FLAGS: &[FlagSpec] = &[
    later(
        Group::Storage,
        "root_fs_dir",
        "",
        Kind::Text(|_, _| {}),
        "directory shared by all clients; set, every put gets a DISK replica",
    ),
    later(
        Group::Storage,
        "global_file_segment_size",
        "9223372036854775807",
        Kind::Whole64(0, i64::MAX as u64, |_, _| {}),
        "capacity of root_fs_dir in bytes; the default means no limit",
    ),
    later(
        Group::Tiers,
        "enable_offload",
        "false",
        Kind::Switch(|_, _| {}),
        "keep copies on the clients' disks",
    ),
    later(
        Group::Tiers,
        "offload_on_evict",
        "false",
        Kind::Switch(|_, _| {}),
        "copy to disk when an object is about to be evicted",
    ),
    later(
        Group::Tiers,
        "offload_force_evict",
        "false",
        Kind::Switch(|_, _| {}),
        "evict an object even if its copy to disk is not done",
    ),
    later(
        Group::Tiers,
        "offloading_queue_limit",
        "50000",
        Kind::Whole64(1, 100_000_000, |_, _| {}),
        "copies to disk that may wait",
    ),
    later(
        Group::Tiers,
        "offload_cap_ratio",
        "0.5",
        Kind::Ratio(|_, _| {}),
        "share of the queue that one client may take",
    ),
    later(
        Group::Tiers,
        "promotion_on_hit",
        "false",
        Kind::Switch(|_, _| {}),
        "bring an object back to memory when it is read from disk",
    ),
    later(
        Group::Tiers,
        "promotion_admission_threshold",
        "2",
        Kind::Whole32(0, u32::MAX, |_, _| {}),
        "reads after which an object is brought back",
    ),
    later(
        Group::Tiers,
        "promotion_queue_limit",
        "50000",
        Kind::Whole32(0, u32::MAX, |_, _| {}),
        "promotions that may wait",
    ),
    later(
        Group::Tiers,
        "promotion_max_per_heartbeat",
        "1",
        Kind::Whole32(0, u32::MAX, |_, _| {}),
        "promotions that one heartbeat hands out",
    ),
    later(
        Group::Tiers,
        "dynamic_replication_mode",
        "off",
        Kind::Checked("off|observe|enforce", |_, text| match text {
            "off" | "observe" | "enforce" => Ok(None),
            _ => Err("off, observe or enforce".into()),
        }),
        "give hot objects more replicas in memory",
    ),
    later(
        Group::Tiers,
        "dynamic_replication_heat_window_seconds",
        "10",
        Kind::Whole32(0, u32::MAX, |_, _| {}),
        "window over which reads are counted",
    ),
    later(
        Group::Tiers,
        "dynamic_replication_admission_qps_threshold",
        "0.8",
        Kind::Checked("number", |_, text| match super::value::parse_micros(text) {
            Some(1..) => Ok(None),
            _ => Err("a number above 0".into()),
        }),
        "reads a second at which an object counts as hot",
    ),
    later(
        Group::Tiers,
        "dynamic_replication_max_memory_replicas",
        "2",
        Kind::Whole64(0, u64::MAX, |_, _| {}),
        "replicas in memory that a hot object may have",
    ),
];
