//! A cold restore through the log: what the store is afterwards, and that a failed one leaves nothing.

use std::sync::Arc;

use mooncake_ha_snapshot as snapshot;
use snapshot::{Findings, Limits, Survival, decode_image, normalize};

use super::world::*;
use crate::model::PinRequest::Preserve;
use crate::model::{ErrorCode, Millis, SegmentStatus};
use crate::state::command::{Command, Key};
use crate::state::image::{Prepared, prepare};
use crate::state::restore::{
    Preloaded, RestoreBegin, RestoreFinish, RestoreOutcome, RestorePart, RestoreRefused,
};
use crate::state::{Reply, State};

const LONG: u64 = 3_600_000;

/// What a leader would send of a catalog snapshot of this world, restored at `now`.
struct Sent {
    parts: Vec<Vec<u8>>,
    crc32: u32,
    leases_until: Millis,
    now: Millis,
}

fn sent(world: &World, now: u64, survival: Survival, part_bytes: usize) -> Sent {
    let payloads = world.state.freeze().payloads(1, 1, None).unwrap();
    let mut image = decode_image(&payloads, &Limits::default()).unwrap().image;
    let findings = &mut Findings::default();
    let now = normalize(&mut image, now, survival, findings).unwrap().now_ms;
    let Prepared { image, leases_until, .. } = prepare(image, Millis(now)).unwrap();
    let mut bytes = Vec::new();
    let payloads = snapshot::encode_image(&image).unwrap();
    snapshot::write_container(&payloads, &mut bytes).unwrap();
    let parts = bytes.chunks(part_bytes).map(<[u8]>::to_vec).collect();
    Sent { parts, crc32: crc32fast::hash(&bytes), leases_until, now: Millis(now) }
}

fn step(world: &mut World, command: Command) -> Result<(), RestoreRefused> {
    match world.apply(command) {
        Reply::Restore(done) => done,
        other => panic!("{other:?}"),
    }
}

fn begin(world: &mut World, sent: &Sent, attempt: u64) -> Result<(), RestoreRefused> {
    let parts = u32::try_from(sent.parts.len()).unwrap();
    let (snapshot, now, crc32) = (Arc::from("20261129_182740_639"), sent.now, sent.crc32);
    step(world, Command::RestoreBegin(RestoreBegin { attempt, snapshot, now, parts, crc32 }))
}

fn part(sent: &Sent, attempt: u64, number: usize) -> Command {
    let bytes = Key(sent.parts[number].clone());
    Command::RestorePart(RestorePart { attempt, number: u32::try_from(number).unwrap(), bytes })
}

fn finish(world: &mut World, sent: &Sent, attempt: u64) -> Result<(), RestoreRefused> {
    step(
        world,
        Command::RestoreFinish(RestoreFinish {
            attempt,
            leases_until: sent.leases_until,
            outcome: RestoreOutcome::Restored,
            report: key("{}"),
        }),
    )
}

fn restore(world: &mut World, sent: &Sent) -> Result<(), RestoreRefused> {
    begin(world, sent, 1)?;
    // The proposer keeps no order among entries in flight.
    for number in (0..sent.parts.len()).rev() {
        step(world, part(sent, 1, number))?;
    }
    finish(world, sent, 1)
}

/// A world with two segments, pinned and plain objects, an unfinished write and memory set aside.
fn lived() -> World {
    let mut world = World::with_segments(2, MIB);
    assert_eq!(world.remount(vec![segment(1, MIB), segment(2, MIB)], 1), Ok(()));
    world.put("pinned", pinned(LONG));
    world.put("short", pinned(5_000));
    world.put("plain", Preserve);
    world.open("open", Preserve);
    world
}

/// An empty cluster, a little later than the world that was saved.
fn fresh(saved: &World) -> World {
    let mut world = World::empty();
    world.now = saved.now + 6_000;
    world
}

/// An empty cluster that has taken the saved world over.
fn restored(saved: &World, survival: Survival) -> World {
    let mut world = fresh(saved);
    let sent = sent(saved, world.now, survival, 1 << 20);
    restore(&mut world, &sent).unwrap();
    world
}

#[test]
fn a_restore_keeps_what_its_pin_keeps_and_gives_the_rest_of_the_memory_back() {
    let saved = lived();
    let mut world = fresh(&saved);
    let sent = sent(&saved, world.now, Survival::Rfc, 100);
    assert!(sent.parts.len() > 3, "cut into one part");
    assert_eq!(restore(&mut world, &sent), Ok(()));
    assert_eq!(world.pin("pinned"), saved.pin("pinned"), "to the millisecond");
    assert!(world.is_readable("pinned"));
    assert_eq!(["short", "plain", "open"].map(|name| world.find(name)), [None; 3]);
    assert_eq!((world.gauge(), world.used(1) + world.used(2)), (1, 1024));
    let record = world.state.restore().record().unwrap();
    assert_eq!((record.outcome, record.now), (RestoreOutcome::Restored, Millis(world.now)));
    assert_eq!(world.state.restore().stage(), None);
    // The deadline index was built from what survived.
    world.now = saved.pin("pinned").unwrap();
    assert_eq!(world.sweep().pins_expired, 1);
}

