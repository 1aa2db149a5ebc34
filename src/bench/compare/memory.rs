//! Scenes on the larger store: what an object costs in memory, and batches among many objects.

use std::time::Duration;

use super::calls::{Play, batches};
use super::stage::{KEY_BYTES, Side, Stage, VALUE_BYTES};
use crate::bench::BenchError;
use crate::bench::cost::Amount;
use crate::bench::report::millis;
use crate::bench::server::{ProcessLook, Server};
use crate::bench::store::{Store, StoreShape, connect};
use crate::bench::work::{Operation, PinWish};
use crate::clock::Clock;
use crate::wire::calls::RemoveAll;
use crate::wire::requests::RemoveAllRequest;

/// Segments of the store.
const SEGMENTS: usize = 16;

/// A master that spends less CPU than this in one step has come to rest.
const REST_STEP: Duration = Duration::from_millis(500);
const REST_CPU: Duration = Duration::from_millis(15);
const REST_STEPS_MAX: usize = 20;

/// A master whose memory has not fallen by as much as this in so many steps gives no more of it back: allocators
/// wait a while before they do.
const GIVEN_BACK_BYTES: u64 = 1 << 20;
const STILL_STEPS: usize = 5;

/// Length of the long keys.
const LONG_KEY_BYTES: usize = 100;

/// A pin that does not end while memory is measured.
const LONG_PIN: Duration = Duration::from_secs(3_600);

/// Number of the idle client's segment, far from the store's, and its size.
const IDLE_SEGMENT: u64 = 5_000;
const IDLE_BYTES: u64 = 64 << 20;

/// Memory of all segments: the name is the peer's.
const CAPACITY: &str = "master_total_capacity_bytes";

/// Objects: the name is the peer's.
const KEYS: &str = "master_key_count";

/// A client has left this long after its time to live at the latest.
const LEAVES_AFTER: Duration = Duration::from_secs(3);

/// All objects are removed in this time.
const REMOVE_ALL_MAX: Duration = Duration::from_secs(180);

/// The process, which is always known here.
fn look(server: &Server) -> Result<ProcessLook, BenchError> {
    let unknown = || BenchError::Internal("the process of a started master is not known".into());
    server.look()?.ok_or_else(unknown)
}

/// Waits until the master has nothing more to do; how it is then.
pub async fn rest(server: &Server) -> Result<ProcessLook, BenchError> {
    let mut before = look(server)?;
    for _ in 0..REST_STEPS_MAX {
        tokio::time::sleep(REST_STEP).await;
        let now = look(server)?;
        if now.cpu.saturating_sub(before.cpu) < REST_CPU {
            return Ok(now);
        }
        before = now;
    }
    Ok(before)
}

/// Waits until the master gives no more memory back; how it is then.
async fn given_back(server: &Server) -> Result<ProcessLook, BenchError> {
    let mut least = rest(server).await?;
    let mut still = 0;
    for _ in 0..REST_STEPS_MAX {
        if still >= STILL_STEPS {
            break;
        }
        tokio::time::sleep(REST_STEP).await;
        let now = look(server)?;
        let has_fallen = now.rss_bytes + GIVEN_BACK_BYTES < least.rss_bytes;
        still = if has_fallen { 0 } else { still + 1 };
        least = if has_fallen { now } else { least };
    }
    look(server)
}

fn grown(from: &ProcessLook, to: &ProcessLook) -> f64 {
    to.rss_bytes as f64 - from.rss_bytes as f64
}

