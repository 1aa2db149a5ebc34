//! What one kind of call costs: a short load of it, and what server and caller saw.
//!
//! Guards that a cost with failed calls is an error, not a figure.

use std::sync::Arc;
use std::time::Duration;

use super::BenchError;
use super::campaign::Campaign;
use super::drive::Mix;
use super::report::{Latency, Spent};
use super::server::Server;
use super::store::Store;
use super::tally::OperationTally;
use super::work::{Operation, WorkShape};
use crate::clock::SystemClock;

/// Load before a measurement of reads, as a share of it.
const WARM_UP_SHARE: u32 = 4;

/// A load that uses keys up ends with its keys; this only bounds it.
const KEYS_TIME_MAX: Duration = Duration::from_secs(120);

/// A load of one kind.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// What is called.
    pub operation: Operation,
    /// Keys of one call.
    pub batch: usize,
    /// Connections.
    pub connections: usize,
    /// Units on their way on each.
    pub depth: usize,
    /// How much of it.
    pub amount: Amount,
}

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub enum Amount {
    /// For this time; for what does not use keys up.
    Time(Duration),
    /// This many keys, new ones for puts; the same for every master, so that tables grow alike.
    Keys(u64),
}

/// What it cost.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// CPU of the server for one key, in microseconds: for a put that of Start and End.
    pub cpu_us_per_key: f64,
    /// Keys a second.
    pub keys_per_second: f64,
    /// Latency of a unit: a call, or Start and End of a put.
    pub latency_us: Latency,
}

/// Measures one load.
///
/// Errors: as a campaign's; some keys failed; the server's process is not known.
pub async fn cost(
    server: &Server,
    store: &Store,
    shape: &WorkShape,
    load: &Load,
    clock: &Arc<SystemClock>,
) -> Result<Cost, BenchError> {
    let (time, total) = match load.amount {
        Amount::Time(time) => (time, None),
        Amount::Keys(keys) => (KEYS_TIME_MAX, Some(keys)),
    };
    if let (Operation::Put, Some(keys)) = (load.operation, total) {
        store.numbers.allow_puts(keys);
    }
    let campaign = Campaign {
        what: format!("{} {}x{}", load.operation.name(), load.batch, load.connections),
        mix: Mix::only(load.operation),
        shape: Arc::new(WorkShape { batch: load.batch, ..shape.clone() }),
        numbers: Arc::clone(&store.numbers),
        clients: store.ids(),
        connections: load.connections,
        depth: load.depth,
        rate: None,
        time,
        total,
    };
    if total.is_none() {
        let warm_up = Campaign { time: time / WARM_UP_SHARE, ..campaign.clone() };
        warm_up.run(&server.address, clock).await?;
    }
    let before = server.look()?;
    let outcome = campaign.run(&server.address, clock).await?;
    let after = server.look()?;
    let unknown =
        || BenchError::Usage("the server's process is not known: --pid or --start".into());
    let (before, after) = before.zip(after).ok_or_else(unknown)?;
    let nothing = || BenchError::Server(format!("no {} was done", campaign.what));
    let (_, tally) = outcome.tally.iter().next().ok_or_else(nothing)?;
    all_good(&campaign.what, tally)?;
    Ok(Cost {
        cpu_us_per_key: Spent::of(before, after, &outcome).cpu_us_per_key,
        keys_per_second: tally.keys as f64 / outcome.elapsed.as_secs_f64().max(1e-9),
        latency_us: Latency::of(tally),
    })
}

/// Errors: some keys failed.
pub fn all_good(what: &str, tally: &OperationTally) -> Result<(), BenchError> {
    match tally.failed() {
        0 => Ok(()),
        failed => Err(BenchError::Refused {
            what: format!("{failed} of {} keys of {what}", failed + tally.keys),
            why: tally.failure_text(),
        }),
    }
}
