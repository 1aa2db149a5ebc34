//! Segments and clients: mounting, unmounting at once and in steps, clients that are given up.

use std::sync::Arc;

use super::world::*;
use crate::model::PinRequest::Preserve;
use crate::model::{ErrorCode, Segment, SegmentStatus};
use crate::state::command::{Command, ExpiredClient};

fn status(world: &World, n: u64) -> Option<SegmentStatus> {
    let segments = world.state.segments();
    segments.get(segments.index_of(segment_id(n))?).map(|mounted| mounted.status)
}

#[test]
fn a_segment_is_mounted_once_and_the_same_again_is_ok() {
    let mut world = World::small();
    assert_eq!(world.mount(segment(1, MIB), 1), Ok(()));
    assert_eq!(world.state.segments().memory_usage(), (0, MIB));
    let exists = Err(ErrorCode::SegmentAlreadyExists);
    assert_eq!(world.mount(segment(1, MIB), 2), exists, "another client's");
    assert_eq!(world.mount(segment(1, 2 * MIB), 1), exists, "another size");
}

#[test]
fn an_unusable_range_is_refused() {
    let mut world = World::empty();
    for (base, size) in [(0, MIB), (1 << 40, 0), (u64::MAX - 10, MIB)] {
        let bad = Segment { base, size, ..segment(1, MIB) };
        assert_eq!(world.mount(bad.clone(), 1), Err(ErrorCode::InvalidParams));
        assert_eq!(world.remount(vec![bad], 1), Err(ErrorCode::InvalidParams));
    }
    assert!(world.state.segments().is_empty());
}

#[test]
fn mounting_makes_a_client_known_and_remounting_makes_it_alive() {
    let mut world = World::small();
    assert_eq!(world.state.clients().alive().count(), 0);
    assert_eq!(world.remount(vec![segment(1, MIB), segment(2, MIB)], 1), Ok(()));
    assert_eq!(world.state.clients().alive().collect::<Vec<_>>(), [client(1)]);
    assert_eq!(world.state.segments().len(), 2);
    assert_eq!(world.remount(Vec::new(), 3), Ok(()), "a client without segments");
    assert_eq!(world.state.clients().alive().count(), 2);
}

#[test]
fn a_remount_of_anothers_segment_is_refused_whole() {
    let mut world = World::small();
    let foreign = vec![segment(2, MIB), segment(1, MIB)];
    assert_eq!(world.remount(foreign, 2), Err(ErrorCode::InvalidParams));
    assert_eq!(world.state.segments().len(), 1);
}

#[test]
fn an_unmounted_segment_takes_its_objects_along_and_no_others() {
    let mut world = World::with_segments(2, MIB);
    let on = |name: &str| crate::state::command::WriteConfig {
        preferred: vec![Arc::from(name)],
        ..config(1, pinned(9_000))
    };
    for name in ["s1", "s2"] {
        world.start(start(name, 10, on(name))).unwrap();
        world.end(name).unwrap();
    }
    world.start(start("both", 10, config(2, Preserve))).unwrap();
    world.end("both").unwrap();
    assert_eq!(world.unmount(1, 1), Ok(()));
    assert_eq!(world.find("s1"), None);
    assert!(world.is_readable("s2") && world.is_readable("both"));
    assert_eq!((world.places("both"), world.gauge()), (vec!["s2".to_owned()], 1));
    assert_eq!((world.used(2), status(&world, 1)), (20, None));
    assert_eq!(world.unmount(1, 1), Ok(()), "again");
    assert_eq!(world.mount(segment(1, MIB), 1), Ok(()), "and it may come back");
    assert_eq!(world.used(1), 0);
}

#[test]
fn a_segment_is_unmounted_by_its_owner_only() {
    let mut world = World::small();
    assert_eq!(world.unmount(1, 2), Err(ErrorCode::IllegalClient));
    assert_eq!(status(&world, 1), Some(SegmentStatus::Ok));
    assert_eq!(world.unmount(7, 2), Ok(()), "an unknown one");
}

#[test]
fn a_full_segment_is_unmounted_in_steps_and_unreadable_from_the_first() {
    let mut world = World::with_segments(1, 8 * MIB);
    for n in 0..1_500 {
        world.state.apply_entry(&crate::state::Entry {
            stamp: crate::state::Stamp { now: crate::model::Millis(world.now), seed: n },
            commands: vec![Command::PutStart(start(&format!("k{n}"), 1_024, config(1, Preserve)))],
        });
    }
    assert_eq!(world.unmount(1, 1), Ok(()));
    assert_eq!(status(&world, 1), Some(SegmentStatus::Unmounting));
    assert_eq!(world.state.totals().keys, 476, "1024 at once");
    assert_eq!(world.unmount(1, 1), Err(ErrorCode::UnavailableInCurrentStatus));
    assert_eq!(world.mount(segment(1, 8 * MIB), 1), Err(ErrorCode::UnavailableInCurrentStatus));
    assert!(!world.drain(1, 400));
    let mut world = world.reloaded();
    assert!(world.drain(1, 400));
    assert_eq!((world.state.totals().keys, status(&world, 1)), (0, None));
    assert!(world.drain(1, 400), "again");
}

