//! The life of a write, of a clock and of metadata values, without soft pins.

use super::world::*;
use crate::model::PinRequest::Preserve;
use crate::model::{ErrorCode, Millis, ReplicaSelect, ReplicaStatus, Tenant};
use crate::state::Reply;
use crate::state::command::{Command, End, EndItem, Entry, Remove, Stamp, Start, StartItem};
use crate::state::encode::EntryError;
use crate::state::reply::MetadataOutcome;

#[test]
fn a_put_is_reserved_then_readable_then_gone() {
    let mut world = World::small();
    let started = world.open("k", Preserve);
    assert_eq!(started.len(), 1);
    assert_eq!(started[0].status, ReplicaStatus::Processing);
    assert_eq!(memory(&started[0]), ("s1".into(), 1 << 40, 1024));
    assert!(!world.is_readable("k"));
    assert_eq!((world.used(1), world.state.totals().keys), (1024, 1));
    assert_eq!(world.end("k"), Ok(()));
    assert!(world.is_readable("k"));
    assert_eq!(world.state.totals().memory_cached, 1);
    assert_eq!(world.remove("k"), Ok(()));
    assert_eq!((world.used(1), world.state.totals().keys), (0, 0));
    assert_eq!(world.remove("k"), Err(ErrorCode::ObjectNotFound));
}

#[test]
fn only_its_writer_ends_or_revokes_a_write() {
    let mut world = World::small();
    world.open("k", Preserve);
    let foreign = Err(ErrorCode::IllegalClient);
    assert_eq!(world.end_as(2, "k", ReplicaSelect::All, None), foreign);
    assert_eq!(world.revoke_as(2, "k", ReplicaSelect::All), foreign);
    assert_eq!(world.end("k"), Ok(()));
    assert_eq!(world.end_as(2, "k", ReplicaSelect::All, None), foreign);
}

#[test]
fn a_second_end_is_ok_and_changes_nothing_but_the_clock() {
    let mut world = World::small();
    world.put("k", Preserve);
    let before = world.image();
    assert_eq!(world.end("k"), Ok(()));
    assert!(world.image() == before);
}

#[test]
fn an_end_of_what_is_not_being_written_is_refused() {
    let mut world = World::small();
    assert_eq!(world.end("k"), Err(ErrorCode::ObjectNotFound));
    world.put("k", Preserve);
    // No such replica, so nothing is "done already".
    assert_eq!(world.end_as(1, "k", ReplicaSelect::Disk, None), Err(ErrorCode::InvalidWrite));
}

#[test]
fn an_end_without_matching_replicas_is_ok_while_the_write_is_open() {
    let mut world = World::small();
    world.open("k", Preserve);
    assert_eq!(world.end_as(1, "k", ReplicaSelect::LocalDisk, None), Ok(()));
    assert!(!world.is_readable("k"));
    assert_eq!(world.end("k"), Ok(()));
}

#[test]
fn a_revoked_put_frees_its_memory_and_is_gone() {
    let mut world = World::small();
    let first = world.open("k", Preserve);
    assert_eq!(world.revoke_as(1, "k", ReplicaSelect::NoF), Ok(()), "a kind that it has not");
    assert_eq!(world.revoke("k"), Ok(()));
    assert_eq!(world.revoke("k"), Err(ErrorCode::ObjectNotFound));
    assert_eq!(world.used(1), 0);
    let again = world.open("k", Preserve);
    assert_eq!(memory(&again[0]), memory(&first[0]));
    assert_ne!(again[0].id, first[0].id, "replica numbers are never used twice");
}

#[test]
fn a_readable_put_cannot_be_revoked() {
    let mut world = World::small();
    world.put("k", Preserve);
    assert_eq!(world.revoke("k"), Err(ErrorCode::InvalidWrite));
    assert!(world.is_readable("k"));
}

#[test]
fn a_part_of_a_write_can_be_revoked_and_the_rest_ended() {
    let mut world = World::small();
    world.open("k", Preserve);
    world.add_disk_replica("k", true);
    assert_eq!(world.revoke_as(1, "k", ReplicaSelect::Memory), Ok(()));
    assert_eq!(world.used(1), 0);
    assert_eq!(world.end_as(1, "k", ReplicaSelect::Disk, None), Ok(()));
    assert!(world.is_readable("k"));
    assert_eq!(world.state.totals().file_cached, 1);
    assert_eq!(world.remove("k"), Ok(()));
}

