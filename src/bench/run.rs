//! `bench run`: operations one after the other on one store.

use std::sync::Arc;
use std::time::Duration;

use super::BenchError;
use super::campaign::{Campaign, Outcome};
use super::drive::Mix;
use super::report::{Latency, Row, Spent};
use super::server::Server;
use super::store::{Store, StoreShape};
use super::work::{Operation, WorkShape};
use crate::clock::SystemClock;

/// Load before a measurement, so that caches, connections and threads are there.
const WARM_UP: Duration = Duration::from_millis(500);

/// What to measure.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Mixes, one after the other, with their names.
    pub mixes: Vec<(String, Mix)>,
    /// What units have in common.
    pub shape: WorkShape,
    /// Clients and segments; `None` makes room for the keys.
    pub store: StoreShape,
    /// Keys that reads choose from.
    pub keys: u64,
    /// Keys that an operation may use up.
    pub count: u64,
    /// Connections.
    pub connections: usize,
    /// Units on their way on each.
    pub depth: usize,
    /// Units a second; `None` for a closed loop.
    pub rate: Option<f64>,
    /// Time of an operation that does not use keys up.
    pub time: Duration,
}

/// Measures everything that `options` name.
///
/// Errors: by cause, see [`BenchError`].
pub async fn run(server: &Server, options: &RunOptions) -> Result<Vec<Row>, BenchError> {
    let clock = Arc::new(SystemClock::default());
    let store = Store::open(&server.address, &options.store, 0).await?;
    store.load(&options.shape, options.keys, &clock).await?;
    store.numbers.keep();
    let mut rows = Vec::new();
    for (name, mix) in &options.mixes {
        rows.extend(measure(server, &store, options, name, mix, &clock).await?);
    }
    Ok(rows)
}

async fn measure(
    server: &Server,
    store: &Store,
    options: &RunOptions,
    name: &str,
    mix: &Mix,
    clock: &Arc<SystemClock>,
) -> Result<Vec<Row>, BenchError> {
    let is_removing = mix.operations().any(|operation| operation == Operation::Remove);
    if is_removing && store.numbers.fresh() < options.count {
        store.load(&options.shape, options.count - store.numbers.fresh(), clock).await?;
    }
    if mix.operations().any(|operation| operation == Operation::Put) {
        store.numbers.allow_puts(options.count);
    }
    let uses_keys_up = mix.operations().any(Operation::uses_keys_up);
    let campaign = Campaign {
        what: name.to_owned(),
        mix: mix.clone(),
        shape: Arc::new(options.shape.clone()),
        numbers: Arc::clone(&store.numbers),
        clients: store.ids(),
        connections: options.connections,
        depth: options.depth,
        rate: options.rate,
        time: options.time,
        total: uses_keys_up.then_some(options.count),
    };
    if !uses_keys_up {
        let warm_up = Campaign { time: WARM_UP.min(options.time), ..campaign.clone() };
        warm_up.run(&server.address, clock).await?;
    }
    let before = server.look()?;
    let outcome = campaign.run(&server.address, clock).await?;
    let after = server.look()?;
    let spent = before.zip(after).map(|(before, after)| Spent::of(before, after, &outcome));
    Ok(rows(name, options, &outcome, spent))
}

fn rows(name: &str, options: &RunOptions, outcome: &Outcome, spent: Option<Spent>) -> Vec<Row> {
    let seconds = outcome.elapsed.as_secs_f64();
    let is_mix = outcome.tally.iter().count() > 1;
    let row = |(operation, tally): (Operation, &super::tally::OperationTally)| {
        let label = if is_mix {
            format!("{name}: {}", operation.name())
        } else {
            format!("{name} {}x{}x{}", options.shape.batch, options.connections, options.depth)
        };
        Row {
            name: label,
            batch: options.shape.batch,
            connections: options.connections,
            depth: options.depth,
            rate: options.rate,
            calls: tally.calls,
            keys: tally.keys,
            failed: tally.failed(),
            failures: tally.failure_text(),
            seconds,
            keys_per_second: tally.keys as f64 / seconds.max(1e-9),
            latency_us: Latency::of(tally),
            server: spent,
        }
    };
    outcome.tally.iter().map(row).collect()
}
