//! Dynamic replication: one rule a story.

use std::sync::Arc;

use proptest::prelude::*;

use super::script::scripted_key;
use super::world::*;
use crate::model::PinRequest::Preserve;
use crate::model::{ClientId, ErrorCode as E, Millis, Tenant, TenantIdx, Uuid};
use crate::model::{ObjectKey, ReplicaId, TaskId};
use crate::state::command::{ClearReplicas, Command, Key, Sweep};
use crate::state::dynamic::command::{DynamicCommand, DynamicToken, Reservations, Reserve};
use crate::state::dynamic::{DynamicTable, RESTS_MAX, Rest};
use crate::state::evict::{Evict, Victim, incarnation};
use crate::state::table::table_hash;
use crate::state::tasks::{TaskRules, TaskStatus, TasksFetch};
use crate::state::transfer::{
    TransferEnd, TransferKind, TransferStart, TransferStarted, TransferVerdict,
};
use crate::state::{Reply, State};

const LEASE: Uuid = Uuid { first: 8, second: 6 };
const RELEASE_MS: u64 = RULES.release_timeout_ms;

fn name(name: &str) -> Arc<str> {
    Arc::from(name)
}

fn task(n: u64) -> TaskId {
    TaskId(Uuid { first: n, second: 1 })
}

fn transfer(by: u64, key_name: &str, source: &str, targets: &[&str]) -> TransferStart {
    TransferStart {
        client: client(by),
        tenant: None,
        key: key(key_name),
        kind: TransferKind::Copy,
        source: name(source),
        targets: targets.iter().map(|target| name(target)).collect(),
    }
}

fn transfer_end(by: u64, key_name: &str, verdict: TransferVerdict) -> TransferEnd {
    TransferEnd {
        client: client(by),
        tenant: None,
        key: key(key_name),
        kind: TransferKind::Copy,
        verdict,
        is_dynamic: false,
        release_timeout_ms: RELEASE_MS,
    }
}

impl World {
    fn token(&self, key_name: &str) -> DynamicToken {
        let epoch = self.peek(key_name, |object| object.put_start.0).unwrap_or_default();
        DynamicToken { lease: LEASE, epoch }
    }

    fn reserve_with(
        &mut self,
        key_name: &str,
        (source, target): (&str, &str),
        number: u64,
        replicas_max: u64,
    ) -> Outcome {
        let wish = Reserve {
            tenant: None,
            key: key(key_name),
            token: self.token(key_name),
            source: name(source),
            target: name(target),
            task: task(number),
        };
        let (wishes, tasks_pending_max) = (vec![wish], 2);
        let asked = Reservations { wishes, replicas_max, tasks_pending_max };
        only(self.apply(Command::Dynamic(DynamicCommand::Reserve(asked))))
    }

    /// Reserves a copy of `k` from `s1` to `s2` as task `number`.
    fn reserve(&mut self, number: u64) -> Outcome {
        self.reserve_with("k", ("s1", "s2"), number, 2)
    }

    fn start_reserved(
        &mut self,
        start: TransferStart,
        token: DynamicToken,
    ) -> Result<TransferStarted, E> {
        match self.apply(Command::Dynamic(DynamicCommand::Start { start, token })) {
            Reply::Transfer(started) => started,
            other => panic!("{other:?}"),
        }
    }

    fn start_plain(&mut self, start: TransferStart) -> Result<TransferStarted, E> {
        match self.apply(Command::TransferStart(start)) {
            Reply::Transfer(started) => started,
            other => panic!("{other:?}"),
        }
    }

    fn end_reserved(&mut self, verdict: TransferVerdict, token: DynamicToken) -> Outcome {
        let end = transfer_end(1, "k", verdict);
        outcome(self.apply(Command::Dynamic(DynamicCommand::End { end, token })))
    }

    /// The whole way of one replica.
    fn replicate(&mut self, number: u64) {
        assert_eq!(self.reserve(number), Ok(()));
        self.fetched(1);
        let token = self.token("k");
        self.start_reserved(transfer(1, "k", "s1", &["s2"]), token).unwrap();
        assert_eq!(self.end_reserved(TransferVerdict::Done, token), Ok(()));
    }

