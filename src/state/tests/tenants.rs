//! Tenants: who may write, what is charged and refunded, and what policies amount to.

use std::collections::BTreeMap;

use super::world::*;
use crate::model::PinRequest::Preserve;
use crate::model::{ErrorCode, ReplicaSelect, Tenant, Uuid};
use crate::state::command::{Command, End, EndItem, Remove, Revoke, Start};
use crate::state::tasks::TaskCreate;
use crate::state::tenants::{Account, PolicyFile, TenantChange, TenantPolicy, shares};
use crate::state::transfer::{TransferEnd, TransferKind, TransferStart, TransferVerdict};
use crate::state::{Reply, State};

type Outcome = Result<(), ErrorCode>;

fn tenant(name: &str) -> Tenant {
    Tenant::parse(name).unwrap()
}

fn change(world: &mut World, change: TenantChange) -> Outcome {
    outcome(world.apply(Command::Tenants(change)))
}

/// Tenants are kept apart, with these quotas.
fn enforce(world: &mut World, quotas: &[(&str, u64)]) {
    let policy = |(name, quota_bytes): &(&str, u64)| TenantPolicy {
        tenant: tenant(name),
        quota_bytes: *quota_bytes,
    };
    let policies = Some(quotas.iter().map(policy).collect());
    let file = Some(PolicyFile { node_id: 1, digest: 5 });
    let setup = TenantChange::Setup { is_enforced: true, file, policies };
    assert_eq!(change(world, setup), Ok(()));
}

fn world(quotas: &[(&str, u64)]) -> World {
    let mut world = World::with_segments(2, MIB);
    enforce(&mut world, quotas);
    world
}

fn of(name: &str, start: Start) -> Start {
    Start { tenant: tenant(name).for_command(), ..start }
}

fn put(name: &str, key: &str, size: u64, copies: u32) -> Start {
    of(name, start(key, size, config(copies, Preserve)))
}

fn upsert(world: &mut World, start: Start) -> Outcome {
    match world.apply(Command::UpsertStart(start)) {
        Reply::Starts(mut started) => started.remove(0).map(|_| ()),
        other => panic!("{other:?}"),
    }
}

fn end(world: &mut World, name: &str, of: &str) -> Outcome {
    let items = vec![EndItem { key: key(of), checksum: None }];
    let (tenant, select) = (tenant(name).for_command(), ReplicaSelect::All);
    only(world.apply(Command::PutEnd(End { client: client(1), tenant, items, select })))
}

fn revoke(world: &mut World, name: &str, of: &str) -> Outcome {
    let (tenant, select) = (tenant(name).for_command(), ReplicaSelect::All);
    let keys = vec![key(of)];
    only(world.apply(Command::PutRevoke(Revoke { client: client(1), tenant, keys, select })))
}

fn remove(world: &mut World, name: &str, of: &str) -> Outcome {
    let tenant = tenant(name).for_command();
    only(world.apply(Command::Remove(Remove { tenant, keys: vec![key(of)] })))
}

fn account(state: &State, name: &str) -> Account {
    state.account(&tenant(name)).unwrap()
}

fn charged(world: &World, name: &str) -> u64 {
    world.state.account(&tenant(name)).map_or(0, |account| account.usage.charged)
}

#[test]
fn only_a_tenant_with_a_policy_may_write_and_the_default_one_has_none_by_itself() {
    let mut world = world(&[("t", MIB)]);
    let unknown = Err(ErrorCode::TenantNotRegistered);
    assert_eq!(world.start(put("default", "k", 10, 1)), unknown);
    assert_eq!(world.start(put("u", "k", 10, 1)), unknown);
    assert_eq!(upsert(&mut world, put("u", "k", 10, 1)), Err(ErrorCode::TenantNotRegistered));
    assert!(world.start(put("t", "k", 10, 1)).is_ok());
    let off = TenantChange::Setup { is_enforced: false, file: None, policies: None };
    assert_eq!(change(&mut world, off), Ok(()));
    assert!(world.start(put("default", "k", 10, 1)).is_ok());
}