#[test]
fn what_lies_on_an_unmounting_segment_is_pruned_by_the_next_write_to_its_key() {
    let mut world = World::with_segments(2, MIB);
    world.start(start("k", 10, config(2, Preserve))).unwrap();
    world.mount(segment(3, MIB), 2).unwrap();
    world.expire(1);
    assert_eq!(world.end("k"), Err(ErrorCode::ObjectNotFound));
    assert_eq!(world.start(start("k", 10, config(1, Preserve))).unwrap().len(), 1);
    assert_eq!(world.places("k"), ["s3"]);
    let mut world = world.reloaded();
    assert!(world.drain(1, 100) && world.drain(2, 100));
    assert_eq!(world.end("k"), Ok(()));
}

#[test]
fn set_aside_memory_goes_with_its_segment_step_by_step() {
    let mut world = World::small();
    for name in ["a", "b", "c"] {
        world.open(name, Preserve);
    }
    world.pass(30_001);
    for name in ["a", "b", "c"] {
        world.open(name, Preserve);
    }
    assert_eq!(world.state.discards().staged_bytes(), 3 * 1_024);
    world.expire(1);
    for step in 0..6 {
        assert!(!world.drain(1, 1), "step {step}");
        world = world.reloaded();
    }
    assert!(world.drain(1, 1));
    assert_eq!((world.state.discards().staged_bytes(), world.state.totals().keys), (0, 0));
    world.pass(60_000);
    assert_eq!(world.sweep().discards_released, 0);
}

#[test]
fn discards_that_fall_due_while_their_segment_unmounts_are_released_once() {
    let mut world = World::small();
    world.open("a", Preserve);
    world.open("b", Preserve);
    world.pass(30_001);
    world.put("a", Preserve);
    world.put("b", Preserve);
    world.expire(1);
    assert!(!world.drain(1, 1));
    world.pass(30_000);
    world.sweep();
    let mut world = world.reloaded();
    assert!(world.drain(1, 100));
    assert_eq!(world.state.discards().staged_bytes(), 0);
}

#[test]
fn a_client_that_is_given_up_loses_its_segments_and_must_remount() {
    let mut world = World::small();
    world.remount(vec![segment(1, MIB)], 1).unwrap();
    world.put("k", pinned(50_000));
    world.expire(1);
    assert!(!world.is_readable("k"));
    assert_eq!(world.state.clients().get(client(1)), None);
    assert_eq!(status(&world, 1), Some(SegmentStatus::Unmounting));
    let early = world.remount(vec![segment(1, MIB)], 1);
    assert_eq!(early, Err(ErrorCode::UnavailableInCurrentStatus));
    assert_eq!(world.state.clients().alive().count(), 0, "it is asked again");
    assert!(world.drain(1, 100));
    assert_eq!(world.gauge(), 0);
    assert_eq!(world.remount(vec![segment(1, MIB)], 1), Ok(()));
    assert_eq!(world.state.clients().alive().count(), 1);
}

#[test]
fn a_client_that_came_back_in_between_is_spared() {
    let mut world = World::small();
    let old = world.state.clients().get(client(1)).unwrap().incarnation;
    world.expire(1);
    world.drain(1, 100);
    world.remount(vec![segment(1, MIB)], 1).unwrap();
    let stale = ExpiredClient { client: client(1), incarnation: old };
    world.apply(Command::ExpireClients(vec![stale]));
    assert_eq!(status(&world, 1), Some(SegmentStatus::Ok));
    let mut world = world.reloaded();
    world.apply(Command::ExpireClients(vec![stale]));
    assert_eq!(status(&world, 1), Some(SegmentStatus::Ok), "nor after a snapshot");
}

#[test]
fn segments_of_one_name_are_one_place() {
    let mut world = World::empty();
    for n in [1, 2] {
        let twin = Segment { name: Arc::from("host"), ..segment(n, MIB) };
        world.mount(twin, 1).unwrap();
    }
    assert_eq!(world.start(start("k", 10, config(2, Preserve))).unwrap().len(), 1);
    for n in 0..3 {
        world.start(start(&format!("big{n}"), MIB / 2, config(1, Preserve))).unwrap();
    }
    assert!(world.used(1) > 0 && world.used(2) > 0, "the second is used when the first is full");
}
