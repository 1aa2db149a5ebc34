//! Memory that a catalog snapshot could bring back: when it waits, for what, and when it does not.

use super::world::*;
use crate::model::PinRequest::{Disable, Preserve};
use crate::model::{Millis, ReplicaId};
use crate::state::command::{Command, Remove, Start, StartItem};
use crate::state::evict::{Evict, Victim};
use crate::state::guard::Published;
use crate::state::{Reply, State};

/// A pin that outlives every story.
const LONG: u64 = 3_600_000;

fn begin(world: &mut World) -> u64 {
    match world.apply(Command::SnapshotBegin) {
        Reply::Generation(generation) => generation,
        other => panic!("{other:?}"),
    }
}

fn publish(world: &mut World, generation: u64) {
    let next_replica_id = world.state.freeze().next_replica_id();
    let told = Published { generation, next_replica_id };
    assert_eq!(world.apply(Command::SnapshotPublished(told)), Reply::Done);
}

fn snapshot(world: &mut World) {
    let generation = begin(world);
    publish(world, generation);
}

fn held(world: &World) -> u64 {
    world.state.discards().held_bytes()
}

fn upsert(world: &mut World, name: &str, size: u64, pin: crate::model::PinRequest) {
    let item = StartItem { key: key(name), size, group: None };
    let config = config(1, pin);
    let start = Start { client: client(1), tenant: None, items: vec![item], config, rules: RULES };
    match world.apply(Command::UpsertStart(start)) {
        Reply::Starts(started) if started[0].is_ok() => {}
        other => panic!("{other:?}"),
    }
    world.end(name).unwrap();
}

#[test]
fn without_snapshots_memory_of_a_pinned_object_is_free_at_once() {
    let mut world = World::small();
    world.put("k", pinned(LONG));
    world.remove("k").unwrap();
    assert_eq!((world.used(1), held(&world)), (0, 0));
}

/// Found by the simulation: a node wrote such an image and could not start from it.
#[test]
fn memory_set_aside_for_longer_than_a_snapshot_can_say_makes_an_image_that_can_be_loaded() {
    let mut world = World::small();
    world.put("for ever", pinned(u64::MAX));
    snapshot(&mut world);
    world.remove("for ever").unwrap();
    assert!(held(&world) > 0);
    let loaded = State::load(&mut &*world.image()).unwrap();
    assert!(image(&loaded) == world.image());
}

#[test]
fn memory_of_a_pinned_object_in_the_snapshot_waits_for_the_next_snapshot() {
    let mut world = World::small();
    world.put("pinned", pinned(LONG));
    world.put("plain", Preserve);
    snapshot(&mut world);
    world.remove("pinned").unwrap();
    world.remove("plain").unwrap();
    assert_eq!((world.used(1), held(&world)), (1024, 1024));
    let mut world = world.reloaded();
    snapshot(&mut world);
    assert_eq!(world.sweep().discards_released, 1);
    assert_eq!((world.used(1), held(&world), world.state.counters().releases), (0, 0, 0));
}

#[test]
fn memory_of_a_pinned_object_in_the_snapshot_waits_for_the_end_of_its_pin() {
    let mut world = World::small();
    world.put("k", pinned(5_000));
    snapshot(&mut world);
    world.remove("k").unwrap();
    world.pass(4_999);
    assert_eq!(world.sweep().discards_released, 0);
    world.pass(1);
    assert_eq!(world.sweep().discards_released, 1);
    assert_eq!(world.used(1), 0);
}

#[test]
fn an_object_that_came_after_the_snapshot_is_not_guarded() {
    let mut world = World::small();
    snapshot(&mut world);
    world.put("k", pinned(LONG));
    world.remove("k").unwrap();
    assert_eq!(world.used(1), 0);
}

#[test]
fn what_is_freed_while_a_snapshot_is_made_waits_for_the_one_after_it() {
    let mut world = World::small();
    world.put("k", pinned(LONG));
    let first = begin(&mut world);
    world.remove("k").unwrap();
    publish(&mut world, first);
    assert_eq!((world.sweep().discards_released, world.used(1)), (0, 1024));
    snapshot(&mut world);
    assert_eq!((world.sweep().discards_released, world.used(1)), (1, 0));
}

#[test]
fn a_snapshot_of_which_nothing_more_was_heard_counts_as_published() {
    let mut world = World::small();
    begin(&mut world);
    world.put("k", pinned(LONG));
    world.remove("k").unwrap();
    assert_eq!(held(&world), 1024, "its leader may have died after it was published");
    snapshot(&mut world);
    world.sweep();
    assert_eq!(held(&world), 0);
}

#[test]
fn late_news_of_an_older_snapshot_change_nothing() {
    let mut world = World::small();
    let (older, newer) = (begin(&mut world), begin(&mut world));
    world.put("k", pinned(LONG));
    publish(&mut world, newer);
    let before = world.state.guard().clone();
    publish(&mut world, older);
    publish(&mut world, newer + 1);
    assert_eq!(*world.state.guard(), before);
}

#[test]
fn a_pin_that_was_disabled_since_the_snapshot_still_guards() {
    let mut world = World::small();
    world.put("k", pinned(LONG));
    snapshot(&mut world);
    upsert(&mut world, "k", 1024, Disable);
    assert_eq!(world.pin("k"), None);
    let mut world = world.reloaded();
    world.remove("k").unwrap();
    assert_eq!(held(&world), 1024);
}

