//! `/health`, `/ready`, `/role`, `/ha_status`, `/leader`: what this node is. Always answered.
//!
//! Words and fields are the peer's (behaviour 13.1). A cluster of one names no leader, as the peer without HA.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;

use mooncake_ha_raft::Role;

use super::answer::Refused;
use super::stop::{self, StopAdvice};
use super::{Door, answer, query};

/// What this node is, in the peer's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HaState {
    Starting,
    Candidate,
    Standby,
    LeaderWarmup,
    Serving,
}

impl HaState {
    fn of(door: &Door) -> Self {
        let Ok(node) = door.node() else { return HaState::Starting };
        let is_restoring = door.is_restoring.load(Ordering::Relaxed);
        match &*node.raft().watch_role().borrow() {
            Role::Leader { ready: true, .. } if !is_restoring => HaState::Serving,
            Role::Leader { .. } => HaState::LeaderWarmup,
            Role::Follower { leader: Some(_), .. } => HaState::Standby,
            Role::Follower { leader: None, .. } => HaState::Candidate,
        }
    }

    fn name(self) -> &'static str {
        match self {
            HaState::Starting => "starting",
            HaState::Candidate => "candidate",
            HaState::Standby => "standby",
            HaState::LeaderWarmup => "leader_warmup",
            HaState::Serving => "serving",
        }
    }

    fn role(self) -> &'static str {
        match self {
            HaState::LeaderWarmup | HaState::Serving => "leader",
            HaState::Starting | HaState::Candidate | HaState::Standby => "standby",
        }
    }
}

/// State, role and readiness for the summary page.
pub fn words(door: &Door) -> (&'static str, &'static str, bool) {
    let state = HaState::of(door);
    (state.role(), state.name(), state == HaState::Serving)
}

/// The leader's address for clients and the term it was announced in; nothing in a cluster of one.
fn known_leader(door: &Door) -> Option<(String, u64)> {
    if door.is_alone {
        return None;
    }
    let node = door.node().ok()?;
    let told = node.machine().watch_leadership().borrow().clone()?;
    // An announcement of an earlier leader says nothing about now.
    (node.status_leader() == Some(told.node_id)).then(|| (told.rpc_address.to_string(), told.term))
}

#[derive(Serialize)]
struct Health {
    status: &'static str,
    role: &'static str,
    ha_state: &'static str,
    service_ready: bool,
    leader_address: Option<String>,
    view_version: Option<u64>,
}

/// `GET /health`.
pub async fn health(State(door): State<Arc<Door>>) -> Response {
    let state = HaState::of(&door);
    let leader = known_leader(&door);
    let (leader_address, view_version) = leader.unzip();
    let body = Health {
        status: "ok",
        role: state.role(),
        ha_state: state.name(),
        service_ready: state == HaState::Serving,
        leader_address,
        view_version,
    };
    answer::json(StatusCode::OK, &body)
}

#[derive(Serialize)]
struct Ready {
    ready: bool,
    role: &'static str,
    ha_state: &'static str,
    #[serde(flatten)]
    stop: StopAdvice,
}

/// `GET /ready`, for load balancers: 200 while this node serves clients, else 503. For operators it says as well
/// whether the node may be stopped now; `format=json` says the same as JSON.
pub async fn ready(State(door): State<Arc<Door>>, RawQuery(query): RawQuery) -> Response {
    let stop = stop::advice(&door).await;
    // Read last: the code is what load balancers go by.
    let state = HaState::of(&door);
    let is_ready = state == HaState::Serving;
    let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    if query::raw(query.as_deref(), "format") == Some("json") {
        let (role, ha_state) = (state.role(), state.name());
        return answer::json(status, &Ready { ready: is_ready, role, ha_state, stop });
    }
    answer::text(status, format!("{}\nsafe to stop: {}\n", state.name(), stop.words()))
}

/// `GET /role`.
pub async fn role(State(door): State<Arc<Door>>) -> Response {
    answer::word(HaState::of(&door).role())
}

/// `GET /ha_status`.
pub async fn ha_status(State(door): State<Arc<Door>>) -> Response {
    answer::word(HaState::of(&door).name())
}

#[derive(Serialize)]
struct Leader {
    present: bool,
    leader_address: Option<String>,
    view_version: Option<u64>,
}

/// `GET /leader`.
pub async fn leader(State(door): State<Arc<Door>>) -> Response {
    let leader = known_leader(&door);
    let present = leader.is_some();
    let (leader_address, view_version) = leader.unzip();
    answer::json(StatusCode::OK, &Leader { present, leader_address, view_version })
}

#[derive(Serialize)]
struct KvEvents {
    enabled: bool,
    published_batches: u64,
    published_events: u64,
    dropped_events: u64,
    skipped_unparsed_keys: u64,
}

/// `GET /kv_events/status`: what this process has published.
pub async fn kv_events(State(door): State<Arc<Door>>) -> Result<Response, Refused> {
    door.node()?;
    let counters = &door.metrics.events;
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let status = KvEvents {
        enabled: counters.is_enabled.load(Ordering::Relaxed),
        published_batches: count(&counters.published_batches),
        published_events: count(&counters.published_events),
        dropped_events: count(&counters.dropped_events),
        skipped_unparsed_keys: count(&counters.skipped_unparsed_keys),
    };
    Ok(answer::json(StatusCode::OK, &status))
}