#[test]
fn an_expired_pin_of_an_object_that_survives_otherwise_is_disabled() {
    let saved = lived();
    let world = restored(&saved, Survival::Complete);
    assert!(world.is_readable("short") && world.is_readable("plain"));
    assert_eq!((world.pin("short"), world.gauge()), (None, 1));
    assert_eq!(world.find("open"), None, "it was never finished");
}

#[test]
fn a_node_that_has_loaded_the_image_beforehand_ends_like_one_that_loads_it_last() {
    let saved = lived();
    let (mut early, mut late) = (fresh(&saved), fresh(&saved));
    let sent = sent(&saved, early.now, Survival::Rfc, 64);
    for world in [&mut early, &mut late] {
        begin(world, &sent, 1).unwrap();
    }
    let load = || State::load(&mut &*sent.parts.concat()).unwrap();
    // Of another attempt, or of other bytes, nothing is used.
    let other = Preloaded { attempt: 7, crc32: sent.crc32, state: State::default() };
    early.state.preload(other);
    let stale = Preloaded { attempt: 1, crc32: !sent.crc32, state: State::default() };
    late.state.preload(stale);
    early.state.preload(Preloaded { attempt: 1, crc32: sent.crc32, state: load() });
    for world in [&mut early, &mut late] {
        for number in 0..sent.parts.len() {
            step(world, part(&sent, 1, number)).unwrap();
        }
        finish(world, &sent, 1).unwrap();
        assert!(world.is_readable("pinned"));
    }
    assert_eq!(image(&early.state), image(&late.state));
}

#[test]
fn a_node_that_loads_a_raft_snapshot_midway_ends_like_one_that_saw_every_part() {
    let saved = lived();
    let (mut lived, mut loaded) = (fresh(&saved), fresh(&saved));
    let sent = sent(&saved, lived.now, Survival::Rfc, 64);
    for world in [&mut lived, &mut loaded] {
        begin(world, &sent, 1).unwrap();
    }
    for number in 0..sent.parts.len() {
        step(&mut lived, part(&sent, 1, number)).unwrap();
        step(&mut loaded, part(&sent, 1, number)).unwrap();
        loaded = loaded.reloaded();
    }
    for world in [&mut lived, &mut loaded] {
        finish(world, &sent, 1).unwrap();
    }
    assert!(lived.image() == loaded.reloaded().image());
}

#[test]
fn an_aborted_restore_leaves_the_state_as_it_was() {
    let saved = lived();
    let mut world = fresh(&saved);
    world.apply(Command::Noop);
    let before = world.image();
    let sent = sent(&saved, world.now, Survival::Rfc, 100);
    begin(&mut world, &sent, 1).unwrap();
    step(&mut world, part(&sent, 1, 0)).unwrap();
    world.apply(Command::RestoreAbort { attempt: 2 });
    assert!(world.state.restore().stage().is_some(), "another one's abort");
    world.apply(Command::RestoreAbort { attempt: 1 });
    assert!(world.image() == before);
    assert_eq!(step(&mut world, part(&sent, 1, 1)), Err(RestoreRefused::NoStage));
    assert_eq!(finish(&mut world, &sent, 1), Err(RestoreRefused::NoStage));
}

#[test]
fn a_candidate_that_cannot_be_taken_over_leaves_nothing_to_the_next() {
    let saved = lived();
    let mut world = fresh(&saved);
    world.apply(Command::Noop);
    let before = world.image();
    let good = sent(&saved, world.now, Survival::Rfc, 100);
    // One lacks a part, one has another part than announced, one is no image.
    begin(&mut world, &good, 1).unwrap();
    step(&mut world, part(&good, 1, 0)).unwrap();
    let missing = finish(&mut world, &good, 1);
    assert!(matches!(missing, Err(RestoreRefused::Damaged(_))), "{missing:?}");
    let mut bent = sent(&saved, world.now, Survival::Rfc, 100);
    bent.parts[1][0] ^= 1;
    let refused = restore(&mut world, &bent);
    assert!(matches!(refused, Err(RestoreRefused::Damaged(_))), "{refused:?}");
    let bytes = b"no image".to_vec();
    let crc32 = crc32fast::hash(&bytes);
    let refused = restore(&mut world, &Sent { parts: vec![bytes], crc32, ..bent });
    assert!(matches!(refused, Err(RestoreRefused::Damaged(_))), "{refused:?}");
    assert!(world.image() == before, "a failed candidate left something");
    assert_eq!(restore(&mut world, &good), Ok(()));
}

