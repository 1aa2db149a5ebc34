//! The life of a task, and the counts that limit tasks.

use super::*;
use crate::model::Uuid;
use crate::state::Reply;
use crate::state::command::{Command, Sweep};
use crate::state::transfer::tests::{World, as_key, client};

const PENDING_MAX: u32 = 3;

const RULES: TaskRules =
    TaskRules { pending_timeout_ms: 5_000, processing_timeout_ms: 8_000, finished_max: 2 };

fn id(n: u64) -> TaskId {
    // Descending ids, so that the order of creation is not the order of ids.
    TaskId(Uuid { first: 1_000 - n, second: 1 })
}

impl World {
    fn create(
        &mut self,
        n: u64,
        source: Option<&str>,
        targets: &[&str],
    ) -> Result<TaskId, ErrorCode> {
        let kind = if source.is_some() { TransferKind::Move } else { TransferKind::Copy };
        let create = TaskCreate {
            id: id(n),
            kind,
            tenant: None,
            key: as_key("k"),
            source: source.map(Arc::from),
            targets: targets.iter().map(|name| Arc::from(*name)).collect(),
            pending_max: PENDING_MAX,
        };
        let Reply::Task(created) = self.apply(Command::TaskCreate(create)) else { panic!() };
        created
    }

    fn copy_task(&mut self, n: u64) {
        assert_eq!(self.create(n, None, &["b"]), Ok(id(n)));
    }

    fn fetch(&mut self, caller: u64, tasks_max: u32) -> Vec<TaskId> {
        let fetch = TasksFetch { client: client(caller), tasks_max, processing_max: 2 };
        let Reply::Tasks(tasks) = self.apply(Command::TasksFetch(fetch)) else { panic!() };
        tasks.iter().map(|task| task.id).collect()
    }

    fn complete(&mut self, caller: u64, n: u64, is_success: bool) -> Result<(), ErrorCode> {
        let (client, message) = (client(caller), "done".to_owned());
        let complete = TaskComplete { client, id: id(n), is_success, message };
        let Reply::Outcome(outcome) = self.apply(Command::TaskComplete(complete)) else { panic!() };
        outcome
    }

    fn sweep_tasks(&mut self) -> u64 {
        let sweep = Sweep {
            items_max: 100,
            release_timeout_ms: 600_000,
            tasks: RULES,
            ..Default::default()
        };
        let Reply::Swept(swept) = self.apply(Command::Sweep(sweep)) else { panic!() };
        swept.tasks_failed
    }

    fn task(&self, n: u64) -> Option<(TaskStatus, &str)> {
        self.state.tasks().get(id(n)).map(|task| (task.status, &*task.message))
    }
}

#[test]
fn an_id_that_a_task_has_is_not_given_to_another() {
    let mut world = World::new();
    world.put("k");
    world.copy_task(1);
    assert_eq!(world.create(1, None, &["b"]), Err(ErrorCode::InvalidParams));
    assert_eq!(world.fetch(1, 10), [id(1)]);
    assert_eq!(
        world.create(1, None, &["b"]),
        Err(ErrorCode::InvalidParams),
        "nor when it is fetched"
    );
}

#[test]
fn tasks_that_cannot_work_are_refused_in_the_peers_order_of_checks() {
    let mut world = World::new();
    assert_eq!(world.create(1, None, &[]), Err(ErrorCode::InvalidParams));
    assert_eq!(world.create(1, None, &["b"]), Err(ErrorCode::ObjectNotFound));
    assert_eq!(world.create(1, Some("a"), &["a"]), Err(ErrorCode::ObjectNotFound));
    world.put("k");
    assert_eq!(world.create(1, None, &["x"]), Err(ErrorCode::InvalidParams));
    assert_eq!(world.create(1, Some("a"), &["a"]), Err(ErrorCode::InvalidParams));
    assert_eq!(world.create(1, Some("a"), &["x"]), Err(ErrorCode::InvalidParams));
    assert_eq!(world.create(1, Some("b"), &["c"]), Err(ErrorCode::InvalidParams));
    assert_eq!(world.create(1, Some("a"), &["b"]), Ok(id(1)));
}

