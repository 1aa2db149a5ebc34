//! Copy and move tasks: wishes that the client owning the source fetches and carries out (behaviour 8.4).
//!
//! A task is PENDING until its client fetches it, PROCESSING until the client reports, then finished and
//! remembered for a while. Guards: the pending and processing counts are the lengths of the sets that hold
//! them, so no path can leave them wrong (the peer's pending count grows for ever when a pending task is
//! completed). A fetch hands a task out once: if its answer is lost, so is the task until the processing
//! timeout. The copy itself is a transfer (`transfer.rs`); ending one does not end the other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::State;
use super::command::Key;
use super::dynamic::command::DynamicToken;
use super::put::KeyAt;
use super::transfer::TransferKind;
use crate::alloc::Rng;
use crate::model::{ClientId, ErrorCode, Millis, Object, ObjectRef, SegmentIdx, TaskId, Tenant};

/// Bytes of a task's closing message at most; longer ones are cut before they become a command.
pub const MESSAGE_BYTES_MAX: usize = 4 << 10;

/// Tasks that one fetch hands out at most; the rest waits for the next.
pub const FETCH_MAX: u32 = 1024;

/// How far a task has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskStatus {
    /// Not fetched.
    Pending,
    /// Fetched by its client.
    Processing,
    /// Ended without success.
    Failed,
    /// Ended with success.
    Success,
}

/// Makes a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskCreate {
    /// Its id; chance, so rolled by the leader.
    pub id: TaskId,
    /// What it does.
    pub kind: TransferKind,
    /// Name space; `None` is the default one.
    pub tenant: Option<Tenant>,
    /// The object. Invariant: UTF-8, because the payload is JSON.
    pub key: Key,
    /// Segment name to read from; for a copy the state chooses one.
    pub source: Option<Arc<str>>,
    /// Segment names to write to; exactly one for a move.
    pub targets: Vec<Arc<str>>,
    /// Tasks that may wait.
    pub pending_max: u32,
}

/// Hands out waiting tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TasksFetch {
    /// Whose tasks.
    pub client: ClientId,
    /// At most so many.
    pub tasks_max: u32,
    /// Tasks that may run in the whole store.
    pub processing_max: u32,
}

/// Reports the end of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskComplete {
    /// Who reports.
    pub client: ClientId,
    /// The task.
    pub id: TaskId,
    /// Whether it worked.
    pub is_success: bool,
    /// For people.
    pub message: String,
}

/// The deployment's rules for old tasks; part of a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRules {
    /// Age at which a waiting task fails; 0 never.
    pub pending_timeout_ms: u64,
    /// Time since its fetch after which a running task fails; 0 never.
    pub processing_timeout_ms: u64,
    /// Finished tasks that are remembered.
    pub finished_max: u32,
}

/// A task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Its id.
    pub id: TaskId,
    /// What it does.
    pub kind: TransferKind,
    /// How far it is.
    pub status: TaskStatus,
    /// What to do, as JSON text of wire protocol 6.5.
    pub payload: String,
    /// When it was made.
    pub created: Millis,
    /// When it changed last.
    pub updated: Millis,
    /// How it ended, in words.
    pub message: String,
    /// Who is to do it.
    pub client: ClientId,
}

/// Every task that is remembered.
#[derive(Clone, Debug, Default)]
pub struct TaskTable {
    /// By creation number, which orders equal times and is not saved: only its order counts.
    tasks: BTreeMap<u64, Task>,
    next_number: u64,
    /// Derived.
    by_id: BTreeMap<TaskId, u64>,
    /// Derived. Invariant: exactly the PENDING tasks, a queue for each client.
    queues: BTreeSet<(ClientId, u64)>,
    /// Derived. Invariant: exactly the PENDING tasks.
    pending: BTreeSet<u64>,
    /// Derived. Invariant: exactly the PROCESSING tasks, by last change.
    processing: BTreeSet<(Millis, u64)>,
    /// Derived. Invariant: exactly the finished tasks, by last change.
    finished: BTreeSet<(Millis, u64)>,
}

