//! The soft pin of a Put, edge by edge: every case of behaviour 3.10 that concerns it, on the pure state.
//!
//! Replicas of other kinds than memory are put beside an object by hand here; the commands that make them are
//! other parts of the product. Request rules are checked before the log and tested in `model::soft_pin`.

use super::world::*;
use crate::model::PinRequest::{Disable, Preserve};
use crate::model::time::INSTANT_MS_MAX;
use crate::model::{
    ErrorCode, Lease, Millis, Object, PinLimits, PinRequest, ReplicaKind, ReplicaSelect, Ttl,
};
use crate::state::command::{Command, Sweep};
use crate::state::deadlines::HEAP_FLOOR;

#[test]
fn case_01_enable_with_ttl_0_on_an_unpinned_key_is_ordinary_cache() {
    let mut world = World::small();
    world.put("k", pinned(0));
    assert!(world.is_readable("k"));
    assert_eq!((world.pin("k"), world.gauge()), (None, 0));
}

#[test]
fn case_01_enable_with_ttl_0_on_a_pinned_key_drops_the_pin_and_its_registration() {
    let mut world = World::small();
    world.open("k", pinned(0));
    world.inherit_pin("k", world.now + 9_000);
    assert_eq!(world.gauge(), 1);
    world.end("k").unwrap();
    assert_eq!((world.pin("k"), world.gauge()), (None, 0));
}

#[test]
fn case_02_a_default_ttl_of_0_makes_a_plain_enable_ordinary() {
    let limits = PinLimits { default_ttl: Ttl(0), max_ttl: Ttl(10) };
    let mut world = World::small();
    world.put("k", PinRequest::parse(1, None, &limits).unwrap());
    assert_eq!((world.pin("k"), world.gauge()), (None, 0));
}

#[test]
fn case_03_a_huge_ttl_saturates_at_the_greatest_instant() {
    let limits = PinLimits { default_ttl: Ttl(0), max_ttl: Ttl(u64::MAX) };
    let request = PinRequest::parse(1, Some(Ttl(u64::MAX)), &limits).unwrap();
    let mut world = World::small();
    world.put("k", request);
    assert_eq!(world.pin("k"), Some(INSTANT_MS_MAX));
    world.now = INSTANT_MS_MAX - 1;
    assert_eq!(world.sweep().pins_expired, 0);
    let mut world = world.reloaded();
    world.now = INSTANT_MS_MAX;
    assert_eq!(world.sweep().pins_expired, 1);
}

#[test]
fn case_05_the_gauge_moves_at_the_end_of_the_write_not_at_its_start() {
    let mut world = World::small();
    world.open("k", pinned(5_000));
    assert_eq!((world.gauge(), world.has_pending("k")), (0, true));
    world.pass(700);
    world.end("k").unwrap();
    assert_eq!((world.gauge(), world.has_pending("k")), (1, false));
    assert_eq!(world.pin("k"), Some(world.now + 5_000), "counted from the end, not the start");
}

#[test]
fn case_06_a_second_end_does_not_move_the_deadline() {
    let mut world = World::small();
    world.put("k", pinned(5_000));
    let deadline = world.pin("k");
    world.pass(4_999);
    world.end("k").unwrap();
    assert_eq!((world.pin("k"), world.gauge()), (deadline, 1));
}

#[test]
fn case_06_a_second_end_of_memory_while_the_disk_is_open_changes_nothing() {
    let mut world = World::small();
    world.open("k", pinned(5_000));
    world.add_disk_replica("k", true);
    world.end("k").unwrap();
    let deadline = world.pin("k");
    world.pass(100);
    world.end("k").unwrap();
    assert_eq!((world.pin("k"), world.gauge()), (deadline, 1));
}

#[test]
fn case_07_of_two_kinds_only_the_first_end_commits() {
    for order in
        [[ReplicaSelect::Memory, ReplicaSelect::Disk], [ReplicaSelect::Disk, ReplicaSelect::Memory]]
    {
        let mut world = World::small();
        world.open("k", pinned(5_000));
        world.add_disk_replica("k", true);
        world.end_as(1, "k", order[0], None).unwrap();
        let deadline = world.now + 5_000;
        world.pass(1_000);
        world.end_as(1, "k", order[1], None).unwrap();
        assert_eq!((world.pin("k"), world.gauge()), (Some(deadline), 1), "{order:?}");
    }
}

