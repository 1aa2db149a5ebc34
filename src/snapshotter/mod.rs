//! Takes catalog snapshots of the running cluster: at an interval while this node leads, and when an operator asks.
//!
//! The leader decides when, gives the id, publishes and retires, so ids and retention come from one place. Who
//! writes the files is settled for each snapshot: a follower that reports itself ready, or the leader. Guards that
//! only one is taken at a time and that neither clients nor replication wait for it: handles are taken between two
//! entries, everything else happens on a thread that stands back behind all others. What the files hold is left to
//! `state::image`, how they become visible and when they go to the snapshot crate's catalog.

mod desk;
mod follower;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mooncake_ha_snapshot as snapshot;
use serde::Serialize;
use snapshot::codec::manifest::Descriptor;
use snapshot::{Catalog, SnapshotId};
use tokio::sync::Mutex;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::MissedTickBehavior;

use crate::backup::{self, BackupError};
use crate::clock::Clock;
use crate::config::{Config, Secret, SnapshotTaker};
use crate::metrics::Metrics;
use crate::node::error::NodeError;
use crate::node::{MasterNode, behind};
use desk::{Desk, Order};
pub use desk::{Offer, Written};
pub use follower::Follower;

/// Name of the threads that write.
const THREAD: &str = "mooncake-ha-write";

/// How often the leader looks whether a follower that writes is still there.
const WATCH_PERIOD: Duration = Duration::from_millis(500);

/// Why there is no snapshot.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotterError {
    /// The settings do not say where snapshots go.
    #[error("--enable_snapshot: {0}")]
    Setting(#[from] BackupError),
    /// This node does not lead.
    #[error("this node does not lead; only the leader takes snapshots")]
    NotLeading,
    /// Writing it failed, took too long, or the process is stopping.
    #[error("the catalog snapshot failed: {0}")]
    Failed(String),
}

/// A snapshot that was taken.
#[derive(Clone, Debug, Serialize)]
pub struct Taken {
    /// Its id.
    pub id: SnapshotId,
    /// The entry up to which it reaches, at least.
    pub applied_index: u64,
    /// Milliseconds that it took.
    pub took_ms: u64,
    /// Objects in it.
    pub objects: u64,
    /// Bytes of its files.
    pub bytes: u64,
    /// The node that wrote the files.
    pub written_by: u64,
}

/// A snapshot that was published, with what the log is to be told of it.
struct Shot {
    taken: Taken,
    /// The replica counter of the state in it.
    next_replica_id: u64,
}

fn untold(error: NodeError) -> SnapshotterError {
    SnapshotterError::Failed(format!("the log was not told: {error}"))
}

/// Opens the catalog that the settings name; `None` if neither snapshots nor a restore are wanted.
///
/// Errors: the store is not offered, no path is given, or it cannot be used.
pub fn open_catalog(config: &Config) -> Result<Option<Catalog>, SnapshotterError> {
    match config.snapshot.is_enabled || config.snapshot.is_restore_enabled {
        true => Ok(Some(backup::open(config)?)),
        false => Ok(None),
    }
}

/// Takes snapshots of one node into one catalog.
pub struct Snapshotter {
    node: MasterNode,
    catalog: Arc<Catalog>,
    metrics: Arc<Metrics>,
    clock: Arc<dyn Clock>,
    interval: Duration,
    timeout: Duration,
    keep: usize,
    /// Whether a follower may write the files.
    is_delegating: bool,
    token: Secret,
    desk: Desk,
    /// Held while one is being taken, also when nobody waits for it any more.
    turn: Mutex<()>,
}

