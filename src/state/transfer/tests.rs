//! The life of a copy and of a move; the small world here serves the tests of tasks and eviction, too.

use super::*;
use crate::model::{Deadline, PinRequest, ReplicaSelect, Segment, SegmentId, Ttl, Uuid};
use crate::state::command::{Command, End, EndItem, Entry, Remove, Revoke, Stamp, Sweep};
use crate::state::command::{Start, StartItem, WriteConfig, WriteRules};
use crate::state::{Reply, State};

const RELEASE_MS: u64 = 600_000;

pub(crate) fn client(n: u64) -> ClientId {
    ClientId(Uuid { first: n, second: 0 })
}

pub(crate) struct World {
    pub state: State,
    pub now: u64,
}

impl World {
    /// Three segments a, b and c of a mebibyte, each of its own client 1, 2 and 3.
    pub fn new() -> Self {
        let mut world = World { state: State::default(), now: 1_000_000 };
        for (n, name) in [(1, "a"), (2, "b"), (3, "c")] {
            let segment = Segment {
                id: SegmentId(Uuid { first: n, second: 9 }),
                name: Arc::from(name),
                base: n << 32,
                size: 1 << 20,
                endpoint: Arc::from(name),
                protocol: Arc::from("tcp"),
                host_id: Arc::from(""),
            };
            let mounted = world.apply(Command::MountSegment { segment, client: client(n) });
            assert_eq!(mounted, Reply::Outcome(Ok(())));
        }
        world
    }

    pub fn apply(&mut self, command: Command) -> Reply {
        let stamp = Stamp { now: Millis(self.now), seed: self.now };
        let replies = self.state.apply_entry(&Entry { stamp, commands: vec![command] });
        replies.into_iter().next().unwrap()
    }

    pub fn start_put(&mut self, key: &str, pin: PinRequest) {
        self.start_put_with(key, pin, false);
    }

    pub fn start_put_with(&mut self, key: &str, pin: PinRequest, is_hard_pinned: bool) {
        let config = WriteConfig {
            replica_num: 1,
            pin,
            is_hard_pinned,
            data_type: 0,
            preferred: vec![Arc::from("a")],
            is_same_node_preferred: false,
            host_id: Arc::from(""),
        };
        let rules = WriteRules {
            discard_timeout_ms: 30_000,
            release_timeout_ms: RELEASE_MS,
            strategy: crate::alloc::Strategy::Random,
        };
        let items = vec![StartItem { key: as_key(key), size: 1_000, group: None }];
        let start = Start { client: client(7), tenant: None, items, config, rules };
        let Reply::Starts(started) = self.apply(Command::PutStart(start)) else { panic!() };
        assert!(started[0].is_ok(), "{started:?}");
    }

    pub fn pin(&mut self, key: &str, ttl_ms: u64) {
        self.start_put(key, PinRequest::Enable(Ttl(ttl_ms)));
        assert_eq!(self.end_put(key), Ok(()));
    }

    pub fn look<R>(&self, key: &str, look: impl FnOnce(Option<&Object>) -> R) -> R {
        let hash = crate::state::table::table_hash(&Tenant::default(), key.as_bytes());
        let tenant = crate::model::TenantIdx(0);
        self.state.view().table.look(hash, tenant, key.as_bytes(), look)
    }

    pub fn end_put(&mut self, key: &str) -> Result<(), ErrorCode> {
        let items = vec![EndItem { key: as_key(key), checksum: None }];
        let end = End { client: client(7), tenant: None, items, select: ReplicaSelect::All };
        first(self.apply(Command::PutEnd(end)))
    }

    pub fn put(&mut self, key: &str) {
        self.start_put(key, PinRequest::Preserve);
        assert_eq!(self.end_put(key), Ok(()));
    }

    pub fn start(
        &mut self,
        kind: TransferKind,
        source: &str,
        targets: &[&str],
    ) -> Result<TransferStarted, ErrorCode> {
        let start = TransferStart {
            client: client(1),
            tenant: None,
            key: as_key("k"),
            kind,
            source: Arc::from(source),
            targets: targets.iter().map(|name| Arc::from(*name)).collect(),
        };
        let Reply::Transfer(started) = self.apply(Command::TransferStart(start)) else { panic!() };
        started
    }

