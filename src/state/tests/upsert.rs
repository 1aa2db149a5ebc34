//! Upserts on the pure state: in place, elsewhere, preempting; what becomes of pins, memory and the old value
//! (behaviour 2.5, 3.10 and sharp edges 2, 3 and 33).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::world::*;
use crate::model::PinRequest::{Disable, Preserve};
use crate::model::{
    Descriptor, ErrorCode, Location, Object, PinRequest, ReplicaKind, ReplicaSelect, ReplicaStatus,
    Tenant, TenantIdx,
};
use crate::state::Reply;
use crate::state::command::{ClearReplicas, Command, Start, WriteConfig};
use crate::state::table::table_hash;

type Started = Result<Vec<Descriptor>, ErrorCode>;

fn upsert_with(world: &mut World, start: Start) -> Started {
    match world.apply(Command::UpsertStart(start)) {
        Reply::Starts(mut started) if started.len() == 1 => started.remove(0),
        other => panic!("{other:?}"),
    }
}

/// Starts an Upsert of one key.
fn upsert(world: &mut World, by: u64, name: &str, size: u64, pin: PinRequest) -> Started {
    upsert_with(world, Start { client: client(by), ..start(name, size, config(1, pin)) })
}

fn end(world: &mut World, by: u64, name: &str) -> Outcome {
    world.end_as(by, name, ReplicaSelect::All, None)
}

fn ids(descriptors: &[Descriptor]) -> Vec<u64> {
    descriptors.iter().map(|descriptor| descriptor.id.0).collect()
}

fn place(descriptors: &[Descriptor]) -> u64 {
    match &descriptors[0].location {
        Location::Memory { address, .. } => *address,
        other => panic!("{other:?}"),
    }
}

fn is_hard_pinned(world: &World, name: &str) -> bool {
    world.peek(name, |object| object.is_hard_pinned).unwrap()
}

#[test]
fn an_upsert_of_a_new_key_is_a_put() {
    let mut world = World::small();
    let started = upsert(&mut world, 1, "k", 1024, pinned(9_000)).unwrap();
    assert_eq!(started[0].status, ReplicaStatus::Processing);
    assert_eq!((world.is_readable("k"), world.gauge()), (false, 0));
    end(&mut world, 1, "k").unwrap();
    assert!(world.is_readable("k"));
    assert_eq!(world.pin("k"), Some(world.now + 9_000));
}

#[test]
fn an_upsert_of_the_same_size_writes_in_place_under_a_new_writer() {
    let mut world = World::with_segments(2, MIB);
    let put = world.start(start("k", 1024, config(2, Preserve))).unwrap();
    world.end("k").unwrap();
    let (before, used) = (world.now, world.used(1) + world.used(2));
    world.pass(500);
    let again = upsert(&mut world, 2, "k", 1024, Preserve).unwrap();
    assert_eq!((ids(&put), place(&put)), (ids(&again), place(&again)));
    assert!(again.iter().all(|replica| replica.status == ReplicaStatus::Processing));
    assert!(!world.is_readable("k"));
    assert_eq!(world.used(1) + world.used(2), used);
    assert_eq!(world.peek("k", |object| object.put_start.0), Some(before + 500));
    assert_eq!(end(&mut world, 1, "k"), Err(ErrorCode::IllegalClient));
    end(&mut world, 2, "k").unwrap();
    assert!(world.is_readable("k"));
    assert_eq!(world.state.discards().staged_bytes(), 0);
}

#[test]
fn an_upsert_of_another_size_moves_and_sets_the_old_memory_aside() {
    let mut world = World::small();
    world.put("k", Preserve);
    let old = world.peek("k", |object| object.replicas[0].id).unwrap();
    let new = upsert(&mut world, 2, "k", 2048, Preserve).unwrap();
    assert_ne!(ids(&new), [old.0]);
    assert_eq!((world.used(1), world.state.discards().staged_bytes()), (3072, 1024));
    assert!(!world.is_readable("k"));
    end(&mut world, 2, "k").unwrap();
    assert_eq!(world.peek("k", |object| object.size), Some(2048));
    world.pass(RULES.release_timeout_ms);
    world.sweep();
    assert_eq!((world.used(1), world.state.discards().staged_bytes()), (2048, 0));
}

