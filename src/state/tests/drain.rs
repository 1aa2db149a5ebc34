//! Drain jobs: one rule a story.

use std::sync::Arc;

use super::world::*;
use crate::model::PinRequest::Preserve;
use crate::model::{ClientId, ErrorCode, Millis, SegmentStatus, TaskId, Tenant, Uuid};
use crate::state::Reply;
use crate::state::command::{Command, Start};
use crate::state::drain::{
    DrainCommand, DrainCreate, DrainJob, DrainStep, JobStatus, PlannedMove, STALLED_MS, Unit,
};
use crate::state::tasks::{TaskComplete, TasksFetch};
use crate::state::transfer::{TransferEnd, TransferKind, TransferStart, TransferVerdict};

const JOB: Uuid = Uuid { first: 7, second: 7 };

fn name(name: &str) -> Arc<str> {
    Arc::from(name)
}

fn create(segments: &[&str], targets: &[&str], concurrency: u32) -> DrainCreate {
    let list = |names: &[&str]| names.iter().map(|one| name(one)).collect();
    DrainCreate { id: JOB, segments: list(segments), targets: list(targets), concurrency }
}

fn unit(key_name: &str, source: &str) -> Unit {
    Unit { tenant: Tenant::default(), key: key(key_name), source: name(source) }
}

fn planned(task: u64, key_name: &str, source: &str, target: &str) -> PlannedMove {
    let task = TaskId(Uuid { first: task, second: 0 });
    PlannedMove { task, unit: unit(key_name, source), target: name(target) }
}

impl World {
    fn drain_job(&mut self, command: DrainCommand) -> Outcome {
        outcome(self.apply(Command::Drain(command)))
    }

    fn step(&mut self, moves: Vec<PlannedMove>, blocked: u64, is_exhausted: bool) {
        let step = DrainStep { id: JOB, moves, blocked, is_exhausted, tasks_pending_max: 100 };
        self.drain_job(DrainCommand::Step(step)).unwrap();
    }

    fn job(&self) -> DrainJob {
        self.state.drains().get(JOB).unwrap().clone()
    }

    fn status(&self, n: u64) -> SegmentStatus {
        let index = self.state.segments().index_of(segment_id(n)).unwrap();
        self.state.segments().get(index).unwrap().status
    }

    /// Client `by` carries out its next task, or fails to.
    fn work(&mut self, by: u64, key_name: &str, from: &str, to: &str, is_success: bool) {
        let client: ClientId = client(by);
        let fetch = TasksFetch { client, tasks_max: 1, processing_max: 9 };
        let Reply::Tasks(tasks) = self.apply(Command::TasksFetch(fetch)) else { panic!() };
        if is_success {
            let (key, kind) = (key(key_name), TransferKind::Move);
            let start = TransferStart {
                client,
                tenant: None,
                key: key.clone(),
                kind,
                source: name(from),
                targets: vec![name(to)],
            };
            let Reply::Transfer(Ok(_)) = self.apply(Command::TransferStart(start)) else {
                panic!()
            };
            let end = TransferEnd {
                client,
                tenant: None,
                key,
                kind,
                verdict: TransferVerdict::Done,
                is_dynamic: false,
                release_timeout_ms: 60_000,
            };
            assert_eq!(outcome(self.apply(Command::TransferEnd(end))), Ok(()));
        }
        let message = String::new();
        let done = TaskComplete { client, id: tasks[0].id, is_success, message };
        assert_eq!(outcome(self.apply(Command::TaskComplete(done))), Ok(()));
    }
}

/// Key `k` on segment 1 of three.
fn scene() -> World {
    let mut world = World::with_segments(3, MIB);
    let config =
        crate::state::command::WriteConfig { preferred: vec![name("s1")], ..config(1, Preserve) };
    world.start(Start { config, ..start("k", 1024, super::world::config(1, Preserve)) }).unwrap();
    world.end("k").unwrap();
    assert_eq!(world.places("k"), ["s1"]);
    world
}

#[test]
fn a_job_that_cannot_work_is_refused_and_changes_nothing() {
    let mut world = scene();
    for (bad, code) in [
        (create(&[], &[], 1), ErrorCode::InvalidParams),
        (create(&["s1"], &[], 0), ErrorCode::InvalidParams),
        (create(&["s1", "s1"], &[], 1), ErrorCode::InvalidParams),
        (create(&["s1"], &["s2", "s2"], 1), ErrorCode::InvalidParams),
        (create(&["s1"], &["s1"], 1), ErrorCode::InvalidParams),
        (create(&["nowhere"], &[], 1), ErrorCode::SegmentNotFound),
        (create(&["s1"], &["nowhere"], 1), ErrorCode::SegmentNotFound),
    ] {
        assert_eq!(world.drain_job(DrainCommand::Create(bad)), Err(code));
    }
    assert_eq!(world.status(1), SegmentStatus::Ok);
    world.drain_job(DrainCommand::Create(create(&["s1"], &[], 1))).unwrap();
    let other = DrainCreate { id: Uuid { first: 8, second: 8 }, ..create(&["s1"], &[], 1) };
    let refused = Err(ErrorCode::UnavailableInCurrentStatus);
    assert_eq!(world.drain_job(DrainCommand::Create(other.clone())), refused);
    let onto = DrainCreate { segments: vec![name("s2")], targets: vec![name("s1")], ..other };
    assert_eq!(world.drain_job(DrainCommand::Create(onto)), refused);
}