#[test]
fn a_write_stays_open_until_every_kind_is_done() {
    let mut world = World::small();
    world.open("k", Preserve);
    world.add_disk_replica("k", true);
    assert_eq!(world.end("k"), Ok(()));
    assert!(world.is_readable("k"));
    assert_eq!(world.end("k"), Ok(()), "again, while the disk is being written");
    assert_eq!(world.remove("k"), Err(ErrorCode::ReplicaIsNotReady));
    assert_eq!(world.revoke("k"), Err(ErrorCode::InvalidWrite), "memory is done");
    assert_eq!(world.end_as(1, "k", ReplicaSelect::Disk, None), Ok(()));
    assert_eq!(world.remove("k"), Ok(()));
}

#[test]
fn an_open_put_cannot_be_removed() {
    let mut world = World::small();
    world.open("k", Preserve);
    assert_eq!(world.remove("k"), Err(ErrorCode::ReplicaIsNotReady));
}

#[test]
fn a_key_is_put_once() {
    let mut world = World::small();
    world.open("k", Preserve);
    let again = start("k", 1024, config(1, Preserve));
    assert_eq!(world.start(again.clone()), Err(ErrorCode::ObjectAlreadyExists), "while open");
    world.end("k").unwrap();
    world.pass(100_000);
    assert_eq!(world.start(again), Err(ErrorCode::ObjectAlreadyExists), "readable, however old");
}

#[test]
fn a_checksum_is_replaced_by_every_end_of_memory() {
    let mut world = World::small();
    world.open("k", Preserve);
    world.add_disk_replica("k", true);
    let checksum = |world: &World| world.peek("k", |object| object.checksum()).unwrap();
    world.end_as(1, "k", ReplicaSelect::Memory, Some(0)).unwrap();
    assert_eq!(checksum(&world), Some(0), "zero is a checksum");
    world.end_as(1, "k", ReplicaSelect::Disk, None).unwrap();
    assert_eq!(checksum(&world), Some(0), "another kind without one leaves it");
    let mut world = World::small();
    world.open("k", Preserve);
    world.add_disk_replica("k", true);
    world.end_as(1, "k", ReplicaSelect::Memory, Some(7)).unwrap();
    world.end_as(1, "k", ReplicaSelect::All, None).unwrap();
    assert_eq!(checksum(&world), None);
}

#[test]
fn a_batch_has_one_result_a_key_and_later_items_see_earlier_ones() {
    let mut world = World::small();
    let items = ["a", "b", "a"].map(|name| StartItem { key: key(name), size: 10, group: None });
    let batch = Start { items: items.to_vec(), ..start("-", 1, config(1, Preserve)) };
    let Reply::Starts(started) = world.apply(Command::PutStart(batch)) else { panic!() };
    assert!(started[0].is_ok() && started[1].is_ok());
    assert_eq!(started[2], Err(ErrorCode::ObjectAlreadyExists));
    let items = ["b", "x", "b"].map(|name| EndItem { key: key(name), checksum: None });
    let select = ReplicaSelect::All;
    let end = End { client: client(1), tenant: None, items: items.to_vec(), select };
    let ended = world.apply(Command::PutEnd(end));
    assert_eq!(ended, Reply::Results(vec![Ok(()), Err(ErrorCode::ObjectNotFound), Ok(())]));
    let keys = ["b", "b", "a"].map(key).to_vec();
    let removed = world.apply(Command::Remove(Remove { tenant: None, keys }));
    let (missing, open) = (Err(ErrorCode::ObjectNotFound), Err(ErrorCode::ReplicaIsNotReady));
    assert_eq!(removed, Reply::Results(vec![Ok(()), missing, open]));
}

#[test]
fn tenants_do_not_see_each_others_keys() {
    let mut world = World::small();
    world.put("k", Preserve);
    let tenant = Tenant::parse("tA");
    let foreign = Start { tenant: tenant.clone(), ..start("k", 10, config(1, Preserve)) };
    assert!(world.start(foreign).is_ok());
    let items = vec![EndItem { key: key("k"), checksum: None }];
    let select = ReplicaSelect::All;
    let end = End { client: client(1), tenant: tenant.clone(), items, select };
    assert_eq!(only(world.apply(Command::PutEnd(end))), Ok(()));
    assert_eq!(world.remove("k"), Ok(()));
    assert_eq!(world.state.totals().keys, 1);
    let remove = Remove { tenant, keys: vec![key("k")] };
    assert_eq!(only(world.apply(Command::Remove(remove))), Ok(()));
    assert_eq!(world.state.totals().keys, 0);
}

