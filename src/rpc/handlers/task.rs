//! CreateCopyTask, CreateMoveTask, FetchTasks, MarkTaskToComplete, QueryTask (behaviour 8.4).
//!
//! A fetch changes what the next one finds and its answer may be lost, in which case the client never learns
//! of those tasks; they fail with the processing timeout, as they do with the peer.

use std::sync::Arc;

use super::Answer;
use super::transfer::{name, names};
use super::write::unexpected;
use crate::model::{ErrorCode, TaskId, Uuid};
use crate::rpc::Service;
use crate::state::Reply;
use crate::state::command::{Command, Key};
use crate::state::tasks::{
    FETCH_MAX, MESSAGE_BYTES_MAX, Task, TaskComplete, TaskCreate, TaskStatus, TasksFetch,
};
use crate::state::transfer::TransferKind;
use crate::wire::requests::{
    CreateCopyTaskRequest, CreateMoveTaskRequest, FetchTasksRequest, MarkTaskToCompleteRequest,
};
use crate::wire::types;

type Created = Result<TaskId, ErrorCode>;
type Assigned = Vec<types::TaskAssignment<String>>;

pub async fn create_copy_task(
    service: &Service,
    request: CreateCopyTaskRequest<&[u8]>,
) -> Answer<Created> {
    let targets = names(&request.targets);
    let of = (request.tenant_id, request.key);
    create(service, TransferKind::Copy, of, None, targets).await
}

pub async fn create_move_task(
    service: &Service,
    request: CreateMoveTaskRequest<&[u8]>,
) -> Answer<Created> {
    let (source, targets) = (Some(name(request.source)), vec![name(request.target)]);
    let of = (request.tenant_id, request.key);
    create(service, TransferKind::Move, of, source, targets).await
}

async fn create(
    service: &Service,
    kind: TransferKind,
    (tenant, key): (&[u8], &[u8]),
    source: Option<Arc<str>>,
    targets: Vec<Arc<str>>,
) -> Answer<Created> {
    let tenant = match service.writer(tenant)? {
        Ok(tenant) => tenant.for_command(),
        Err(code) => return Ok(Err(code)),
    };
    // A client reads the key from JSON text, which has no form for other bytes.
    if std::str::from_utf8(key).is_err() {
        return Ok(Err(ErrorCode::InvalidParams));
    }
    let create = TaskCreate {
        id: TaskId(Uuid { first: rand::random(), second: rand::random() }),
        kind,
        tenant,
        key: Key(key.to_vec()),
        source,
        targets,
        pending_max: service.node.settings().tasks.pending_max,
    };
    match service.node.propose(&Command::TaskCreate(create)).await? {
        Reply::Task(created) => Ok(created),
        other => Err(unexpected(&other)),
    }
}

/// Every client asks every second, so an empty queue makes no entry.
pub async fn fetch_tasks(
    service: &Service,
    request: FetchTasksRequest,
) -> Answer<Result<Assigned, ErrorCode>> {
    service.node.leader_guard().await?;
    let client = request.client_id;
    let tasks_max = u32::try_from(request.batch_size).unwrap_or(FETCH_MAX).min(FETCH_MAX);
    if tasks_max == 0 || !service.node.look(|state| state.tasks().has_pending(client)) {
        return Ok(Ok(Vec::new()));
    }
    let settings = &service.node.settings().tasks;
    let fetch = TasksFetch { client, tasks_max, processing_max: settings.processing_max };
    let retries = settings.retry_attempts_max;
    match service.node.propose(&Command::TasksFetch(fetch)).await? {
        Reply::Tasks(tasks) => {
            Ok(Ok(tasks.into_iter().map(|task| assignment(task, retries)).collect()))
        }
        other => Err(unexpected(&other)),
    }
}

pub async fn mark_task_to_complete(
    service: &Service,
    request: MarkTaskToCompleteRequest<&[u8]>,
) -> Answer<Result<(), ErrorCode>> {
    let (client, request) = (request.client_id, request.request);
    let is_success = request.status == types::TaskStatus::SUCCESS;
    if !is_success && request.status != types::TaskStatus::FAILED {
        return Ok(Err(ErrorCode::InvalidParams));
    }
    let message = words(request.message);
    let complete = TaskComplete { client, id: request.id, is_success, message };
    match service.node.propose(&Command::TaskComplete(complete)).await? {
        Reply::Outcome(outcome) => Ok(outcome),
        other => Err(unexpected(&other)),
    }
}

pub async fn query_task(
    service: &Service,
    id: TaskId,
) -> Answer<Result<types::QueryTaskResponse<String>, ErrorCode>> {
    service.node.leader_guard().await?;
    let task = service.node.look(|state| state.tasks().get(id).cloned());
    Ok(task.map(answer).ok_or(ErrorCode::TaskNotFound))
}

/// A message for people, cut to what the state keeps.
fn words(bytes: &[u8]) -> String {
    let cut = bytes.get(..MESSAGE_BYTES_MAX).unwrap_or(bytes);
    String::from_utf8_lossy(cut).into_owned()
}

fn epoch_ms(at: crate::model::Millis) -> i64 {
    i64::try_from(at.0).unwrap_or(i64::MAX)
}

fn kind_of(task: &Task) -> types::TaskType {
    match task.kind {
        TransferKind::Copy => types::TaskType::REPLICA_COPY,
        TransferKind::Move => types::TaskType::REPLICA_MOVE,
    }
}

fn assignment(task: Task, max_retry_attempts: u32) -> types::TaskAssignment<String> {
    types::TaskAssignment {
        id: task.id,
        r#type: kind_of(&task),
        created_at_ms_epoch: epoch_ms(task.created),
        payload: task.payload,
        max_retry_attempts,
    }
}

fn answer(task: Task) -> types::QueryTaskResponse<String> {
    types::QueryTaskResponse {
        id: task.id,
        r#type: kind_of(&task),
        status: match task.status {
            TaskStatus::Pending => types::TaskStatus::PENDING,
            TaskStatus::Processing => types::TaskStatus::PROCESSING,
            TaskStatus::Failed => types::TaskStatus::FAILED,
            TaskStatus::Success => types::TaskStatus::SUCCESS,
        },
        created_at_ms_epoch: epoch_ms(task.created),
        last_updated_at_ms_epoch: epoch_ms(task.updated),
        assigned_client: task.client,
        message: task.message,
    }
}
