//! One line of the most important metrics, for the log and `/metrics/summary` (behaviour 13.3).
//!
//! For people, so no program should read it. Rates are taken since the line before; the first one since the
//! process started.

use std::fmt::Write;
use std::time::Duration;

use parking_lot::Mutex;

use super::text::Values;

/// Calls that the line shows, with the middle of their metric's name.
const CALLS: &[(&str, &str)] = &[
    ("PutStart", "put_start"),
    ("PutEnd", "put_end"),
    ("PutRevoke", "put_revoke"),
    ("Get", "get_replica_list"),
    ("Exist", "exist_key"),
    ("Del", "remove"),
    ("DelAll", "remove_all"),
    ("Ping", "ping"),
    ("CopyStart", "copy_start"),
    ("CopyEnd", "copy_end"),
    ("CopyRevoke", "copy_revoke"),
    ("MoveStart", "move_start"),
    ("MoveEnd", "move_end"),
    ("MoveRevoke", "move_revoke"),
    ("EvictDiskReplica", "evict_disk_replica"),
];

/// Batch calls that the line shows.
const BATCHES: &[(&str, &str)] = &[
    ("PutStart", "batch_put_start"),
    ("PutEnd", "batch_put_end"),
    ("PutRevoke", "batch_put_revoke"),
    ("Get", "batch_get_replica_list"),
    ("ExistKey", "batch_exist_key"),
    ("QueryIp", "batch_query_ip"),
    ("Clear", "batch_replica_clear"),
];

/// Calls about tasks, shown behind the batches.
const TASKS: &[(&str, &str)] = &[
    ("CreateMoveTask", "create_move_task"),
    ("CreateCopyTask", "create_copy_task"),
    ("QueryTask", "query_task"),
    ("FetchTasks", "fetch_tasks"),
    ("MarkTaskToComplete", "update_task"),
];

/// Makes the lines and remembers the one before.
#[derive(Debug, Default)]
pub struct Summary {
    before: Mutex<Option<(Duration, Values)>>,
}

impl Summary {
    /// The line at `uptime`.
    pub fn line(&self, values: Values, uptime: Duration) -> String {
        let mut before = self.before.lock();
        let line = {
            let nothing = (Duration::ZERO, Values::default());
            let (since, old) = before.as_ref().unwrap_or(&nothing);
            let seconds = uptime.saturating_sub(*since).as_secs_f64().max(0.001);
            Rates { now: &values, old, seconds }.line()
        };
        *before = Some((uptime, values));
        line
    }
}

struct Rates<'a> {
    now: &'a Values,
    old: &'a Values,
    seconds: f64,
}

