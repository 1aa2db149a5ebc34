//! Flags of the peer's that this build honours (behaviour spec 12.1).
//!
//! Names, defaults and forms are the peer's own. A row that is not honoured does not belong here.

use super::super::sections::AllocationStrategy;
use super::{FlagSpec, Group, Kind};

/// Greatest number of worker threads.
const THREADS_MAX: u32 = 1_024;
/// Greatest client TTL in seconds: a year.
const CLIENT_TTL_SEC_MAX: u64 = 31_536_000;

/// Stores `text` unless it is empty, so that an empty older name does not undo the newer one.
fn take(field: &mut String, text: &str) {
    if !text.is_empty() {
        text.clone_into(field);
    }
}

/// As [`take`], for a text that must be one of a few.
fn one_of(field: &mut String, text: &str, known: &[&str]) -> Result<Option<String>, String> {
    if !text.is_empty() && !known.contains(&text) {
        return Err(known.join(" or "));
    }
    take(field, text);
    Ok(None)
}

pub(super) const FLAGS: &[FlagSpec] = &[
    FlagSpec::new(
        Group::General,
        "config_path",
        "",
        Kind::Text(|_, _| {}),
        "configuration file: .yaml, .yml or .json; flags and environment win over it",
    ),
    // `port` is set before `rpc_port`: within one layer of settings the newer name wins, as on the peer.
    FlagSpec::new(
        Group::Rpc,
        "port",
        "50051",
        Kind::Port(|c, port| c.rpc.port = port),
        "older name of rpc_port; here 0 lets the system choose",
    ),
    FlagSpec::new(
        Group::Rpc,
        "rpc_port",
        "0",
        Kind::Port(|c, port| {
            if port != 0 {
                c.rpc.port = port;
            }
        }),
        "RPC port for clients; 0 takes the value of port",
    ),
    FlagSpec::new(
        Group::Rpc,
        "rpc_address",
        "0.0.0.0",
        Kind::Checked("address", |c, text| {
            c.rpc.address = host(text)?;
            Ok(None)
        }),
        "address to listen on",
    ),
    FlagSpec::new(
        Group::Rpc,
        "rpc_interface",
        "",
        Kind::Text(|c, text| c.rpc.interface = text.trim().to_owned()),
        "network interface whose IPv4 address replaces rpc_address",
    ),
    FlagSpec::new(
        Group::Rpc,
        "rpc_thread_num",
        "0",
        Kind::Whole32(0, THREADS_MAX, |c, number| c.rpc.thread_num = number),
        "worker threads; 0 takes the lesser of max_threads and the number of cores",
    ),
    FlagSpec::new(
        Group::Rpc,
        "max_threads",
        "16",
        Kind::Whole32(1, THREADS_MAX, |c, number| c.rpc.threads_max = number),
        "upper limit of worker threads when rpc_thread_num is 0",
    ),
    FlagSpec::new(
        Group::Rpc,
        "rpc_conn_timeout_seconds",
        "0",
        Kind::Whole32(0, i32::MAX as u32, |c, number| c.rpc.conn_timeout_sec = number),
        "seconds after which an idle connection is closed; 0 never",
    ),
    FlagSpec::new(
        Group::Rpc,
        "rpc_enable_tcp_no_delay",
        "true",
        Kind::Switch(|c, on| c.rpc.tcp_no_delay = on),
        "set TCP_NODELAY on client connections",
    ),
    FlagSpec::new(
        Group::Admin,
        "metrics_port",
        "9003",
        Kind::Port(|c, port| c.admin.port = port),
        "port of the admin and metrics HTTP server; 0 lets the system choose",
    ),
    FlagSpec::new(
        Group::Admin,
        "metrics_host",
        "0.0.0.0",
        Kind::Checked("address", |c, text| {
            c.admin.host = host(text)?;
            Ok(None)
        }),
        "address the admin server listens on; :: for IPv6",
    ),
    FlagSpec::new(
        Group::Admin,
        "enable_metric_reporting",
        "true",
        Kind::Switch(|c, on| c.admin.is_metric_reporting = on),
        "log a summary of the metrics every 10 s",
    ),
    FlagSpec::new(
        Group::Pins,
        "default_kv_lease_ttl",
        "10000",
        Kind::Duration(|c, ms| c.leases.default_ttl_ms = ms),
        "length of a read lease",
    ),
    FlagSpec::new(
        Group::Pins,
        "default_kv_soft_pin_ttl",
        "1800000",
        Kind::Duration(|c, ms| c.soft_pins.default_ttl_ms = ms),
        "TTL of a soft pin that names none; at most max_kv_soft_pin_ttl",
    ),
    FlagSpec::new(
        Group::Pins,
        "max_kv_soft_pin_ttl",
        "86400000",
        Kind::Duration(|c, ms| c.soft_pins.max_ttl_ms = ms),
        "greatest TTL that a soft pin may name",
    ),
    FlagSpec::new(
        Group::Eviction,
        "allow_evict_soft_pinned_objects",
        "true",
        Kind::Switch(|c, on| c.eviction.allow_soft_pinned = on),
        "let eviction take soft-pinned objects when nothing else is left",
    ),
    FlagSpec::new(
        Group::Eviction,
        "eviction_ratio",
        "0.05",
        Kind::Ratio(|c, ppm| c.eviction.ratio_ppm = ppm),
        "share of the objects that one round of eviction removes",
    ),
    FlagSpec::new(
        Group::Eviction,
        "eviction_high_watermark_ratio",
        "0.9",
        Kind::Ratio(|c, ppm| c.eviction.high_watermark_ppm = ppm),
        "share of used memory at which eviction starts",
    ),
    FlagSpec::new(
        Group::Writes,
        "put_start_discard_timeout_sec",
        "30",
        Kind::Whole64(0, i64::MAX as u64, |c, sec| c.writes.discard_timeout_sec = sec),
        "seconds after which another write may take over an unfinished one",
    ),
    FlagSpec::new(
        Group::Writes,
        "put_start_release_timeout_sec",
        "600",
        Kind::Whole64(0, i64::MAX as u64, |c, sec| c.writes.release_timeout_sec = sec),
        "seconds after which its memory is given back; above the discard timeout",
    ),
    FlagSpec::new(
        Group::Clients,
        "client_ttl",
        "10",
        Kind::Whole64(1, CLIENT_TTL_SEC_MAX, |c, sec| c.clients.ttl_sec = sec),
        "seconds without a ping after which a client has expired",
    )
    .file_key("client_live_ttl_sec"),
    FlagSpec::new(
        Group::Tasks,
        "max_total_finished_tasks",
        "10000",
        Kind::Whole32(0, u32::MAX, |c, number| c.tasks.finished_max = number),
        "finished tasks that are remembered",
    ),
    FlagSpec::new(
        Group::Tasks,
        "max_total_pending_tasks",
        "10000",
        Kind::Whole32(0, u32::MAX, |c, number| c.tasks.pending_max = number),
        "tasks that may wait",
    ),
    FlagSpec::new(
        Group::Tasks,
        "max_total_processing_tasks",
        "10000",
        Kind::Whole32(0, u32::MAX, |c, number| c.tasks.processing_max = number),
        "tasks that may run",
    ),
    FlagSpec::new(
        Group::Tasks,
        "pending_task_timeout_sec",
        "300",
        Kind::Whole64(0, i64::MAX as u64, |c, sec| c.tasks.pending_timeout_sec = sec),
        "seconds after which a waiting task fails; 0 never",
    ),
    FlagSpec::new(
        Group::Tasks,
        "processing_task_timeout_sec",
        "300",
        Kind::Whole64(0, i64::MAX as u64, |c, sec| c.tasks.processing_timeout_sec = sec),
        "seconds after which a running task fails; 0 never",
    ),
    FlagSpec::new(
        Group::Tasks,
        "max_retry_attempts",
        "10",
        Kind::Whole32(0, u32::MAX, |c, number| c.tasks.retry_attempts_max = number),
        "retries that clients are told to make",
    ),
    FlagSpec::new(
        Group::Storage,
        "cluster_id",
        "mooncake_cluster",
        Kind::Text(|c, text| c.storage.cluster_id = text.to_owned()),
        "name of the cluster, part of the paths that clients build",
    ),
    FlagSpec::new(
        Group::Storage,
        "allocation_strategy",
        "random",
        Kind::Checked("strategy", |c, text| {
            let (strategy, warning) = strategy(text);
            c.allocation.strategy = strategy;
            Ok(warning)
        }),
        "order in which segments are tried: random, free_ratio_first or local_first",
    ),
    FlagSpec::new(
        Group::Storage,
        "memory_allocator",
        "offset",
        Kind::Checked("allocator", |_, text| match text {
            "offset" => Ok(None),
            "cachelib" => {
                Err("offset: the slab allocator is not offered, because addresses must be \
                               the same on every node"
                    .into())
            }
            _ => Err("offset".into()),
        }),
        "allocator of segment space; only offset is offered",
    ),
    FlagSpec::new(
        Group::Storage,
        "enable_disk_eviction",
        "true",
        Kind::Switch(|c, on| c.storage.enable_disk_eviction = on),
        "told to clients: they may evict from their disks",
    ),
    FlagSpec::new(
        Group::Storage,
        "quota_bytes",
        "0",
        Kind::Whole64(0, u64::MAX, |c, bytes| c.storage.quota_bytes = bytes),
        "told to clients: disk quota in bytes, 0 for none",
    ),
    FlagSpec::new(
        Group::HttpMetadata,
        "enable_http_metadata_server",
        "false",
        Kind::Switch(|c, on| c.http_metadata.is_enabled = on),
        "serve the transfer engine's metadata over HTTP; it survives restarts",
    ),
    FlagSpec::new(
        Group::HttpMetadata,
        "http_metadata_server_port",
        "8080",
        Kind::Port(|c, port| c.http_metadata.port = port),
        "its port; 0 lets the system choose",
    ),
    FlagSpec::new(
        Group::HttpMetadata,
        "http_metadata_server_host",
        "0.0.0.0",
        Kind::Checked("address", |c, text| {
            c.http_metadata.host = host(text)?;
            Ok(None)
        }),
        "address it listens on",
    ),
    FlagSpec::new(
        Group::HttpMetadata,
        "enable_metadata_cleanup_on_timeout",
        "false",
        Kind::Switch(|c, on| c.http_metadata.cleanup_on_timeout = on),
        "remove the keys of a client that has expired",
    ),
    FlagSpec::new(
        Group::Snapshot,
        "enable_snapshot",
        "false",
        Kind::Switch(|c, on| c.snapshot.is_enabled = on),
        "take catalog snapshots",
    ),
    FlagSpec::new(
        Group::Snapshot,
        "enable_snapshot_restore",
        "false",
        Kind::Switch(|c, on| c.snapshot.is_restore_enabled = on),
        "start a new cluster from the newest good catalog snapshot; later starts restore nothing",
    ),
    FlagSpec::new(
        Group::Snapshot,
        "snapshot_interval_seconds",
        "600",
        Kind::Whole64(1, i64::MAX as u64, |c, sec| c.snapshot.interval_sec = sec),
        "seconds between two catalog snapshots",
    ),
    FlagSpec::new(
        Group::Snapshot,
        "snapshot_retention_count",
        "2",
        Kind::Whole32(1, u32::MAX, |c, number| c.snapshot.retention_count = number),
        "catalog snapshots that are kept",
    ),
    FlagSpec::new(
        Group::Snapshot,
        "snapshot_child_timeout_seconds",
        "300",
        Kind::Whole64(1, i64::MAX as u64, |c, sec| c.snapshot.timeout_sec = sec),
        "seconds that one may take; then it is given up and counted as failed",
    ),
    object_store_type(
        "snapshot_object_store_type",
        "where the files of snapshots go; empty is local",
    ),
    object_store_type("snapshot_payload_store_type", "older name of snapshot_object_store_type"),
    object_store_type("snapshot_payload_backend_type", "older name of snapshot_object_store_type"),
    catalog_store_type(
        "snapshot_catalog_store_type",
        "what names the latest snapshot: embedded (payload, empty) is a file beside them",
    ),
    catalog_store_type(
        "snapshot_catalog_backend_type",
        "older name of snapshot_catalog_store_type",
    ),
    catalog_store_connstring(
        "snapshot_catalog_store_connstring",
        "redis://[user:password@]host:port[/db] of the catalog store; rediss:// by TLS",
    ),
    catalog_store_connstring(
        "snapshot_catalog_backend_connstring",
        "older name of snapshot_catalog_store_connstring",
    ),
    FlagSpec::new(
        Group::Snapshot,
        "snapshot_backup_dir",
        "",
        Kind::Text(|c, text| c.snapshot.backup_dir = text.to_owned()),
        "directory for files that could not be stored, and for those that a restore has read",
    ),
    FlagSpec::new(
        Group::Log,
        "logtostderr",
        "false",
        Kind::Switch(|c, on| c.log.to_stderr = on),
        "log everything to stderr even when log_dir is set",
    ),
    FlagSpec::new(
        Group::Log,
        "alsologtostderr",
        "false",
        Kind::Switch(|c, on| c.log.to_stderr |= on),
        "the same as logtostderr",
    ),
    FlagSpec::new(
        Group::Log,
        "log_dir",
        "",
        Kind::Text(|c, text| c.log.dir = text.to_owned()),
        "directory for a daily file mooncake-ha.log; empty logs to stderr",
    ),
    FlagSpec::new(
        Group::Log,
        "v",
        "0",
        Kind::Whole32(0, i32::MAX as u32, |c, level| c.log.verbosity = level),
        "1 or more adds debug messages; RUST_LOG wins over it",
    ),
    FlagSpec::new(
        Group::Log,
        "minloglevel",
        "0",
        Kind::Whole32(0, 3, |c, level| c.log.level_min = level),
        "0 information and worse, 1 warnings and worse, 2 or more errors only",
    ),
];