#[test]
fn case_08_a_pending_pin_survives_a_partial_revoke_and_commits_with_the_other_kind() {
    let mut world = World::small();
    world.open("k", pinned(5_000));
    world.add_disk_replica("k", true);
    world.revoke_as(1, "k", ReplicaSelect::Memory).unwrap();
    assert_eq!((world.has_pending("k"), world.gauge()), (true, 0));
    let mut world = world.reloaded();
    world.end_as(1, "k", ReplicaSelect::Disk, None).unwrap();
    assert_eq!(world.pin("k"), Some(world.now + 5_000));
}

#[test]
fn case_09_a_wholly_revoked_put_commits_nothing() {
    let mut world = World::small();
    world.open("k", pinned(5_000));
    world.inherit_pin("k", world.now + 9_000);
    world.revoke("k").unwrap();
    assert_eq!((world.find("k"), world.gauge()), (None, 0));
}

#[test]
fn case_10_an_expired_deadline_is_not_preserved_by_an_end() {
    let mut world = World::small();
    world.open("k", Preserve);
    world.inherit_pin("k", world.now + 10);
    world.pass(10);
    world.end("k").unwrap();
    assert_eq!((world.pin("k"), world.gauge()), (None, 0));
}

#[test]
fn case_11_a_live_deadline_is_preserved_to_the_millisecond() {
    let mut world = World::small();
    world.open("k", Preserve);
    let deadline = world.now + 10;
    world.inherit_pin("k", deadline);
    world.pass(9);
    world.end("k").unwrap();
    assert_eq!((world.pin("k"), world.gauge()), (Some(deadline), 1));
}

#[test]
fn case_12_the_old_deadline_stays_until_the_end_and_disable_drops_it_then() {
    let mut world = World::small();
    world.open("k", Disable);
    let deadline = world.now + 10_000;
    world.inherit_pin("k", deadline);
    world.pass(100);
    world.apply(Command::Noop);
    assert_eq!(world.pin("k"), Some(deadline));
    world.end("k").unwrap();
    assert_eq!((world.pin("k"), world.gauge()), (None, 0));
}

#[test]
fn case_13_a_deadline_may_expire_while_its_object_is_being_written() {
    let mut world = World::small();
    world.open("k", Preserve);
    world.inherit_pin("k", world.now + 10);
    world.pass(10);
    assert_eq!(world.sweep().pins_expired, 1);
    assert_eq!(world.gauge(), 0);
    world.end("k").unwrap();
    assert_eq!(world.pin("k"), None);
}

#[test]
fn case_16_a_put_that_replaces_a_zombie_does_not_inherit_its_pin() {
    let mut world = World::small();
    world.open("k", pinned(1));
    world.inherit_pin("k", world.now + 1_000_000);
    world.pass(30_001);
    world.put("k", Preserve);
    assert_eq!((world.pin("k"), world.gauge()), (None, 0));
}

#[test]
fn case_17_an_end_does_not_commit_if_the_key_was_readable_by_another_route() {
    let mut world = World::small();
    world.open("k", pinned(5_000));
    world.add_disk_replica("k", false);
    assert!(world.is_readable("k"));
    world.end("k").unwrap();
    assert_eq!((world.pin("k"), world.gauge()), (None, 0));
    assert!(!world.has_pending("k"), "and the request is over");
}

#[test]
fn case_18_a_replica_that_is_not_of_the_write_does_not_commit_its_pin() {
    let mut world = World::small();
    world.open("k", pinned(5_000));
    let object = world.find("k").unwrap();
    world.add_disk_replica("k", true);
    // The write named only its memory: the disk replica is somebody else's.
    world.state.edit(object, |object| object.pending_mut().unwrap().eligible.truncate(1));
    world.end_as(1, "k", ReplicaSelect::Disk, None).unwrap();
    assert_eq!((world.gauge(), world.has_pending("k")), (0, true));
    world.end("k").unwrap();
    assert_eq!((world.gauge(), world.has_pending("k")), (0, false));
}

#[test]
fn case_19_a_pin_stays_when_memory_goes_and_a_disk_copy_remains() {
    let mut world = World::with_segments(1, MIB);
    world.open("k", pinned(50_000));
    world.add_disk_replica("k", true);
    world.end_as(1, "k", ReplicaSelect::Memory, None).unwrap();
    world.end_as(1, "k", ReplicaSelect::Disk, None).unwrap();
    let deadline = world.pin("k");
    world.unmount(1, 1).unwrap();
    let count = |object: &Object| object.complete_count(ReplicaKind::Disk);
    assert_eq!(world.peek("k", count), Some(1));
    assert_eq!((world.pin("k"), world.gauge()), (deadline, 1));
}