#[test]
fn edge_02_an_upsert_without_room_leaves_the_object_its_pin_and_its_space() {
    let mut world = World::small();
    world.put("k", pinned(50_000));
    let (pin, used) = (world.pin("k"), world.used(1));
    let refused = upsert(&mut world, 2, "k", 2 * MIB, Disable);
    assert_eq!(refused, Err(ErrorCode::NoAvailableHandle));
    assert!(world.is_readable("k"));
    assert_eq!((world.pin("k"), world.used(1), world.gauge()), (pin, used, 1));
    assert_eq!(world.state.discards().staged_bytes(), 0);
    end(&mut world, 1, "k").unwrap();
}

#[test]
fn an_upsert_without_room_does_not_preempt_an_open_write() {
    let mut world = World::small();
    world.open("k", pinned(50_000));
    assert_eq!(upsert(&mut world, 2, "k", 2 * MIB, Preserve), Err(ErrorCode::NoAvailableHandle));
    end(&mut world, 1, "k").unwrap();
    assert_eq!(world.pin("k"), Some(world.now + 50_000));
}

#[test]
fn edge_03_revoking_an_upsert_in_place_loses_the_old_value() {
    let mut world = World::small();
    world.put("k", pinned(50_000));
    upsert(&mut world, 1, "k", 1024, Preserve).unwrap();
    assert_eq!(world.gauge(), 1);
    world.revoke("k").unwrap();
    assert_eq!(world.find("k"), None);
    assert_eq!((world.gauge(), world.used(1)), (0, 0));
}

#[test]
fn revoking_an_upsert_elsewhere_removes_the_key() {
    let mut world = World::small();
    world.put("k", pinned(50_000));
    upsert(&mut world, 1, "k", 2048, Preserve).unwrap();
    world.revoke("k").unwrap();
    assert_eq!(world.find("k"), None);
    assert_eq!((world.gauge(), world.used(1)), (0, 1024));
}

#[test]
fn an_open_write_is_preempted_at_once_by_anybody() {
    let mut world = World::small();
    world.open("k", pinned(50_000));
    upsert(&mut world, 2, "k", 1024, Preserve).unwrap();
    assert_eq!(world.state.discards().staged_bytes(), 1024);
    assert_eq!(end(&mut world, 1, "k"), Err(ErrorCode::IllegalClient));
    end(&mut world, 2, "k").unwrap();
    assert_eq!((world.pin("k"), world.gauge()), (None, 0), "the first write's request is lost");
}

#[test]
fn edge_33_two_upserts_in_a_row_keep_the_copy_on_disk() {
    let mut world = World::small();
    world.put("k", Preserve);
    world.add_disk_replica("k", false);
    let kinds = |world: &World| {
        let kinds = |object: &Object| -> Vec<_> {
            object.replicas.iter().map(|replica| replica.place.kind()).collect()
        };
        world.peek("k", kinds).unwrap()
    };
    upsert(&mut world, 1, "k", 1024, Preserve).unwrap();
    assert_eq!(upsert(&mut world, 2, "k", 1024, pinned(7_000)).unwrap().len(), 2);
    assert_eq!(kinds(&world), [ReplicaKind::Memory, ReplicaKind::Disk]);
    end(&mut world, 2, "k").unwrap();
    assert!(world.is_readable("k"));
    assert_eq!(world.pin("k"), Some(world.now + 7_000));
    assert_eq!(world.remove("k"), Err(ErrorCode::ReplicaIsNotReady), "the disk is not written");
    world.end_as(2, "k", ReplicaSelect::Disk, None).unwrap();
    assert_eq!(kinds(&world), [ReplicaKind::Memory, ReplicaKind::Disk]);
    assert_eq!(world.remove("k"), Ok(()));
}

#[test]
fn a_copy_on_disk_of_another_size_goes_with_the_old_value() {
    let mut world = World::small();
    world.put("k", Preserve);
    world.add_disk_replica("k", false);
    assert_eq!(upsert(&mut world, 1, "k", 2048, Preserve).unwrap().len(), 1);
    end(&mut world, 1, "k").unwrap();
    assert_eq!(world.state.totals().file_bytes, 0);
    assert_eq!(world.remove("k"), Ok(()));
}