#[test]
fn copies_moves_and_tasks_of_an_unregistered_tenant_are_refused() {
    let mut world = world(&[("t", MIB)]);
    let unknown = Some(tenant("u"));
    let (source, targets) = ("s1".into(), vec!["s2".into()]);
    let start = TransferStart {
        client: client(1),
        tenant: unknown.clone(),
        key: key("k"),
        kind: TransferKind::Copy,
        source,
        targets: targets.clone(),
    };
    let refused = Reply::Transfer(Err(ErrorCode::TenantNotRegistered));
    assert_eq!(world.apply(Command::TransferStart(start)), refused);
    let task = TaskCreate {
        id: crate::model::TaskId(Uuid { first: 1, second: 2 }),
        kind: TransferKind::Copy,
        tenant: unknown,
        key: key("k"),
        source: None,
        targets,
        pending_max: 10,
    };
    let refused = Reply::Task(Err(ErrorCode::TenantNotRegistered));
    assert_eq!(world.apply(Command::TaskCreate(task)), refused);
}

#[test]
fn one_key_in_two_tenants_is_two_objects() {
    let mut world = world(&[("a", MIB), ("b", MIB)]);
    for name in ["a", "b"] {
        world.start(put(name, "k", 100, 1)).unwrap();
        assert_eq!(end(&mut world, name, "k"), Ok(()));
    }
    assert_eq!((charged(&world, "a"), charged(&world, "b")), (100, 100));
    assert_eq!(remove(&mut world, "a", "k"), Ok(()));
    assert_eq!((charged(&world, "a"), charged(&world, "b")), (0, 100));
    assert_eq!(remove(&mut world, "a", "k"), Err(ErrorCode::ObjectNotFound));
    assert_eq!(world.state.totals().keys, 1);
}

#[test]
fn pins_of_one_key_in_two_tenants_end_each_in_its_own_time() {
    let mut world = world(&[("a", MIB), ("b", MIB)]);
    for (name, ttl) in [("a", 1_000), ("b", 2_000)] {
        world.start(of(name, start("k", 100, config(1, pinned(ttl))))).unwrap();
        assert_eq!(end(&mut world, name, "k"), Ok(()));
    }
    assert_eq!(world.gauge(), 2);
    world.pass(1_000);
    assert_eq!((world.sweep().pins_expired, world.gauge()), (1, 1));
    let mut world = world.reloaded();
    world.pass(1_000);
    assert_eq!((world.sweep().pins_expired, world.gauge()), (1, 0));
}

#[test]
fn a_start_is_charged_for_every_copy_and_refused_beyond_the_quota() {
    let mut world = world(&[("t", 100)]);
    world.start(put("t", "a", 40, 2)).unwrap();
    assert_eq!(charged(&world, "t"), 80);
    assert_eq!(world.start(put("t", "b", 30, 1)), Err(ErrorCode::TenantQuotaExceeded));
    assert_eq!(charged(&world, "t"), 80);
    world.start(put("t", "b", 20, 1)).unwrap();
    assert_eq!(revoke(&mut world, "t", "a"), Ok(()));
    assert_eq!(charged(&world, "t"), 20);
    // Fewer copies than asked for are placed: what is asked for counts at the start, what is there from then on.
    assert_eq!(world.start(put("t", "c", 20, 5)), Err(ErrorCode::TenantQuotaExceeded));
    world.start(put("t", "c", 20, 4)).unwrap();
    assert_eq!(charged(&world, "t"), 60);
}

#[test]
fn content_that_is_replaced_stays_charged_until_its_write_has_ended() {
    for is_revoked in [false, true] {
        let mut world = world(&[("t", 300)]);
        world.start(put("t", "k", 100, 1)).unwrap();
        end(&mut world, "t", "k").unwrap();
        let too_large = put("t", "k", 201, 1);
        assert_eq!(upsert(&mut world, too_large), Err(ErrorCode::TenantQuotaExceeded));
        assert_eq!(upsert(&mut world, put("t", "k", 200, 1)), Ok(()));
        assert_eq!(charged(&world, "t"), 300);
        let mut world = world.reloaded();
        assert_eq!(charged(&world, "t"), 300, "behind a raft snapshot");
        match is_revoked {
            false => assert_eq!(end(&mut world, "t", "k"), Ok(())),
            true => assert_eq!(revoke(&mut world, "t", "k"), Ok(())),
        }
        assert_eq!(charged(&world, "t"), if is_revoked { 0 } else { 200 });
    }
}