#[test]
fn a_job_moves_what_is_there_and_succeeds_when_its_segments_are_empty() {
    let mut world = scene();
    world.drain_job(DrainCommand::Create(create(&["s1"], &[], 4))).unwrap();
    assert_eq!(
        (world.status(1), world.job().status),
        (SegmentStatus::Draining, JobStatus::Created)
    );
    world.step(vec![planned(1, "k", "s1", "s2")], 0, false);
    assert_eq!((world.job().status, world.job().active.len()), (JobStatus::Running, 1));
    let mut world = world.reloaded();
    world.work(1, "k", "s1", "s2", true);
    world.step(Vec::new(), 0, false);
    let job = world.job();
    assert_eq!((job.status, job.succeeded, job.moved_bytes), (JobStatus::Succeeded, 1, 1024));
    assert_eq!((world.status(1), world.places("k")), (SegmentStatus::Drained, vec!["s2".into()]));
    let refused = Err(ErrorCode::UnavailableInCurrentStatus);
    assert_eq!(world.drain_job(DrainCommand::Cancel { id: JOB }), refused);
    assert_eq!(world.unmount(1, 1), Ok(()));
}

#[test]
fn a_move_that_fails_three_times_is_given_up_and_the_segments_open_again() {
    let mut world = scene();
    world.drain_job(DrainCommand::Create(create(&["s1"], &["s2"], 4))).unwrap();
    for n in 1..=3 {
        world.step(vec![planned(n, "k", "s1", "s2")], 0, false);
        world.work(1, "k", "s1", "s2", false);
    }
    world.step(Vec::new(), 0, false);
    assert!(world.job().is_given_up(&unit("k", "s1")));
    world.step(vec![planned(4, "k", "s1", "s2")], 0, true);
    let job = world.job();
    assert_eq!((job.status, job.failed), (JobStatus::Failed, 3));
    assert_eq!(world.status(1), SegmentStatus::Ok);
}

#[test]
fn no_more_moves_are_under_way_than_asked_and_none_twice() {
    let mut world = scene();
    world.put("other", Preserve);
    world.drain_job(DrainCommand::Create(create(&["s1"], &[], 1))).unwrap();
    let twice = vec![planned(1, "k", "s1", "s2"), planned(2, "k", "s1", "s3")];
    world.step(twice, 0, false);
    assert_eq!(world.job().active.len(), 1);
    assert_eq!(world.state.tasks().iter().count(), 1);
}

#[test]
fn a_job_is_canceled_while_nothing_moves() {
    let mut world = scene();
    world.drain_job(DrainCommand::Create(create(&["s1"], &[], 1))).unwrap();
    world.step(vec![planned(1, "k", "s1", "s2")], 0, false);
    let cancel = || DrainCommand::Cancel { id: JOB };
    assert_eq!(world.drain_job(cancel()), Err(ErrorCode::UnavailableInCurrentStatus));
    world.work(1, "k", "s1", "s2", false);
    world.step(Vec::new(), 1, false);
    assert_eq!(world.drain_job(cancel()), Ok(()));
    assert_eq!((world.status(1), world.job().status), (SegmentStatus::Ok, JobStatus::Canceled));
    let unknown = DrainCommand::Cancel { id: Uuid { first: 1, second: 1 } };
    assert_eq!(world.drain_job(unknown), Err(ErrorCode::JobNotFound));
}

#[test]
fn a_job_that_finds_nothing_to_move_for_ten_minutes_fails() {
    let mut world = scene();
    world.drain_job(DrainCommand::Create(create(&["s1"], &[], 1))).unwrap();
    world.pass(STALLED_MS - 1);
    world.step(Vec::new(), 1, false);
    assert_eq!((world.job().status, world.job().blocked), (JobStatus::Created, 1));
    world.pass(1);
    world.step(Vec::new(), 1, false);
    assert_eq!(world.job().status, JobStatus::Failed);
    assert!(world.job().message.contains("1 replicas are left"), "{}", world.job().message);
    assert_eq!(world.status(1), SegmentStatus::Ok);
}