#[test]
fn case_11_preserve_keeps_a_live_deadline_over_upserts_of_any_size() {
    for size in [1024, 4096] {
        let mut world = World::small();
        world.put("k", pinned(50_000));
        let deadline = world.pin("k");
        world.pass(20_000);
        upsert(&mut world, 2, "k", size, Preserve).unwrap();
        assert_eq!((world.pin("k"), world.gauge()), (deadline, 1), "in force while it is written");
        world.pass(20_000);
        end(&mut world, 2, "k").unwrap();
        assert_eq!((world.pin("k"), world.gauge()), (deadline, 1));
    }
}

#[test]
fn case_12_enable_and_disable_work_when_the_upsert_becomes_readable() {
    for size in [1024, 4096] {
        for (request, after) in [(Disable, None), (pinned(90_000), Some(90_000))] {
            let mut world = World::small();
            world.put("k", pinned(50_000));
            let deadline = world.pin("k");
            upsert(&mut world, 2, "k", size, request).unwrap();
            assert_eq!((world.pin("k"), world.gauge()), (deadline, 1));
            world.pass(1_000);
            end(&mut world, 2, "k").unwrap();
            assert_eq!(world.pin("k"), after.map(|ttl: u64| world.now + ttl));
            assert_eq!(world.gauge(), usize::from(after.is_some()));
        }
    }
}

#[test]
fn case_12_a_preempted_upsert_leaves_the_old_deadline() {
    let mut world = World::small();
    world.put("k", pinned(50_000));
    let deadline = world.pin("k");
    upsert(&mut world, 1, "k", 1024, Disable).unwrap();
    upsert(&mut world, 2, "k", 1024, Preserve).unwrap();
    assert_eq!((world.pin("k"), world.gauge()), (deadline, 1));
    end(&mut world, 2, "k").unwrap();
    assert_eq!((world.pin("k"), world.gauge()), (deadline, 1));
}

#[test]
fn case_13_an_expired_deadline_is_not_inherited() {
    for size in [1024, 4096] {
        let mut world = World::small();
        world.put("k", pinned(5_000));
        world.pass(5_000);
        upsert(&mut world, 2, "k", size, Preserve).unwrap();
        end(&mut world, 2, "k").unwrap();
        assert_eq!((world.pin("k"), world.gauge()), (None, 0), "size {size}");
    }
}

#[test]
fn case_13_an_inherited_deadline_expires_while_the_upsert_is_open() {
    for size in [1024, 4096] {
        let mut world = World::small();
        world.put("k", pinned(5_000));
        upsert(&mut world, 2, "k", size, Preserve).unwrap();
        assert_eq!(world.gauge(), 1);
        let mut world = world.reloaded();
        world.pass(5_000);
        assert_eq!(world.sweep().pins_expired, 1);
        assert_eq!((world.pin("k"), world.gauge(), world.has_pending("k")), (None, 0, true));
        end(&mut world, 2, "k").unwrap();
        assert_eq!((world.pin("k"), world.is_readable("k")), (None, true));
    }
}

#[test]
fn case_14_a_chain_of_preemptions_keeps_what_was_committed_before_it() {
    let mut world = World::small();
    world.put("k", pinned(50_000));
    let deadline = world.pin("k");
    upsert(&mut world, 1, "k", 2048, pinned(90_000)).unwrap();
    upsert(&mut world, 2, "k", 4096, Disable).unwrap();
    upsert(&mut world, 3, "k", 4096, Preserve).unwrap();
    end(&mut world, 3, "k").unwrap();
    assert_eq!((world.pin("k"), world.gauge()), (deadline, 1));
}

#[test]
fn case_16_a_put_over_a_half_upserted_key_loses_the_pin() {
    let mut world = World::small();
    world.put("k", pinned(500_000));
    upsert(&mut world, 1, "k", 1024, Preserve).unwrap();
    world.pass(RULES.discard_timeout_ms + 1);
    world.open("k", Preserve);
    world.end("k").unwrap();
    assert_eq!((world.pin("k"), world.gauge()), (None, 0));
}

#[test]
fn case_19_an_expired_pin_is_counted_down_once_over_two_upserts() {
    let mut world = World::small();
    world.put("other", pinned(900_000));
    world.put("k", pinned(5_000));
    world.pass(6_000);
    upsert(&mut world, 1, "k", 1024, Preserve).unwrap();
    upsert(&mut world, 2, "k", 1024, Preserve).unwrap();
    end(&mut world, 2, "k").unwrap();
    world.sweep();
    assert_eq!((world.pin("k"), world.gauge()), (None, 1));
}

