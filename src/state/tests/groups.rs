//! Groups and graceful unmounts on the pure state (behaviour 1.8, 4.2, 5.7).

use std::collections::BTreeMap;

use super::world::*;
use crate::model::PinRequest::Preserve;
use crate::model::object::FenceRefused;
use crate::model::{Deadline, ErrorCode, GroupIdx, Millis, SegmentStatus};
use crate::state::command::{Command, Start};
use crate::state::{Reply, State};
use mooncake_ha_snapshot as snapshot;

fn grouped(name: &str, size: u64, group: Option<&str>) -> Start {
    let mut start = start(name, size, config(1, Preserve));
    start.items[0].group = group.map(key);
    start
}

fn put(world: &mut World, name: &str, group: &str) {
    world.start(grouped(name, 1024, Some(group))).unwrap();
    world.end(name).unwrap();
}

fn upsert(world: &mut World, name: &str, size: u64, group: Option<&str>) -> Outcome {
    match world.apply(Command::UpsertStart(grouped(name, size, group))) {
        Reply::Starts(mut started) => started.remove(0).map(|_| ()),
        other => panic!("{other:?}"),
    }
}

fn group(world: &World, name: &str) -> GroupIdx {
    world.peek(name, |object| object.group).unwrap()
}

fn members(world: &World, name: &str) -> Vec<String> {
    let members = world.state.view().group_members(group(world, name));
    members.into_iter().map(|(key, _)| String::from_utf8(key.into_vec()).unwrap()).collect()
}

fn lease(world: &World, name: &str) -> u64 {
    let at = world.find(name).unwrap();
    world.peek(name, |object| world.state.view().lease_end(at, object).0).unwrap()
}

/// The end of each object's read lease as a catalog snapshot has it.
fn leases_in(payloads: &snapshot::Payloads) -> BTreeMap<String, u64> {
    let mut decoder = snapshot::Decoder::open(payloads, &snapshot::Limits::default()).unwrap();
    let mut leases = BTreeMap::new();
    while let Some(shard) = decoder.next_shard().unwrap() {
        let of = |object: &snapshot::ObjectImage| {
            (String::from_utf8(object.name.key.to_vec()).unwrap(), object.lease_ms)
        };
        leases.extend(shard.objects.iter().map(of));
    }
    leases
}

fn fence(world: &World, name: &str, force: bool) -> Result<(), FenceRefused> {
    let (at, now) = (world.find(name).unwrap(), Millis(world.now));
    world.peek(name, |object| world.state.view().fence(at, object, now, force)).unwrap()
}

#[test]
fn members_are_listed_from_start_to_erasure_in_key_order() {
    let mut world = World::small();
    put(&mut world, "b", "g");
    world.start(grouped("a", 1024, Some("g"))).unwrap();
    put(&mut world, "c", "h");
    put(&mut world, "d", "");
    assert_eq!(members(&world, "a"), ["a", "b"]);
    assert_eq!(group(&world, "d"), GroupIdx::NONE);
    world.remove("b").unwrap();
    assert_eq!(members(&world, "a"), ["a"]);
    world.revoke("a").unwrap();
    assert_eq!(world.state.view().groups.len(), 1);
    put(&mut world, "b", "");
    assert_eq!(group(&world, "b"), GroupIdx::NONE, "put again without a group");
}

#[test]
fn groups_of_one_name_in_two_tenants_are_two() {
    let mut world = World::small();
    let tenant = crate::model::Tenant::parse("tA");
    put(&mut world, "k", "g");
    world.start(Start { tenant, ..grouped("k", 1024, Some("g")) }).unwrap();
    assert_eq!(world.state.view().groups.len(), 2);
    assert_eq!(members(&world, "k"), ["k"]);
}

#[test]
fn an_upsert_may_repeat_or_omit_the_group_but_not_change_it() {
    let mut world = World::small();
    put(&mut world, "k", "g");
    put(&mut world, "free", "");
    for size in [1024, 2048] {
        for other in ["h", ""] {
            let refused = upsert(&mut world, "k", size, Some(other));
            assert_eq!(refused, Err(ErrorCode::InvalidParams));
        }
        assert_eq!(upsert(&mut world, "free", size, Some("g")), Err(ErrorCode::InvalidParams));
        assert!(world.is_readable("k") && world.is_readable("free"));
    }
    for (size, group) in [(1024, None), (1024, Some("g")), (2048, None), (4096, Some("g"))] {
        assert_eq!(upsert(&mut world, "k", size, group), Ok(()));
        world.end("k").unwrap();
        assert_eq!(members(&world, "k"), ["k"]);
    }
    assert_eq!(upsert(&mut world, "free", 2048, Some("")), Ok(()));
}

