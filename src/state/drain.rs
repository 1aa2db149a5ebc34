//! Drain jobs: segments that are emptied by moves, so that they can be taken away (behaviour 8.5).
//!
//! The leader looks for objects to move (`node/drain.rs`) and proposes steps; a step looks at the tasks of the
//! job, makes new ones and decides how the job stands. All of it is replicated, so a job goes on under the
//! next leader. A move is a task like any other: it never touches a soft pin. A job that makes no progress
//! fails after a while; by the peer it waits for ever.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::State;
use super::command::Key;
use super::dynamic::command::DynamicToken;
use super::put::NO_OWNER;
use super::tasks::{TaskCreate, TaskStatus};
use super::transfer::TransferKind;
use crate::alloc::Rng;
use crate::model::{ErrorCode, Millis, SegmentIdx, SegmentStatus, TaskId, Tenant, Uuid};

/// Jobs that are remembered; the oldest that has ended makes room.
pub const JOBS_MAX: usize = 1_024;

/// Moves of one job at a time at most.
pub const CONCURRENCY_MAX: u32 = 1_024;

/// Failed moves of an object after which it is left where it is.
pub const FAILURES_MAX: u32 = 3;

/// A job without an active or a new move for so long has failed.
pub const STALLED_MS: u64 = 600_000;

/// Where a job is, with the wire's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobStatus {
    /// Nothing was moved yet.
    Created,
    /// Objects are being moved.
    Running,
    /// The segments are empty.
    Succeeded,
    /// Some objects could not be moved.
    Failed,
    /// An operator ended it.
    Canceled,
}

impl JobStatus {
    /// Whether it has ended.
    pub fn is_over(self) -> bool {
        !matches!(self, JobStatus::Created | JobStatus::Running)
    }
}

/// One replica to move: an object on a segment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Unit {
    /// Name space.
    pub tenant: Tenant,
    /// The object.
    pub key: Key,
    /// Segment name to empty.
    pub source: Arc<str>,
}

/// A move under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActiveMove {
    /// What is moved.
    pub unit: Unit,
    /// Bytes.
    pub size: u64,
}

/// A job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainJob {
    /// Segment names to empty.
    pub segments: Vec<Arc<str>>,
    /// Segment names to move to; empty for any.
    pub targets: Vec<Arc<str>>,
    /// Moves at a time.
    pub concurrency: u32,
    /// Where it is.
    pub status: JobStatus,
    /// When it was made.
    pub created: Millis,
    /// When it changed last.
    pub updated: Millis,
    /// When a move was last under way.
    pub progress: Millis,
    /// Moves that worked.
    pub succeeded: u64,
    /// Moves that did not.
    pub failed: u64,
    /// Replicas that cannot be moved now, at the last look.
    pub blocked: u64,
    /// Bytes of the moves that worked.
    pub moved_bytes: u64,
    /// How it ended, in words.
    pub message: String,
    /// Moves under way, by task.
    pub active: BTreeMap<TaskId, ActiveMove>,
    /// Failed moves of each unit.
    pub failures: BTreeMap<Unit, u32>,
}

impl DrainJob {
    /// Whether a unit is to be left where it is.
    pub fn is_given_up(&self, unit: &Unit) -> bool {
        self.failures.get(unit).is_some_and(|failures| *failures >= FAILURES_MAX)
    }

    /// Whether a unit is being moved.
    pub fn is_active(&self, unit: &Unit) -> bool {
        self.active.values().any(|active| active.unit == *unit)
    }

    fn fail(&mut self, unit: Unit, failures: u32) {
        self.failed += 1;
        *self.failures.entry(unit).or_default() += failures;
    }

    fn end(&mut self, status: JobStatus, message: &str, now: Millis) {
        self.status = status;
        message.clone_into(&mut self.message);
        self.updated = now;
        self.blocked = 0;
    }
}

/// Makes a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainCreate {
    /// Its id; chance, so rolled by the leader.
    pub id: Uuid,
    /// Segment names to empty.
    pub segments: Vec<Arc<str>>,
    /// Segment names to move to; empty for any.
    pub targets: Vec<Arc<str>>,
    /// Moves at a time.
    pub concurrency: u32,
}

/// A move that the leader has planned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedMove {
    /// The task's id; chance, so rolled by the leader.
    pub task: TaskId,
    /// What is moved.
    pub unit: Unit,
    /// Segment name to move it to.
    pub target: Arc<str>,
}

/// What the leader saw of a job, and what it planned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainStep {
    /// The job.
    pub id: Uuid,
    /// Moves to begin.
    pub moves: Vec<PlannedMove>,
    /// Replicas that cannot be moved now.
    pub blocked: u64,
    /// Whether all that is left is given up.
    pub is_exhausted: bool,
    /// Tasks that may wait in the whole store.
    pub tasks_pending_max: u32,
}

