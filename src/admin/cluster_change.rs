//! `POST /api/v1/cluster/...`: an operator changes the cluster.
//!
//! Guarded by the admin token. A change is made by the node that leads; any other refuses it and says where the
//! leader's admin port is. A refusal changes nothing, a timeout may still take effect; both say so. The rules of
//! a change (who may leave, when a learner may vote) are the raft crate's.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
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

/// A change that an operator may ask for: the token was right, and there is a node to make it.
pub struct Change {
    door: Arc<Door>,
    node: MasterNode,
    query: Option<String>,
}

impl FromRequestParts<Arc<Door>> for Change {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, door: &Arc<Door>) -> Result<Self, Refused> {
        check_token(&door.token, &parts.headers)?;
        let node = door.node()?.clone();
        Ok(Change { door: Arc::clone(door), node, query: parts.uri.query().map(str::to_owned) })
    }
}

impl Change {
    fn text(&self, name: &str) -> Option<String> {
        query::text(self.query.as_deref(), name)
    }

    /// The node that is meant. Refused if it is not named or its name is no number.
    fn node_id(&self) -> Result<u64, Refused> {
        let text = self
            .text("node_id")
            .ok_or_else(|| Refused::Bad("node_id is missing; give the number of a node".into()))?;
        text.parse().map_err(|_| Refused::Bad(format!("node_id {text:?} is no number of a node")))
    }

    fn finish(&self, done: Result<String, AdminError>) -> Response {
        match done {
            Ok(done) => {
                tracing::info!("by an operator: {done}");
                answer::json(StatusCode::OK, &Done { success: true, done })
            }
            Err(error) => {
                tracing::warn!(%error, "an operator's change of the cluster was not made");
                refusal(&self.door, &error)
            }
        }
    }
}

/// `POST /api/v1/cluster/add?node_id=N&address=host:port`: a node that receives entries and does not vote yet.
pub async fn add(change: Change) -> Result<Response, Refused> {
    let id = change.node_id()?;
    let address = change
        .text("address")
        .ok_or_else(|| Refused::Bad("address is missing; give host:port of its raft".into()))?;
    let done = change.node.raft().add_learner(id, &address).await;
    let text = format!("node {id} at {address} was added as a learner; promote it to let it vote");
    Ok(change.finish(done.map(|()| text)))
}

/// `POST /api/v1/cluster/promote?node_id=N`: a learner becomes a voter once it has caught up.
pub async fn promote(change: Change) -> Result<Response, Refused> {
    let id = change.node_id()?;
    let done = change.node.raft().promote(id).await;
    Ok(change.finish(done.map(|()| format!("node {id} votes"))))
}

/// `POST /api/v1/cluster/remove?node_id=N`.
pub async fn remove(change: Change) -> Result<Response, Refused> {
    let id = change.node_id()?;
    let done = change.node.raft().remove(id).await;
    Ok(change.finish(done.map(|()| format!("node {id} was removed; stop it now"))))
}

/// `POST /api/v1/cluster/transfer_leader[?node_id=N]`; without a node to the voter that is closest behind.
pub async fn transfer_leader(change: Change) -> Result<Response, Refused> {
    let to = match change.text("node_id") {
        Some(_) => Some(change.node_id()?),
        None => None,
    };
    let done = change.node.raft().transfer_leader(to).await;
    Ok(change.finish(done.map(|leader| format!("node {} leads", leader.id))))
}

/// `POST /api/v1/cluster/snapshot`: a raft snapshot of this node, whether it leads or not.
pub async fn snapshot(change: Change) -> Result<Response, Refused> {
    let done = change.node.raft().trigger_snapshot().await;
    let text = |index: Option<u64>| match index {
        Some(index) => format!("the raft snapshot reaches entry {index}"),
        None => "there is no entry yet".to_owned(),
    };
    Ok(change.finish(done.map(text)))
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
