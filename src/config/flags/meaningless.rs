//! Flags of the peer's that have nothing to act on here (behaviour spec 12.1).
//!
//! Guards that they are accepted all the same, each with a reason that is printed once. The two rows that
//! are refused would change other settings behind the operator's back if they were ignored.

use super::{FlagSpec, Group, Kind, Status};

const REPLICATION: Status = Status::Meaningless(
    "replication is built in: no external store, election or operation log is configured",
);
const NOF: Status =
    Status::Meaningless("NVMe-oF pools are not offered, as in the peer's released build");
const CXL: Status = Status::Meaningless("CXL memory is not offered; use ordinary segments");
const UNUSED: Status = Status::Meaningless("the peer does not use it either");
const ARENA: Status = Status::Meaningless("it sizes a client's buffers, and a master has none");
const LOGGING: Status =
    Status::Meaningless("logging is set by log_dir, logtostderr, minloglevel, v and RUST_LOG");
const GFLAGS: Status =
    Status::Meaningless("it steers a command-line library that is not used here");
const FLAGFILE: Status =
    Status::Refused("put the settings in a YAML or JSON file and name it with --config_path");
const FROMENV: Status =
    Status::Refused("settings in the environment are always read, as MOONCAKE_HA_<FLAG>");

const TEXT: Kind = Kind::Text(|_, _| {});
const SWITCH: Kind = Kind::Switch(|_, _| {});
const NUMBER: Kind = Kind::Whole64(0, i64::MAX as u64, |_, _| {});

const fn row(
    name: &'static str,
    default: &'static str,
    kind: Kind,
    help: &'static str,
    status: Status,
) -> FlagSpec {
    FlagSpec::new(Group::Other, name, default, kind, help).status(status)
}

pub(super) const FLAGS: &[FlagSpec] = &[
    row("enable_ha", "false", SWITCH, "run with standby masters", REPLICATION),
    row("ha_backend_type", "etcd", TEXT, "external store for elections", REPLICATION),
    row("ha_backend_connstring", "", TEXT, "how that store is reached", REPLICATION),
    row("etcd_endpoints", "", TEXT, "endpoints of an etcd cluster", REPLICATION),
    row("enable_oplog", "false", SWITCH, "send operations to standby masters", REPLICATION),
    row(
        "oplog_poll_interval_ms",
        "1000",
        NUMBER,
        "how often a standby asks for operations",
        REPLICATION,
    ),
    row("oplog_batch_max_entries", "1024", NUMBER, "operations in one batch", REPLICATION),
    row(
        "batch_oplog_retry_timeout_sec",
        "180",
        NUMBER,
        "seconds that a standby retries",
        REPLICATION,
    ),
    row("pod_name", "", TEXT, "Kubernetes pod of this master", REPLICATION),
    row("pod_namespace", "", TEXT, "Kubernetes namespace of this master", REPLICATION),
    row(
        "nof_eviction_ratio",
        "0.05",
        Kind::Ratio(|_, _| {}),
        "eviction_ratio of NVMe-oF pools",
        NOF,
    ),
    row(
        "nof_eviction_high_watermark_ratio",
        "0.9",
        Kind::Ratio(|_, _| {}),
        "their high watermark",
        NOF,
    ),
    row("nof_heartbeat_interval_sec", "10", NUMBER, "seconds between two of their heartbeats", NOF),
    row("nof_heartbeat_probe_timeout_ms", "1000", NUMBER, "time that one of them may take", NOF),
    row(
        "nof_heartbeat_failures_threshold",
        "3",
        NUMBER,
        "failures after which a pool is lost",
        NOF,
    ),
    row("enable_cxl", "false", SWITCH, "offer CXL memory", CXL),
    row("cxl_path", "/dev/dax0.0", TEXT, "its device", CXL),
    row("cxl_size", "8589934592", NUMBER, "its size in bytes", CXL),
    row("kv_events_model_name", "", TEXT, "model name in KV events", UNUSED),
    row("kv_events_tenant_id", "default", TEXT, "tenant in KV events", UNUSED),
    row("kv_events_additional_salt", "", TEXT, "salt in KV events", UNUSED),
    row("kv_events_lora_name", "", TEXT, "adapter name in KV events", UNUSED),
    row("kv_events_block_size", "0", NUMBER, "block size in KV events", UNUSED),
    row("kv_events_dp_rank", "0", NUMBER, "data-parallel rank in KV events", UNUSED),
    row("mmap_arena_pool_size", "8589934592", NUMBER, "size of a memory pool", ARENA),
    row("use_mmap_arena_allocator", "false", SWITCH, "use that pool", ARENA),
    row("alsologtoemail", "", TEXT, "mail log lines", LOGGING),
    row("colorlogtostderr", "false", SWITCH, "colours on stderr", LOGGING),
    row("drop_log_memory", "true", SWITCH, "drop cached log pages", LOGGING),
    row("log_backtrace_at", "", TEXT, "print a stack trace at a line", LOGGING),
    row("log_link", "", TEXT, "directory for links to log files", LOGGING),
    row("log_prefix", "true", SWITCH, "prefix of log lines", LOGGING),
    row("logbuflevel", "0", Kind::Text(|_, _| {}), "level that is buffered", LOGGING),
    row("logbufsecs", "30", NUMBER, "seconds that log lines are buffered", LOGGING),
    row("logemaillevel", "999", NUMBER, "level that is mailed", LOGGING),
    row("logfile_mode", "436", NUMBER, "mode of log files", LOGGING),
    row("logmailer", "/bin/mail", TEXT, "program that mails", LOGGING),
    row("max_log_size", "1800", NUMBER, "size of a log file", LOGGING),
    row("stderrthreshold", "2", NUMBER, "level that goes to stderr as well", LOGGING),
    row("stop_logging_if_full_disk", "false", SWITCH, "stop logging on a full disk", LOGGING),
    row("symbolize_stacktrace", "true", SWITCH, "name functions in stack traces", LOGGING),
    row("vmodule", "", TEXT, "verbosity of single modules", LOGGING),
    row("undefok", "", TEXT, "unknown flags that are accepted", GFLAGS),
    row("tab_completion_columns", "80", NUMBER, "width for completion", GFLAGS),
    row("tab_completion_word", "", TEXT, "word to complete", GFLAGS),
    row("flagfile", "", TEXT, "file of flags", FLAGFILE),
    row("fromenv", "", TEXT, "flags that come from the environment", FROMENV),
    row("tryfromenv", "", TEXT, "flags that may come from the environment", FROMENV),
];
