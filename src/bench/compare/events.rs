//! Scenes on the larger store in which something large happens: how long it takes, what it costs, whom it stalls.

use std::time::Duration;

use super::stage::{KEY_BYTES, Side, Stage, VALUE_BYTES};
use crate::bench::BenchError;
use crate::bench::stall::{Scenario, StallOptions, StallRow, stall};

/// Objects that any master puts in a second, for as long as nothing better is known.
const SLOW_LOAD: u64 = 20_000;

/// A load with pins is given this many times what one without took.
const PINS_SLOWER: u32 = 2;

async fn happen(
    stage: &Stage<'_>,
    side: Side,
    scenario: Scenario,
    pins_after: Option<Duration>,
) -> Result<StallRow, BenchError> {
    let options = StallOptions {
        objects: stage.options.objects,
        key_bytes: KEY_BYTES,
        value_bytes: VALUE_BYTES,
        client_ttl: stage.options.client_ttl,
        quiet: stage.options.quiet,
        pins_after,
    };
    let server = stage.start(side, &[]).await?;
    stall(&server, scenario, &options).await
}

fn longest_call(row: &StallRow) -> f64 {
    row.meanwhile.get_max_ms.max(row.meanwhile.put_max_ms)
}

/// The store is filled over the watermark.
pub async fn evict(stage: &mut Stage<'_>, side: Side) -> Result<(), BenchError> {
    let row = happen(stage, side, Scenario::Evict, None).await?;
    stage.note("evict-whole", side, row.whole_ms);
    stage.note("evict-stall", side, longest_call(&row));
    Ok(())
}

/// The client that owns all memory falls silent.
pub async fn owner_dies(stage: &mut Stage<'_>, side: Side) -> Result<(), BenchError> {
    let row = happen(stage, side, Scenario::OwnerDies, None).await?;
    stage.note("owner-dies-whole", side, row.whole_ms);
    stage.note("owner-dies-stall", side, longest_call(&row));
    Ok(())
}

/// All soft pins end together.
pub async fn pins(stage: &mut Stage<'_>, side: Side) -> Result<(), BenchError> {
    let slow = Duration::from_secs(stage.options.objects / SLOW_LOAD);
    let load = stage.load_times.get(&side).map_or(slow, |took| *took * PINS_SLOWER);
    let slack = stage.options.quiet + Duration::from_secs(3);
    let row = happen(stage, side, Scenario::Pins, Some(load + slack)).await?;
    if let Some(bytes) = row.rss_bytes_per_object {
        stage.note("rss-pin-21", side, bytes);
    }
    if let Some(cpu) = row.server_cpu_net_ms {
        stage.note("pins-cpu", side, cpu);
    }
    stage.note("pins-stall", side, row.meanwhile.get_max_ms);
    Ok(())
}