impl TaskTable {
    /// Adds a task behind all others.
    pub fn push(&mut self, task: Task) {
        let number = self.next_number;
        self.next_number += 1;
        self.by_id.insert(task.id, number);
        self.index(number, &task);
        self.tasks.insert(number, task);
    }

    fn index(&mut self, number: u64, task: &Task) {
        match task.status {
            TaskStatus::Pending => {
                self.queues.insert((task.client, number));
                self.pending.insert(number);
            }
            TaskStatus::Processing => {
                self.processing.insert((task.updated, number));
            }
            TaskStatus::Failed | TaskStatus::Success => {
                self.finished.insert((task.updated, number));
            }
        }
    }

    fn unindex(&mut self, number: u64, task: &Task) {
        self.queues.remove(&(task.client, number));
        self.pending.remove(&number);
        self.processing.remove(&(task.updated, number));
        self.finished.remove(&(task.updated, number));
    }

    /// Changes a task and keeps the sets in step.
    fn change(&mut self, number: u64, change: impl FnOnce(&mut Task)) -> Option<Task> {
        let mut task = self.tasks.get(&number)?.clone();
        self.unindex(number, &task);
        change(&mut task);
        self.index(number, &task);
        self.tasks.insert(number, task.clone());
        Some(task)
    }

    fn end(&mut self, number: u64, status: TaskStatus, message: &str, now: Millis) {
        self.change(number, |task| {
            task.status = status;
            message.clone_into(&mut task.message);
            task.updated = now;
        });
    }

    /// Fails a task if it still waits.
    pub(super) fn fail_waiting(&mut self, id: TaskId, message: &str, now: Millis) {
        let number = self.by_id.get(&id).copied().filter(|number| self.pending.contains(number));
        if let Some(number) = number {
            self.end(number, TaskStatus::Failed, message, now);
        }
    }

    fn forget_oldest_finished(&mut self) {
        let Some((_, number)) = self.finished.pop_first() else { return };
        if let Some(task) = self.tasks.remove(&number) {
            self.by_id.remove(&task.id);
        }
    }

    /// A task by its id.
    pub fn get(&self, id: TaskId) -> Option<&Task> {
        self.tasks.get(self.by_id.get(&id)?)
    }

    /// Whether a fetch by the client would find something.
    pub fn has_pending(&self, client: ClientId) -> bool {
        self.first_pending(client).is_some()
    }

    fn first_pending(&self, client: ClientId) -> Option<u64> {
        self.queues.range((client, 0)..=(client, u64::MAX)).next().map(|(_, number)| *number)
    }

    /// Tasks that wait.
    pub fn pending_count(&self) -> usize {
        self.pending.len()
    }

    /// Tasks that run.
    pub fn processing_count(&self) -> usize {
        self.processing.len()
    }

    /// Every task in the order of creation.
    pub fn iter(&self) -> impl Iterator<Item = &Task> {
        self.tasks.values()
    }

    /// Whether a sweep with these rules would change something at `now`.
    pub fn is_due(&self, rules: &TaskRules, now: Millis) -> bool {
        self.timed_out_pending(rules, now).is_some()
            || self.timed_out_processing(rules, now).is_some()
            || self.finished.len() > rules.finished_max as usize
    }

    fn timed_out_pending(&self, rules: &TaskRules, now: Millis) -> Option<u64> {
        let number = *self.pending.first()?;
        let created = self.tasks.get(&number)?.created;
        is_past(created, rules.pending_timeout_ms, now).then_some(number)
    }

    fn timed_out_processing(&self, rules: &TaskRules, now: Millis) -> Option<u64> {
        let (updated, number) = *self.processing.first()?;
        is_past(updated, rules.processing_timeout_ms, now).then_some(number)
    }
}