#[test]
fn the_clock_never_falls() {
    let mut world = World::small();
    world.put("k", pinned(5_000));
    let deadline = world.now + 5_000;
    world.pass(6_000);
    world.apply(Command::Noop);
    let latest = world.now;
    world.now = 10;
    world.apply(Command::Noop);
    assert_eq!(world.state.clock(), Millis(latest));
    assert_eq!(world.pin("k"), Some(deadline));
    // A leader with a slow clock cannot pin into the past either: the state's time counts.
    world.put("j", pinned(1));
    assert_eq!(world.pin("j"), Some(latest + 1));
    world.now = latest;
    assert_eq!(world.sweep().pins_expired, 1);
}

#[test]
fn a_refused_command_changes_nothing_but_the_clock() {
    let mut world = World::small();
    world.put("k", pinned(50_000));
    world.open("open", pinned(1));
    let before = world.image();
    assert!(world.start(start("k", 9, config(1, pinned(9)))).is_err());
    assert!(world.start(start("open", 9, config(1, Preserve))).is_err());
    assert!(world.end("none").is_err());
    assert!(world.revoke("k").is_err());
    assert!(world.remove("open").is_err());
    assert!(world.unmount(1, 2).is_err());
    assert!(world.mount(segment(1, 2 * MIB), 1).is_err());
    assert!(world.image() == before);
}

#[test]
fn an_entry_that_cannot_be_read_changes_nothing() {
    let mut world = World::small();
    let before = world.image();
    assert!(matches!(world.state.apply(&[9, 9]), Err(EntryError::Version { found: 9 })));
    assert!(matches!(world.state.apply(&[1, 9]), Err(EntryError::Damaged(_))));
    assert!(world.image() == before);
}

#[test]
fn the_commands_of_one_entry_are_applied_in_order_with_one_stamp() {
    let mut world = World::small();
    let stamp = Stamp { now: Millis(world.now), seed: 3 };
    let items = vec![EndItem { key: key("k"), checksum: None }];
    let select = ReplicaSelect::All;
    let commands = vec![
        Command::PutStart(start("k", 10, config(1, pinned(10)))),
        Command::PutEnd(End { client: client(1), tenant: None, items, select }),
        Command::Remove(Remove { tenant: None, keys: vec![key("k")] }),
    ];
    let replies = world.state.apply_entry(&Entry { stamp, commands });
    assert!(matches!(&replies[0], Reply::Starts(started) if started[0].is_ok()));
    assert_eq!(replies[1..], [Reply::Results(vec![Ok(())]), Reply::Results(vec![Ok(())])]);
    assert_eq!(world.state.check(), Vec::<String>::new());
}

#[test]
fn metadata_survives_a_snapshot_and_keeps_its_rules() {
    let mut world = World::empty();
    let name = "mooncake/rpc_meta/a";
    let put = |world: &mut World, name: &str, value: &str| match world
        .apply(Command::MetadataPut { key: key(name), value: key(value) })
    {
        Reply::Metadata(outcome) => outcome,
        other => panic!("{other:?}"),
    };
    assert_eq!(put(&mut world, name, "1"), MetadataOutcome::Updated);
    assert_eq!(put(&mut world, "mooncake/ram/a", "x"), MetadataOutcome::Updated);
    let mut world = world.reloaded();
    assert_eq!(put(&mut world, name, "1"), MetadataOutcome::Unchanged);
    assert_eq!(put(&mut world, name, "2"), MetadataOutcome::Duplicate);
    assert_eq!(world.state.metadata().get(b"mooncake/ram/a").as_deref(), Some(&b"x"[..]));
    let delete = Command::MetadataDelete { key: key(name) };
    assert_eq!(world.apply(delete), Reply::Metadata(MetadataOutcome::Deleted));
    assert_eq!(put(&mut world, name, "2"), MetadataOutcome::Updated);
}
