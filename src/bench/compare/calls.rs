//! Scenes on the smaller store: what calls cost.

use std::sync::Arc;
use std::time::Duration;

use super::stage::{KEY_BYTES, Side, Stage, VALUE_BYTES};
use crate::bench::BenchError;
use crate::bench::campaign::Campaign;
use crate::bench::cost::{Amount, Cost, Load, all_good, cost};
use crate::bench::drive::Mix;
use crate::bench::report::Latency;
use crate::bench::server::Server;
use crate::bench::store::{Store, StoreShape};
use crate::bench::work::{Operation, PinWish, WorkShape};

/// Connections of single reads and removals, and of single puts.
const CONNECTIONS: usize = 32;
const PUT_CONNECTIONS: usize = 64;

/// A batch, and how batches are called.
const BATCH: usize = 128;
const BATCH_CONNECTIONS: usize = 4;
const BATCH_DEPTH: usize = 2;

/// Segments of the store.
const SEGMENTS: usize = 16;

/// Clients without heartbeats stay alive for as long as a scene takes.
const PATIENT_FLAG: &str = "--client_ttl=120";

/// Reads beside writes: how long at most, and over how many connections.
const BESIDE_TIME_MAX: Duration = Duration::from_secs(2);
const BESIDE_CONNECTIONS: usize = 16;

/// Of the mix of reads and writes: a read for three puts, so that writes are what loads the master.
const BESIDE_READS: u64 = 1;
const BESIDE_PUTS: u64 = 3;

/// A master with a store on which loads are measured.
pub struct Play {
    /// The master.
    pub server: Server,
    /// Its store.
    pub store: Store,
    shape: WorkShape,
}

impl Play {
    /// Starts a master and loads a store that has room for `spare` objects more.
    ///
    /// Errors: as a start's and a load's.
    pub async fn start(
        stage: &Stage<'_>,
        side: Side,
        flags: &[&str],
        (loaded, spare): (u64, u64),
    ) -> Result<Self, BenchError> {
        let server = stage.start(side, flags).await?;
        let shape = StoreShape::for_objects(1, SEGMENTS, loaded + spare, VALUE_BYTES);
        let store = Store::open(&server.address, &shape, 0).await?;
        let shape = stage.shape(KEY_BYTES, PinWish::None)?;
        store.load(&shape, loaded, &stage.clock).await?;
        store.numbers.keep();
        Ok(Play { server, store, shape })
    }

    /// Measures a load. Errors: as [`cost()`].
    pub async fn cost(&self, stage: &Stage<'_>, load: Load) -> Result<Cost, BenchError> {
        cost(&self.server, &self.store, &self.shape, &load, &stage.clock).await
    }
}

fn single(operation: Operation, connections: usize, amount: Amount) -> Load {
    Load { operation, batch: 1, connections, depth: 1, amount }
}

/// A load of batches, as the scenes call them.
pub fn batches(operation: Operation, amount: Amount) -> Load {
    let (connections, depth) = (BATCH_CONNECTIONS, BATCH_DEPTH);
    Load { operation, batch: BATCH, connections, depth, amount }
}

/// Every call, on a fresh master.
pub async fn calls(stage: &mut Stage<'_>, side: Side) -> Result<(), BenchError> {
    let keys = stage.options.keys;
    let play = Play::start(stage, side, &[], (keys, 2 * keys)).await?;
    reads(stage, side, &play).await?;
    writes(stage, side, &play, ["put-cpu", "batch-put-cpu"]).await?;
    let removals = Amount::Keys(keys / 2);
    if stage.wants("remove-cpu") {
        let load = single(Operation::Remove, CONNECTIONS, removals);
        fill(stage, &play, keys / 2).await?;
        let cost = play.cost(stage, load).await?;
        stage.note("remove-cpu", side, cost.cpu_us_per_key);
    }
    if stage.wants("batch-remove-cpu") {
        fill(stage, &play, keys).await?;
        let cost = play.cost(stage, batches(Operation::Remove, Amount::Keys(keys))).await?;
        stage.note("batch-remove-cpu", side, cost.cpu_us_per_key);
    }
    Ok(())
}

/// Makes exactly `wanted` keys the ones that removals take.
async fn fill(stage: &Stage<'_>, play: &Play, wanted: u64) -> Result<(), BenchError> {
    let numbers = &play.store.numbers;
    match numbers.fresh() {
        fresh if fresh < wanted => {
            play.store.load(&play.shape, wanted - fresh, &stage.clock).await.map(|_| ())
        }
        fresh => {
            numbers.spare(fresh - wanted);
            Ok(())
        }
    }
}