/// Memory, batches, a client that leaves, removal of all, in this order on one store.
pub async fn million(stage: &mut Stage<'_>, side: Side) -> Result<(), BenchError> {
    let objects = stage.options.objects;
    let mut play = Play::start(stage, side, &[], (0, objects)).await?;
    let empty = rest(&play.server).await?;
    let began = stage.clock.monotonic();
    let shape = stage.shape(KEY_BYTES, PinWish::None)?;
    play.store.load(&shape, objects, &stage.clock).await?;
    play.store.numbers.keep();
    stage.load_times.insert(side, stage.clock.monotonic().saturating_sub(began));
    let full = rest(&play.server).await?;
    stage.note("rss-21", side, grown(&empty, &full) / objects.max(1) as f64);
    let time = Amount::Time(stage.options.time);
    for (operation, row) in
        [(Operation::Exist, "batch-exist-cpu-1m"), (Operation::Get, "batch-get-cpu-1m")]
    {
        if stage.wants(row) {
            let cost = play.cost(stage, batches(operation, time)).await?;
            stage.note(row, side, cost.cpu_us_per_key);
        }
    }
    if stage.wants("idle-leaves-cpu") {
        let cost = idle_leaves(stage, &play).await?;
        stage.note("idle-leaves-cpu", side, millis(cost));
    }
    if stage.wants("rss-given-back") {
        let before = look(&play.server)?;
        remove_all(&play).await?;
        let after = given_back(&play.server).await?;
        let share = grown(&after, &before) / grown(&empty, &before).max(1.0);
        stage.note("rss-given-back", side, share);
    }
    play.store.fall_silent();
    Ok(())
}

/// What it costs that a client without objects leaves, beyond what an equally long quiet time costs.
async fn idle_leaves(stage: &Stage<'_>, play: &Play) -> Result<Duration, BenchError> {
    let window = stage.options.client_ttl + LEAVES_AFTER;
    let shape = StoreShape { clients: 1, segments: 1, segment_bytes: IDLE_BYTES };
    let mut idle = Store::open(&play.server.address, &shape, IDLE_SEGMENT).await?;
    rest(&play.server).await?;
    let spent = async || {
        let before = look(&play.server)?.cpu;
        tokio::time::sleep(window).await;
        Ok::<_, BenchError>(look(&play.server)?.cpu.saturating_sub(before))
    };
    let quiet = spent().await?;
    let before = play.server.gauge(CAPACITY).await?;
    idle.fall_silent();
    let event = spent().await?;
    let after = play.server.gauge(CAPACITY).await?;
    match before.checked_sub(after) {
        Some(IDLE_BYTES) => Ok(event.saturating_sub(quiet)),
        _ => Err(BenchError::TooLong(format!(
            "the idle client has not left after {window:?}; {CAPACITY} went from {before} to {after}"
        ))),
    }
}

/// Removes every object, however many a master may have evicted by itself meanwhile.
async fn remove_all(play: &Play) -> Result<(), BenchError> {
    let client = connect(&play.server.address).await?.with_timeout(REMOVE_ALL_MAX);
    let request = RemoveAllRequest { force: true, tenant_id: b"".as_slice() };
    let lost = |error| BenchError::Call { call: "RemoveAll", error };
    let removed = client.call::<RemoveAll>(&request).await.map_err(lost)?;
    match play.server.gauge(KEYS).await? {
        0 if removed > 0 => Ok(()),
        left => Err(BenchError::Server(format!("RemoveAll removed {removed} and left {left}"))),
    }
}

/// Memory of an object with a long key; for the row of pins with a soft pin.
pub async fn long_keys(
    stage: &mut Stage<'_>,
    side: Side,
    row: &'static str,
) -> Result<(), BenchError> {
    let objects = stage.options.objects;
    let pin = if row == "rss-pin-100" { PinWish::For(LONG_PIN) } else { PinWish::None };
    let server = stage.start(side, &[]).await?;
    let shape = StoreShape::for_objects(1, SEGMENTS, objects, VALUE_BYTES);
    let store = Store::open(&server.address, &shape, 0).await?;
    let empty = rest(&server).await?;
    store.load(&stage.shape(LONG_KEY_BYTES, pin)?, objects, &stage.clock).await?;
    let full = rest(&server).await?;
    stage.note(row, side, grown(&empty, &full) / objects.max(1) as f64);
    Ok(())
}
