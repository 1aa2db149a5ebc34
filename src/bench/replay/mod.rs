//! `bench replay`: a recorded request trace as calls on a master, to see what a cache of some size would hit.
//!
//! A request asks which of its blocks exist, fetches the leading ones that do, and puts the rest. It is due at
//! its time in the trace, divided by the speed, and its latency counts from then. Blocks that several requests
//! share can be put with a soft pin. Guards: the trace is streamed, so memory is bounded by its distinct blocks.

mod player;
mod trace;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

pub use trace::{Summary, summarize};

use super::BenchError;
use super::server::Server;
use super::store::{Store, StoreShape};
use crate::clock::SystemClock;

/// Connections of a replay at most.
pub const CONNECTIONS_MAX: usize = 1_024;

/// What to replay, and how.
#[derive(Clone, Debug)]
pub struct ReplayOptions {
    /// The trace: a JSON object a line, with `timestamp` in milliseconds and `hash_ids`.
    pub trace: PathBuf,
    /// Requests to replay at most.
    pub requests: u64,
    /// Times as fast as recorded; 0 for as fast as the master answers.
    pub speed: f64,
    /// Requests on their way at most.
    pub connections: usize,
    /// Blocks that the store has room for; `None` for half of the distinct ones.
    pub capacity: Option<u64>,
    /// Bytes of a block.
    pub block_bytes: u64,
    /// Segments.
    pub segments: usize,
    /// A block of so many requests or more is shared.
    pub shared_by: u32,
    /// Length of a soft pin, in the trace's time.
    pub pin_ttl: Duration,
}

/// What came of one replay.
#[derive(Clone, Debug, Serialize)]
pub struct ReplayRow {
    /// Whether shared blocks were pinned.
    pub pins: bool,
    /// Requests replayed.
    pub requests: u64,
    /// Blocks that they asked for.
    pub blocks: u64,
    /// Of these, the leading ones of a request that were there.
    pub hit_blocks: u64,
    /// `hit_blocks / blocks`.
    pub hit_rate: f64,
    /// Blocks put, and how many of them with a pin.
    pub puts: u64,
    /// See `puts`.
    pub pinned_puts: u64,
    /// Puts for which there was no room.
    pub no_room: u64,
    /// Blocks that another request put first.
    pub raced: u64,
    /// Other items that failed, by code.
    pub failures: BTreeMap<String, u64>,
    /// From the first request to the last answer.
    pub seconds: f64,
    /// Latency of calls, and of requests from when they were due; a put is Start and End.
    pub latency_us: BTreeMap<&'static str, super::report::Latency>,
}

/// What a trace holds, and what its replays found.
#[derive(Clone, Debug, Serialize)]
pub struct ReplayReport {
    /// The trace.
    pub trace: Summary,
    /// Blocks that the store had room for.
    pub capacity: u64,
    /// A row a replay.
    pub rows: Vec<ReplayRow>,
}

/// Blocks that the store is to have room for.
pub fn capacity(options: &ReplayOptions, trace: &Summary) -> u64 {
    options.capacity.unwrap_or(trace.distinct_blocks / 2).max(options.segments as u64).max(1)
}

/// Replays the trace once on a master without other objects; its memory is taken away again at the end.
///
/// Errors: by cause, see [`BenchError`]; the trace cannot be read.
pub async fn replay(
    server: &Server,
    options: &ReplayOptions,
    trace: &Summary,
    pins: bool,
) -> Result<ReplayRow, BenchError> {
    let segments = options.segments.max(1);
    let bytes = capacity(options, trace).div_ceil(segments as u64) * options.block_bytes;
    let shape = StoreShape { clients: 1, segments, segment_bytes: bytes.next_multiple_of(4_096) };
    let store = Store::open(&server.address, &shape, 0).await?;
    let client = store.ids().first().copied().unwrap_or_default();
    let shared = if pins { Some(trace::shared(options)?) } else { None };
    let clock = Arc::new(SystemClock::default());
    let row = player::play(server, options, client, trace.requests, shared, &clock).await;
    let cleared = store.unmount().await;
    let row = row?;
    cleared?;
    Ok(row)
}

/// The report for people.
pub fn table(report: &ReplayReport) -> String {
    use std::fmt::Write as _;
    let trace = &report.trace;
    let mut text = format!(
        "{} requests, {} blocks, {} distinct, {} shared; room for {}; \
         a store without an end would hit {:.1} %\n",
        trace.requests,
        trace.blocks,
        trace.distinct_blocks,
        trace.shared_blocks,
        report.capacity,
        trace.best_hit_rate * 100.0,
    );
    text.push_str(
        "pins    hit %      puts    pinned   no room    raced  exist p50/p99 us   get p50/p99 us   \
         put p50/p99 us   request p99 us\n",
    );
    for row in &report.rows {
        let both = |name| match row.latency_us.get(name) {
            Some(latency) => format!("{:.0}/{:.0}", latency.p50, latency.p99),
            None => "-".to_owned(),
        };
        let request = row.latency_us.get("request").map_or(0.0, |latency| latency.p99);
        let _ = writeln!(
            text,
            "{:<5}{:>8.2}{:>10}{:>10}{:>10}{:>9}{:>18}{:>17}{:>17}{request:>17.0}",
            if row.pins { "on" } else { "off" },
            row.hit_rate * 100.0,
            row.puts,
            row.pinned_puts,
            row.no_room,
            row.raced,
            both("exist"),
            both("get"),
            both("put"),
        );
        for (code, count) in &row.failures {
            let _ = writeln!(text, "     {count} failed with {code}");
        }
    }
    text
}