    fn end_as(
        &mut self,
        caller: u64,
        kind: TransferKind,
        verdict: TransferVerdict,
    ) -> Result<(), ErrorCode> {
        let end = TransferEnd {
            client: client(caller),
            tenant: None,
            key: as_key("k"),
            kind,
            verdict,
            is_dynamic: false,
            release_timeout_ms: RELEASE_MS,
        };
        let Reply::Outcome(outcome) = self.apply(Command::TransferEnd(end)) else { panic!() };
        outcome
    }

    pub fn end(&mut self, kind: TransferKind) -> Result<(), ErrorCode> {
        self.end_as(1, kind, TransferVerdict::Done)
    }

    fn remove(&mut self) -> Result<(), ErrorCode> {
        self.remove_key("k")
    }

    pub fn remove_key(&mut self, key: &str) -> Result<(), ErrorCode> {
        first(self.apply(Command::Remove(Remove { tenant: None, keys: vec![as_key(key)] })))
    }

    fn unmount(&mut self, n: u64) {
        let segment = SegmentId(Uuid { first: n, second: 9 });
        let unmounted = self.apply(Command::UnmountSegment { segment, client: client(n) });
        assert_eq!(unmounted, Reply::Outcome(Ok(())));
    }

    /// Segment name and status of each replica, in order.
    fn replicas(&self) -> Vec<(String, bool)> {
        self.look("k", |object| {
            let replicas = object.map(|object| object.replicas.clone()).unwrap_or_default();
            let told = replicas.iter().map(|replica| {
                let mounted = replica.place.segment().and_then(|at| self.state.segments.get(at));
                let name = mounted.map(|mounted| mounted.segment.name.to_string());
                (name.unwrap_or_default(), replica.is_complete())
            });
            told.collect()
        })
    }

    pub fn fill(&mut self, name: &str) {
        let index = self.state.segments.named(name).next().unwrap().0;
        let mut pool = SegmentPool { segments: &mut self.state.segments, size: 1_000 };
        while pool.allocate_on(index).is_some() {}
    }

    pub fn used(&self, name: &str) -> u64 {
        self.state.segments.named(name).map(|(_, mounted)| mounted.allocator.used_bytes()).sum()
    }

    fn sweep(&mut self) -> super::super::reply::Swept {
        let sweep = Sweep {
            pins_until: Millis(0),
            items_max: 100,
            release_timeout_ms: RELEASE_MS,
            ..Default::default()
        };
        let Reply::Swept(swept) = self.apply(Command::Sweep(sweep)) else { panic!() };
        swept
    }

    /// The same state after a raft snapshot.
    pub fn reload(&mut self) {
        let mut bytes = Vec::new();
        self.state.freeze().save(&mut bytes).unwrap();
        self.state = State::load(&mut bytes.as_slice()).unwrap();
        let mut again = Vec::new();
        self.state.freeze().save(&mut again).unwrap();
        assert_eq!(bytes, again);
    }
}

pub(crate) fn as_key(key: &str) -> Key {
    Key(key.as_bytes().to_vec())
}

fn first(reply: Reply) -> Result<(), ErrorCode> {
    let Reply::Results(results) = reply else { panic!("{reply:?}") };
    results[0]
}

fn told(list: &[(&str, bool)]) -> Vec<(String, bool)> {
    list.iter().map(|(name, done)| (name.to_string(), *done)).collect()
}

use TransferKind::{Copy, Move};

#[test]
fn a_copy_is_refused_in_the_peers_order_of_checks() {
    let mut world = World::new();
    assert_eq!(world.start(Copy, "a", &["b"]).unwrap_err(), ErrorCode::ObjectNotFound);
    assert_eq!(world.start(Copy, "a", &["x"]).unwrap_err(), ErrorCode::SegmentNotFound);
    world.start_put("k", PinRequest::Preserve);
    assert_eq!(world.start(Copy, "a", &["b"]).unwrap_err(), ErrorCode::ReplicaNotFound);
    world.end_put("k").unwrap();
    assert_eq!(world.start(Copy, "b", &["c"]).unwrap_err(), ErrorCode::ReplicaNotFound);
    assert_eq!(world.start(Move, "a", &["a"]).unwrap_err(), ErrorCode::InvalidParams);
    world.start(Copy, "a", &["b"]).unwrap();
    let busy = ErrorCode::ObjectHasReplicationTask;
    assert_eq!(world.start(Copy, "a", &["c"]).unwrap_err(), busy);
    assert_eq!(world.start(Move, "a", &["c"]).unwrap_err(), busy);
}