#[test]
fn a_hard_pin_survives_an_upsert_and_may_be_added_by_one_of_another_size() {
    let hard = || WriteConfig { is_hard_pinned: true, ..config(1, Preserve) };
    let mut world = World::small();
    world.start(start("hard", 1024, hard())).unwrap();
    world.end("hard").unwrap();
    world.put("soft", Preserve);
    for size in [1024, 2048] {
        upsert(&mut world, 1, "hard", size, Preserve).unwrap();
        world.end("hard").unwrap();
        assert!(is_hard_pinned(&world, "hard"));
    }
    upsert_with(&mut world, start("soft", 1024, hard())).unwrap();
    world.end("soft").unwrap();
    assert!(!is_hard_pinned(&world, "soft"), "in place the request's flag is ignored");
    upsert_with(&mut world, start("soft", 2048, hard())).unwrap();
    assert!(is_hard_pinned(&world, "soft"));
}

#[test]
fn an_upsert_is_refused_while_something_reads_from_a_replica() {
    let mut world = World::small();
    world.put("k", Preserve);
    let object = world.find("k").unwrap();
    // Nothing but a copy or move does so yet, and that is refused before; the check of the state knows.
    world.state.edit(object, |object| object.replicas[0].references = 1);
    for size in [1024, 2048] {
        let command = Command::UpsertStart(start("k", size, config(1, Preserve)));
        let stamp = crate::state::Stamp { now: crate::model::Millis(world.now), seed: 1 };
        let entry = crate::state::Entry { stamp, commands: vec![command] };
        let refused = Reply::Starts(vec![Err(ErrorCode::ObjectReplicaBusy)]);
        assert_eq!(world.state.apply_entry(&entry), [refused]);
    }
    assert!(world.is_readable("k"));
}

#[test]
fn an_upsert_is_refused_while_a_copy_is_open() {
    use crate::state::transfer::{TransferKind, TransferStart};
    let mut world = World::with_segments(2, MIB);
    world.start(start("k", 1024, config(2, Preserve))).unwrap();
    world.end("k").unwrap();
    let source: std::sync::Arc<str> = std::sync::Arc::from(&*world.places("k")[0]);
    let started = world.apply(Command::TransferStart(TransferStart {
        client: client(1),
        tenant: None,
        key: key("k"),
        kind: TransferKind::Copy,
        source,
        targets: Vec::new(),
    }));
    assert!(matches!(started, Reply::Transfer(Ok(_))), "{started:?}");
    let busy = Err(ErrorCode::ObjectHasReplicationTask);
    assert_eq!(upsert(&mut world, 1, "k", 1024, Preserve), busy);
    assert_eq!(upsert(&mut world, 1, "k", 2048, Preserve), busy);
}

#[test]
fn a_public_bug_an_end_without_a_start_does_not_complete_a_copys_replica() {
    let mut world = World::with_segments(2, MIB);
    world.start(start("k", 1024, config(2, Preserve))).unwrap();
    world.end("k").unwrap();
    let object = world.find("k").unwrap();
    let set = |object: &mut Object, status| object.replicas[1].status = status;
    world.state.edit(object, |object| set(object, ReplicaStatus::Processing));
    let refused = world.state.apply_entry(&entry_of_end("k", world.now));
    assert_eq!(refused, [Reply::Results(vec![Err(ErrorCode::InvalidWrite)])]);
    assert_eq!(world.peek("k", |object| object.replicas[1].is_complete()), Some(false));
}

fn entry_of_end(name: &str, now: u64) -> crate::state::Entry {
    use crate::state::command::{End, EndItem, Stamp};
    let items = vec![EndItem { key: key(name), checksum: None }];
    let end = End { client: client(1), tenant: None, items, select: ReplicaSelect::All };
    let stamp = Stamp { now: crate::model::Millis(now), seed: 1 };
    crate::state::Entry { stamp, commands: vec![Command::PutEnd(end)] }
}

