//! `GET /api/v1/cluster`: what this node knows of itself and of the cluster. Answered by every open node.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;

use mooncake_ha_raft::{LogPointers, Member, Role, Status};

use super::answer::Refused;
use super::stop::{self, StopAdvice};
use super::{Door, answer, query};
use crate::config::Durability;
use crate::model::ErrorCode;
use crate::node::MasterNode;

#[derive(Serialize)]
struct Page {
    success: bool,
    version: &'static str,
    node_id: u64,
    cluster_id: String,
    role: &'static str,
    /// Whether this node serves clients.
    is_serving: bool,
    term: u64,
    leader: Option<LeaderPage>,
    lease_left_ms: Option<u64>,
    log: LogPage,
    durability: &'static str,
    data_dir: String,
    data_dir_bytes: u64,
    log_bytes: u64,
    log_blobs: u64,
    snapshot: SnapshotPage,
    clock: ClockPage,
    members: Vec<MemberPage>,
    /// Why the node stopped.
    fatal: Option<String>,
    /// Whether it may be stopped, if that was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    stop: Option<StopAdvice>,
}

#[derive(Serialize)]
struct LeaderPage {
    node_id: u64,
    raft_address: String,
    /// As that leader announced them; `null` until its announcement is applied here.
    rpc_address: Option<String>,
    admin_address: Option<String>,
}

#[derive(Serialize)]
struct LogPage {
    purged: Option<u64>,
    snapshot: Option<u64>,
    applied: Option<u64>,
    committed: Option<u64>,
    last: Option<u64>,
}

#[derive(Serialize)]
struct SnapshotPage {
    bytes: u64,
    at_ms: Option<u64>,
    error: Option<String>,
}

#[derive(Serialize)]
struct ClockPage {
    state_ms: u64,
    gap_ms: i64,
    steps: u64,
}

#[derive(Serialize)]
struct MemberPage {
    node_id: u64,
    raft_address: String,
    is_voter: bool,
    matched: Option<u64>,
    lag: Option<u64>,
    heard_ms_ago: Option<u64>,
}

/// The page. With `stop=true` it says whether the node may be stopped, for which the leader may have to be asked.
pub async fn cluster(
    State(door): State<Arc<Door>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Refused> {
    let node = door.node()?.clone();
    let stop = match query::raw(query.as_deref(), "stop") {
        Some("true") => Some(stop::advice(&door).await),
        _ => None,
    };
    // Sizes are read from the disk.
    let status = {
        let node = node.clone();
        tokio::task::spawn_blocking(move || node.status()).await
    };
    let status = status.map_err(|_| ErrorCode::InternalError)?;
    let page = Page { stop, ..page(&node, status, door.durability) };
    Ok(answer::json(StatusCode::OK, &page))
}

fn page(node: &MasterNode, status: Status, durability: Durability) -> Page {
    let told = node.machine().watch_leadership().borrow().clone();
    let leader = status.leader.map(|leader| {
        let told = told.filter(|told| told.node_id == leader.id && told.term == status.term);
        LeaderPage {
            node_id: leader.id,
            raft_address: leader.addr,
            rpc_address: told.as_ref().map(|told| told.rpc_address.to_string()),
            admin_address: told.as_ref().map(|told| told.admin_address.to_string()),
        }
    });
    let LogPointers { purged, snapshot, applied, committed, last } = status.log;
    Page {
        success: true,
        version: env!("CARGO_PKG_VERSION"),
        node_id: status.node_id,
        cluster_id: status.cluster_id,
        role: match status.role {
            Role::Leader { .. } => "leader",
            Role::Follower { .. } => "follower",
        },
        is_serving: status.role.is_ready_leader(),
        term: status.term,
        leader,
        lease_left_ms: status.lease_left_ms,
        log: LogPage { purged, snapshot, applied, committed, last },
        durability: match durability {
            Durability::Sync => "sync",
            Durability::Async => "async",
        },
        data_dir: status.data_dir.display().to_string(),
        data_dir_bytes: status.data_dir_bytes,
        log_bytes: status.log_bytes,
        log_blobs: status.log_blobs,
        snapshot: SnapshotPage {
            bytes: status.snapshot_bytes,
            at_ms: status.snapshot_at_ms,
            error: status.snapshot_error,
        },
        clock: ClockPage {
            state_ms: node.machine().view().clock().0,
            gap_ms: node.clock().gap_ms(),
            steps: node.clock().steps(),
        },
        members: status.members.into_iter().map(member).collect(),
        fatal: status.fatal,
        stop: None,
    }
}

fn member(member: Member) -> MemberPage {
    MemberPage {
        node_id: member.id,
        raft_address: member.addr,
        is_voter: member.voter,
        matched: member.matched,
        lag: member.lag,
        heard_ms_ago: member.heard_ms_ago,
    }
}