#[test]
fn an_upsert_that_preempts_another_is_not_charged_for_it() {
    let mut world = world(&[("t", 300)]);
    world.start(put("t", "k", 100, 1)).unwrap();
    end(&mut world, "t", "k").unwrap();
    upsert(&mut world, put("t", "k", 200, 1)).unwrap();
    assert_eq!(upsert(&mut world, put("t", "k", 300, 1)), Ok(()));
    assert_eq!(charged(&world, "t"), 300);
    assert_eq!(end(&mut world, "t", "k"), Ok(()));
    assert_eq!(charged(&world, "t"), 300);
}

#[test]
fn writing_in_place_charges_nothing_more() {
    let mut world = world(&[("t", 100)]);
    world.start(put("t", "k", 100, 1)).unwrap();
    end(&mut world, "t", "k").unwrap();
    assert_eq!(upsert(&mut world, put("t", "k", 100, 1)), Ok(()));
    assert_eq!(charged(&world, "t"), 100);
    assert_eq!(end(&mut world, "t", "k"), Ok(()));
    assert_eq!(charged(&world, "t"), 100);
}

#[test]
fn a_copy_is_charged_before_its_target_is_taken_and_a_move_gives_its_source_back() {
    let transfer = |world: &mut World, kind, source: &str, target: &str| {
        let start = TransferStart {
            client: client(1),
            tenant: Some(tenant("t")),
            key: key("k"),
            kind,
            source: source.into(),
            targets: vec![target.into()],
        };
        match world.apply(Command::TransferStart(start)) {
            Reply::Transfer(started) => started.map(|_| ()),
            other => panic!("{other:?}"),
        }
    };
    let done = |world: &mut World, kind, verdict| {
        outcome(world.apply(Command::TransferEnd(TransferEnd {
            client: client(1),
            tenant: Some(tenant("t")),
            key: key("k"),
            kind,
            verdict,
            is_dynamic: false,
            release_timeout_ms: 60_000,
        })))
    };
    let (copy, relocate) = (TransferKind::Copy, TransferKind::Move);
    for (kind, verdict, after) in [
        (copy, TransferVerdict::Done, 200),
        (copy, TransferVerdict::Revoked, 100),
        (relocate, TransferVerdict::Done, 100),
        (relocate, TransferVerdict::Revoked, 100),
    ] {
        let mut world = world(&[("t", 150)]);
        world.start(put("t", "k", 100, 1)).unwrap();
        end(&mut world, "t", "k").unwrap();
        let at = account(&world.state, "t");
        assert_eq!((at.usage.charged, at.effective), (100, 150));
        let places = ["s1", "s2"];
        let place = |world: &World| {
            let hash = crate::state::table::table_hash(&tenant("t"), b"k");
            let index = world.state.tenant_idx(Some(&tenant("t"))).unwrap();
            let table = &world.state.view().table;
            let segment = table.look(hash, index, b"k", |object| {
                object.unwrap().replicas.first().unwrap().place.segment().unwrap()
            });
            world.state.segments().get(segment).unwrap().segment.name.to_string()
        };
        let source = place(&world);
        let target = places.into_iter().find(|name| *name != source).unwrap();
        let full = Err(ErrorCode::TenantQuotaExceeded);
        assert_eq!(transfer(&mut world, kind, &source, target), full);
        assert_eq!(charged(&world, "t"), 100);
        let policy = TenantPolicy { tenant: tenant("t"), quota_bytes: 300 };
        change(&mut world, TenantChange::Set { policy, file: None }).unwrap();
        assert_eq!(transfer(&mut world, kind, &source, target), Ok(()));
        assert_eq!(charged(&world, "t"), 200);
        assert_eq!(done(&mut world, kind, verdict), Ok(()));
        assert_eq!(charged(&world, "t"), after, "{kind:?} {verdict:?}");
    }
}

#[test]
fn a_lost_segment_and_a_dropped_write_are_refunded_once() {
    let mut world = world(&[("t", 1_000)]);
    world.start(put("t", "a", 100, 2)).unwrap();
    end(&mut world, "t", "a").unwrap();
    world.start(put("t", "b", 100, 2)).unwrap();
    assert_eq!(charged(&world, "t"), 400);
    world.unmount(2, 1).unwrap();
    assert_eq!(charged(&world, "t"), 200);
    world.pass(60_001);
    world.sweep();
    assert_eq!(charged(&world, "t"), 100);
}

