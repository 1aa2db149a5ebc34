//! "Safe to stop me?": asked of any node, known by the one that leads.
//!
//! Guards that "yes" comes from a leader that serves, never from a guess: whoever cannot reach one says no and why.
//! What is safe is the raft crate's to say.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use ureq::Agent;

use super::answer::Refused;
use super::{Door, answer, query};
use crate::node::MasterNode;

/// How long the leader may take to say it. A page that asks for it waits no longer than this.
const ANSWER_MAX: Duration = Duration::from_millis(500);
/// Bytes of its answer.
const ANSWER_BYTES_MAX: u64 = 16 << 10;

/// What is known of a node that may be stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopAdvice {
    /// Whether the cluster serves on if it is stopped now.
    pub safe_to_stop: bool,
    /// Why not, as a sentence.
    pub why: Option<String>,
    /// Entries that it lacks; absent if nobody could say.
    pub behind: Option<u64>,
}

impl StopAdvice {
    fn no(why: impl Into<String>) -> Self {
        StopAdvice { safe_to_stop: false, why: Some(why.into()), behind: None }
    }

    /// For people: `yes`, or `no: ` and why.
    pub fn words(&self) -> String {
        match (self.safe_to_stop, &self.why) {
            (true, _) => "yes".to_owned(),
            (false, Some(why)) => format!("no: {why}"),
            (false, None) => "no".to_owned(),
        }
    }
}

/// `GET /api/v1/cluster/may_stop?node_id=N`: what this node knows of node N, which is nothing unless it leads.
pub async fn may_stop(
    State(door): State<Arc<Door>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Refused> {
    let node = door.node()?;
    let text = query::text(query.as_deref(), "node_id").unwrap_or_default();
    let id = text
        .parse()
        .map_err(|_| Refused::Bad(format!("node_id {text:?} is no number of a node")))?;
    Ok(answer::json(StatusCode::OK, &known(&door, node, id)))
}

/// What this node knows by itself.
fn known(door: &Door, node: &MasterNode, id: u64) -> StopAdvice {
    if door.is_restoring.load(Ordering::Relaxed) {
        return StopAdvice::no("the restore of the first start is not decided yet");
    }
    let members = node.raft().members();
    let behind = members.into_iter().find(|member| member.id == id).and_then(|member| member.lag);
    match node.raft().may_stop(id) {
        Ok(()) => StopAdvice { safe_to_stop: true, why: None, behind },
        Err(refused) => StopAdvice { behind, ..StopAdvice::no(refused.to_string()) },
    }
}

/// Whether this node may be stopped now; asks the leader if that is another one.
pub async fn advice(door: &Door) -> StopAdvice {
    let Ok(node) = door.node() else {
        return StopAdvice::no("this node is being opened; ask again when it is");
    };
    let own = node.settings().node_id;
    if node.status_leader() == Some(own) {
        return known(door, node, own);
    }
    let told = node.machine().watch_leadership().borrow().clone();
    let leader = told.filter(|told| node.status_leader() == Some(told.node_id));
    let Some(leader) = leader else {
        return StopAdvice::no("no leader is known, so nobody can say");
    };
    let address = leader.admin_address.to_string();
    // A thread for a moment: the answer is a few bytes from a port next door, or none.
    let asked = tokio::task::spawn_blocking(move || ask(&address, own)).await;
    asked.unwrap_or_else(|_| StopAdvice::no("this node stops already"))
}

fn ask(address: &str, own: u64) -> StopAdvice {
    let agent: Agent = Agent::config_builder().timeout_global(Some(ANSWER_MAX)).build().into();
    let url = format!("http://{address}/api/v1/cluster/may_stop?node_id={own}");
    let silent = |why: &dyn std::fmt::Display| {
        StopAdvice::no(format!("the leader's admin port {address} did not say: {why}"))
    };
    let body = agent.get(url).call().map(ureq::http::Response::into_body);
    let read = body.and_then(|mut body| body.with_config().limit(ANSWER_BYTES_MAX).read_to_vec());
    match read.map(|text| serde_json::from_slice(&text)) {
        Ok(Ok(advice)) => advice,
        Ok(Err(error)) => silent(&error),
        Err(ureq::Error::StatusCode(404)) => {
            silent(&"its version does not know the question; upgrade it")
        }
        Err(error) => silent(&error),
    }
}