#[test]
fn a_pin_that_was_disabled_before_the_snapshot_does_not_guard() {
    let mut world = World::small();
    snapshot(&mut world);
    world.put("k", pinned(LONG));
    upsert(&mut world, "k", 1024, Disable);
    snapshot(&mut world);
    world.remove("k").unwrap();
    assert_eq!((held(&world), world.state.guard().shortened().len()), (0, 0));
}

#[test]
fn memory_that_an_upsert_gives_up_waits_longer_if_a_snapshot_lists_it() {
    let mut world = World::small();
    world.put("k", pinned(LONG));
    snapshot(&mut world);
    upsert(&mut world, "k", 2048, Preserve);
    world.pass(RULES.release_timeout_ms + 1);
    assert_eq!((world.sweep().discards_released, held(&world)), (0, 1024));
    // Counted as any replaced write is, once.
    assert_eq!(world.state.counters().discards, 1);
    snapshot(&mut world);
    assert_eq!(world.sweep().discards_released, 1);
    assert_eq!((held(&world), world.state.counters().releases), (0, 1));
}

#[test]
fn an_upsert_within_its_own_timeout_is_not_released_by_a_snapshot() {
    let mut world = World::small();
    world.put("k", pinned(LONG));
    snapshot(&mut world);
    upsert(&mut world, "k", 2048, Preserve);
    snapshot(&mut world);
    assert_eq!(world.sweep().discards_released, 0);
    world.pass(RULES.release_timeout_ms + 1);
    assert_eq!(world.sweep().discards_released, 1);
}

#[test]
fn a_broken_read_lease_guards_until_it_would_have_ended() {
    let mut world = World::small();
    world.put("k", Preserve);
    snapshot(&mut world);
    let remove = Remove { tenant: None, keys: vec![key("k")] };
    let leased_until = Millis(world.now + 10_000);
    only(world.apply(Command::RemoveLeased { remove, leased_until })).unwrap();
    assert_eq!(held(&world), 1024);
    world.pass(10_000);
    assert_eq!((world.sweep().discards_released, world.used(1)), (1, 0));
}

#[test]
fn an_object_whose_memory_would_not_come_free_is_not_evicted() {
    let mut world = World::small();
    world.put("k", pinned(LONG));
    snapshot(&mut world);
    let incarnation = world.peek("k", |object| object.replicas[0].id).unwrap_or(ReplicaId(0));
    let evict = || {
        let victim = Victim { tenant: None, key: key("k"), incarnation };
        Command::Evict(Evict { victims: vec![victim], spares_soft_pinned: false })
    };
    assert_eq!(world.apply(evict()), Reply::Evicted(vec![0]));
    assert!(world.is_readable("k"));
    world.pass(LONG);
    assert_eq!(world.apply(evict()), Reply::Evicted(vec![1024]));
}

#[test]
fn guarded_memory_goes_with_its_segment() {
    let mut world = World::small();
    world.put("k", pinned(LONG));
    snapshot(&mut world);
    world.remove("k").unwrap();
    world.unmount(1, 1).unwrap();
    assert!(world.state.segments().is_empty());
    assert_eq!(held(&world), 0);
}

#[test]
fn a_segment_that_comes_back_hands_out_nothing_that_a_snapshot_could_bring_back() {
    // A client that was silent for a while is given up, and mounts the same memory again.
    let mut world = World::with_segments(1, 4 * 1024);
    world.put("plain", Preserve);
    world.put("pinned", pinned(LONG));
    world.put("removed", pinned(LONG));
    let place = |world: &World, name: &str| {
        world.peek(name, |object| match object.replicas[0].place {
            crate::model::Place::Memory { address, .. } => address,
            _ => 0,
        })
    };
    let kept = ["pinned", "removed"].map(|name| place(&world, name).unwrap());
    snapshot(&mut world);
    world.remove("removed").unwrap();
    world.expire(1);
    while !world.drain(1, 1) {
        world = world.reloaded();
    }
    assert!(world.find("pinned").is_none());
    world.mount(segment(1, 4 * 1024), 1).unwrap();
    assert_eq!((held(&world), world.used(1)), (2 * 1024, 2 * 1024));
    let mut world = world.reloaded();
    for name in ["x", "y"] {
        let address = memory(&world.open(name, Preserve)[0]).1;
        assert!(!kept.contains(&address), "{name} lies where a saved object lay");
    }
    assert!(world.start(start("z", 1024, config(1, Preserve))).is_err());
    snapshot(&mut world);
    assert_eq!(world.sweep().discards_released, 2);
    world.open("z", Preserve);
}

#[test]
fn a_segment_that_comes_back_after_the_next_snapshot_is_wholly_free() {
    let mut world = World::with_segments(1, 4 * 1024);
    world.put("pinned", pinned(LONG));
    snapshot(&mut world);
    world.unmount(1, 1).unwrap();
    snapshot(&mut world);
    world.mount(segment(1, 4 * 1024), 1).unwrap();
    assert_eq!((held(&world), world.used(1)), (0, 0));
}

#[test]
fn guarded_memory_is_handed_to_no_other_object() {
    let mut world = World::with_segments(1, 2 * 1024);
    world.put("kept", pinned(LONG));
    snapshot(&mut world);
    let address = memory(&world.open("x", Preserve)[0]).1;
    world.remove("kept").unwrap();
    let refused = world.start(start("other", 1024, config(1, Preserve)));
    assert_eq!(refused, Err(crate::model::ErrorCode::NoAvailableHandle));
    world.revoke("x").unwrap();
    assert_eq!(memory(&world.open("other", Preserve)[0]).1, address, "only what was never saved");
}