/// A name of the kind of the object store.
const fn object_store_type(name: &'static str, help: &'static str) -> FlagSpec {
    let set = Kind::Checked("local|s3", |c, text| {
        one_of(&mut c.snapshot.object_store_type, text, &["local", "s3"])
    });
    FlagSpec::new(Group::Snapshot, name, "", set, help)
}

/// A name of the kind of the catalog store.
const fn catalog_store_type(name: &'static str, help: &'static str) -> FlagSpec {
    let set = Kind::Checked("embedded|redis", |c, text| {
        one_of(&mut c.snapshot.catalog_store_type, text, &["embedded", "payload", "redis"])
    });
    FlagSpec::new(Group::Snapshot, name, "", set, help)
}

/// A name of the address of the catalog store, which may hold a password.
const fn catalog_store_connstring(name: &'static str, help: &'static str) -> FlagSpec {
    let set = Kind::Text(|c, text| take(&mut c.snapshot.catalog_store_connstring, text));
    FlagSpec::new(Group::Snapshot, name, "", set, help).secret()
}

/// An address to listen on: a name or an IP address, nothing else.
fn host(text: &str) -> Result<String, String> {
    let text = text.trim();
    let is_word = !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || c == '/');
    is_word.then(|| text.to_owned()).ok_or_else(|| "an IP address or a host name".into())
}

/// The strategy of this name; a name that is not offered places at random, as on the peer.
fn strategy(name: &str) -> (AllocationStrategy, Option<String>) {
    match name {
        "random" => (AllocationStrategy::Random, None),
        "free_ratio_first" => (AllocationStrategy::FreeRatioFirst, None),
        "local_first" => (AllocationStrategy::LocalFirst, None),
        _ => (
            AllocationStrategy::Random,
            Some(format!(
                "allocation_strategy {name:?} is not offered; segments are tried at random (offered: \
                 random, free_ratio_first, local_first)"
            )),
        ),
    }
}
