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