    fn fetched(&mut self, by: u64) -> Vec<String> {
        let fetch = TasksFetch { client: client(by), tasks_max: 9, processing_max: 9 };
        let Reply::Tasks(tasks) = self.apply(Command::TasksFetch(fetch)) else { panic!() };
        tasks.into_iter().map(|task| task.payload).collect()
    }

    fn task_end(&self, number: u64) -> (TaskStatus, String) {
        let task = self.state.tasks().get(task(number)).unwrap();
        (task.status, task.message.clone())
    }

    fn sweep_all(&mut self) -> u64 {
        let tasks = TaskRules { finished_max: 9, ..TaskRules::default() };
        let (items_max, release_timeout_ms) = (9, RELEASE_MS);
        let pins_until = Millis(0);
        let sweep = Sweep { pins_until, items_max, release_timeout_ms, tasks };
        let Reply::Swept(swept) = self.apply(Command::Sweep(sweep)) else { panic!() };
        swept.reservations_expired
    }

    /// Clears what lies on a segment of client 1's object.
    fn clear(&mut self, segment: &str) {
        let (client, segment, keys) = (client(1), Some(name(segment)), vec![key("k")]);
        let clear = ClearReplicas { tenant: None, client, segment, keys };
        assert_eq!(only(self.apply(Command::ClearReplicas(clear))), Ok(()));
    }
}

/// Three segments, each of a client of its own; `k` lies on `s1` under a soft pin.
fn scene() -> World {
    let mut world = World::empty();
    for n in 1..=3 {
        assert_eq!(world.mount(segment(n, MIB), n), Ok(()));
    }
    put_on_s1(&mut world);
    world
}

fn put_on_s1(world: &mut World) {
    let config = crate::state::command::WriteConfig {
        preferred: vec![name("s1")],
        ..config(1, pinned(3_600_000))
    };
    world.start(start("k", 1024, config)).unwrap();
    assert_eq!(world.end("k"), Ok(()));
}

#[test]
fn a_reserved_copy_is_a_task_for_the_sources_owner_and_makes_a_replica() {
    let mut world = scene();
    let (epoch, pin) = (world.now, world.pin("k"));
    world.pass(5);
    assert_eq!(world.reserve(1), Ok(()));
    let mut world = world.reloaded();
    let payload = format!(
        "{{\"tenant_id\":\"default\",\"key\":\"k\",\"source\":\"s1\",\"targets\":[\"s2\"],\
         \"dynamic_replication_lease_id_high\":8,\"dynamic_replication_lease_id_low\":6,\
         \"dynamic_replication_version_epoch\":{epoch}}}"
    );
    assert_eq!((world.fetched(2), world.fetched(1)), (Vec::new(), vec![payload]));
    let token = DynamicToken { lease: LEASE, epoch };
    let started = world.start_reserved(transfer(1, "k", "s1", &["s2"]), token).unwrap();
    assert_eq!(started.targets.len(), 1);
    assert_eq!(world.state.dynamic().reserved(), 0);
    let mut world = world.reloaded();
    let plain = Command::TransferEnd(transfer_end(1, "k", TransferVerdict::Done));
    assert_eq!(outcome(world.apply(plain)), Err(E::InvalidVersion));
    let other = DynamicToken { epoch: epoch + 1, ..token };
    assert_eq!(world.end_reserved(TransferVerdict::Done, other), Err(E::InvalidVersion));
    assert_eq!(world.end_reserved(TransferVerdict::Done, token), Ok(()));
    assert_eq!(world.places("k"), ["s1", "s2"]);
    assert_eq!(world.pin("k"), pin, "no pin is touched");
    let world = world.reloaded();
    let (dynamic, counters) = (world.state.dynamic(), world.state.dynamic().counters());
    assert_eq!((dynamic.replicas(), counters.completed, counters.completed_bytes), (1, 1, 1024));
    assert_eq!((counters.reserved, counters.started, counters.failed), (1, 1, 0));
}