#[test]
fn a_store_in_use_is_not_replaced() {
    let saved = lived();
    let mut world = fresh(&saved);
    let sent = sent(&saved, world.now, Survival::Rfc, 1 << 20);
    begin(&mut world, &sent, 1).unwrap();
    step(&mut world, part(&sent, 1, 0)).unwrap();
    world.mount(segment(7, MIB), 7).unwrap();
    let in_use = Err(RestoreRefused::NotEmpty { objects: 0, segments: 1 });
    assert_eq!(finish(&mut world, &sent, 1), in_use);
    assert_eq!(begin(&mut world, &sent, 2), in_use);
    assert_eq!(world.state.restore().stage(), None);
    assert_eq!(world.state.segments().len(), 1);
}

#[test]
fn a_restore_keeps_what_came_before_it_and_is_not_the_stores() {
    let saved = lived();
    let mut world = fresh(&saved);
    world.apply(Command::Lead(leadership(9)));
    world.remount(Vec::new(), 8).unwrap();
    world.apply(Command::MetadataPut { key: key("mooncake/ram/x"), value: key("new") });
    let sent = sent(&saved, world.now, Survival::Rfc, 1 << 20);
    restore(&mut world, &sent).unwrap();
    assert_eq!(world.state.leadership(), Some(&leadership(9)));
    assert!(world.state.clients().get(client(8)).is_some_and(|record| record.is_alive));
    assert!(world.state.clients().get(client(1)).is_some_and(|record| !record.is_alive));
    assert_eq!(world.state.metadata().get(b"mooncake/ram/x").as_deref(), Some(&b"new"[..]));
    assert!(world.state.clock() >= Millis(world.now));
}

#[test]
fn the_returning_client_gives_its_segment_what_the_snapshot_lacked() {
    let saved = lived();
    let mut world = fresh(&saved);
    let mut bare = sent(&saved, world.now, Survival::Rfc, 1 << 20);
    // As a snapshot of the peer: without our extension nobody knows the protocol.
    bare = without_extension(&saved, world.now, bare);
    restore(&mut world, &bare).unwrap();
    assert_eq!(protocol(&world.state, 1), "");
    assert_eq!(world.state.restore().unclaimed().len(), 2);
    let rdma = |n| crate::model::Segment {
        protocol: Arc::from("rdma"),
        host_id: Arc::from("east"),
        ..segment(n, MIB)
    };
    assert_eq!(world.remount(vec![rdma(1), rdma(2)], 1), Ok(()));
    assert_eq!(protocol(&world.state, 1), "rdma");
    assert!(world.state.restore().unclaimed().is_empty());
    assert!(world.state.clients().get(client(1)).is_some_and(|record| record.is_alive));
    let mut world = world.reloaded();
    world.put("new", Preserve);
    assert!(world.is_readable("new") && world.is_readable("pinned"));
}

/// The same image as it comes from files without our extension.
fn without_extension(saved: &World, now: u64, sent: Sent) -> Sent {
    let mut payloads = saved.state.freeze().payloads(1, 1, None).unwrap();
    payloads.extension = None;
    let mut image = decode_image(&payloads, &Limits::default()).unwrap().image;
    normalize(&mut image, now, Survival::Rfc, &mut Findings::default()).unwrap();
    let image = prepare(image, Millis(now)).unwrap().image;
    let mut bytes = Vec::new();
    snapshot::write_container(&snapshot::encode_image(&image).unwrap(), &mut bytes).unwrap();
    Sent { crc32: crc32fast::hash(&bytes), parts: vec![bytes], ..sent }
}

fn protocol(state: &State, n: u64) -> String {
    let index = state.segments().index_of(segment_id(n)).unwrap();
    state.segments().get(index).unwrap().segment.protocol.to_string()
}

#[test]
fn every_segment_of_a_client_receives_objects_again() {
    // The real master lists a name once and forgets the client's other segments (snapshot format 7).
    let mut saved = World::with_segments(1, MIB);
    let same_name = crate::model::Segment { name: Arc::from("s1"), ..segment(2, MIB) };
    saved.mount(same_name, 1).unwrap();
    let mut world = fresh(&saved);
    let sent = sent(&saved, world.now, Survival::Rfc, 1 << 20);
    let bare = without_extension(&saved, world.now, sent);
    restore(&mut world, &bare).unwrap();
    for n in 0..40 {
        world.put(&format!("k{n}"), Preserve);
    }
    assert!(world.used(1) > 0 && world.used(2) > 0);
}

