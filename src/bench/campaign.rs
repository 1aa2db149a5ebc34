//! One measured stretch of load: connects, lets every connection work, adds up what they measured.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;

use super::BenchError;
use super::drive::{DEPTH_MAX, Mix, Task, drive};
use super::keys::Dice;
use super::link::Link;
use super::progress::Progress;
use super::store::Numbers;
use super::tally::Tally;
use super::work::WorkShape;
use crate::clock::{Clock, SystemClock};
use crate::model::ClientId;

/// Connections of a load at most.
pub const CONNECTIONS_MAX: usize = 16_384;

/// A load of which nothing was answered for this long is given up.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// How a load is put on a server.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// For people.
    pub what: String,
    /// Which operations.
    pub mix: Mix,
    /// What units have in common.
    pub shape: Arc<WorkShape>,
    /// Where keys come from.
    pub numbers: Arc<Numbers>,
    /// On whose behalf; connection by connection.
    pub clients: Vec<ClientId>,
    /// Connections.
    pub connections: usize,
    /// Units on their way on each.
    pub depth: usize,
    /// Units a second of all connections; `None` for a closed loop.
    pub rate: Option<f64>,
    /// How long units are begun.
    pub time: Duration,
    /// Keys to do, if that is known.
    pub total: Option<u64>,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What was measured.
    pub tally: Tally,
    /// From the first unit to the last answer.
    pub elapsed: Duration,
}

impl Campaign {
    /// Runs it.
    ///
    /// Errors: by cause, see [`BenchError`].
    pub async fn run(
        &self,
        address: &str,
        clock: &Arc<SystemClock>,
    ) -> Result<Outcome, BenchError> {
        let lost = |error| BenchError::Connection { address: address.to_owned(), error };
        let connections = self.connections.clamp(1, CONNECTIONS_MAX);
        let mut links = Vec::with_capacity(connections);
        for _ in 0..connections {
            links.push(Link::connect(address).await.map_err(lost)?);
        }
        let progress = Progress::start(self.what.clone(), self.total);
        let done = progress.counter();
        let start = clock.monotonic();
        let mut drives = JoinSet::new();
        for (at, link) in links.into_iter().enumerate() {
            let task = self.task(at, connections, start, &done);
            let (clock, address) = (Arc::clone(clock), address.to_owned());
            drives.spawn(async move { drive(link, task, &clock, &address).await });
        }
        let tally = gather(drives, &done).await?;
        Ok(Outcome { tally, elapsed: clock.monotonic().saturating_sub(start) })
    }

    fn task(&self, at: usize, connections: usize, start: Duration, done: &Arc<AtomicU64>) -> Task {
        let interval = self.rate.map(|rate| Duration::from_secs_f64(connections as f64 / rate));
        // Connections take turns instead of all sending at once.
        let share = at as f64 / connections as f64;
        let offset = interval.unwrap_or_default().mul_f64(share);
        Task {
            shape: Arc::clone(&self.shape),
            mix: self.mix.clone(),
            numbers: Arc::clone(&self.numbers),
            client: self.clients.get(at % self.clients.len().max(1)).copied().unwrap_or_default(),
            depth: self.depth.clamp(1, DEPTH_MAX),
            interval,
            span: (start + offset, start + self.time),
            dice: Dice::new(at as u64 ^ start.as_nanos() as u64),
            done: Arc::clone(done),
        }
    }
}

/// Adds up what the connections measured.
async fn gather(
    mut drives: JoinSet<Result<Tally, BenchError>>,
    done: &AtomicU64,
) -> Result<Tally, BenchError> {
    let mut tally = Tally::default();
    let mut seen = done.load(Ordering::Relaxed);
    loop {
        match tokio::time::timeout(SILENCE_MAX, drives.join_next()).await {
            Ok(None) => return Ok(tally),
            Ok(Some(Ok(measured))) => tally.merge(measured?)?,
            Ok(Some(Err(error))) => return Err(BenchError::Internal(error.to_string())),
            Err(_) => {
                let now = done.load(Ordering::Relaxed);
                if now == seen {
                    let why = format!("nothing was answered for {SILENCE_MAX:?}");
                    return Err(BenchError::TooLong(why));
                }
                seen = now;
            }
        }
    }
}