fn is_past(since: Millis, timeout_ms: u64, now: Millis) -> bool {
    timeout_ms != 0 && since.0.saturating_add(timeout_ms) < now.0
}

impl State {
    /// Copy and move tasks.
    pub fn tasks(&self) -> &TaskTable {
        &self.tasks
    }

    /// `token` is what the client will have to name, all zeros for nothing.
    ///
    /// Errors, checked in this order, after `TenantNotRegistered`. A copy: `InvalidParams` without a target;
    /// `ObjectNotFound`; `InvalidParams` for a target that is not mounted; `UnavailableInCurrentStatus`;
    /// `InternalError` without a replica in memory. A move: `ObjectNotFound`; `InvalidParams` for a move onto
    /// itself or an unmounted target; `UnavailableInCurrentStatus`; `InvalidParams` without a replica on the
    /// source. Both: `TaskPendingLimitExceeded`.
    pub(super) fn create_task(
        &mut self,
        create: &TaskCreate,
        token: DynamicToken,
        rng: &mut Rng,
    ) -> Result<TaskId, ErrorCode> {
        let tenant = create.tenant.clone().unwrap_or_default();
        self.admit(&tenant)?;
        // Leaders draw ids at random; were one drawn twice, its first task could not be asked about any more.
        let is_taken = self.tasks.get(create.id).is_some();
        if create.targets.is_empty() || is_taken {
            return Err(ErrorCode::InvalidParams);
        }
        let object = self.find_existing(&tenant, &create.key.0);
        let object = object.ok_or(ErrorCode::ObjectNotFound)?;
        if create.targets.iter().any(|target| Some(target) == create.source.as_ref()) {
            return Err(ErrorCode::InvalidParams);
        }
        for target in &create.targets {
            self.check_target(target).map_err(|code| match code {
                ErrorCode::SegmentNotFound => ErrorCode::InvalidParams,
                other => other,
            })?;
        }
        let segment = self.source_of_task(object, create.source.as_deref(), rng)?;
        let mounted = self.segments.get(segment).ok_or(ErrorCode::InternalError)?;
        if self.tasks.pending_count() >= create.pending_max as usize {
            return Err(ErrorCode::TaskPendingLimitExceeded);
        }
        self.tasks.push(Task {
            id: create.id,
            kind: create.kind,
            status: TaskStatus::Pending,
            payload: payload(create, &tenant, &mounted.segment.name, token),
            created: self.clock,
            updated: self.clock,
            message: String::new(),
            client: mounted.owner,
        });
        Ok(create.id)
    }

    /// An object that its users see as existing.
    fn find_existing(&self, tenant: &Tenant, key: &[u8]) -> Option<ObjectRef> {
        let object = self.find_filed(KeyAt::new(tenant, key))?;
        let directory = self.view.directory();
        let exists = self.view.table.peek(object, |object| directory.exists(object));
        (exists == Some(true)).then_some(object)
    }

    /// The segment that is read: the named one, or any that holds a replica.
    fn source_of_task(
        &self,
        object: ObjectRef,
        name: Option<&str>,
        rng: &mut Rng,
    ) -> Result<SegmentIdx, ErrorCode> {
        let is_usable = |segment: &SegmentIdx| {
            self.segments.get(*segment).is_some_and(|mounted| {
                let is_named = name.is_none_or(|name| *mounted.segment.name == *name);
                mounted.status.is_readable() && is_named
            })
        };
        let list = |object: &Object| {
            let segments = object.replicas.iter().filter_map(|replica| replica.place.segment());
            segments.filter(is_usable).collect::<Vec<_>>()
        };
        let sources = self.view.table.peek(object, list).unwrap_or_default();
        let chosen = sources.get(rng.below(sources.len())).copied();
        let missing =
            if name.is_some() { ErrorCode::InvalidParams } else { ErrorCode::InternalError };
        chosen.ok_or(missing)
    }

