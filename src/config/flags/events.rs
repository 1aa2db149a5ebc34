//! Flags of the KV events (behaviour spec 12.1).

use super::{FlagSpec, Group, Kind};

const fn event(
    name: &'static str,
    default: &'static str,
    kind: Kind,
    help: &'static str,
) -> FlagSpec {
    FlagSpec::new(Group::Events, name, default, kind, help)
}

pub(super) const FLAGS: &[FlagSpec] = &[
    event(
        "enable_kv_events",
        "false",
        Kind::Switch(|c, on| c.events.is_enabled = on),
        "publish events about objects over ZeroMQ; needs the next two",
    ),
    event(
        "kv_events_bind_endpoint",
        "",
        Kind::Text(|c, text| c.events.bind_endpoint = text.trim().to_owned()),
        "endpoint of the publisher, tcp://address:port",
    ),
    event(
        "kv_events_backend_id",
        "",
        Kind::Text(|c, text| c.events.backend_id = text.to_owned()),
        "name of this publisher in its events; the same on every node of a cluster",
    ),
    event(
        "kv_events_emit_legacy_compat",
        "true",
        Kind::Switch(|c, on| c.events.emit_legacy_compat = on),
        "also send the older fields of each event",
    ),
    event(
        "kv_events_emit_object_key",
        "true",
        Kind::Switch(|c, on| c.events.emit_object_key = on),
        "name the object's key in each event",
    ),
    event(
        "kv_events_queue_capacity",
        "65536",
        Kind::Whole32(0, u32::MAX, |c, number| c.events.queue_capacity = number),
        "events kept for subscribers; the oldest are dropped; 0 and more than 1048576 mean that",
    ),
];
