//! `bench scale`: how the cost of calls grows with the objects in the store and with the connections.
//!
//! Every point is measured on a master of its own, so that none inherits what another left.

pub mod plot;

use std::sync::Arc;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};

use super::BenchError;
use super::cores::{self, Cores};
use super::cost::{Amount, Cost, Load, cost};
use super::keys::KeyShape;
use super::progress::say;
use super::server::{Launch, Server};
use super::store::{Store, StoreShape};
use super::work::{Operation, PinWish, WorkShape};
use crate::clock::SystemClock;

/// Points of a curve at most.
pub const POINTS_MAX: usize = 64;

/// Connections where the objects vary, and segments.
const CONNECTIONS: usize = 32;
const SEGMENTS: usize = 16;

/// A batch, and how batches are called.
const BATCH: usize = 128;
const BATCH_CONNECTIONS: usize = 4;
const BATCH_DEPTH: usize = 2;

/// Bytes of a key and of an object.
const KEY_BYTES: usize = 21;
const VALUE_BYTES: u64 = 4_096;

/// Keys that a measurement of puts or removals takes.
const WRITES: u64 = 50_000;

/// What to measure.
#[derive(Clone, Debug)]
pub struct ScaleOptions {
    /// Starts the master, as in [`Launch`].
    pub command: String,
    /// Numbers of objects, each a point.
    pub objects: Vec<u64>,
    /// Numbers of connections, each a point.
    pub connections: Vec<usize>,
    /// Objects where the connections vary.
    pub keys: u64,
    /// Time of one measurement of reads.
    pub time: Duration,
    /// Keys of one measurement of writes; 0 for the default.
    pub writes: u64,
    /// Where server and load run.
    pub cores: Option<Cores>,
}

/// What grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Axis {
    /// Objects in the store.
    Objects,
    /// Connections.
    Connections,
}

/// One measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// What grows.
    pub axis: Axis,
    /// How large it is here.
    pub at: u64,
    /// What was measured: an operation, with `-128` for batches.
    pub what: String,
    /// CPU of the server for one key, in microseconds.
    pub cpu_us_per_key: f64,
    /// Keys a second.
    pub keys_per_second: f64,
    /// Latency of a unit, in microseconds.
    pub p50_us: f64,
    /// See `p50_us`.
    pub p99_us: f64,
    /// Resident memory for each object after the load, where the objects vary.
    pub rss_bytes_per_object: Option<f64>,
}

/// All measurements.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ScaleReport {
    /// In the order in which they were made.
    pub points: Vec<Point>,
}

/// Measures every point.
///
/// Errors: by cause, see [`BenchError`]; too many points.
pub async fn scale(options: &ScaleOptions) -> Result<ScaleReport, BenchError> {
    if options.objects.len().max(options.connections.len()) > POINTS_MAX {
        return Err(BenchError::Usage(format!("{POINTS_MAX} points are the limit")));
    }
    allow_connections()?;
    if let Some(cores) = options.cores {
        cores::bind(cores.load)?;
    }
    let clock = Arc::new(SystemClock::default());
    let mut points = Vec::new();
    for objects in &options.objects {
        say(&format!("{objects} objects"));
        let mut stand = Stand::start(options, *objects, &clock).await?;
        for (what, load) in loads_by_objects(options) {
            let cost = stand.cost(&load).await?;
            points.push(stand.point(Axis::Objects, *objects, what, &cost));
        }
        stand.store.fall_silent();
    }
    for connections in &options.connections {
        say(&format!("{connections} connections"));
        let mut stand = Stand::start(options, options.keys, &clock).await?;
        stand.rss_bytes_per_object = None;
        for (what, load) in loads_by_connections(options, *connections) {
            let cost = stand.cost(&load).await?;
            points.push(stand.point(Axis::Connections, *connections as u64, what, &cost));
        }
        stand.store.fall_silent();
    }
    Ok(ScaleReport { points })
}

fn writes(options: &ScaleOptions) -> Amount {
    Amount::Keys(if options.writes == 0 { WRITES } else { options.writes })
}