#[test]
fn the_payload_is_the_wires_json() {
    let mut world = World::new();
    world.put("k");
    world.create(1, None, &["b", "c"]).unwrap();
    world.create(2, Some("a"), &["b"]).unwrap();
    let payload = |n| world.state.tasks().get(id(n)).unwrap().payload.clone();
    assert_eq!(
        payload(1),
        r#"{"tenant_id":"default","key":"k","source":"a","targets":["b","c"],"#.to_owned()
            + r#""dynamic_replication_lease_id_high":0,"dynamic_replication_lease_id_low":0,"#
            + r#""dynamic_replication_version_epoch":0}"#
    );
    let told = r#"{"tenant_id":"default","key":"k","source":"a","target":"b"}"#;
    assert_eq!(payload(2), told);
    assert_eq!(world.state.tasks().get(id(2)).unwrap().client, client(1));
}

#[test]
fn the_owner_of_the_source_fetches_each_task_once_and_in_order() {
    let mut world = World::new();
    world.put("k");
    (1..=3).for_each(|n| world.copy_task(n));
    assert_eq!(world.create(4, None, &["b"]), Err(ErrorCode::TaskPendingLimitExceeded));
    world.reload();
    assert_eq!(world.fetch(2, 16), []);
    assert_eq!(world.fetch(1, 1), [id(1)]);
    // Only two may run in the whole store.
    assert_eq!(world.fetch(1, 16), [id(2)]);
    assert_eq!(world.fetch(1, 16), []);
    world.complete(1, 1, true).unwrap();
    assert_eq!(world.fetch(1, 16), [id(3)]);
    assert!(!world.state.tasks().has_pending(client(1)));
}

#[test]
fn a_task_is_ended_by_its_client_once() {
    let mut world = World::new();
    world.put("k");
    world.copy_task(1);
    assert_eq!(world.complete(1, 2, true), Err(ErrorCode::TaskNotFound));
    assert_eq!(world.complete(2, 1, true), Err(ErrorCode::IllegalClient));
    world.fetch(1, 16);
    assert_eq!(world.complete(1, 1, true), Ok(()));
    assert_eq!(world.complete(1, 1, false), Ok(()));
    assert_eq!(world.task(1), Some((TaskStatus::Success, "done")));
    assert_eq!(world.state.tasks().processing_count(), 0);
}

#[test]
fn edge_10_a_pending_task_that_is_completed_leaves_room_for_another() {
    let mut world = World::new();
    world.put("k");
    (1..=3).for_each(|n| world.copy_task(n));
    world.complete(1, 2, false).unwrap();
    assert_eq!(world.state.tasks().pending_count(), 2);
    world.copy_task(4);
    assert_eq!(world.fetch(1, 16), [id(1), id(3)]);
}

#[test]
fn tasks_that_take_too_long_fail_and_the_oldest_finished_ones_are_forgotten() {
    let mut world = World::new();
    world.put("k");
    world.copy_task(1);
    world.fetch(1, 1);
    world.now += 1;
    world.copy_task(2);
    world.now += 5_000;
    assert_eq!(world.sweep_tasks(), 0);
    world.now += 1;
    assert!(world.state.tasks().is_due(&RULES, Millis(world.now)));
    assert_eq!(world.sweep_tasks(), 1);
    assert_eq!(world.task(2), Some((TaskStatus::Failed, "pending timeout")));
    assert_eq!(world.task(1), Some((TaskStatus::Processing, "")));
    world.now += 3_000;
    assert_eq!(world.sweep_tasks(), 1);
    assert_eq!(world.task(1), Some((TaskStatus::Failed, "processing timeout")));
    world.reload();
    world.copy_task(3);
    world.complete(1, 3, true).unwrap();
    world.sweep_tasks();
    assert_eq!((world.task(2), world.task(3)), (None, Some((TaskStatus::Success, "done"))));
    let never = TaskRules { finished_max: 10, ..TaskRules::default() };
    assert!(!world.state.tasks().is_due(&never, Millis(u64::MAX)));
}