#[test]
fn an_open_put_that_is_preempted_takes_the_group_of_the_upsert() {
    let mut world = World::small();
    world.start(grouped("k", 1024, Some("g"))).unwrap();
    assert_eq!(upsert(&mut world, "k", 1024, Some("h")), Err(ErrorCode::InvalidParams));
    assert_eq!(upsert(&mut world, "k", 1024, None), Ok(()));
    assert_eq!(group(&world, "k"), GroupIdx::NONE);
    assert!(world.state.view().groups.is_empty());
}

#[test]
fn a_read_of_one_member_leases_all_of_them_for_the_whole_time() {
    let mut world = World::small();
    put(&mut world, "a", "g");
    put(&mut world, "b", "g");
    put(&mut world, "c", "h");
    let read = |world: &World, until| {
        world.state.view().lease_group(group(world, "a"), Deadline(until));
    };
    let now = world.now;
    read(&world, now + 3_000);
    read(&world, now + 3_001);
    assert_eq!(lease(&world, "b"), now + 3_001, "no half lease");
    assert_eq!(lease(&world, "c"), now);
    world.start(grouped("late", 1024, Some("g"))).unwrap();
    assert_eq!(lease(&world, "late"), 0, "it was not there to be read");
    read(&world, now + 3_001);
    assert_eq!(lease(&world, "late"), now + 3_001, "one that joined since is leased, too");
    world.state.view().lease_group(GroupIdx::NONE, Deadline(now + 9_000));
    assert_eq!(world.gauge(), 0);
}

#[test]
fn a_member_under_removal_does_not_keep_the_others_from_their_lease() {
    let mut world = World::small();
    put(&mut world, "a", "g");
    put(&mut world, "b", "g");
    let now = world.now;
    fence(&world, "b", false).unwrap();
    world.state.view().lease_group(group(&world, "a"), Deadline(now + 3_000));
    assert_eq!(fence(&world, "a", false), Err(FenceRefused::Leased));
    assert!(world.peek("b", |object| object.lease.is_fenced()).unwrap(), "its removal goes on");
    world.peek("b", |object| object.lease.unfence()).unwrap();
    assert_eq!(fence(&world, "b", false), Err(FenceRefused::Leased), "it was not removed");
}

#[test]
fn a_member_is_closed_only_when_the_lease_of_its_group_is_over_or_by_force() {
    let mut world = World::small();
    put(&mut world, "a", "g");
    put(&mut world, "b", "g");
    world.state.view().lease_group(group(&world, "a"), Deadline(world.now + 3_000));
    put(&mut world, "late", "g");
    assert_eq!(fence(&world, "late", false), Ok(()), "it joined after the read");
    assert_eq!(fence(&world, "b", false), Err(FenceRefused::Leased));
    assert!(!world.peek("b", |object| object.lease.is_fenced()).unwrap(), "and it stays open");
    assert_eq!(fence(&world, "b", true), Ok(()));
    world.now += 3_000;
    assert_eq!(fence(&world, "a", false), Ok(()));
}

#[test]
fn the_lease_of_a_group_is_in_a_catalog_snapshot_for_each_of_its_members() {
    let mut world = World::small();
    put(&mut world, "a", "g");
    put(&mut world, "b", "g");
    put(&mut world, "c", "h");
    let until = world.now + 3_000;
    world.state.view().lease_group(group(&world, "a"), Deadline(until));
    let payloads = world.state.freeze().payloads(1, 1, None).unwrap();
    let leases = leases_in(&payloads);
    assert_eq!((leases["a"], leases["b"]), (until, until));
    assert!(leases["c"] < until);
}

