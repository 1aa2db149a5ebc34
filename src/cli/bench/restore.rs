//! `mooncake-ha bench restore`: a snapshot and cold restores from it, by the clock.

use clap::Args;
use serde_json::json;

use super::{Objects, amount, print, runtime};
use crate::bench::BenchError;
use crate::bench::restore::{RestoreOptions, restore, table};

/// Flags are named in `docs/performance.md`.
#[derive(Debug, Args)]
pub(super) struct Restore {
    /// Shell command that starts the master; {port}, {http_port}, {dir} and {flags} are filled in
    #[arg(long, value_name = "COMMAND")]
    start: String,
    /// Objects in the snapshot
    #[arg(long, default_value = "1m", value_parser = amount)]
    count: u64,
    #[command(flatten)]
    objects: Objects,
    /// Restores from the one snapshot
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command; answers the exit code.
pub(super) fn command(given: &Restore) -> Result<u8, BenchError> {
    let options = RestoreOptions {
        command: given.start.clone(),
        objects: given.count,
        key_bytes: given.objects.key_bytes,
        value_bytes: given.objects.value_bytes,
        rounds: given.rounds,
    };
    let rows = runtime(1)?.block_on(restore(&options))?;
    Ok(match given.json {
        true => print(&format!("{}\n", json!(rows))),
        false => print(&table(&rows)),
    })
}