#[test]
fn quotas_are_shared_out_when_memory_is_less_than_all_of_them() {
    let policies = |all: &[(&str, u64)]| -> BTreeMap<Tenant, u64> {
        all.iter().map(|(name, quota)| (tenant(name), *quota)).collect()
    };
    let out = |all: &[(&str, u64)], capacity| -> Vec<u64> {
        shares(&policies(all), capacity).into_values().collect()
    };
    assert_eq!(out(&[("a", 200), ("b", 400)], 600), [200, 400]);
    assert_eq!(out(&[("a", 200), ("b", 400)], 300), [100, 200]);
    assert_eq!(out(&[("a", 1), ("b", 1), ("c", 1)], 2), [1, 1, 0], "equal remainders: by name");
    assert_eq!(out(&[("a", 5), ("b", 3)], 3), [2, 1], "1.875 and 1.125");
    assert_eq!(out(&[("a", u64::MAX >> 1), ("b", u64::MAX >> 1)], 9), [5, 4]);
    assert_eq!(out(&[("a", 5)], 0), [0]);
}

#[test]
fn quotas_follow_memory_as_it_comes_and_goes() {
    let mut world = world(&[("a", MIB), ("b", MIB)]);
    assert_eq!(account(&world.state, "a").effective, MIB);
    world.unmount(2, 1).unwrap();
    assert_eq!(account(&world.state, "a").effective, MIB / 2);
    let mut world = world.reloaded();
    assert_eq!(account(&world.state, "b").effective, MIB / 2);
    world.mount(segment(3, MIB), 1).unwrap();
    assert_eq!(account(&world.state, "b").effective, MIB);
}

#[test]
fn a_policy_goes_only_when_its_tenant_has_nothing() {
    let mut world = world(&[("t", MIB)]);
    let delete = |name| TenantChange::Delete { tenant: tenant(name), file: None };
    world.start(put("t", "k", 10, 1)).unwrap();
    assert_eq!(change(&mut world, delete("t")), Err(ErrorCode::TenantNotEmpty));
    end(&mut world, "t", "k").unwrap();
    assert_eq!(change(&mut world, delete("t")), Err(ErrorCode::TenantNotEmpty));
    remove(&mut world, "t", "k").unwrap();
    assert_eq!(change(&mut world, delete("t")), Ok(()));
    assert_eq!(change(&mut world, delete("t")), Err(ErrorCode::ObjectNotFound));
    assert_eq!(world.state.account(&tenant("t")), None);
    assert_eq!(world.state.quotas().current_file(), None);
}

#[test]
fn a_tenant_that_lost_its_policy_keeps_its_objects_and_may_only_read_and_remove() {
    let mut world = world(&[("t", MIB), ("u", MIB)]);
    world.start(put("t", "k", 10, 1)).unwrap();
    world.start(put("t", "open", 10, 1)).unwrap();
    end(&mut world, "t", "k").unwrap();
    enforce(&mut world, &[("u", MIB)]);
    let orphan = account(&world.state, "t");
    assert!(orphan.is_over_quota() && !orphan.has_policy, "{orphan:?}");
    assert_eq!(world.start(put("t", "l", 10, 1)), Err(ErrorCode::TenantNotRegistered));
    let mut world = world.reloaded();
    assert_eq!(end(&mut world, "t", "open"), Ok(()));
    assert_eq!(remove(&mut world, "t", "open"), Ok(()));
    assert_eq!(remove(&mut world, "t", "k"), Ok(()));
    assert_eq!(world.state.account(&tenant("t")), None);
    let names: Vec<_> = world.state.accounts().into_iter().map(|one| one.tenant).collect();
    assert_eq!(names, [tenant("u")]);
}

#[test]
fn a_quota_of_nothing_is_refused() {
    let mut world = world(&[]);
    let policy = TenantPolicy { tenant: tenant("t"), quota_bytes: 0 };
    let set = TenantChange::Set { policy, file: None };
    assert_eq!(change(&mut world, set), Err(ErrorCode::InvalidParams));
    assert_eq!(world.state.account(&tenant("t")), None);
}
