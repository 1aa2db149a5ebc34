//! Flags of the peer's about dynamic replication, all honoured (behaviour spec 12.1).

use super::super::dynamic::DynamicMode;
use super::{FlagSpec, Group, Kind};

pub(super) const FLAGS: &[FlagSpec] = &[
    FlagSpec::new(
        Group::Tiers,
        "dynamic_replication_mode",
        "off",
        Kind::Checked("off|observe|enforce", |c, text| {
            c.dynamic.mode = match text {
                "off" => DynamicMode::Off,
                "observe" => DynamicMode::Observe,
                "enforce" => DynamicMode::Enforce,
                _ => return Err("off, observe or enforce".into()),
            };
            Ok(None)
        }),
        "give objects that are read often a further replica in memory; observe: only say so",
    ),
    FlagSpec::new(
        Group::Tiers,
        "dynamic_replication_heat_window_seconds",
        "10",
        Kind::Whole32(0, u32::MAX, |c, seconds| c.dynamic.window_sec = seconds.max(1)),
        "window over which the reads of an object are counted; at least 1",
    ),
    FlagSpec::new(
        Group::Tiers,
        "dynamic_replication_admission_qps_threshold",
        "0.8",
        Kind::Checked("number", |c, text| match super::value::parse_micros(text) {
            Some(micros @ 1..) => {
                c.dynamic.threshold_micros = micros;
                Ok(None)
            }
            _ => Err("a number above 0".into()),
        }),
        "reads a second at which an object counts as hot",
    ),
    FlagSpec::new(
        Group::Tiers,
        "dynamic_replication_max_memory_replicas",
        "2",
        Kind::Whole64(0, u64::MAX, |c, number| c.dynamic.replicas_max = number.max(1)),
        "replicas in memory up to which a hot object gets further ones; at least 1",
    ),
];