#[test]
fn a_copy_without_a_token_ends_by_the_zeros_of_a_plain_one() {
    let mut world = scene();
    world.start_plain(transfer(1, "k", "s1", &["s2"])).unwrap();
    let token = DynamicToken { lease: LEASE, epoch: 1 };
    assert_eq!(world.end_reserved(TransferVerdict::Done, token), Err(E::InvalidVersion));
    let zeros = DynamicToken::default();
    assert_eq!(world.end_reserved(TransferVerdict::Done, zeros), Ok(()));
    assert_eq!(world.state.dynamic().replicas(), 0, "nobody reserved it");
}

#[test]
fn every_wrong_start_has_its_own_refusal_and_leaves_the_reservation() {
    let mut world = scene();
    let token = world.token("k");
    let right = || transfer(1, "k", "s1", &["s2"]);
    let refused = |world: &mut World, start, token| world.start_reserved(start, token).unwrap_err();
    assert_eq!(refused(&mut world, right(), token), E::UnavailableInCurrentStatus);
    assert_eq!(world.reserve(1), Ok(()));
    let absent = transfer(1, "absent", "s1", &["s2"]);
    assert_eq!(refused(&mut world, absent, token), E::ObjectNotFound);
    let lease = Uuid { first: 8, second: 7 };
    let other = DynamicToken { lease, ..token };
    assert_eq!(refused(&mut world, right(), other), E::InvalidVersion);
    for (source, targets) in [("s1", vec!["s3"]), ("s2", vec!["s2"]), ("s1", vec!["s2", "s3"])] {
        let start = transfer(1, "k", source, &targets);
        assert_eq!(refused(&mut world, start, token), E::ObjectHasReplicationTask);
    }
    assert_eq!(
        refused(&mut world, transfer(1, "k", "s1", &[]), token),
        E::ObjectHasReplicationTask
    );
    assert_eq!(refused(&mut world, transfer(2, "k", "s1", &["s2"]), token), E::IllegalClient);
    assert_eq!(world.state.dynamic().reserved(), 1);
    assert!(world.start_reserved(right(), token).is_ok());
    assert_eq!(refused(&mut world, right(), token), E::ObjectHasReplicationTask);
}

#[test]
fn a_start_that_fails_late_uses_the_reservation_up() {
    let mut world = scene();
    assert_eq!(world.reserve(1), Ok(()));
    let token = world.token("k");
    assert_eq!(world.unmount(2, 2), Ok(()));
    let start = || transfer(1, "k", "s1", &["s2"]);
    assert_eq!(world.start_reserved(start(), token).unwrap_err(), E::SegmentNotFound);
    let again = world.start_reserved(start(), token).unwrap_err();
    assert_eq!(again, E::UnavailableInCurrentStatus);
    assert_eq!(world.state.dynamic().counters().dropped, 1);
}

#[test]
fn an_object_that_was_written_again_is_not_copied_by_an_old_reservation() {
    let mut world = scene();
    assert_eq!(world.reserve(1), Ok(()));
    let token = world.token("k");
    world.pass(1);
    let upsert = Command::UpsertStart(start("k", 1024, config(1, Preserve)));
    let Reply::Starts(started) = world.apply(upsert) else { panic!() };
    assert!(started[0].is_ok(), "a reservation blocks no writer");
    assert_eq!(world.end("k"), Ok(()));
    let refused = world.start_reserved(transfer(1, "k", "s1", &["s2"]), token).unwrap_err();
    assert_eq!(refused, E::InvalidVersion);
    assert_eq!(world.state.dynamic().reserved(), 0);
    assert!(world.start_plain(transfer(1, "k", "s1", &["s3"])).is_ok());
}

#[test]
fn a_reservation_that_nobody_uses_expires_with_its_waiting_task() {
    let mut world = scene();
    assert_eq!(world.reserve(1), Ok(()));
    world.pass(29_999);
    assert_eq!(world.sweep_all(), 0);
    let mut world = world.reloaded();
    world.pass(1);
    let token = world.token("k");
    let late = world.start_reserved(transfer(1, "k", "s1", &["s2"]), token).unwrap_err();
    assert_eq!(late, E::UnavailableInCurrentStatus, "before a sweep has seen it");
    assert_eq!(world.sweep_all(), 1);
    let words = "dynamic replica lease expired".to_owned();
    assert_eq!(world.task_end(1), (TaskStatus::Failed, words));
    assert_eq!(world.state.dynamic().counters().expired, 1);
}

