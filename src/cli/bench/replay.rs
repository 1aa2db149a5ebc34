//! `mooncake-ha bench replay`: a recorded request trace as calls.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::{EXIT_FAILURE, EXIT_OK, Target, amount, print, seconds};
use crate::bench::BenchError;
use crate::bench::replay::{
    CONNECTIONS_MAX, ReplayOptions, ReplayReport, capacity, replay, summarize, table,
};

/// Whether shared blocks are put with a soft pin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Pins {
    /// With pins.
    On,
    /// Without.
    Off,
    /// First without, then with.
    Both,
}

/// Flags are named in `docs/performance.md`.
#[derive(Debug, Args)]
pub(super) struct Replay {
    /// The trace: a JSON object a line, with timestamp in milliseconds and hash_ids, the hashes of its prefix blocks
    trace: PathBuf,
    #[command(flatten)]
    target: Target,
    /// Put blocks that several requests share with a soft pin
    #[arg(long, value_enum, default_value = "both")]
    pins: Pins,
    /// Times as fast as recorded; 0 as fast as the master answers
    #[arg(long, default_value_t = 1.0)]
    speed: f64,
    /// Requests to replay at most
    #[arg(long, value_parser = amount)]
    requests: Option<u64>,
    /// Requests on their way at most, each on a connection
    #[arg(long, default_value_t = 16)]
    connections: usize,
    /// Blocks that the store has room for; without it half of those in the trace
    #[arg(long, value_parser = amount)]
    blocks: Option<u64>,
    /// Bytes of a block
    #[arg(long, default_value_t = 4_096)]
    block_bytes: u64,
    /// Segments
    #[arg(long, default_value_t = 4)]
    segments: usize,
    /// A block that so many requests have is shared
    #[arg(long, default_value_t = 2)]
    shared_by: u32,
    /// Length of a soft pin in seconds of the trace's time
    #[arg(long, default_value_t = 1_800.0)]
    pin_ttl: f64,
}

fn options(given: &Replay) -> Result<ReplayOptions, BenchError> {
    if !given.speed.is_finite() || given.speed < 0.0 {
        return Err(BenchError::Usage("--speed is a number from 0".into()));
    }
    if given.connections == 0 || given.connections > CONNECTIONS_MAX {
        return Err(BenchError::Usage(format!("--connections is from 1 to {CONNECTIONS_MAX}")));
    }
    if given.block_bytes == 0 || given.segments == 0 {
        return Err(BenchError::Usage("--block-bytes and --segments are from 1".into()));
    }
    let pin_ttl: Duration = seconds("--pin-ttl", given.pin_ttl)?;
    Ok(ReplayOptions {
        trace: given.trace.clone(),
        requests: given.requests.unwrap_or(u64::MAX),
        speed: given.speed,
        connections: given.connections,
        capacity: given.blocks,
        block_bytes: given.block_bytes,
        segments: given.segments,
        shared_by: given.shared_by,
        pin_ttl,
    })
}

/// Runs the command; answers the exit code.
pub(super) fn command(given: &Replay) -> Result<u8, BenchError> {
    let options = options(given)?;
    let trace = summarize(&options)?;
    let modes: &[bool] = match given.pins {
        Pins::On => &[true],
        Pins::Off => &[false],
        Pins::Both => &[false, true],
    };
    let mut rows = Vec::new();
    for pins in modes {
        rows.push(given.target.runtime()?.block_on(async {
            let server = given.target.server().await?;
            replay(&server, &options, &trace, *pins).await
        })?);
    }
    let has_failed = rows.iter().any(|row| !row.failures.is_empty());
    let report = ReplayReport { trace, capacity: capacity(&options, &trace), rows };
    let code = match given.target.json {
        true => {
            let json = serde_json::to_string(&report);
            let json = json.map_err(|error| BenchError::Internal(error.to_string()))?;
            print(&format!("{json}\n"))
        }
        false => print(&table(&report)),
    };
    Ok(if code == EXIT_OK && has_failed { EXIT_FAILURE } else { code })
}
