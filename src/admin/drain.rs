//! `/api/v1/drain_jobs`: segments that are to be emptied (behaviour 8.5), in the peer's forms.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::{Deserialize, Serialize};

use super::answer::Refused;
use super::remove::check_token;
use super::{Door, answer, query};
use crate::model::{ErrorCode, Uuid};
use crate::node::MasterNode;
use crate::state::Reply;
use crate::state::command::Command;
use crate::state::drain::{DrainCommand, DrainCreate, DrainJob, JobStatus};

/// Moves at a time if the request names none.
const CONCURRENCY_DEFAULT: u32 = 4;

/// What an operator asks for; other members are ignored.
#[derive(Deserialize)]
struct Asked {
    #[serde(default)]
    segments: Vec<Arc<str>>,
    #[serde(default)]
    target_segments: Vec<Arc<str>>,
    max_concurrency: Option<u32>,
}

/// The answer to a change.
#[derive(Serialize)]
struct Changed {
    success: bool,
    job_id: String,
    status: &'static str,
    error_code: i32,
    error_message: &'static str,
}

/// The record of a job.
#[derive(Serialize)]
struct Record<'a> {
    success: bool,
    job_id: String,
    r#type: i32,
    type_name: &'static str,
    status: i32,
    status_name: &'static str,
    created_at_ms_epoch: u64,
    last_updated_at_ms_epoch: u64,
    segments: &'a [Arc<str>],
    succeeded_units: u64,
    failed_units: u64,
    blocked_units: u64,
    active_units: u64,
    migrated_bytes: u64,
    message: &'a str,
    error_code: i32,
    error_message: &'static str,
}

/// The peer's number and name of a status.
fn wire(status: JobStatus) -> (i32, &'static str) {
    match status {
        JobStatus::Created => (0, "CREATED"),
        JobStatus::Running => (2, "RUNNING"),
        JobStatus::Succeeded => (3, "SUCCEEDED"),
        JobStatus::Failed => (4, "FAILED"),
        JobStatus::Canceled => (5, "CANCELED"),
    }
}

fn record(id: Uuid, job: &DrainJob) -> Record<'_> {
    let (status, status_name) = wire(job.status);
    Record {
        success: true,
        job_id: id.to_string(),
        r#type: 0,
        type_name: "DRAIN",
        status,
        status_name,
        created_at_ms_epoch: job.created.0,
        last_updated_at_ms_epoch: job.updated.0,
        segments: &job.segments,
        succeeded_units: job.succeeded,
        failed_units: job.failed,
        blocked_units: job.blocked,
        active_units: job.active.len() as u64,
        migrated_bytes: job.moved_bytes,
        message: &job.message,
        error_code: 0,
        error_message: "",
    }
}

fn changed(id: Uuid, status: JobStatus) -> Response {
    let changed = Changed {
        success: true,
        job_id: id.to_string(),
        status: wire(status).1,
        error_code: 0,
        error_message: "",
    };
    answer::json(StatusCode::OK, &changed)
}

/// `POST /api/v1/drain_jobs` with `{"segments": [...], "target_segments": [...], "max_concurrency": n}`.
pub async fn create(
    State(door): State<Arc<Door>>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Refused> {
    check_token(&door.token, &headers)?;
    let asked: Asked = serde_json::from_slice(&body)
        .map_err(|error| Refused::Bad(format!("the body is not such a JSON object: {error}")))?;
    let id = Uuid { first: rand::random(), second: rand::random() };
    let create = DrainCreate {
        id,
        segments: asked.segments,
        targets: asked.target_segments,
        concurrency: asked.max_concurrency.unwrap_or(CONCURRENCY_DEFAULT),
    };
    let segments = create.segments.clone();
    propose(door.node()?, DrainCommand::Create(create)).await?;
    tracing::info!(job = %id, ?segments, "segments are being drained for an operator");
    Ok(changed(id, JobStatus::Created))
}

/// `GET /api/v1/drain_jobs/query?job_id=ID`.
pub async fn query_job(
    State(door): State<Arc<Door>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Refused> {
    let id = job_id(query.as_deref())?;
    let (node, _) = door.leading().await?;
    let job = node.look(|state| state.drains().get(id).cloned());
    let job = job.ok_or(ErrorCode::JobNotFound)?;
    Ok(answer::json(StatusCode::OK, &record(id, &job)))
}

/// `POST /api/v1/drain_jobs/cancel?job_id=ID`.
pub async fn cancel(
    State(door): State<Arc<Door>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    check_token(&door.token, &headers)?;
    let id = job_id(query.as_deref())?;
    propose(door.node()?, DrainCommand::Cancel { id }).await?;
    Ok(changed(id, JobStatus::Canceled))
}

/// Errors: there is none, or it is not of the form of an id.
fn job_id(query: Option<&str>) -> Result<Uuid, Refused> {
    let id = query::text(query, "job_id").and_then(|text| text.parse().ok());
    id.ok_or_else(|| Refused::Bad("job_id is missing, or is not <number>-<number>".into()))
}

async fn propose(node: &MasterNode, command: DrainCommand) -> Result<(), Refused> {
    match node.propose(&Command::Drain(command)).await? {
        Reply::Outcome(outcome) => Ok(outcome?),
        other => Err(Refused::Unknown(format!("another kind of reply: {other:?}"))),
    }
}