/// Every change of jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DrainCommand {
    /// Makes a job.
    Create(DrainCreate),
    /// Takes a job further.
    Step(DrainStep),
    /// Ends a job on request.
    Cancel {
        /// The job.
        id: Uuid,
    },
}

/// Every job that is remembered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainTable {
    /// By creation number.
    jobs: BTreeMap<u64, (Uuid, DrainJob)>,
    next_number: u64,
}

impl DrainTable {
    /// A job by its id.
    pub fn get(&self, id: Uuid) -> Option<&DrainJob> {
        self.iter().find(|(known, _)| *known == id).map(|(_, job)| job)
    }

    /// Every job in the order of creation.
    pub fn iter(&self) -> impl Iterator<Item = (Uuid, &DrainJob)> {
        self.jobs.values().map(|(id, job)| (*id, job))
    }

    fn get_mut(&mut self, id: Uuid) -> Option<&mut DrainJob> {
        self.jobs.values_mut().find(|(known, _)| *known == id).map(|(_, job)| job)
    }

    /// Errors: `UnavailableInCurrentStatus` if too many jobs have not ended.
    fn push(&mut self, id: Uuid, job: DrainJob) -> Result<(), ErrorCode> {
        if self.jobs.len() >= JOBS_MAX {
            let over = self.jobs.iter().find(|(_, (_, job))| job.status.is_over());
            let number = over.map(|(number, _)| *number);
            self.jobs.remove(&number.ok_or(ErrorCode::UnavailableInCurrentStatus)?);
        }
        self.jobs.insert(self.next_number, (id, job));
        self.next_number += 1;
        Ok(())
    }
}

impl State {
    /// Drain jobs.
    pub fn drains(&self) -> &DrainTable {
        &self.drains
    }

    pub(super) fn drain_job(
        &mut self,
        command: &DrainCommand,
        rng: &mut Rng,
    ) -> Result<(), ErrorCode> {
        match command {
            DrainCommand::Create(create) => self.create_drain(create),
            DrainCommand::Step(step) => {
                self.step_drain(step, rng);
                Ok(())
            }
            DrainCommand::Cancel { id } => self.cancel_drain(*id),
        }
    }

    /// Closes the segments to writers and makes the job.
    ///
    /// Errors: `InvalidParams` without a segment or a move at a time, for a name that is listed twice or as
    /// source and target; `SegmentNotFound`; `UnavailableInCurrentStatus` for a segment that is not OK.
    fn create_drain(&mut self, create: &DrainCreate) -> Result<(), ErrorCode> {
        let sources: BTreeSet<&Arc<str>> = create.segments.iter().collect();
        let targets: BTreeSet<&Arc<str>> = create.targets.iter().collect();
        let is_once =
            sources.len() == create.segments.len() && targets.len() == create.targets.len();
        let is_known = self.drains.get(create.id).is_some();
        if sources.is_empty() || create.concurrency == 0 || !is_once || is_known {
            return Err(ErrorCode::InvalidParams);
        }
        for source in &create.segments {
            self.check_target(source)?;
        }
        if !sources.is_disjoint(&targets) {
            return Err(ErrorCode::InvalidParams);
        }
        for target in &create.targets {
            self.check_target(target)?;
        }
        let now = self.clock;
        self.drains.push(
            create.id,
            DrainJob {
                segments: create.segments.clone(),
                targets: create.targets.clone(),
                concurrency: create.concurrency.min(CONCURRENCY_MAX),
                status: JobStatus::Created,
                created: now,
                updated: now,
                progress: now,
                succeeded: 0,
                failed: 0,
                blocked: 0,
                moved_bytes: 0,
                message: "nothing was moved yet".to_owned(),
                active: BTreeMap::new(),
                failures: BTreeMap::new(),
            },
        )?;
        self.turn_sources(&create.segments, SegmentStatus::Ok, SegmentStatus::Draining);
        Ok(())
    }

    /// Changes the status of the segments of these names that have a certain one.
    fn turn_sources(&mut self, names: &[Arc<str>], from: SegmentStatus, to: SegmentStatus) {
        for name in names {
            let named = self.segments.named(name).filter(|(_, mounted)| mounted.status == from);
            let indices: Vec<SegmentIdx> = named.map(|(index, _)| index).collect();
            indices.into_iter().for_each(|index| self.segments.set_status(index, to));
        }
        self.publish_directory();
    }