#[test]
fn a_fetched_task_is_its_clients_to_end_when_its_reservation_expires() {
    let mut world = scene();
    assert_eq!(world.reserve(1), Ok(()));
    assert_eq!(world.fetched(1).len(), 1);
    world.pass(30_000);
    assert_eq!(world.sweep_all(), 1);
    assert_eq!(world.task_end(1).0, TaskStatus::Processing);
}

#[test]
fn a_reservation_goes_with_its_object() {
    let mut world = scene();
    assert_eq!(world.reserve(1), Ok(()));
    assert_eq!(world.remove("k"), Ok(()));
    assert_eq!(world.task_end(1), (TaskStatus::Failed, "the object is gone".to_owned()));
    assert_eq!(world.state.dynamic().reserved(), 0);
    put_on_s1(&mut world);
    assert_eq!(world.reserve(2), Ok(()), "a new object does not rest for the old one");
}

#[test]
fn other_copies_wait_while_one_is_reserved_and_moves_do_not() {
    let mut world = scene();
    assert_eq!(world.reserve(1), Ok(()));
    let copy = || transfer(3, "k", "s1", &["s3"]);
    assert_eq!(world.start_plain(copy()).unwrap_err(), E::ObjectHasReplicationTask);
    world.pass(30_000);
    assert!(world.start_plain(copy()).is_ok(), "it has expired, swept or not");
    let mut world = scene();
    assert_eq!(world.reserve(1), Ok(()));
    let moved = TransferStart { kind: TransferKind::Move, ..copy() };
    assert!(world.start_plain(moved).is_ok());
    let token = world.token("k");
    let start = || transfer(1, "k", "s1", &["s2"]);
    let late = world.start_reserved(start(), token).unwrap_err();
    assert_eq!(late, E::ObjectHasReplicationTask);
    assert_eq!(world.state.dynamic().reserved(), 1, "it is kept");
}

#[test]
fn a_wish_that_does_not_fit_is_refused() {
    let mut world = scene();
    let s12 = ("s1", "s2");
    assert_eq!(world.reserve_with("absent", s12, 1, 2), Err(E::ObjectNotFound));
    assert_eq!(world.reserve_with("k", s12, 1, 1), Err(E::ObjectAlreadyExists));
    assert_eq!(world.reserve_with("k", ("s3", "s2"), 1, 2), Err(E::ReplicaNotFound));
    assert_eq!(world.reserve_with("k", ("s1", "s1"), 1, 2), Err(E::ObjectAlreadyExists));
    assert_eq!(world.reserve_with("k", ("s1", "nowhere"), 1, 2), Err(E::InvalidParams));
    world.open("open", Preserve);
    let open = world.reserve_with("open", s12, 1, 2);
    assert_eq!(open, Err(E::ReplicaIsNotReady));
    assert_eq!(world.state.dynamic().rest(world.find("k").unwrap()), None, "it may try again");
    world.start_plain(transfer(1, "k", "s1", &["s3"])).unwrap();
    assert_eq!(world.reserve(1), Err(E::ObjectHasReplicationTask));
}

#[test]
fn no_more_tasks_wait_than_may() {
    let mut world = scene();
    let others = ["a", "b"];
    for (number, name) in (1..).zip(others) {
        world.put(name, Preserve);
        let from = world.places(name)[0].clone();
        let to = if from == "s3" { "s2" } else { "s3" };
        assert_eq!(world.reserve_with(name, (&from, to), number, 2), Ok(()));
    }
    assert_eq!(world.reserve(3), Err(E::TaskPendingLimitExceeded));
}

#[test]
fn an_object_rests_after_a_reservation_and_longer_after_a_loss() {
    let mut world = scene();
    assert_eq!(world.reserve(1), Ok(()));
    let token = world.token("k");
    world.start_reserved(transfer(1, "k", "s1", &["s2"]), token).unwrap();
    assert_eq!(world.end_reserved(TransferVerdict::Revoked, token), Ok(()));
    assert_eq!(world.state.dynamic().counters().failed, 1);
    let mut world = world.reloaded();
    world.pass(29_999);
    assert_eq!(world.reserve(2), Err(E::UnavailableInCurrentStatus));
    world.pass(1);
    world.replicate(2);
    world.pass(40_000);
    world.clear("s2");
    let mut world = world.reloaded();
    assert_eq!((world.places("k"), world.state.dynamic().replicas()), (vec!["s1".into()], 0));
    world.pass(59_999);
    assert_eq!(world.reserve(3), Err(E::UnavailableInCurrentStatus));
    world.pass(1);
    world.replicate(3);
}

