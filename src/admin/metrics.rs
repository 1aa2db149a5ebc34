//! `/metrics` and `/metrics/summary`. Always answered, also while the node is being opened.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::collect::collect;
use super::{Door, answer, health};
use crate::metrics::text::Values;

/// Collects where blocking is allowed. `None` if the process is stopping.
async fn collected(door: &Arc<Door>) -> Option<(Values, Duration)> {
    let door = Arc::clone(door);
    let collect = move || {
        let uptime = door.clock.monotonic();
        (collect(&door.metrics, door.node.get(), uptime), uptime)
    };
    tokio::task::spawn_blocking(collect).await.ok()
}

/// `GET /metrics`.
pub async fn page(State(door): State<Arc<Door>>) -> Response {
    match collected(&door).await {
        Some((values, _)) => answer::text(StatusCode::OK, values.render()),
        None => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

/// `GET /metrics/summary`.
pub async fn summary(State(door): State<Arc<Door>>) -> Response {
    match summary_line(&door, |values, uptime| door.summary.line(values, uptime)).await {
        Some(line) => answer::text(StatusCode::OK, line),
        None => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

/// The whole line, with `master` making the part about the store.
pub(super) async fn summary_line(
    door: &Arc<Door>,
    master: impl FnOnce(Values, Duration) -> String,
) -> Option<String> {
    let (values, uptime) = collected(door).await?;
    let get = |name: &str| values.get(name);
    let ha = format!(
        "HA Metrics Summary: term={}, last={}, committed={}, applied={}, log_bytes={}, members={}",
        get("master_raft_term"),
        get("master_raft_last_index"),
        get("master_raft_committed_index"),
        get("master_raft_applied_index"),
        get("master_raft_log_bytes"),
        get("master_raft_members"),
    );
    let (role, state, is_ready) = health::words(door);
    let master = master(values, uptime);
    Some(format!(
        "role={role}, state={state}, service_ready={is_ready}, master={{{master}}}, ha={{{ha}}}"
    ))
}