#[test]
fn a_copy_is_ended_by_its_starter_and_as_a_copy_only() {
    let mut world = World::new();
    world.put("k");
    assert_eq!(world.end(Copy), Err(ErrorCode::ObjectNoReplicationTask));
    let started = world.start(Copy, "a", &["b", "c"]).unwrap();
    assert_eq!(started.targets.len(), 2);
    assert_eq!(world.replicas(), told(&[("a", true), ("b", false), ("c", false)]));
    world.reload();
    assert_eq!(world.end_as(2, Copy, TransferVerdict::Done), Err(ErrorCode::IllegalClient));
    assert_eq!(world.end(Move), Err(ErrorCode::InvalidParams));
    assert_eq!(world.end(Copy), Ok(()));
    assert_eq!(world.replicas(), told(&[("a", true), ("b", true), ("c", true)]));
    assert_eq!(world.end(Copy), Err(ErrorCode::ObjectNoReplicationTask));
    assert_eq!(world.remove(), Ok(()));
    assert_eq!((world.used("a"), world.used("b"), world.used("c")), (0, 0, 0));
}

#[test]
fn a_target_named_twice_gets_one_replica_and_one_that_has_a_replica_gets_none() {
    let mut world = World::new();
    world.put("k");
    let started = world.start(Copy, "a", &["b", "b", "a"]).unwrap();
    assert_eq!(started.targets.len(), 1);
    world.end(Copy).unwrap();
    assert_eq!(world.start(Copy, "a", &["b"]).unwrap().targets, []);
    assert_eq!(world.remove(), Err(ErrorCode::ObjectHasReplicationTask));
    assert_eq!(world.end(Copy), Ok(()));
}

#[test]
fn a_copy_that_finds_no_room_reserves_nothing() {
    let mut world = World::new();
    world.put("k");
    world.fill("c");
    assert_eq!(world.start(Copy, "a", &["b", "c"]).unwrap_err(), ErrorCode::NoAvailableHandle);
    assert_eq!(world.used("b"), 0);
    assert_eq!(world.remove(), Ok(()));
}

#[test]
fn a_write_neither_completes_nor_revokes_the_target_of_a_copy() {
    let mut world = World::new();
    world.put("k");
    world.start(Copy, "a", &["b"]).unwrap();
    assert_eq!(world.end_put("k"), Err(ErrorCode::InvalidWrite));
    let (client, keys) = (client(7), vec![as_key("k")]);
    let revoke = Revoke { client, tenant: None, keys, select: ReplicaSelect::All };
    assert_eq!(first(world.apply(Command::PutRevoke(revoke))), Err(ErrorCode::InvalidWrite));
    assert_eq!(world.replicas(), told(&[("a", true), ("b", false)]));
    assert_eq!(world.remove(), Err(ErrorCode::ReplicaIsNotReady));
}

#[test]
fn a_revoked_copy_frees_its_targets_and_the_object_goes_with_its_last_replica() {
    let mut world = World::new();
    world.put("k");
    world.start(Copy, "a", &["b"]).unwrap();
    world.end_as(1, Copy, TransferVerdict::Revoked).unwrap();
    assert_eq!((world.replicas(), world.used("b")), (told(&[("a", true)]), 0));
    world.start(Copy, "a", &["b"]).unwrap();
    world.unmount(1);
    assert_eq!(world.end_as(1, Copy, TransferVerdict::Revoked), Ok(()));
    assert_eq!((world.replicas(), world.used("b")), (told(&[]), 0));
    assert_eq!(world.state.totals().keys, 0);
}

#[test]
fn a_copy_whose_source_is_gone_ends_with_nothing_kept() {
    let mut world = World::new();
    world.put("k");
    world.start(Copy, "a", &["b"]).unwrap();
    world.unmount(1);
    world.reload();
    assert_eq!(world.end(Copy), Err(ErrorCode::ReplicaIsGone));
    assert_eq!(world.state.totals().keys, 0);
    assert!(world.state.transfers().is_empty());
}

#[test]
fn a_copy_that_lost_a_target_keeps_the_others() {
    let mut world = World::new();
    world.put("k");
    world.start(Copy, "a", &["b", "c"]).unwrap();
    world.unmount(2);
    assert_eq!(world.end(Copy), Err(ErrorCode::ReplicaIsGone));
    assert_eq!(world.replicas(), told(&[("a", true), ("c", true)]));
}