#[test]
fn the_loss_of_the_first_replica_is_no_loss_of_a_dynamic_one() {
    let mut world = scene();
    world.replicate(1);
    world.pass(30_000);
    world.clear("s1");
    assert_eq!(world.state.dynamic().replicas(), 1);
    assert_eq!(world.reserve_with("k", ("s2", "s3"), 2, 2), Ok(()));
}

#[test]
fn replicas_that_came_this_way_are_evicted_with_the_others_and_go_with_their_segment() {
    let mut world = scene();
    world.replicate(1);
    assert_eq!(world.unmount(2, 2), Ok(()));
    while !world.drain(2, 1) {}
    assert_eq!((world.places("k"), world.state.dynamic().replicas()), (vec!["s1".into()], 0));
    let incarnation = world.peek("k", incarnation).unwrap();
    let victims = vec![Victim { tenant: None, key: key("k"), incarnation }];
    let evict = Evict { victims, spares_soft_pinned: false };
    assert_eq!(world.apply(Command::Evict(evict)), Reply::Evicted(vec![1024]));
    assert_eq!(world.find("k"), None);
}

#[test]
fn a_reserved_copy_that_never_ends_is_over_after_the_release_timeout() {
    let mut world = scene();
    assert_eq!(world.reserve(1), Ok(()));
    let token = world.token("k");
    world.start_reserved(transfer(1, "k", "s1", &["s2"]), token).unwrap();
    world.pass(RELEASE_MS);
    world.sweep_all();
    assert_eq!((world.places("k"), world.used(2)), (vec!["s1".into()], 0));
    assert_eq!(world.state.dynamic().counters().failed, 1);
    assert_eq!(world.end_reserved(TransferVerdict::Done, token), Err(E::ObjectNoReplicationTask));
}

#[test]
fn of_too_many_that_rest_the_one_that_ends_first_is_forgotten() {
    let mut table = DynamicTable::default();
    let rest = |n: u64| Rest { until: Millis(1_000 + n), mark: ReplicaId(n) };
    let at = |n: u64| crate::model::ObjectRef(u32::try_from(n).unwrap());
    let max = RESTS_MAX as u64;
    (0..=max).for_each(|n| table.let_rest(at(n), rest(n)));
    assert_eq!((table.rest(at(0)), table.rest(at(1))), (None, Some(Millis(1_001))));
    table.let_rest(at(1), Rest { until: Millis(5), mark: ReplicaId(1) });
    assert_eq!(table.rest(at(1)), Some(Millis(1_001)), "no rest gets shorter");
}

/// One of each command, with every field at a value of its own.
pub fn samples() -> Vec<DynamicCommand> {
    let token = DynamicToken { lease: Uuid { first: 1, second: 2 }, epoch: 3 };
    let wish = Reserve {
        tenant: Tenant::parse("tA"),
        key: key("a"),
        token,
        source: name("s1"),
        target: name("s2"),
        task: task(4),
    };
    let asked = Reservations { wishes: vec![wish], replicas_max: 5, tasks_pending_max: 6 };
    vec![
        DynamicCommand::Reserve(asked),
        DynamicCommand::Start { start: transfer(1, "a", "s1", &["s2"]), token },
        DynamicCommand::End { end: transfer_end(1, "a", TransferVerdict::Done), token },
    ]
}

/// A step of a random history about hot objects.
#[derive(Clone, Debug)]
pub enum HotAct {
    Reserve { names: Vec<u8>, from: Option<u8>, to: u8, replicas_max: u64 },
    Start { by: Option<u64>, is_right: bool },
    End { by: Option<u64>, is_revoke: bool, is_right: bool },
}

