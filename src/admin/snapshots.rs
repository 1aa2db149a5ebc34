//! Catalog snapshots: `POST /api/v1/snapshots` takes one; followers that write files for the leader call the pages
//! below it; `GET /api/v1/snapshots/export` hands the state out in the snapshot format.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{RawQuery, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tokio::task::JoinHandle;

use super::answer::Refused;
use super::remove::check_token;
use super::{Door, answer, query};
use crate::model::ErrorCode;
use crate::snapshotter::{self, Offer, Snapshotter, SnapshotterError, Taken, Written, export};

/// How long an answer waits for a snapshot; less than a connection may stand still.
const PATIENCE: Duration = Duration::from_secs(60);
/// Snapshots whose outcome somebody may still ask for.
const PENDING_MAX: usize = 16;

/// A snapshot that is being taken.
pub type Taking = JoinHandle<Result<Taken, SnapshotterError>>;

#[derive(Serialize)]
struct Page {
    success: bool,
    #[serde(flatten)]
    taken: Taken,
}

#[derive(Serialize)]
struct Pending {
    success: bool,
    /// Names the snapshot for the next question.
    number: u64,
}

#[derive(Serialize)]
struct Work {
    offer: Option<Offer>,
}

/// The snapshotter of a node that leads.
async fn leading<'d>(door: &'d Door, headers: &HeaderMap) -> Result<&'d Arc<Snapshotter>, Refused> {
    check_token(&door.token, headers)?;
    let node = door.node()?;
    let off = || Refused::Bad("catalog snapshots are off; start with --enable_snapshot".into());
    let snapshotter = door.snapshotter.get().ok_or_else(off)?;
    node.leader().ok_or(Refused::NotServing)?;
    Ok(snapshotter)
}

/// Answers when the snapshot is published, after one that is being taken already. If that takes long, answers 202 and
/// a number for [`outcome`], because a connection must not stand still for ever.
pub async fn take(State(door): State<Arc<Door>>, headers: HeaderMap) -> Result<Response, Refused> {
    let task = leading(&door, &headers).await?.begin();
    wait(&door, task).await
}

/// `POST /api/v1/snapshots/outcome?number=N`: as [`take`], for a snapshot that was asked for already.
pub async fn outcome(
    State(door): State<Arc<Door>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    check_token(&door.token, &headers)?;
    let number = number(query.as_deref(), "number")?;
    let task = door.snapshots_pending.lock().remove(&number);
    let gone = || Refused::Bad("no such snapshot is waited for; look with snapshot list".into());
    wait(&door, task.ok_or_else(gone)?).await
}

async fn wait(door: &Door, mut task: Taking) -> Result<Response, Refused> {
    let Ok(ended) = tokio::time::timeout(PATIENCE, &mut task).await else {
        let mut pending = door.snapshots_pending.lock();
        let number = pending.last_key_value().map_or(1, |(last, _)| last.saturating_add(1));
        pending.insert(number, task);
        if pending.len() > PENDING_MAX {
            // It goes on; only nobody hears of it.
            pending.pop_first();
        }
        return Ok(answer::json(StatusCode::ACCEPTED, &Pending { success: true, number }));
    };
    match snapshotter::outcome(ended) {
        Ok(taken) => Ok(answer::json(StatusCode::OK, &Page { success: true, taken })),
        Err(SnapshotterError::NotLeading) => Err(Refused::NotServing),
        Err(error) => {
            tracing::error!("{error}");
            let (status, code) = (StatusCode::INTERNAL_SERVER_ERROR, ErrorCode::InternalError);
            Ok(answer::error(status, code, &error.to_string()))
        }
    }
}

/// `POST /api/v1/snapshots/work?node_id=N`: a follower is there; answers what it is to write.
pub async fn work(
    State(door): State<Arc<Door>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let snapshotter = leading(&door, &headers).await?;
    let offer = snapshotter.work(number(query.as_deref(), "node_id")?);
    Ok(answer::json(StatusCode::OK, &Work { offer }))
}

/// `POST /api/v1/snapshots/leases?ticket=T`: the read leases that go into the snapshot with this ticket.
pub async fn leases(
    State(door): State<Arc<Door>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let snapshotter = Arc::clone(leading(&door, &headers).await?);
    let ticket = number(query.as_deref(), "ticket")?;
    let collected = tokio::task::spawn_blocking(move || snapshotter.leases(ticket)).await;
    let stale = || Refused::Bad("no snapshot with this ticket is wanted from a follower".into());
    Ok(bytes(collected.ok().flatten().ok_or_else(stale)?))
}

/// `POST /api/v1/snapshots/done?ticket=T&applied_index=...&objects=...&bytes=...` or `&failed=WHY`.
pub async fn done(
    State(door): State<Arc<Door>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let snapshotter = leading(&door, &headers).await?;
    let query = query.as_deref();
    let ticket = number(query, "ticket")?;
    let report = match query::text(query, "failed") {
        Some(why) => Err(why),
        None => Ok(Written {
            applied_index: number(query, "applied_index")?,
            next_replica_id: number(query, "next_replica_id")?,
            objects: number(query, "objects")?,
            bytes: number(query, "bytes")?,
        }),
    };
    match snapshotter.report(ticket, report) {
        true => Ok(answer::json(StatusCode::OK, &Work { offer: None })),
        false => Err(Refused::Bad("this ticket is no longer wanted".into())),
    }
}

/// `POST /api/v1/snapshots/export`: the state as it is, as one stream in the snapshot format, from the node that
/// leads; needs no store.
pub async fn export_state(
    State(door): State<Arc<Door>>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    check_token(&door.token, &headers)?;
    let node = door.node()?.clone();
    node.leader().ok_or(Refused::NotServing)?;
    match tokio::task::spawn_blocking(move || export(&node)).await {
        Ok(Ok(stream)) => Ok(bytes(stream)),
        Ok(Err(why)) => Ok(failed(&why)),
        Err(error) => Ok(failed(&error.to_string())),
    }
}

fn failed(why: &str) -> Response {
    tracing::error!("the state was not exported: {why}");
    answer::error(StatusCode::INTERNAL_SERVER_ERROR, ErrorCode::InternalError, why)
}

fn bytes(bytes: Vec<u8>) -> Response {
    ([(CONTENT_TYPE, "application/octet-stream")], bytes).into_response()
}

fn number(query: Option<&str>, name: &str) -> Result<u64, Refused> {
    let text =
        query::text(query, name).ok_or_else(|| Refused::Bad(format!("{name} is missing")))?;
    text.parse().map_err(|_| Refused::Bad(format!("{name}={text:?} is no number")))
}