#[test]
fn a_removal_in_flight_meets_the_value_of_an_upsert_with_its_fence() {
    let mut world = World::small();
    world.put("k", Preserve);
    let fence = |object: &crate::model::Object| object.lease.fence(Millis(world.now), false);
    world.peek("k", fence).unwrap().unwrap();
    upsert(&mut world, "k", 2048, None).unwrap();
    world.end("k").unwrap();
    assert!(
        world.peek("k", |object| object.lease.grant(Deadline(u64::MAX >> 1))).unwrap().is_err()
    );
    assert_eq!(world.remove("k"), Ok(()));
}

#[test]
fn groups_survive_a_raft_snapshot_and_lie_in_the_shard_of_their_name() {
    let mut world = World::small();
    for n in 0..40 {
        put(&mut world, &format!("k{n}"), &format!("g{}", n % 3));
    }
    let before = members(&world, "k0");
    let bytes = world.image();
    let mut world = world.reloaded();
    assert_eq!((members(&world, "k0"), before.len()), (before, 14));
    let mut target = State::default();
    target.replace_with(State::load(&mut bytes.as_slice()).unwrap());
    assert_eq!(target.check(), Vec::<String>::new());
    world.remove("k0").unwrap();
    assert_eq!(members(&world, "k3").len(), 13);
    let payloads = mooncake_ha_snapshot::read_container(&mut bytes.as_slice(), 1 << 30).unwrap();
    let limits = mooncake_ha_snapshot::Limits::default();
    let image = mooncake_ha_snapshot::decode_image(&payloads, &limits).unwrap().image;
    for (shard, objects) in image.shards {
        for object in objects {
            let hash = crate::model::ids::key_hash(&object.group);
            assert_eq!(u64::from(shard), hash % 1024);
        }
    }
}

fn leave(world: &mut World, n: u64, by: u64, grace_ms: u64) -> Outcome {
    let (segment, client) = (segment_id(n), client(by));
    outcome(world.apply(Command::GracefulUnmount { segment, client, grace_ms }))
}

fn outcome(reply: Reply) -> Outcome {
    match reply {
        Reply::Outcome(outcome) => outcome,
        other => panic!("{other:?}"),
    }
}

fn status(world: &World, n: u64) -> Option<SegmentStatus> {
    let index = world.state.segments().index_of(segment_id(n))?;
    world.state.segments().get(index).map(|mounted| mounted.status)
}

#[test]
fn a_graceful_unmount_stops_writes_at_once_and_reads_after_its_grace() {
    let mut world = World::with_segments(2, MIB);
    world.put("k", pinned(500_000));
    let held = if world.places("k") == ["s1"] { 1 } else { 2 };
    let other = 3 - held;
    assert_eq!(leave(&mut world, held, 1, 1_000), Ok(()));
    assert_eq!(status(&world, held), Some(SegmentStatus::GracefullyUnmounting));
    assert!(world.is_readable("k"));
    for n in 0..8 {
        world.put(&format!("n{n}"), Preserve);
        assert_eq!(world.places(&format!("n{n}")), [format!("s{other}")]);
    }
    world.pass(999);
    assert_eq!(world.sweep().segments_unmounted, 0);
    let mut world = world.reloaded();
    world.pass(1);
    assert_eq!(world.sweep().segments_unmounted, 1);
    assert_eq!((status(&world, held), world.find("k"), world.gauge()), (None, None, 0));
}

#[test]
fn only_its_owner_may_take_a_segment_away_gracefully() {
    let mut world = World::with_segments(2, MIB);
    assert_eq!(leave(&mut world, 1, 2, 0), Err(ErrorCode::SegmentNotFound));
    world.mount(segment(3, MIB), 2).unwrap();
    assert_eq!(leave(&mut world, 1, 2, 0), Err(ErrorCode::InvalidParams));
    assert_eq!(leave(&mut world, 9, 2, 0), Err(ErrorCode::InvalidParams));
    assert_eq!(leave(&mut world, 1, 1, 5_000), Ok(()));
    assert_eq!(leave(&mut world, 1, 1, 9_000), Ok(()), "the earlier time counts");
    assert_eq!(leave(&mut world, 2, 1, u64::MAX), Ok(()));
    world.pass(5_000);
    assert_eq!(world.sweep().segments_unmounted, 1);
    assert_eq!(
        (status(&world, 1), status(&world, 2)),
        (None, Some(SegmentStatus::GracefullyUnmounting))
    );
    assert_eq!(world.unmount(2, 1), Ok(()));
    assert_eq!(status(&world, 2), None);
}