pub fn hot_act() -> impl Strategy<Value = HotAct> {
    let often = || prop::bool::weighted(0.85);
    let names = prop::collection::vec(0..6_u8, 1..4);
    let from = prop::option::weighted(0.2, 0..5_u8);
    let caller = || prop_oneof![6 => Just(None), 1 => (1..=3_u64).prop_map(Some)];
    prop_oneof![
        8 => (names, from, 0..5_u8, 1..4_u64).prop_map(
            |(names, from, to, replicas_max)| HotAct::Reserve { names, from, to, replicas_max }
        ),
        6 => (caller(), often()).prop_map(|(by, is_right)| HotAct::Start { by, is_right }),
        5 => (caller(), any::<bool>(), often())
            .prop_map(|(by, is_revoke, is_right)| HotAct::End { by, is_revoke, is_right }),
    ]
}

/// When a key was written and the segment name of its first replica.
fn written(state: &State, key: &Key) -> Option<(u64, Arc<str>)> {
    let hash = table_hash(&Tenant::default(), &key.0);
    let at = state.view().table.locate(hash, TenantIdx(0), &key.0)?;
    let first = |object: &crate::model::Object| {
        let segment = object.replicas.iter().find_map(|replica| replica.place.segment())?;
        let mounted = state.segments().get(segment)?;
        Some((object.put_start.0, Arc::clone(&mounted.segment.name)))
    };
    state.view().table.peek(at, first).flatten()
}

fn owner(state: &State, segment: &str) -> ClientId {
    state.segments().named(segment).next().map_or(client(1), |(_, mounted)| mounted.owner)
}

pub fn hot_command(act: HotAct, state: &State) -> DynamicCommand {
    let bent = |token: DynamicToken, is_right: bool| match is_right {
        true => token,
        false => DynamicToken { epoch: token.epoch + 1, ..token },
    };
    match act {
        HotAct::Reserve { names, from, to, replicas_max } => {
            let place = |at: u8| name(["a", "b", "c", "d", "e"][usize::from(at)]);
            let tasks = state.tasks().iter().count() as u64;
            let wishes = (200..).zip(names).map(|(n, key)| {
                let key = scripted_key(key);
                let found = written(state, &key);
                let (epoch, lies) = found.unwrap_or_else(|| (7, place(0)));
                let lease = Uuid { first: n, second: tasks };
                let (source, target) = (from.map_or(lies, place), place(to));
                let (token, task) = (DynamicToken { lease, epoch }, TaskId(lease));
                Reserve { tenant: None, key, token, source, target, task }
            });
            let wishes = wishes.collect();
            DynamicCommand::Reserve(Reservations { wishes, replicas_max, tasks_pending_max: 4 })
        }
        HotAct::Start { by, is_right } => {
            let first = state.dynamic().reservations().next();
            let key = first.map_or(scripted_key(0), |known| key_of(&known.name));
            let token = first.map_or(DynamicToken::default(), |known| known.token);
            let source = first.map_or_else(|| name("a"), |known| Arc::clone(&known.source));
            let targets = first.map(|known| Arc::clone(&known.target)).into_iter().collect();
            let client = by.map_or(owner(state, &source), client);
            let (tenant, kind) = (None, TransferKind::Copy);
            let start = TransferStart { client, tenant, key, kind, source, targets };
            DynamicCommand::Start { start, token: bent(token, is_right) }
        }
        HotAct::End { by, is_revoke, is_right } => {
            let with_token = |token: DynamicToken| token != DynamicToken::default();
            let open = state.transfers().iter().find(|open| with_token(open.token));
            let key = open.map_or(scripted_key(1), |open| key_of(&open.name));
            let caller = open.map_or(client(1), |open| open.client);
            let token = open.map_or(DynamicToken::default(), |open| open.token);
            let verdict = if is_revoke { TransferVerdict::Revoked } else { TransferVerdict::Done };
            let end = TransferEnd {
                client: by.map_or(caller, client),
                tenant: None,
                key,
                kind: TransferKind::Copy,
                verdict,
                is_dynamic: false,
                release_timeout_ms: RELEASE_MS,
            };
            DynamicCommand::End { end, token: bent(token, is_right) }
        }
    }
}

fn key_of(name: &ObjectKey) -> Key {
    Key(name.key.to_vec())
}
