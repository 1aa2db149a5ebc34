//! Results for people and for programs.

use std::fmt::Write as _;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::campaign::Outcome;
use super::server::ProcessLook;
use super::tally::OperationTally;

/// One measured operation.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Operation and how it was asked for, such as `get 32x1`.
    pub name: String,
    /// Keys of one call.
    pub batch: usize,
    /// Connections.
    pub connections: usize,
    /// Units of work on their way on each.
    pub depth: usize,
    /// Units a second asked for; `null` for a closed loop.
    pub rate: Option<f64>,
    /// Calls answered.
    pub calls: u64,
    /// Keys that succeeded.
    pub keys: u64,
    /// Items that failed.
    pub failed: u64,
    /// How often each code came.
    pub failures: String,
    /// Seconds.
    pub seconds: f64,
    /// Keys a second.
    pub keys_per_second: f64,
    /// Latency of a unit.
    pub latency_us: Latency,
    /// What the server spent; `null` if its process is not known. In a mix it is that of all operations.
    pub server: Option<Spent>,
}

/// Microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
#[expect(missing_docs, reason = "quantiles are named by what they are")]
pub struct Latency {
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
}

/// What a server spent on a run.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Spent {
    /// CPU a call.
    pub cpu_us_per_call: f64,
    /// CPU a key.
    pub cpu_us_per_key: f64,
    /// Cores in use.
    pub busy: f64,
    /// Memory at the end.
    pub rss_bytes: u64,
}

impl Latency {
    /// Of what was measured.
    pub fn of(tally: &OperationTally) -> Self {
        Latency::of_histogram(&tally.latency)
    }

    /// Of a histogram of nanoseconds.
    pub fn of_histogram(latency: &Histogram<u64>) -> Self {
        let at = |quantile| latency.value_at_quantile(quantile) as f64 / 1_000.0;
        Latency {
            mean: latency.mean() / 1_000.0,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: latency.max() as f64 / 1_000.0,
        }
    }
}

impl Spent {
    /// Between two looks at the server, on the calls of a run.
    pub fn of(before: ProcessLook, after: ProcessLook, outcome: &Outcome) -> Self {
        let cpu = after.cpu.saturating_sub(before.cpu).as_secs_f64();
        let per = |count: u64| cpu * 1e6 / (count.max(1) as f64);
        Spent {
            cpu_us_per_call: per(outcome.tally.calls()),
            cpu_us_per_key: per(outcome.tally.keys()),
            busy: cpu / outcome.elapsed.as_secs_f64().max(1e-9),
            rss_bytes: after.rss_bytes,
        }
    }
}

const HEAD: &str = "operation                  keys/s      p50 us      p99 us    p99.9 us      max us   \
                    cpu us/call  cpu us/key  busy";

/// The table for people.
pub fn table(rows: &[Row]) -> String {
    let mut text = format!("{HEAD}\n");
    for row in rows {
        let latency = &row.latency_us;
        let _ = write!(
            text,
            "{:<22}{:>11.0}{:>12.1}{:>12.1}{:>12.1}{:>12.1}",
            row.name, row.keys_per_second, latency.p50, latency.p99, latency.p999, latency.max
        );
        if let Some(spent) = row.server {
            let _ = write!(
                text,
                "{:>14.2}{:>12.3}{:>6.2}",
                spent.cpu_us_per_call, spent.cpu_us_per_key, spent.busy
            );
        }
        if row.failed > 0 {
            let _ = write!(text, "  {} failed: {}", row.failed, row.failures);
        }
        text.push('\n');
    }
    text
}

/// A time in milliseconds, for people.
pub fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}
