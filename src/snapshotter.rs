//! Takes catalog snapshots of the running node: at an interval while it leads, and when an operator asks.
//!
//! Guards that only one is taken at a time and that neither clients nor replication wait for it: handles are
//! taken between two entries, everything else happens on a blocking thread. What the files hold is left to
//! `state::image`, how they become visible and when they go to the snapshot crate's catalog.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mooncake_ha_snapshot as snapshot;
use serde::Serialize;
use snapshot::codec::manifest::Descriptor;
use snapshot::store::LocalStore;
use snapshot::{Catalog, Limits, SnapshotId};
use tokio::sync::Mutex;
use tokio::time::MissedTickBehavior;

use crate::clock::Clock;
use crate::config::Config;
use crate::metrics::Metrics;
use crate::node::MasterNode;

/// Where the local store is, as the peer has it.
const LOCAL_PATH_VARIABLE: &str = "MOONCAKE_SNAPSHOT_LOCAL_PATH";

/// Why there is no snapshot.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotterError {
    /// The settings do not say where snapshots go.
    #[error("--enable_snapshot: {0}")]
    Setting(String),
    /// This node does not lead.
    #[error("this node does not lead; only the leader takes snapshots")]
    NotLeading,
    /// Writing it failed, or the process is stopping.
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
}

/// Opens the catalog that the settings name; `None` if neither snapshots nor a restore are wanted.
///
/// Errors: the store is not offered, no path is given, or it cannot be used.
pub fn open_catalog(config: &Config) -> Result<Option<Catalog>, SnapshotterError> {
    let settings = &config.snapshot;
    if !settings.is_enabled && !settings.is_restore_enabled {
        return Ok(None);
    }
    if !matches!(settings.object_store_type.as_str(), "" | "local") {
        let refused = &settings.object_store_type;
        let sentence = format!("snapshot_object_store_type={refused:?} is not offered; use local");
        return Err(SnapshotterError::Setting(sentence));
    }
    let path = match settings.local_path.as_str() {
        "" => std::env::var(LOCAL_PATH_VARIABLE).unwrap_or_default(),
        path => path.to_owned(),
    };
    if path.is_empty() {
        let sentence = format!("set {LOCAL_PATH_VARIABLE} to the directory for snapshots");
        return Err(SnapshotterError::Setting(sentence));
    }
    let store = LocalStore::open(Path::new(&path))
        .map_err(|error| SnapshotterError::Setting(error.to_string()))?;
    let cluster = &config.storage.cluster_id;
    Ok(Some(Catalog::new(Arc::new(store), cluster, Limits::default())))
}

/// Takes snapshots of one node into one catalog.
pub struct Snapshotter {
    node: MasterNode,
    catalog: Arc<Catalog>,
    metrics: Arc<Metrics>,
    clock: Arc<dyn Clock>,
    interval: Duration,
    keep: usize,
    /// Held while one is being taken, also when nobody waits for it any more.
    turn: Arc<Mutex<()>>,
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
        Snapshotter {
            node,
            catalog: Arc::new(catalog),
            metrics,
            clock,
            interval: Duration::from_secs(config.snapshot.interval_sec),
            keep: usize::try_from(config.snapshot.retention_count).unwrap_or(usize::MAX),
            turn: Arc::default(),
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

    /// Takes a snapshot now, after one that is being taken already.
    ///
    /// Errors: by cause, see [`SnapshotterError`].
    pub async fn take(&self) -> Result<Taken, SnapshotterError> {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        if self.node.leader().is_none() {
            return Err(SnapshotterError::NotLeading);
        }
        // Told before the state is frozen: what is freed from here on may be in the snapshot.
        let generation = self.node.begin_snapshot().await.map_err(untold)?;
        let (node, catalog) = (self.node.clone(), Arc::clone(&self.catalog));
        let (metrics, clock, keep) =
            (Arc::clone(&self.metrics), Arc::clone(&self.clock), self.keep);
        let taking = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let started = clock.monotonic();
            let published = publish(&node, &catalog, &*clock);
            let took = clock.monotonic().saturating_sub(started).as_millis();
            let took_ms = u64::try_from(took).unwrap_or(u64::MAX);
            metrics.snapshots.times.observe(took_ms);
            let counters = &metrics.snapshots;
            let counter = if published.is_ok() { &counters.successes } else { &counters.failures };
            counter.fetch_add(1, Ordering::Relaxed);
            let Shot { id, applied_index, next_replica_id } = published?;
            tracing::info!(%id, applied_index, took_ms, "catalog snapshot taken");
            retire(&catalog, keep, clock.wall().0);
            Ok((Taken { id, applied_index, took_ms }, next_replica_id))
        });
        let failed = |error: tokio::task::JoinError| SnapshotterError::Failed(error.to_string());
        let (taken, next_replica_id) = taking.await.map_err(failed)??;
        if let Err(error) = self.node.snapshot_published(generation, next_replica_id).await {
            // The snapshot is good; memory stays guarded a little longer.
            tracing::warn!(%error, "the log was not told of the catalog snapshot");
        }
        Ok(taken)
    }
}

fn untold(error: crate::node::error::NodeError) -> SnapshotterError {
    SnapshotterError::Failed(format!("the log was not told: {error}"))
}

/// A published state.
struct Shot {
    id: SnapshotId,
    /// The entry up to which it reaches, at least.
    applied_index: u64,
    /// Its replica counter.
    next_replica_id: u64,
}

/// Publishes the state as it is.
fn publish(
    node: &MasterNode,
    catalog: &Catalog,
    clock: &dyn Clock,
) -> Result<Shot, SnapshotterError> {
    let failed = |error: &dyn std::fmt::Display| SnapshotterError::Failed(error.to_string());
    // Asked before the state is frozen, so that it holds at least this entry.
    let status = node.status();
    let applied = status.log.applied.unwrap_or_default();
    let frozen = node.freeze();
    let next_replica_id = frozen.next_replica_id();
    let payloads = frozen.payloads(applied, status.term).map_err(|error| failed(&error))?;
    let now_ms = clock.wall().0;
    let id = catalog.next_id(now_ms).map_err(|error| failed(&error))?;
    let descriptor = Descriptor {
        last_included: applied,
        view_version: status.term,
        created_ms: i64::try_from(now_ms).unwrap_or(i64::MAX),
    };
    catalog.publish(id, &payloads, &descriptor).map_err(|error| failed(&error))?;
    Ok(Shot { id, applied_index: applied, next_replica_id })
}

/// Removes what is beyond the number to keep. A failure costs space only; the next time tries again.
fn retire(catalog: &Catalog, keep: usize, now_ms: u64) {
    match catalog.retire(keep, now_ms) {
        Ok(retired) if !retired.old.is_empty() => {
            tracing::info!(removed = ?retired.old, "older catalog snapshots were removed");
        }
        Ok(_) => {}
        Err(error) => tracing::warn!(%error, "older catalog snapshots could not be removed"),
    }
}