impl Rates<'_> {
    fn rate(&self, family: &str, what: &str) -> f64 {
        let name = format!("master_{family}_{what}_total");
        // A rate for people: what an f64 cannot hold exactly does not matter.
        self.now.get(&name).saturating_sub(self.old.get(&name)) as f64 / self.seconds
    }

    fn line(&self) -> String {
        let n = |name: &str| self.now.get(name);
        let mut line = format!(
            "Mem Storage: {} | NVMe-oF SSD: 0 B / 0 B | SSD Storage: {} / {} | Keys: {} \
             (soft-pinned: {}) | Clients: {} | ",
            used_of(n("master_allocated_bytes"), n("master_total_capacity_bytes")),
            human_bytes(n("master_allocated_file_size_bytes")),
            human_bytes(n("master_total_file_capacity_bytes")),
            n("master_key_count"),
            n("master_soft_pin_key_count"),
            n("master_active_clients"),
        );
        self.calls(&mut line);
        self.batches(&mut line);
        let _ = write!(
            line,
            " | Eviction: Success/Attempts={}/{}, AllocFail={}, PartialAlloc={}, keys={}, size={}",
            n("master_successful_evictions_total"),
            n("master_attempted_evictions_total"),
            n("master_put_start_alloc_failures_total"),
            n("master_put_start_partial_allocations_total"),
            n("master_evicted_key_count"),
            human_bytes(n("master_evicted_size_bytes")),
        );
        let _ = write!(
            line,
            " | Discard: Released/Total={}/{}, StagingSize={}",
            n("master_put_start_release_cnt"),
            n("master_put_start_discard_cnt"),
            human_bytes(n("master_put_start_discarded_staging_size")),
        );
        let _ = write!(
            line,
            " | Soft pins: overdue={}, expired={} | Connections: {}",
            n("master_soft_pins_due"),
            n("master_soft_pins_expired_total"),
            n("master_rpc_connections"),
        );
        line
    }

    fn calls(&self, line: &mut String) {
        let shown = CALLS.iter().map(|(name, family)| {
            let (all, failed) = (self.rate(family, "requests"), self.rate(family, "failures"));
            format!("{name}={:.2}/{all:.2}", (all - failed).max(0.0))
        });
        let shown: Vec<String> = shown.collect();
        let _ = write!(line, "Requests (Success/Total per sec): {}", shown.join(", "));
    }

    fn batches(&self, line: &mut String) {
        let batches = BATCHES.iter().map(|(name, family)| {
            let of = |what| self.rate(family, what);
            let (all, part) = (of("requests"), of("partial_successes"));
            let whole = (all - of("failures") - part).max(0.0);
            let items = of("items");
            let done = (items - of("failed_items")).max(0.0);
            format!("{name}:(Req={whole:.2}/{part:.2}/{all:.2}, Item={done:.2}/{items:.2})")
        });
        let tasks = TASKS.iter().map(|(name, family)| {
            let (all, failed) = (self.rate(family, "requests"), self.rate(family, "failures"));
            format!("{name}:(Req={:.2}/{all:.2})", (all - failed).max(0.0))
        });
        let shown: Vec<String> = batches.chain(tasks).collect();
        let _ = write!(
            line,
            " | Batch Requests (per sec, Req=Success/PartialSuccess/Total, Item=Success/Total): {}",
            shown.join(", ")
        );
    }
}

fn used_of(used: u64, capacity: u64) -> String {
    let pair = format!("{} / {}", human_bytes(used), human_bytes(capacity));
    if capacity == 0 {
        return pair;
    }
    format!("{pair} ({:.1}%)", used as f64 * 100.0 / capacity as f64)
}

/// Bytes for people: `74.32 KB`, `0 B`.
fn human_bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KB", "MB", "GB", "TB", "PB"];
    if bytes < 1_024 {
        return format!("{bytes} B");
    }
    let mut scaled = bytes as f64;
    let mut shown = "B";
    for unit in UNITS {
        if scaled < 1_024.0 {
            break;
        }
        scaled /= 1_024.0;
        shown = unit;
    }
    format!("{scaled:.2} {shown}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_as_the_peer_shows_them() {
        assert_eq!(human_bytes(0), "0 B");
        assert_eq!(human_bytes(1_023), "1023 B");
        assert_eq!(human_bytes(76_100), "74.32 KB");
        assert_eq!(human_bytes(u64::MAX), "16384.00 PB");
        assert_eq!(used_of(76_100, 32 << 20), "74.32 KB / 32.00 MB (0.2%)");
        assert_eq!(used_of(0, 0), "0 B / 0 B");
    }

    #[test]
    fn rates_are_taken_since_the_line_before() {
        let summary = Summary::default();
        let at = |requests, failures| {
            let mut values = Values::default();
            values.number("master_put_start_requests_total", requests);
            values.number("master_put_start_failures_total", failures);
            values
        };
        let first = summary.line(at(10, 0), Duration::from_secs(10));
        assert!(first.contains("PutStart=1.00/1.00, "), "{first}");
        let second = summary.line(at(30, 10), Duration::from_secs(15));
        assert!(second.contains("PutStart=2.00/4.00, "), "{second}");
        assert!(second.starts_with("Mem Storage: 0 B / 0 B | NVMe-oF SSD: 0 B / 0 B | SSD"));
    }
}