#[test]
fn case_20_reads_do_no_soft_pin_work() {
    let mut world = World::small();
    world.put("k", pinned(5_000));
    let (before, deadline) = (world.image(), world.now + 5_000);
    let raise = |object: &Object| object.lease.grant(Millis(world.now).after(Ttl(99_999)));
    assert_eq!(world.peek("k", raise), Some(Ok(())));
    assert!(world.image() == before, "a read lease is no part of the state");
    world.pass(5_000);
    let expired = world.sweep().pins_expired;
    assert_eq!((expired, deadline), (1, world.now));
    let lease_end = |object: &Object| Lease::end(&object.lease);
    assert_eq!(world.peek("k", lease_end), Some(Millis(1_099_999)), "nor did the sweep touch it");
}

#[test]
fn case_22_removal_drops_the_registration_and_the_old_one_cannot_end_a_new_pin() {
    let mut world = World::small();
    world.put("k", pinned(1_000));
    world.remove("k").unwrap();
    assert_eq!(world.gauge(), 0);
    world.put("k", pinned(5_000));
    let deadline = world.pin("k");
    world.pass(1_000);
    assert_eq!(world.sweep().pins_expired, 0);
    assert_eq!((world.pin("k"), world.gauge()), (deadline, 1));
}

#[test]
fn case_23_a_shorter_pin_ends_first_and_the_longer_registration_is_stale() {
    let mut world = World::small();
    world.put("k", pinned(5_000));
    world.remove("k").unwrap();
    world.put("k", pinned(1_000));
    world.pass(1_000);
    assert_eq!(world.sweep().pins_expired, 1);
    world.pass(4_000);
    let swept = world.sweep();
    assert_eq!((swept.pins_expired, swept.pins_stale, world.gauge()), (0, 0, 0));
}

#[test]
fn case_24_pins_of_one_instant_end_together() {
    let mut world = World::small();
    for n in 0..50 {
        world.put(&format!("k{n}"), pinned(1_000));
    }
    world.pass(999);
    assert_eq!(world.sweep().pins_expired, 0);
    world.pass(1);
    assert_eq!(world.sweep().pins_expired, 50);
}

#[test]
fn case_25_a_wall_clock_that_steps_back_revives_nothing() {
    let mut world = World::small();
    world.put("k", pinned(1_000));
    world.pass(1_000);
    world.apply(Command::Noop);
    world.now -= 500;
    let sweep = Sweep {
        pins_until: Millis(u64::MAX),
        items_max: 1,
        release_timeout_ms: 60_000,
        ..Sweep::default()
    };
    world.apply(Command::Sweep(sweep));
    assert_eq!(world.gauge(), 0, "state time had reached the deadline");
}

#[test]
fn case_26_a_sweep_for_an_old_deadline_spares_a_pin_that_was_enabled_anew() {
    let mut world = World::small();
    world.put("k", pinned(1_000));
    world.pass(1_000);
    world.remove("k").unwrap();
    world.put("k", pinned(9_000));
    assert_eq!(world.sweep().pins_expired, 0);
    assert_eq!(world.gauge(), 1);
    world.pass(9_000);
    assert_eq!(world.sweep().pins_expired, 1);
}

#[test]
fn case_28_a_hard_pinned_key_is_soft_pinned_and_expires_as_any_other() {
    let mut world = World::small();
    let mut both = start("k", 10, config(1, pinned(1_000)));
    both.config.is_hard_pinned = true;
    world.start(both).unwrap();
    world.end("k").unwrap();
    assert_eq!(world.gauge(), 1);
    world.pass(1_000);
    assert_eq!((world.sweep().pins_expired, world.gauge()), (1, 0));
    assert_eq!(world.peek("k", |object| object.is_hard_pinned), Some(true));
    assert_eq!(world.remove("k"), Ok(()), "a hard pin is no bar to removal");
}

#[test]
fn case_29_a_pinned_key_can_be_removed() {
    let mut world = World::small();
    world.put("k", pinned(50_000));
    assert_eq!(world.remove("k"), Ok(()));
    assert_eq!(world.gauge(), 0);
}