    /// Hands out tasks in the order in which they were made.
    pub(super) fn fetch_tasks(&mut self, fetch: &TasksFetch) -> Vec<Task> {
        let mut fetched = Vec::new();
        while fetched.len() < fetch.tasks_max as usize
            && self.tasks.processing_count() < fetch.processing_max as usize
        {
            let Some(number) = self.tasks.first_pending(fetch.client) else { break };
            let clock = self.clock;
            fetched.extend(self.tasks.change(number, |task| {
                task.status = TaskStatus::Processing;
                task.updated = clock;
            }));
        }
        fetched
    }

    /// Errors: `TaskNotFound`; `IllegalClient` if it is another client's. A task that has ended keeps its end.
    pub(super) fn complete_task(&mut self, complete: &TaskComplete) -> Result<(), ErrorCode> {
        let number = self.tasks.by_id.get(&complete.id).copied();
        let number = number.ok_or(ErrorCode::TaskNotFound)?;
        let task = self.tasks.tasks.get(&number).ok_or(ErrorCode::TaskNotFound)?;
        if task.client != complete.client {
            return Err(ErrorCode::IllegalClient);
        }
        if matches!(task.status, TaskStatus::Pending | TaskStatus::Processing) {
            let success = complete.is_success;
            let status = if success { TaskStatus::Success } else { TaskStatus::Failed };
            self.tasks.end(number, status, &complete.message, self.clock);
        }
        Ok(())
    }

    /// Fails tasks that waited or ran for too long and forgets the oldest finished ones; at most `items_max`
    /// of each. Returns how many failed.
    pub(super) fn sweep_tasks(&mut self, rules: &TaskRules, items_max: u32) -> u64 {
        let (clock, mut failed) = (self.clock, 0);
        for _ in 0..items_max {
            let Some(number) = self.tasks.timed_out_pending(rules, clock) else { break };
            self.tasks.end(number, TaskStatus::Failed, "pending timeout", clock);
            failed += 1;
        }
        for _ in 0..items_max {
            let Some(number) = self.tasks.timed_out_processing(rules, clock) else { break };
            self.tasks.end(number, TaskStatus::Failed, "processing timeout", clock);
            failed += 1;
        }
        for _ in 0..items_max {
            if self.tasks.finished.len() <= rules.finished_max as usize {
                break;
            }
            self.tasks.forget_oldest_finished();
        }
        failed
    }
}

/// Members in the order of wire protocol 6.5. The last three are those of dynamic replicas, else 0.
#[derive(Serialize)]
struct CopyPayload<'a> {
    tenant_id: &'a str,
    key: &'a str,
    source: &'a str,
    targets: &'a [Arc<str>],
    dynamic_replication_lease_id_high: u64,
    dynamic_replication_lease_id_low: u64,
    dynamic_replication_version_epoch: u64,
}

#[derive(Serialize)]
struct MovePayload<'a> {
    tenant_id: &'a str,
    key: &'a str,
    source: &'a str,
    target: &'a str,
}

fn payload(create: &TaskCreate, tenant: &Tenant, source: &str, token: DynamicToken) -> String {
    let key = String::from_utf8_lossy(&create.key.0);
    let text = match create.kind {
        TransferKind::Copy => serde_json::to_string(&CopyPayload {
            tenant_id: tenant.name(),
            key: &key,
            source,
            targets: &create.targets,
            dynamic_replication_lease_id_high: token.lease.first,
            dynamic_replication_lease_id_low: token.lease.second,
            dynamic_replication_version_epoch: token.epoch,
        }),
        TransferKind::Move => serde_json::to_string(&MovePayload {
            tenant_id: tenant.name(),
            key: &key,
            source,
            target: create.targets.first().map_or("", |target| &**target),
        }),
    };
    // Strings and numbers always have a JSON form.
    text.unwrap_or_default()
}

#[cfg(test)]
mod tests;