async fn reads(stage: &mut Stage<'_>, side: Side, play: &Play) -> Result<(), BenchError> {
    let time = Amount::Time(stage.options.time);
    let rows = [
        (Operation::Exist, ["exist-cpu", "exist-rate", "exist-p50", "batch-exist-cpu"]),
        (Operation::Get, ["get-cpu", "get-rate", "get-p50", "batch-get-cpu"]),
    ];
    for (operation, [cpu, rate, p50, batch]) in rows {
        if stage.wants(cpu) || stage.wants(rate) {
            let cost = play.cost(stage, single(operation, CONNECTIONS, time)).await?;
            stage.note(cpu, side, cost.cpu_us_per_key);
            stage.note(rate, side, cost.keys_per_second);
        }
        if stage.wants(p50) {
            let cost = play.cost(stage, single(operation, 1, time)).await?;
            stage.note(p50, side, cost.latency_us.p50);
        }
        if stage.wants(batch) {
            let cost = play.cost(stage, batches(operation, time)).await?;
            stage.note(batch, side, cost.cpu_us_per_key);
        }
    }
    Ok(())
}

async fn writes(
    stage: &mut Stage<'_>,
    side: Side,
    play: &Play,
    [put, batch_put]: [&'static str; 2],
) -> Result<(), BenchError> {
    let keys = stage.options.keys;
    let is_async = put == "put-cpu";
    if stage.wants(put) || (is_async && stage.wants("put-rate")) {
        let load = single(Operation::Put, PUT_CONNECTIONS, Amount::Keys(keys / 2));
        let cost = play.cost(stage, load).await?;
        stage.note(put, side, cost.cpu_us_per_key);
        if is_async {
            stage.note("put-rate", side, cost.keys_per_second);
        }
    }
    if stage.wants(batch_put) || (is_async && stage.wants("batch-put-rate")) {
        let cost = play.cost(stage, batches(Operation::Put, Amount::Keys(keys))).await?;
        stage.note(batch_put, side, cost.cpu_us_per_key);
        if is_async {
            stage.note("batch-put-rate", side, cost.keys_per_second);
        }
    }
    Ok(())
}

/// The writes with every one on disk before it is answered.
pub async fn sync_calls(stage: &mut Stage<'_>) -> Result<(), BenchError> {
    let keys = stage.options.keys;
    let play = Play::start(stage, Side::Ours, &["--durability=sync"], (keys, 2 * keys)).await?;
    writes(stage, Side::Ours, &play, ["put-cpu-sync", "batch-put-cpu-sync"]).await
}

/// What a put costs with many live clients, as a multiple of what it costs with one. Each has a segment.
pub async fn many_clients(stage: &mut Stage<'_>, side: Side) -> Result<(), BenchError> {
    let keys = stage.options.keys;
    let mut costs = Vec::new();
    for clients in [1, stage.options.clients.max(2)] {
        let server = stage.start(side, &[PATIENT_FLAG]).await?;
        let shape = StoreShape::for_objects(clients, clients, keys, VALUE_BYTES);
        let mut store = Store::open(&server.address, &shape, 0).await?;
        // The heartbeats of so many would be part of the cost.
        store.fall_silent();
        let shape = stage.shape(KEY_BYTES, PinWish::None)?;
        let load = batches(Operation::Put, Amount::Keys(keys));
        costs.push(cost(&server, &store, &shape, &load, &stage.clock).await?.cpu_us_per_key);
    }
    if let [one, many] = costs[..] {
        stage.note("put-many-clients", side, many / one.max(1e-9));
    }
    Ok(())
}

/// The p99 of reads while the master writes half of what the other can at most.
pub async fn reads_beside_writes(stage: &mut Stage<'_>, side: Side) -> Result<(), BenchError> {
    let keys = stage.options.keys;
    let play = Play::start(stage, side, &[], (keys, 10 * keys)).await?;
    if side == Side::Peer || stage.peer_puts.is_none() {
        let maximum = Amount::Keys(keys / 2);
        let load = single(Operation::Put, PUT_CONNECTIONS, maximum);
        let cost = play.cost(stage, load).await?;
        stage.peer_puts = Some(cost.keys_per_second);
    }
    let puts = stage.peer_puts.unwrap_or(1.0) / 2.0;
    let shares = vec![(Operation::Get, BESIDE_READS), (Operation::Put, BESIDE_PUTS)];
    play.store.numbers.allow_puts(8 * keys);
    let campaign = Campaign {
        what: "gets beside puts".to_owned(),
        mix: Mix::new(shares)?,
        shape: Arc::new(play.shape.clone()),
        numbers: Arc::clone(&play.store.numbers),
        clients: play.store.ids(),
        connections: BESIDE_CONNECTIONS,
        depth: 4,
        rate: Some(puts * (BESIDE_READS + BESIDE_PUTS) as f64 / BESIDE_PUTS as f64),
        time: BESIDE_TIME_MAX.min(stage.options.time * 4),
        total: None,
    };
    let outcome = campaign.run(&play.server.address, &stage.clock).await?;
    for (operation, tally) in outcome.tally.iter() {
        all_good(operation.name(), tally)?;
        if operation == Operation::Get {
            stage.note("read-p99-writing", side, Latency::of(tally).p99);
        }
    }
    Ok(())
}
