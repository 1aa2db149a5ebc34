//! The operator's door: HTTP pages in the peer's formats, read-only JSON of our own, metrics.
//!
//! Open before the data directory is, so that a node that replays its log can be asked how it is. Pages about
//! the store need leadership and answer 503 without it; pages about this node (`/health`, `/role`, `/metrics`,
//! `/api/v1/cluster`) always answer. Only `/query_key` grants a read lease, as on the peer, and only
//! `POST`, `PUT` and `DELETE` change anything; they need the token if one is set, and if none is, they are answered
//! for callers on this host only.

mod answer;
mod clients;
mod cluster;
mod cluster_change;
pub mod collect;
mod drain;
mod health;
mod keys;
mod listener;
mod listing;
mod metrics;
mod object;
mod object_remove;
mod objects;
mod query;
mod remove;
mod restore;
mod segment_unmount;
mod segments;
mod snapshots;
mod soft_pins;
mod stop;
mod stranger;
pub mod te_metadata;
mod tenant_quotas;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::clock::Clock;
use crate::config::{Config, Durability, Secret};
use crate::metrics::Metrics;
use crate::metrics::summary::Summary;
use crate::node::MasterNode;
use crate::node::read::LeaderGuard;
use crate::restore::Restorer;
use crate::snapshotter::Snapshotter;
use answer::Refused;

pub use listener::HTTP_CONNECTIONS_MAX;
pub(crate) use query::probe;

/// How long a page waits for the proof that this node leads.
const GUARD_WAIT_MAX: Duration = Duration::from_secs(5);

/// How long open answers may take to finish when the node stops.
const STOP_WAIT_MAX: Duration = Duration::from_secs(2);

/// What the pages need.
pub struct Door {
    /// Empty while the node is being opened.
    node: OnceLock<MasterNode>,
    /// Empty if catalog snapshots are off.
    snapshotter: OnceLock<Arc<Snapshotter>>,
    /// Whether the first restore is not decided yet, so that no client is served.
    is_restoring: AtomicBool,
    /// Snapshots that take longer than an answer waits, by number.
    snapshots_pending: Mutex<BTreeMap<u64, snapshots::Taking>>,
    /// Empty if there is no catalog.
    restorer: OnceLock<Arc<Restorer>>,
    metrics: Arc<Metrics>,
    clock: Arc<dyn Clock>,
    durability: Durability,
    /// Whether the cluster has no other member, so that pages name no leader.
    is_alone: bool,
    token: Secret,
    /// The line before on `/metrics/summary`.
    summary: Summary,
}

impl Door {
    /// A door without a node behind it.
    pub fn new(config: &Config, metrics: Arc<Metrics>, clock: Arc<dyn Clock>) -> Self {
        Door {
            node: OnceLock::new(),
            snapshotter: OnceLock::new(),
            snapshots_pending: Mutex::default(),
            restorer: OnceLock::new(),
            is_restoring: AtomicBool::new(false),
            metrics,
            clock,
            durability: config.raft.durability,
            is_alone: config.raft.peers.len() < 2,
            token: config.admin.token.clone(),
            summary: Summary::default(),
        }
    }

    /// The node has been opened. Later calls change nothing.
    pub fn opened(&self, node: MasterNode) {
        // A second node would be a fault of the caller; the first one stays.
        let _ = self.node.set(node);
    }

    /// Catalog snapshots are on. Later calls change nothing.
    pub fn takes_snapshots(&self, snapshotter: Arc<Snapshotter>) {
        let _ = self.snapshotter.set(snapshotter);
    }

    /// There is a catalog to restore from. Later calls change nothing.
    pub fn restores(&self, restorer: Arc<Restorer>) {
        let _ = self.restorer.set(restorer);
    }

    /// The first restore begins, or is decided.
    pub fn set_restoring(&self, is_restoring: bool) {
        self.is_restoring.store(is_restoring, Ordering::Relaxed);
    }

    fn node(&self) -> Result<&MasterNode, Refused> {
        self.node.get().ok_or(Refused::NotServing)
    }

    /// The node with a proof that it leads.
    async fn leading(&self) -> Result<(&MasterNode, LeaderGuard<'_>), Refused> {
        let node = self.node()?;
        match timeout(GUARD_WAIT_MAX, node.leader_guard()).await {
            Ok(Ok(guard)) => Ok((node, guard)),
            Ok(Err(_)) | Err(_) => Err(Refused::NotServing),
        }
    }
}