#[test]
fn a_segment_that_opens_again_takes_its_old_place_among_those_of_its_name() {
    let mut world = World::with_segments(1, MIB);
    let second = crate::model::Segment { name: name("s1"), ..segment(2, MIB) };
    world.mount(second, 1).unwrap();
    world.drain_job(DrainCommand::Create(create(&["s1"], &[], 1))).unwrap();
    // A segment of that name that is mounted meanwhile is not the job's.
    let third = crate::model::Segment { name: name("s1"), ..segment(3, MIB) };
    world.mount(third, 1).unwrap();
    assert_eq!(world.drain_job(DrainCommand::Cancel { id: JOB }), Ok(()));
    let names = world.state.segments().allocatable();
    let (_, members) = names.get(names.position("s1").unwrap()).unwrap();
    assert_eq!(members.iter().map(|member| member.0).collect::<Vec<_>>(), [0, 1, 2]);
    world.reloaded();
}

#[test]
fn a_segment_that_goes_while_it_is_drained_counts_as_empty() {
    let mut world = scene();
    world.drain_job(DrainCommand::Create(create(&["s1"], &[], 1))).unwrap();
    assert_eq!(world.unmount(1, 1), Ok(()));
    world.step(Vec::new(), 0, false);
    assert_eq!(world.job().status, JobStatus::Succeeded);
}

#[test]
fn a_forgotten_task_is_a_failure_for_good() {
    let mut world = scene();
    world.drain_job(DrainCommand::Create(create(&["s1"], &[], 1))).unwrap();
    world.step(vec![planned(1, "k", "s1", "s2")], 0, false);
    world.work(1, "k", "s1", "s2", false);
    let sweep = crate::state::command::Sweep {
        items_max: 9,
        release_timeout_ms: RULES.release_timeout_ms,
        pins_until: Millis(0),
        ..crate::state::command::Sweep::default()
    };
    world.apply(Command::Sweep(sweep));
    assert_eq!(world.state.tasks().iter().count(), 0, "none is remembered");
    world.step(Vec::new(), 0, false);
    assert!(world.job().is_given_up(&unit("k", "s1")));
}

/// One of each command, with every field at a value of its own.
pub fn samples() -> Vec<DrainCommand> {
    vec![
        DrainCommand::Create(create(&["s1", "s2"], &["s3"], 4)),
        DrainCommand::Step(DrainStep {
            id: JOB,
            moves: vec![planned(1, "a", "s1", "s3")],
            blocked: 2,
            is_exhausted: true,
            tasks_pending_max: 3,
        }),
        DrainCommand::Cancel { id: JOB },
    ]
}

/// A step of a random history about jobs.
#[derive(Clone, Debug)]
pub enum JobAct {
    Create { from: u8, to: Option<u8> },
    Step { at: u8, names: Vec<u8>, from: u8, to: u8, is_exhausted: bool },
    Cancel { at: u8 },
}

pub fn job_act() -> impl proptest::strategy::Strategy<Value = JobAct> {
    use proptest::prelude::*;
    let place = || 0..5_u8;
    let names = prop::collection::vec(0..6_u8, 0..3);
    prop_oneof![
        3 => (place(), prop::option::of(place()))
            .prop_map(|(from, to)| JobAct::Create { from, to }),
        8 => (0..4_u8, names, place(), place(), prop::bool::weighted(0.1)).prop_map(
            |(at, names, from, to, is_exhausted)| JobAct::Step { at, names, from, to, is_exhausted }
        ),
        1 => (0..4_u8).prop_map(|at| JobAct::Cancel { at }),
    ]
}

pub fn job_command(act: JobAct, state: &crate::state::State) -> DrainCommand {
    let place = |at: u8| name(["a", "b", "c", "d", "e"][usize::from(at)]);
    let count = state.drains().iter().count() as u64;
    let id_at = |at: u8| Uuid { first: u64::from(at) % count.max(1), second: 3 };
    match act {
        JobAct::Create { from, to } => DrainCommand::Create(DrainCreate {
            id: Uuid { first: count, second: 3 },
            segments: vec![place(from)],
            targets: to.map(place).into_iter().collect(),
            concurrency: 2,
        }),
        JobAct::Step { at, names, from, to, is_exhausted } => {
            let tasks = state.tasks().iter().count() as u64;
            let moves = (100..).zip(names).map(|(n, key)| PlannedMove {
                task: TaskId(Uuid { first: n, second: tasks }),
                unit: Unit {
                    tenant: Tenant::default(),
                    key: super::script::scripted_key(key),
                    source: place(from),
                },
                target: place(to),
            });
            let moves = moves.collect();
            let (id, blocked) = (id_at(at), 1);
            DrainCommand::Step(DrainStep { id, moves, blocked, is_exhausted, tasks_pending_max: 4 })
        }
        JobAct::Cancel { at } => DrainCommand::Cancel { id: id_at(at) },
    }
}