impl Snapshotter {
    /// A snapshotter that has not begun.
    pub fn new(
        config: &Config,
        catalog: Catalog,
        node: MasterNode,
        metrics: Arc<Metrics>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let is_delegating = match config.snapshot.taken_by {
            SnapshotTaker::Leader => false,
            SnapshotTaker::Follower => true,
            SnapshotTaker::Auto => {
                backup::configured_place(config).is_ok_and(|place| place.is_shared())
            }
        };
        Snapshotter {
            node,
            catalog: Arc::new(catalog),
            metrics,
            clock,
            interval: Duration::from_secs(config.snapshot.interval_sec),
            timeout: Duration::from_secs(config.snapshot.timeout_sec),
            keep: usize::try_from(config.snapshot.retention_count).unwrap_or(usize::MAX),
            is_delegating,
            token: config.admin.token.clone(),
            desk: Desk::default(),
            turn: Mutex::default(),
        }
    }

    /// Takes one at every interval while this node leads, until it is aborted.
    pub async fn run(self: Arc<Self>) {
        // An interval beyond the clock's reach never comes.
        const INTERVAL_MAX: Duration = Duration::from_secs(10 * 365 * 86_400);
        let mut ticks = tokio::time::interval(self.interval.min(INTERVAL_MAX));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first tick is now, and there is nothing to save yet.
        ticks.tick().await;
        loop {
            ticks.tick().await;
            match self.take().await {
                Ok(_) | Err(SnapshotterError::NotLeading) => {}
                Err(error) => tracing::error!("{error}; the next one follows at the interval"),
            }
        }
    }

    /// Takes a snapshot now, after one that is being taken already. It goes on if nobody waits for it any more.
    ///
    /// Errors: by cause, see [`SnapshotterError`].
    pub async fn take(self: &Arc<Self>) -> Result<Taken, SnapshotterError> {
        outcome(self.begin().await)
    }

    /// Takes a snapshot in a task of its own.
    pub fn begin(self: &Arc<Self>) -> JoinHandle<Result<Taken, SnapshotterError>> {
        let own = Arc::clone(self);
        tokio::spawn(async move { own.take_in_turn().await })
    }

    async fn take_in_turn(&self) -> Result<Taken, SnapshotterError> {
        let _turn = self.turn.lock().await;
        if self.node.leader().is_none() {
            return Err(SnapshotterError::NotLeading);
        }
        let started = self.clock.monotonic();
        // Told before the state is frozen: what is freed from here on may be in the snapshot.
        let generation = self.node.begin_snapshot().await.map_err(untold)?;
        let by_follower = match self.helper() {
            Some(helper) => self.by_follower(helper, started).await,
            None => None,
        };
        let outcome = match by_follower {
            Some(shot) => Ok(shot),
            None => self.take_here(started).await,
        };
        let took_ms = self.ms_since(started);
        self.metrics.snapshots.times.observe(took_ms);
        let counters = &self.metrics.snapshots;
        let counter = if outcome.is_ok() { &counters.successes } else { &counters.failures };
        counter.fetch_add(1, Ordering::Relaxed);
        let Shot { taken, next_replica_id } = outcome?;
        if let Err(error) = self.node.snapshot_published(generation, next_replica_id).await {
            // The snapshot is good; memory stays guarded a little longer.
            tracing::warn!(%error, "the log was not told of the catalog snapshot");
        }
        tracing::info!(
            id = %taken.id,
            applied_index = taken.applied_index,
            objects = taken.objects,
            bytes = taken.bytes,
            took_ms,
            written_by = taken.written_by,
            "catalog snapshot taken"
        );
        let (catalog, keep, clock) =
            (Arc::clone(&self.catalog), self.keep, Arc::clone(&self.clock));
        // It may read a whole snapshot before it lets an older one go.
        let retired = behind(THREAD, move || catalog.retire(keep, clock.wall().0)).await;
        match retired.and_then(|retired| retired.map_err(|error| error.to_string())) {
            Ok(retired) if !retired.old.is_empty() => {
                tracing::info!(removed = ?retired.old, "older catalog snapshots were removed");
            }
            Ok(_) => {}
            // It costs space only, and the next snapshot tries again.
            Err(why) => tracing::warn!("older catalog snapshots could not be removed: {why}"),
        }
        Ok(taken)
    }

