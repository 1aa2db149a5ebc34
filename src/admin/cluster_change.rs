//! `POST /api/v1/cluster/...`: an operator changes the cluster.
//!
//! Guarded by the admin token. A change is made by the node that leads; any other refuses it and says where the
//! leader's admin port is. A refusal changes nothing, a timeout may still take effect; both say so. The rules of
//! a change (who may leave, when a learner may vote) are the raft crate's.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use mooncake_ha_raft::AdminError;

use super::answer::Refused;
use super::remove::check_token;
use super::{Door, answer, query};
use crate::model::ErrorCode;
use crate::node::MasterNode;

#[derive(Serialize)]
struct Done {
    success: bool,
    done: String,
}

/// `POST /api/v1/cluster/add?node_id=N&address=host:port`: a node that receives entries and does not vote yet.
pub async fn add(
    State(door): State<Arc<Door>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let node = allowed(&door, &headers)?;
    let id = node_id(query.as_deref())?;
    let address = query::text(query.as_deref(), "address")
        .ok_or_else(|| Refused::Bad("address is missing; give host:port of its raft".into()))?;
    let done = node.raft().add_learner(id, &address).await;
    let text = format!("node {id} at {address} was added as a learner; promote it to let it vote");
    Ok(finish(&door, done.map(|()| text)))
}

/// `POST /api/v1/cluster/promote?node_id=N`: a learner becomes a voter once it has caught up.
pub async fn promote(
    State(door): State<Arc<Door>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let node = allowed(&door, &headers)?;
    let id = node_id(query.as_deref())?;
    let done = node.raft().promote(id).await;
    Ok(finish(&door, done.map(|()| format!("node {id} votes"))))
}

/// `POST /api/v1/cluster/remove?node_id=N`.
pub async fn remove(
    State(door): State<Arc<Door>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let node = allowed(&door, &headers)?;
    let id = node_id(query.as_deref())?;
    let done = node.raft().remove(id).await;
    Ok(finish(&door, done.map(|()| format!("node {id} was removed; stop it now"))))
}

/// `POST /api/v1/cluster/transfer_leader[?node_id=N]`; without a node to the voter that is closest behind.
pub async fn transfer_leader(
    State(door): State<Arc<Door>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let node = allowed(&door, &headers)?;
    let to = match query::text(query.as_deref(), "node_id") {
        Some(_) => Some(node_id(query.as_deref())?),
        None => None,
    };
    let done = node.raft().transfer_leader(to).await;
    Ok(finish(&door, done.map(|leader| format!("node {} leads", leader.id))))
}

/// `POST /api/v1/cluster/snapshot`: a raft snapshot of this node, whether it leads or not.
pub async fn snapshot(
    State(door): State<Arc<Door>>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let node = allowed(&door, &headers)?;
    let done = node.raft().trigger_snapshot().await;
    let text = |index: Option<u64>| match index {
        Some(index) => format!("the raft snapshot reaches entry {index}"),
        None => "there is no entry yet".to_owned(),
    };
    Ok(finish(&door, done.map(text)))
}

fn allowed<'d>(door: &'d Door, headers: &HeaderMap) -> Result<&'d MasterNode, Refused> {
    check_token(&door.token, headers)?;
    door.node()
}

fn node_id(query: Option<&str>) -> Result<u64, Refused> {
    let text = query::text(query, "node_id")
        .ok_or_else(|| Refused::Bad("node_id is missing; give the number of a node".into()))?;
    text.parse().map_err(|_| Refused::Bad(format!("node_id {text:?} is no number of a node")))
}

fn finish(door: &Door, done: Result<String, AdminError>) -> Response {
    match done {
        Ok(done) => {
            tracing::info!("by an operator: {done}");
            answer::json(StatusCode::OK, &Done { success: true, done })
        }
        Err(error) => {
            tracing::warn!(%error, "an operator's change of the cluster was not made");
            refusal(door, &error)
        }
    }
}

fn refusal(door: &Door, error: &AdminError) -> Response {
    let text = error.to_string();
    match error {
        AdminError::NotLeader { leader } => {
            let led = leader.as_ref().map(|leader| leader.id);
            let told = door
                .node()
                .ok()
                .and_then(|node| node.machine().watch_leadership().borrow().clone());
            let text = match told.filter(|told| Some(told.node_id) == led) {
                Some(told) => format!("{text}; ask it at {}", told.admin_address),
                None => text,
            };
            answer::error(StatusCode::CONFLICT, ErrorCode::UnavailableInCurrentMode, &text)
        }
        AdminError::Refused(_) => {
            answer::error(StatusCode::CONFLICT, ErrorCode::InvalidParams, &text)
        }
        AdminError::Timeout(_) => Refused::Unknown(text).into_response(),
        AdminError::Stopped => Refused::NotServing.into_response(),
    }
}