    /// Errors: `JobNotFound`; `UnavailableInCurrentStatus` if it has ended or moves are under way.
    fn cancel_drain(&mut self, id: Uuid) -> Result<(), ErrorCode> {
        let clock = self.clock;
        let job = self.drains.get_mut(id).ok_or(ErrorCode::JobNotFound)?;
        if job.status.is_over() || !job.active.is_empty() {
            return Err(ErrorCode::UnavailableInCurrentStatus);
        }
        job.end(JobStatus::Canceled, "canceled", clock);
        let segments = job.segments.clone();
        self.reopen_sources(&segments);
        Ok(())
    }

    fn reopen_sources(&mut self, segments: &[Arc<str>]) {
        self.turn_sources(segments, SegmentStatus::Draining, SegmentStatus::Ok);
        self.turn_sources(segments, SegmentStatus::Drained, SegmentStatus::Ok);
    }

    fn step_drain(&mut self, step: &DrainStep, rng: &mut Rng) {
        let Some(mut job) = self.drains.get(step.id).filter(|job| !job.status.is_over()).cloned()
        else {
            return;
        };
        let before = job.clone();
        self.look_at_moves(&mut job);
        self.begin_moves(&mut job, step, rng);
        job.blocked = step.blocked;
        if !job.active.is_empty() {
            job.progress = self.clock;
        }
        let is_empty = self.mark_drained(&job.segments);
        let is_stalled = job.progress.0.saturating_add(STALLED_MS) <= self.clock.0;
        let (clock, is_idle) = (self.clock, job.active.is_empty());
        if is_empty {
            job.end(JobStatus::Succeeded, "all segments are empty", clock);
        } else if is_idle && step.is_exhausted {
            job.end(JobStatus::Failed, "some objects could not be moved", clock);
        } else if is_idle && is_stalled {
            let blocked = step.blocked;
            let why = format!("no move was possible for 10 minutes; {blocked} replicas are left");
            job.end(JobStatus::Failed, &why, clock);
        } else if job != before {
            job.updated = clock;
        }
        if job.status == JobStatus::Failed {
            self.reopen_sources(&job.segments);
        }
        if let Some(known) = self.drains.get_mut(step.id) {
            *known = job;
        }
    }

    /// Counts moves that have ended. One whose task is forgotten counts as failed for good.
    fn look_at_moves(&self, job: &mut DrainJob) {
        for (task, active) in std::mem::take(&mut job.active) {
            match self.tasks.get(task).map(|task| task.status) {
                Some(TaskStatus::Pending | TaskStatus::Processing) => {
                    job.active.insert(task, active);
                }
                Some(TaskStatus::Success) => {
                    job.succeeded += 1;
                    job.moved_bytes = job.moved_bytes.saturating_add(active.size);
                }
                Some(TaskStatus::Failed) => job.fail(active.unit, 1),
                None => job.fail(active.unit, FAILURES_MAX),
            }
        }
    }

    fn begin_moves(&mut self, job: &mut DrainJob, step: &DrainStep, rng: &mut Rng) {
        for planned in &step.moves {
            let is_free = job.active.len() < job.concurrency as usize;
            let unit = &planned.unit;
            if !is_free || job.is_given_up(unit) || job.is_active(unit) {
                continue;
            }
            let create = TaskCreate {
                id: planned.task,
                kind: TransferKind::Move,
                tenant: Some(unit.tenant.clone()),
                key: unit.key.clone(),
                source: Some(Arc::clone(&unit.source)),
                targets: vec![Arc::clone(&planned.target)],
                pending_max: step.tasks_pending_max,
            };
            let size = self.size_of(unit);
            if self.create_task(&create, DynamicToken::default(), rng).is_ok() {
                job.status = JobStatus::Running;
                "objects are being moved".clone_into(&mut job.message);
                job.active.insert(planned.task, ActiveMove { unit: unit.clone(), size });
            }
        }
    }

    fn size_of(&self, unit: &Unit) -> u64 {
        let object = self.find_filed(super::put::KeyAt::new(&unit.tenant, &unit.key.0));
        let size = object.and_then(|object| self.view.table.peek(object, |object| object.size));
        size.unwrap_or_default()
    }

    /// Marks the segments that hold no object any more; whether that is all of them. Memory that is set aside
    /// for old readers and writers does not count, and neither does a segment that is gone.
    fn mark_drained(&mut self, names: &[Arc<str>]) -> bool {
        let mut is_all = true;
        let mut drained = Vec::new();
        for (index, mounted) in names.iter().flat_map(|name| self.segments.named(name)) {
            if mounted.status == SegmentStatus::Draining {
                let has_objects = mounted.allocator.used().any(|used| used.owner != NO_OWNER);
                is_all &= !has_objects;
                if !has_objects {
                    drained.push(index);
                }
            }
        }
        for index in &drained {
            self.segments.set_status(*index, SegmentStatus::Drained);
        }
        if !drained.is_empty() {
            self.publish_directory();
        }
        is_all
    }
}