#[test]
fn case_31_the_key_gauge_counts_open_writes_and_the_pin_gauge_committed_pins() {
    let mut world = World::small();
    world.open("a", pinned(50_000));
    world.put("b", pinned(50_000));
    world.open("c", Preserve);
    world.inherit_pin("c", world.now + 1_000);
    assert_eq!((world.state.totals().keys, world.gauge()), (3, 2));
}

#[test]
fn case_32_five_thousand_pins_of_one_key_leave_one_registration_and_a_small_heap() {
    let mut world = World::small();
    for n in 0..5_000_u64 {
        let stamp = crate::state::Stamp { now: Millis(world.now + n), seed: n };
        let put = Command::PutStart(start("k", 10, config(1, pinned(100_000))));
        let items = vec![crate::state::command::EndItem { key: key("k"), checksum: None }];
        let select = ReplicaSelect::All;
        let end = crate::state::command::End { client: client(1), tenant: None, items, select };
        let gone = crate::state::command::Remove { tenant: None, keys: vec![key("k")] };
        let commands = vec![Command::Remove(gone), put, Command::PutEnd(end)];
        world.state.apply_entry(&crate::state::Entry { stamp, commands });
    }
    assert_eq!(world.state.check(), Vec::<String>::new());
    assert!(world.state.deadlines().heap_len() <= HEAP_FLOOR);
    world.pass(4_999 + 99_999);
    assert_eq!((world.sweep().pins_expired, world.gauge()), (0, 1));
    world.pass(1);
    assert_eq!((world.sweep().pins_expired, world.gauge()), (1, 0));
}

#[test]
fn a_pin_is_active_before_its_deadline_and_over_at_it() {
    let mut world = World::small();
    world.put("k", pinned(1_000));
    world.pass(999);
    assert_eq!((world.sweep().pins_expired, world.gauge()), (0, 1));
    world.pass(1);
    assert_eq!((world.sweep().pins_expired, world.gauge()), (1, 0));
    assert!(world.is_readable("k"), "it is ordinary cache now");
}

#[test]
fn a_sweep_goes_no_further_than_it_was_told_or_than_state_time() {
    let mut world = World::small();
    world.put("a", pinned(1_000));
    world.put("b", pinned(2_000));
    let until = Millis(world.now + 1_500);
    world.pass(5_000);
    let sweep =
        Sweep { pins_until: until, items_max: 9, release_timeout_ms: 60_000, ..Sweep::default() };
    world.apply(Command::Sweep(sweep));
    assert_eq!((world.pin("a").is_some(), world.pin("b").is_some()), (false, true));
}

#[test]
fn disable_and_preserve_on_a_new_key_are_ordinary_cache() {
    let mut world = World::small();
    world.put("a", Disable);
    world.put("b", Preserve);
    assert_eq!(world.gauge(), 0);
}

#[test]
fn a_pending_pin_dies_with_the_segment_of_its_last_open_replica() {
    let mut world = World::small();
    world.open("k", pinned(5_000));
    world.unmount(1, 1).unwrap();
    assert_eq!((world.find("k"), world.gauge()), (None, 0));
    assert_eq!(world.end("k"), Err(ErrorCode::ObjectNotFound));
}

#[test]
fn a_pending_pin_commits_with_the_replica_that_is_left_after_an_unmount() {
    let mut world = World::with_segments(2, MIB);
    world.start(start("k", 1024, config(2, pinned(5_000)))).unwrap();
    world.unmount(1, 1).unwrap();
    assert!(world.has_pending("k"));
    world.end("k").unwrap();
    assert_eq!(world.pin("k"), Some(world.now + 5_000));
}

#[test]
fn deadlines_and_pending_pins_survive_a_snapshot_to_the_millisecond() {
    let mut world = World::small();
    world.put("a", pinned(1_234));
    world.open("b", pinned(777));
    world.open("c", Disable);
    let (deadline, opened) = (world.pin("a"), world.now);
    let mut world = world.reloaded();
    assert_eq!((world.pin("a"), world.gauge()), (deadline, 1));
    world.pass(1_000);
    world.end("b").unwrap();
    world.end("c").unwrap();
    assert_eq!((world.pin("b"), world.pin("c")), (Some(opened + 1_777), None));
    world.pass(234);
    assert_eq!(world.sweep().pins_expired, 1);
}