fn router(door: Arc<Door>) -> Router {
    Router::new()
        .route("/metrics", get(metrics::page))
        .route("/metrics/summary", get(metrics::summary))
        .route("/health", get(health::health))
        .route("/ready", get(health::ready))
        .route("/role", get(health::role))
        .route("/ha_status", get(health::ha_status))
        .route("/leader", get(health::leader))
        .route("/kv_events/status", get(health::kv_events))
        .route("/query_key", get(keys::query_key))
        .route("/batch_query_keys", get(keys::batch_query_keys))
        .route("/get_all_keys", get(listing::get_all_keys))
        .route("/get_all_segments", get(segments::get_all_segments))
        .route("/get_segments_detail", get(segments::get_segments_detail))
        .route("/query_segment", get(segments::query_segment))
        .route("/api/v1/segments/status", get(segments::status))
        .route("/api/v1/remove_all", post(remove::remove_all))
        .route("/api/v1/drain_jobs", post(drain::create))
        .route("/api/v1/drain_jobs/query", get(drain::query_job))
        .route("/api/v1/drain_jobs/cancel", post(drain::cancel))
        .route("/api/v1/snapshots", post(snapshots::take))
        .route("/api/v1/snapshots/outcome", post(snapshots::outcome))
        .route("/api/v1/snapshots/work", post(snapshots::work))
        .route("/api/v1/snapshots/leases", post(snapshots::leases))
        .route("/api/v1/snapshots/done", post(snapshots::done))
        .route("/api/v1/snapshots/export", post(snapshots::export_state))
        .route("/api/v1/restore", get(restore::page).post(restore::run))
        .route("/api/v1/object", get(object::object).delete(object_remove::object_remove))
        .route("/api/v1/objects", get(objects::objects))
        .route(
            "/api/v1/tenant_quotas",
            get(tenant_quotas::get).put(tenant_quotas::put).delete(tenant_quotas::delete),
        )
        .route("/api/v1/clients", get(clients::clients))
        .route("/api/v1/segments/unmount", post(segment_unmount::unmount))
        .route("/api/v1/soft_pins", get(soft_pins::soft_pins))
        .route("/api/v1/cluster", get(cluster::cluster))
        .route("/api/v1/cluster/may_stop", get(stop::may_stop))
        .route("/api/v1/cluster/add", post(cluster_change::add))
        .route("/api/v1/cluster/promote", post(cluster_change::promote))
        .route("/api/v1/cluster/remove", post(cluster_change::remove))
        .route("/api/v1/cluster/transfer_leader", post(cluster_change::transfer_leader))
        .route("/api/v1/cluster/snapshot", post(cluster_change::snapshot))
        .fallback(answer::not_found)
        .method_not_allowed_fallback(answer::not_found)
        .layer(from_fn_with_state(Arc::clone(&door), stranger::turn_away))
        .with_state(door)
}

/// Serves the pages until `stop` turns true.
pub async fn serve(listener: TcpListener, door: Arc<Door>, stop: watch::Receiver<bool>) {
    serve_router(listener, router(door), stop).await;
}

/// Serves a router; answers that are still being read when `stop` turns true get a moment.
async fn serve_router(listener: TcpListener, router: Router, stop: watch::Receiver<bool>) {
    let stopped = |mut stop: watch::Receiver<bool>| async move {
        // An error means that the sender is gone, which is a stop as well.
        let _ = stop.wait_for(|is_stopping| *is_stopping).await;
    };
    let listener = listener::BoundedListener::new(listener);
    let router = router.into_make_service_with_connect_info::<stranger::Caller>();
    let serving =
        axum::serve(listener, router).with_graceful_shutdown(stopped(stop.clone())).into_future();
    let given_up = async {
        stopped(stop).await;
        tokio::time::sleep(STOP_WAIT_MAX).await;
    };
    tokio::select! {
        _ = serving => {}
        () = given_up => {}
    }
}

/// Logs the summary line at once and then every ten seconds, for as long as the node runs.
pub async fn report(door: Arc<Door>) {
    const PERIOD: Duration = Duration::from_secs(10);
    let lines = Summary::default();
    let mut ticks = tokio::time::interval(PERIOD);
    loop {
        ticks.tick().await;
        if let Some(line) =
            metrics::summary_line(&door, |values, uptime| lines.line(values, uptime)).await
        {
            tracing::info!("metrics: {line}");
        }
    }
}