    /// What a follower wrote; `None`, after a word in the log, if none did.
    async fn by_follower(&self, helper: u64, started: Duration) -> Option<Shot> {
        match self.have_taken(helper, started).await {
            Ok(shot) => Some(shot),
            Err(why) => {
                let text = "no catalog snapshot by the follower, so the leader takes it";
                tracing::warn!(node = helper, "{text}: {why}");
                None
            }
        }
    }

    fn ms_since(&self, started: Duration) -> u64 {
        let took = self.clock.monotonic().saturating_sub(started).as_millis();
        u64::try_from(took).unwrap_or(u64::MAX)
    }

    /// The follower that is to write the files.
    fn helper(&self) -> Option<u64> {
        self.is_delegating.then(|| self.desk.helper(self.clock.monotonic())).flatten()
    }

    /// Has a follower write the files, then publishes them.
    ///
    /// Errors: why not, as a sentence; nothing is published then.
    async fn have_taken(&self, helper: u64, started: Duration) -> Result<Shot, String> {
        let status = self.node.status();
        let (catalog, now_ms) = (Arc::clone(&self.catalog), self.clock.wall().0);
        let id = blocking(move || catalog.next_id(now_ms)).await?;
        let min_applied = status.log.applied.unwrap_or_default();
        let offer = Offer { ticket: 0, id, min_applied, term: status.term };
        let mut order = self.desk.place(helper, offer, self.clock.monotonic());
        let written = self.reported(&mut order, started).await;
        self.desk.withdraw();
        let written = written?;
        let descriptor = descriptor(written.applied_index, status.term, now_ms);
        let (catalog, clock) = (Arc::clone(&self.catalog), Arc::clone(&self.clock));
        let deadline = started.saturating_add(self.timeout);
        blocking(move || {
            if !catalog.is_staged(id).map_err(|error| error.to_string())? {
                return Err("its files are not in the leader's store; is it shared?".to_owned());
            }
            let go_on = || clock.monotonic() < deadline;
            catalog.announce(id, &descriptor, &go_on).map_err(|error| error.to_string())
        })
        .await?;
        let took_ms = self.ms_since(started);
        let Written { applied_index, next_replica_id, objects, bytes } = written;
        let taken = Taken { id, applied_index, took_ms, objects, bytes, written_by: helper };
        Ok(Shot { taken, next_replica_id })
    }

    /// Waits for the follower's report, as long as it is heard, this node leads and there is time.
    async fn reported(&self, order: &mut Order, started: Duration) -> Result<Written, String> {
        loop {
            match tokio::time::timeout(WATCH_PERIOD, order.report()).await {
                Ok(report) => return report,
                Err(_) => {
                    let now = self.clock.monotonic();
                    if now.saturating_sub(started) > self.timeout {
                        return Err(format!("it took more than {} s", self.timeout.as_secs()));
                    }
                    if !self.desk.is_heard(order.node_id, now) {
                        return Err("it is not heard any more".into());
                    }
                    if self.node.leader().is_none() {
                        return Err("this node does not lead any more".into());
                    }
                }
            }
        }
    }