#[test]
fn a_moved_replica_stays_reserved_for_the_release_timeout() {
    let mut world = World::new();
    world.put("k");
    world.start(Move, "a", &["b"]).unwrap();
    world.end(Move).unwrap();
    assert_eq!(world.replicas(), told(&[("b", true)]));
    assert_eq!(world.state.discards().staged_bytes(), 1_000);
    world.reload();
    world.now += RELEASE_MS - 1;
    world.sweep();
    assert_eq!(world.used("a"), 1_000);
    world.now += 1;
    assert_eq!(world.sweep().discards_released, 1);
    assert_eq!(world.used("a"), 0);
}

#[test]
fn a_move_to_where_a_replica_is_drops_the_source_unless_it_is_the_last() {
    let mut world = World::new();
    world.put("k");
    world.start(Copy, "a", &["b"]).unwrap();
    world.end(Copy).unwrap();
    assert_eq!(world.start(Move, "a", &["b"]).unwrap().targets, []);
    world.end(Move).unwrap();
    assert_eq!(world.replicas(), told(&[("b", true)]));
    world.start(Copy, "b", &["a"]).unwrap();
    world.end(Copy).unwrap();
    world.start(Move, "b", &["a"]).unwrap();
    world.unmount(1);
    assert_eq!(world.end(Move), Err(ErrorCode::ReplicaIsGone));
    assert_eq!(world.replicas(), told(&[("b", true)]));
}

#[test]
fn a_move_that_lost_its_target_keeps_the_source_and_can_start_again() {
    let mut world = World::new();
    world.put("k");
    world.start(Move, "a", &["b"]).unwrap();
    world.unmount(2);
    assert_eq!(world.end(Move), Err(ErrorCode::ReplicaIsGone));
    assert_eq!(world.replicas(), told(&[("a", true)]));
    let revoked = world.end_as(1, Move, TransferVerdict::Revoked);
    assert_eq!(revoked, Err(ErrorCode::ObjectNoReplicationTask));
    world.start(Move, "a", &["c"]).unwrap();
    world.end(Move).unwrap();
    assert_eq!(world.replicas(), told(&[("c", true)]));
}

#[test]
fn a_transfer_that_never_ends_is_dropped_after_the_release_timeout() {
    let mut world = World::new();
    world.put("k");
    world.start(Copy, "a", &["b"]).unwrap();
    world.now += RELEASE_MS - 1;
    assert_eq!(world.sweep().transfers_dropped, 0);
    world.now += 1;
    let swept = world.sweep();
    assert_eq!((swept.transfers_dropped, swept.discards_released), (1, 1));
    assert_eq!((world.replicas(), world.used("b")), (told(&[("a", true)]), 0));
    assert_eq!(world.end(Copy), Err(ErrorCode::ObjectNoReplicationTask));
    assert_eq!(world.remove(), Ok(()));
}

#[test]
fn a_put_over_a_half_copied_key_leaves_the_copys_memory_alone_until_its_own_release_time() {
    let mut world = World::new();
    world.put("k");
    world.now += RELEASE_MS;
    world.start(TransferKind::Copy, "a", &["b"]).unwrap();
    world.unmount(1);
    assert_eq!(world.replicas(), told(&[("b", false)]));
    // The key was put long ago; the copy may be being written now.
    world.start_put("k", PinRequest::Preserve);
    let copied = world.used("b");
    world.sweep();
    assert_eq!(world.used("b"), copied);
    world.now += RELEASE_MS - 1;
    world.sweep();
    let early = world.used("b");
    world.now += 1;
    world.sweep();
    assert_eq!(early - world.used("b"), 1_000);
    assert_eq!(world.state.check(), Vec::<String>::new());
}

#[test]
fn copies_and_moves_leave_the_soft_pin_as_it_is() {
    let mut world = World::new();
    world.start_put("k", PinRequest::Enable(Ttl(50_000)));
    world.end_put("k").unwrap();
    let deadline = Some(Deadline(world.now + 50_000));
    let pin = |world: &mut World| world.state.next_deadline();
    assert_eq!(pin(&mut world), deadline);
    world.now += 10_000;
    world.start(Copy, "a", &["b"]).unwrap();
    world.end(Copy).unwrap();
    world.now += 10_000;
    world.start(Move, "a", &["c"]).unwrap();
    world.reload();
    world.end(Move).unwrap();
    assert_eq!((pin(&mut world), world.state.deadlines().len()), (deadline, 1));
}