#[test]
fn issue_3414_a_gap_between_restored_objects_is_used_by_the_next_that_fits() {
    let mut saved = World::small();
    let addresses = ["a", "b", "c"].map(|name| {
        let address = memory(&saved.open(name, Preserve)[0]).1;
        saved.end(name).unwrap();
        address
    });
    saved.remove("b").unwrap();
    let mut world = restored(&saved, Survival::Complete);
    assert_eq!(world.used(1), 2 * 1024);
    assert_eq!(memory(&world.open("new", Preserve)[0]).1, addresses[1]);
}

#[test]
fn a_segment_that_its_returning_client_does_not_name_is_gone() {
    let saved = lived();
    let mut world = restored(&saved, Survival::Complete);
    assert_eq!(world.remount(vec![segment(1, MIB)], 1), Ok(()));
    assert_eq!(world.state.segments().len(), 1, "its addresses may hold anything by now");
    assert!(world.state.restore().unclaimed().is_empty());
    let index = world.state.segments().index_of(segment_id(1)).unwrap();
    assert_eq!(world.state.segments().get(index).unwrap().status, SegmentStatus::Ok);
}

#[test]
fn a_client_that_does_not_return_loses_its_segments() {
    let saved = lived();
    let mut world = restored(&saved, Survival::Rfc);
    world.expire(1);
    while !world.drain(1, 100) || !world.drain(2, 100) {}
    assert_eq!((world.find("pinned"), world.state.segments().len()), (None, 0));
}

#[test]
fn memory_of_a_restored_object_is_guarded_as_the_snapshot_still_lists_it() {
    let saved = lived();
    let mut world = restored(&saved, Survival::Rfc);
    world.remove("pinned").unwrap();
    assert_eq!(world.state.discards().held_bytes(), 1024);
    world.put("new", pinned(LONG));
    world.remove("new").unwrap();
    assert_eq!(world.state.discards().held_bytes(), 1024, "it came after the snapshot");
}

#[test]
fn a_replica_that_a_copy_was_making_does_not_cost_the_object() {
    use crate::state::transfer::{TransferKind, TransferStart};
    let mut saved = lived();
    let start = TransferStart {
        client: client(1),
        tenant: None,
        key: key("pinned"),
        kind: TransferKind::Copy,
        source: Arc::from(saved.places("pinned")[0].as_str()),
        targets: vec![Arc::from(if saved.places("pinned")[0] == "s1" { "s2" } else { "s1" })],
    };
    assert!(matches!(saved.apply(Command::TransferStart(start)), Reply::Transfer(Ok(_))));
    let world = restored(&saved, Survival::Rfc);
    assert_eq!(world.places("pinned"), [saved.places("pinned")[0].as_str()]);
    assert!(world.is_readable("pinned"));
}

#[test]
fn that_nothing_was_there_is_decided_once() {
    use crate::state::restore::RestoreDecide;
    let mut world = World::empty();
    let decide = |outcome| {
        let report = key("{}");
        Command::RestoreDecide(RestoreDecide { outcome, now: Millis(1), report })
    };
    world.apply(decide(RestoreOutcome::NoSnapshot));
    let mut world = world.reloaded();
    world.apply(decide(RestoreOutcome::AllFailed));
    let record = world.state.restore().record().unwrap();
    assert_eq!(record.outcome, RestoreOutcome::NoSnapshot);
    assert_eq!(ErrorCode::from(&RestoreRefused::NoStage), ErrorCode::UnavailableInCurrentStatus);
}

#[test]
fn a_restore_tells_every_object_that_came_in_the_order_of_names_and_goes_on_with_the_numbers() {
    let saved = lived();
    for is_followed in [true, false] {
        let mut world = fresh(&saved);
        if is_followed {
            world.state.presence_mut().follow();
        }
        let sent = sent(&saved, world.now, Survival::Complete, 1 << 20);
        restore(&mut world, &sent).unwrap();
        assert!(world.is_readable("plain") && world.is_readable("pinned"));
        let told = world.state.presence_mut().take();
        let keys: Vec<_> = told.iter().map(|change| (&*change.key, change.is_stored)).collect();
        let expected: &[(&[u8], bool)] = &[(b"pinned", true), (b"plain", true), (b"short", true)];
        assert_eq!(keys, if is_followed { expected } else { &[] });
        let counts = world.state.presence().counts();
        assert_eq!((counts.changes, counts.batches), (3, 1));
        world.put("next", Preserve);
        let told = world.state.presence_mut().take().len();
        assert_eq!(told, usize::from(is_followed));
        assert_eq!(world.state.presence().counts().changes, 4);
    }
}