    /// Writes and publishes on this node.
    async fn take_here(&self, started: Duration) -> Result<Shot, SnapshotterError> {
        let (node, catalog) = (self.node.clone(), Arc::clone(&self.catalog));
        let clock = Arc::clone(&self.clock);
        let deadline = clock.monotonic().saturating_add(self.timeout);
        // Asked before the state is frozen, so that it holds at least this entry.
        let status = node.status();
        let applied_index = status.log.applied.unwrap_or_default();
        // Not on a thread that stands back: entries wait until all handles are taken.
        let freezing = node.clone();
        let frozen = blocking(move || Ok::<_, std::convert::Infallible>(freezing.freeze())).await;
        let frozen = frozen.map_err(SnapshotterError::Failed)?;
        let taken = behind(THREAD, move || {
            let go_on = || clock.monotonic() < deadline;
            let (objects, next_replica_id) = (frozen.objects(), frozen.next_replica_id());
            let payloads = frozen.payloads(applied_index, status.term, None)?;
            let now_ms = clock.wall().0;
            let id = catalog.next_id(now_ms)?;
            let about = descriptor(applied_index, status.term, now_ms);
            catalog.publish_while(id, &payloads, &about, &go_on)?;
            let written_by = node.settings().node_id;
            let bytes = payloads.total_bytes();
            let taken = Taken { id, applied_index, took_ms: 0, objects, bytes, written_by };
            Ok::<_, snapshot::SnapshotError>(Shot { taken, next_replica_id })
        });
        let taken = taken.await.and_then(|taken| taken.map_err(|error| error.to_string()));
        let mut shot = taken.map_err(SnapshotterError::Failed)?;
        shot.taken.took_ms = self.ms_since(started);
        Ok(shot)
    }

    /// Has this node ask the leader for snapshots to write whenever it does not lead itself; `None` if snapshots are
    /// the leader's own business.
    ///
    /// Errors: no thread can be started.
    pub fn follow(&self) -> std::io::Result<Option<Follower>> {
        if !self.is_delegating {
            return Ok(None);
        }
        let (node, catalog) = (self.node.clone(), Arc::clone(&self.catalog));
        Follower::start(node, catalog, self.token.clone()).map(Some)
    }

    /// A follower says that it is there; answers what it is to write, if anything.
    pub fn work(&self, node_id: u64) -> Option<Offer> {
        self.desk.hear(node_id, self.clock.monotonic())
    }

    /// The read leases that the follower with this ticket is to write; `None` if the ticket is not the current one,
    /// this node does not lead, or there are too many.
    pub fn leases(&self, ticket: u64) -> Option<Vec<u8>> {
        if !self.desk.is_current(ticket) || self.node.leader().is_none() {
            return None;
        }
        let (frozen, clock) = (self.node.freeze(), self.node.look(|state| state.clock()));
        Some(frozen.leases(self.node.clock().now(clock))?.encode())
    }

    /// A follower reports how its ticket ended; answers whether somebody waited for that.
    pub fn report(&self, ticket: u64, report: Result<Written, String>) -> bool {
        self.desk.report(ticket, report)
    }
}

/// What came of a task that [`Snapshotter::begin`] started.
///
/// Errors: those of the snapshot, or of a task that died.
pub fn outcome(
    ended: Result<Result<Taken, SnapshotterError>, JoinError>,
) -> Result<Taken, SnapshotterError> {
    ended.unwrap_or_else(|error| Err(SnapshotterError::Failed(error.to_string())))
}

fn descriptor(applied_index: u64, term: u64, now_ms: u64) -> Descriptor {
    let created_ms = i64::try_from(now_ms).unwrap_or(i64::MAX);
    Descriptor { last_included: applied_index, view_version: term, created_ms }
}

/// Runs on a blocking thread.
///
/// Errors: as a sentence, those of the work or of a thread that died.
async fn blocking<T: Send + 'static, E: std::fmt::Display + Send + 'static>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, String> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

/// The state of a node as one stream in the snapshot format.
///
/// Errors: it cannot be written in the format, as a sentence.
pub fn export(node: &MasterNode) -> Result<Vec<u8>, String> {
    let status = node.status();
    let applied = status.log.applied.unwrap_or_default();
    let payloads = node.freeze().payloads(applied, status.term, None);
    let payloads = payloads.map_err(|error| error.to_string())?;
    let mut stream = Vec::new();
    snapshot::write_container(&payloads, &mut stream).map_err(|error| error.to_string())?;
    Ok(stream)
}