fn loads_by_objects(options: &ScaleOptions) -> Vec<(&'static str, Load)> {
    let (time, writes) = (Amount::Time(options.time), writes(options));
    let single = |operation, amount| Load {
        operation,
        batch: 1,
        connections: CONNECTIONS,
        depth: 1,
        amount,
    };
    let batch = |operation, amount| Load {
        operation,
        batch: BATCH,
        connections: BATCH_CONNECTIONS,
        depth: BATCH_DEPTH,
        amount,
    };
    vec![
        ("exist", single(Operation::Exist, time)),
        ("get", single(Operation::Get, time)),
        ("exist-128", batch(Operation::Exist, time)),
        ("get-128", batch(Operation::Get, time)),
        ("put", single(Operation::Put, writes)),
        ("remove", single(Operation::Remove, writes)),
        ("put-128", batch(Operation::Put, writes)),
        ("remove-128", batch(Operation::Remove, writes)),
    ]
}

fn loads_by_connections(options: &ScaleOptions, connections: usize) -> Vec<(&'static str, Load)> {
    let (time, writes) = (Amount::Time(options.time), writes(options));
    let load = |operation, amount| Load { operation, batch: 1, connections, depth: 1, amount };
    vec![
        ("exist", load(Operation::Exist, time)),
        ("get", load(Operation::Get, time)),
        ("put", load(Operation::Put, writes)),
        ("remove", load(Operation::Remove, writes)),
    ]
}

/// A master with its store.
struct Stand {
    server: Server,
    store: Store,
    shape: WorkShape,
    clock: Arc<SystemClock>,
    rss_bytes_per_object: Option<f64>,
}

impl Stand {
    async fn start(
        options: &ScaleOptions,
        objects: u64,
        clock: &Arc<SystemClock>,
    ) -> Result<Self, BenchError> {
        let core = options.cores.map(|cores| cores.server);
        let server = Server::start(Launch { command: options.command.clone(), core }).await?;
        let spare = 4 * options.writes.max(WRITES);
        let room = StoreShape::for_objects(1, SEGMENTS, objects + spare, VALUE_BYTES);
        let store = Store::open(&server.address, &room, 0).await?;
        let shape = WorkShape {
            keys: KeyShape::new("bench-", KEY_BYTES)?,
            batch: 1,
            is_always_batch: false,
            value_bytes: VALUE_BYTES,
            replicas: 1,
            pin: PinWish::None,
            group_size: 0,
        };
        let empty = server.look()?.unwrap_or_default();
        store.load(&shape, objects, clock).await?;
        store.numbers.keep();
        let full = server.look()?.unwrap_or_default();
        let grown = full.rss_bytes as f64 - empty.rss_bytes as f64;
        let rss_bytes_per_object = Some(grown / objects.max(1) as f64);
        Ok(Stand { server, store, shape, clock: Arc::clone(clock), rss_bytes_per_object })
    }

    async fn cost(&self, load: &Load) -> Result<Cost, BenchError> {
        cost(&self.server, &self.store, &self.shape, load, &self.clock).await
    }

    fn point(&self, axis: Axis, at: u64, what: &str, cost: &Cost) -> Point {
        Point {
            axis,
            at,
            what: what.to_owned(),
            cpu_us_per_key: cost.cpu_us_per_key,
            keys_per_second: cost.keys_per_second,
            p50_us: cost.latency_us.p50,
            p99_us: cost.latency_us.p99,
            rss_bytes_per_object: self.rss_bytes_per_object,
        }
    }
}

/// A connection is a file: lets this process, and the masters that it starts, have as many as the system allows.
fn allow_connections() -> Result<(), BenchError> {
    let unable = |error| BenchError::Internal(format!("the limit of open files: {error}"));
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).map_err(unable)?;
    setrlimit(Resource::RLIMIT_NOFILE, most, most).map_err(unable)
}

/// The points for people.
pub fn table(report: &ScaleReport) -> String {
    use std::fmt::Write as _;
    let mut text =
        "axis               at  what        cpu us/key      keys/s    p50 us    p99 us  B/object\n"
            .to_owned();
    for point in &report.points {
        let axis = if point.axis == Axis::Objects { "objects" } else { "connections" };
        let rss = point.rss_bytes_per_object.map_or("-".to_owned(), |bytes| format!("{bytes:.0}"));
        let _ = writeln!(
            text,
            "{axis:<12}{:>9}  {:<11}{:>11.3}{:>12.0}{:>10.1}{:>10.1}{rss:>10}",
            point.at,
            point.what,
            point.cpu_us_per_key,
            point.keys_per_second,
            point.p50_us,
            point.p99_us
        );
    }
    text
}