#[test]
fn the_same_key_twice_in_a_batch_preempts_itself() {
    let mut world = World::small();
    let one = start("k", 1024, config(1, Preserve));
    let items = [one.items.clone(), one.items.clone()].concat();
    match world.apply(Command::UpsertStart(Start { items, ..one })) {
        Reply::Starts(started) => assert!(started.iter().all(Result::is_ok)),
        other => panic!("{other:?}"),
    }
    assert_eq!((world.end("k"), world.end("k")), (Ok(()), Ok(())));
    assert_eq!(world.used(1), 2048);
}

#[test]
fn an_unfinished_upsert_in_place_is_dropped_in_the_end() {
    let mut world = World::small();
    world.put("k", pinned(900_000));
    world.pass(1_000);
    upsert(&mut world, 1, "k", 1024, Preserve).unwrap();
    world.pass(RULES.release_timeout_ms);
    assert_eq!(world.sweep().writes_dropped, 0, "counted from the upsert");
    world.pass(1);
    assert_eq!(world.sweep().writes_dropped, 1);
    assert_eq!((world.find("k"), world.gauge(), world.used(1)), (None, 0, 0));
}

fn clear(world: &mut World, by: u64, name: &str, segment: Option<&str>) -> Outcome {
    let (client, segment, keys) = (client(by), segment.map(Into::into), vec![key(name)]);
    let clear = ClearReplicas { tenant: None, client, segment, keys };
    only(world.apply(Command::ClearReplicas(clear)))
}

fn only(reply: Reply) -> Outcome {
    match reply {
        Reply::Results(mut results) if results.len() == 1 => results.remove(0),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_writer_clears_its_replicas_by_segment_or_its_whole_object() {
    let mut world = World::with_segments(2, MIB);
    for name in ["a", "b"] {
        world.start(start(name, 1024, config(2, pinned(50_000)))).unwrap();
        assert_eq!(clear(&mut world, 1, name, None), Err(ErrorCode::ReplicaIsNotReady));
        assert_eq!(clear(&mut world, 1, name, Some("s1")), Err(ErrorCode::ReplicaNotFound));
        world.end(name).unwrap();
    }
    assert_eq!(clear(&mut world, 2, "a", None), Err(ErrorCode::IllegalClient));
    assert_eq!(clear(&mut world, 1, "a", Some("s9")), Err(ErrorCode::ReplicaNotFound));
    assert_eq!(clear(&mut world, 1, "a", Some("s1")), Ok(()));
    assert_eq!((world.places("a"), world.gauge()), (vec!["s2".to_owned()], 2));
    assert_eq!(clear(&mut world, 1, "a", Some("s2")), Ok(()));
    assert_eq!((world.find("a"), world.gauge()), (None, 1));
    assert_eq!(clear(&mut world, 1, "b", None), Ok(()));
    assert_eq!(clear(&mut world, 1, "b", None), Err(ErrorCode::ObjectNotFound));
    assert_eq!((world.used(1), world.used(2), world.gauge()), (0, 0, 0));
}

#[test]
fn a_reader_finds_a_key_at_every_moment_of_an_upsert_to_new_memory() {
    let mut world = World::small();
    world.put("k", Preserve);
    let (view, is_over) = (Arc::clone(world.state.view()), Arc::new(AtomicBool::new(false)));
    let reader = std::thread::spawn({
        let is_over = Arc::clone(&is_over);
        move || {
            let hash = table_hash(&Tenant::default(), b"k");
            let (mut looks, mut misses) = (0_u64, 0_u64);
            while !is_over.load(Ordering::Relaxed) {
                let directory = view.directory();
                let exists = |object: Option<&Object>| object.is_some_and(|o| directory.exists(o));
                looks += 1;
                misses += u64::from(!view.table.look(hash, TenantIdx(0), b"k", exists));
            }
            (looks, misses)
        }
    });
    for turn in 0..2_000 {
        // The memory of the one before is set aside for the release timeout.
        world.now += 1_000_000;
        world.sweep();
        upsert(&mut world, 1, "k", 1024 * (1 + turn % 2), Preserve).unwrap();
        end(&mut world, 1, "k").unwrap();
    }
    is_over.store(true, Ordering::Relaxed);
    let (looks, misses) = reader.join().unwrap();
    assert!(looks > 1_000, "the reader saw nothing");
    assert_eq!(misses, 0, "of {looks} looks");
}
