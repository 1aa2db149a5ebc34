//! What decoding does about images whose parts contradict each other, and restores about unfinished
//! work.

use mooncake_ha_snapshot::placement::{shard_of, shard_of_name};
use mooncake_ha_snapshot::table::check;
use mooncake_ha_snapshot::*;

use crate::made::{CLIENT, Maker, SEGMENT};

const NOW_MS: u64 = 1_795_976_850_000;

/// Some objects named `k0`, `k1` and so on, whose leases run at [`NOW_MS`].
fn objects(count: u32) -> Image {
    let mut maker = Maker::default();
    for number in 0..count {
        maker.object("default", format!("k{number}").as_bytes(), 100);
    }
    maker.finish()
}

fn object_mut<'i>(image: &'i mut Image, key: &str) -> &'i mut ObjectImage {
    let all = image.shards.values_mut().flatten();
    all.into_iter().find(|object| *object.name.key == *key.as_bytes()).unwrap()
}

fn decode(image: &Image) -> Decoded {
    let decoded = decode_image(&encode_image(image).unwrap(), &Limits::default()).unwrap();
    for segment in &decoded.image.globals.segments.segments {
        let table = &segment.allocator.as_ref().unwrap().offset.table;
        assert_eq!(check(table), Ok(()));
    }
    decoded
}

/// Keys of dropped objects, in order of their findings.
fn dropped(findings: &Findings) -> Vec<String> {
    let list = findings.list.iter().filter(|finding| finding.effect == Effect::ObjectDropped);
    list.map(|finding| finding.key.clone().unwrap()).collect()
}

fn handle_of(object: &mut ObjectImage) -> (&mut u64, &mut HandleImage) {
    match &mut object.replicas[0].place {
        ReplicaPlace::Memory { address, handle: Some(handle), .. } => (address, handle),
        other => panic!("{other:?}"),
    }
}

/// Moves an object's memory by some units; 0 gives it the memory of the other object.
fn move_memory(image: &mut Image, key: &str, to: &str, units: u32) {
    let (_, other) = handle_of(object_mut(image, to));
    let other = *other;
    let (address, handle) = handle_of(object_mut(image, key));
    handle.offset = other.offset + units;
    handle.address = other.address + u64::from(units);
    *address = handle.address;
}

#[test]
fn two_objects_that_claim_overlapping_memory_are_dropped_and_named_and_the_rest_is_kept() {
    let mut image = objects(300);
    move_memory(&mut image, "k17", "k200", 0);
    let decoded = decode(&image);
    assert_eq!(decoded.image.object_count(), 298);
    let mut names = dropped(&decoded.findings);
    names.sort();
    assert_eq!(names, ["default/k17", "default/k200"]);
    assert_eq!(decoded.findings.dropped[&DropReason::OverlappingMemory].objects, 2);
}

#[test]
fn an_object_that_reaches_into_its_neighbours_takes_them_with_it() {
    let mut image = objects(300);
    move_memory(&mut image, "k17", "k200", 8);
    let decoded = decode(&image);
    assert_eq!(decoded.findings.dropped[&DropReason::OverlappingMemory].objects, 3);
}

#[test]
fn two_objects_that_share_an_allocator_node_are_dropped() {
    let mut image = objects(10);
    let node = handle_of(object_mut(&mut image, "k3")).1.node;
    handle_of(object_mut(&mut image, "k4")).1.node = node;
    assert_eq!(decode(&image).findings.dropped[&DropReason::OverlappingMemory].objects, 2);
}

#[test]
fn an_allocation_whose_record_contradicts_itself_costs_its_object_alone() {
    let damages: [fn(&mut u64, &mut HandleImage); 6] = [
        |address, _| *address += 1,
        |_, handle| handle.address += 1,
        |_, handle| handle.offset += 1,
        |_, handle| handle.size += 1,
        |address, handle| {
            handle.offset = u32::MAX;
            handle.address = *address - 1;
        },
        |_, handle| handle.node = u32::MAX,
    ];
    for damage in damages {
        let mut image = objects(10);
        let (address, handle) = handle_of(object_mut(&mut image, "k3"));
        damage(address, handle);
        let decoded = decode(&image);
        assert_eq!(dropped(&decoded.findings), ["default/k3"]);
        assert_eq!(decoded.findings.dropped[&DropReason::DamagedAllocation].objects, 1);
    }
}

#[test]
fn memory_that_must_not_be_reused_yet_beats_an_object_that_claims_it() {
    let mut image = objects(10);
    let replica = object_mut(&mut image, "k3").replicas[0].clone();
    let replicas = vec![ReplicaImage { id: 99, ..replica }];
    let item = DiscardedImage { release_at_ms: 5, memory_bytes: 100, replicas };
    image.globals.discarded = vec![item.clone(), item];
    image.globals.replica_next_id = 100;
    let decoded = decode(&image);
    assert_eq!(dropped(&decoded.findings), ["default/k3"]);
    assert_eq!(decoded.image.globals.discarded.len(), 1);
}

#[test]
fn an_object_with_a_second_replica_survives_the_loss_of_one() {
    let mut image = objects(3);
    let disk = ReplicaPlace::Disk { path: "/d/x".into(), size: 100 };
    let object = object_mut(&mut image, "k1");
    object.replicas.push(ReplicaImage { id: 50, status: ReplicaStatus::Complete, place: disk });
    image.globals.replica_next_id = 51;
    let segment = &mut image.globals.segments.segments[0];
    segment.allocator = None;
    let decoded = decode(&image);
    assert_eq!(decoded.image.object_count(), 1);
    assert_eq!(decoded.findings.dropped[&DropReason::SegmentUnusable].objects, 2);
    assert!(decoded.image.globals.segments.segments.is_empty());
    assert_eq!(decoded.image.globals.segments.clients, [(CLIENT, Vec::new())]);
}

#[test]
fn a_segment_and_an_allocator_that_disagree_are_not_used() {
    let damages: [fn(&mut SegmentImage); 4] = [
        |segment| segment.base += 1,
        |segment| segment.size *= 2,
        |segment| segment.allocator.as_mut().unwrap().offset.multiplier_bits = 1,
        |segment| segment.allocator.as_mut().unwrap().offset.table.size -= 1,
    ];
    for damage in damages {
        let mut image = objects(3);
        damage(&mut image.globals.segments.segments[0]);
        assert_eq!(decode(&image).image.object_count(), 0);
    }
}

#[test]
fn an_object_in_a_wrong_shard_is_filed_rightly() {
    let mut maker = Maker::default();
    maker.object("default", b"k1", 100);
    let image = maker.finish();
    let object = image.objects().next().unwrap().1.clone();
    let wrong = (shard_of(&object) + 1) % SHARD_COUNT;
    let mut encoder = SnapshotEncoder::new().unwrap();
    encoder.shard(wrong, [&object]).unwrap();
    let payloads = encoder.finish(&image.globals).unwrap();
    let decoded = decode_image(&payloads, &Limits::default()).unwrap();
    assert_eq!(decoded.image, image);
    assert_eq!(decoded.findings.list[0].effect, Effect::Accepted);
    assert_eq!(decoded.findings.list[0].shard, Some(wrong));
}

#[test]
fn a_name_may_not_appear_with_and_without_a_group() {
    let mut maker = Maker::default();
    for group in [&b""[..], b"g1", b"g2"] {
        maker.object("default", b"k1", 100).group = group.into();
    }
    let decoded = decode(&maker.finish());
    assert_eq!(decoded.image.object_count(), 1);
    let (shard, object) = decoded.image.objects().next().unwrap();
    assert_eq!((shard, &*object.group), (shard_of_name("default", b"k1", b""), &b""[..]));
}

#[test]
fn the_replica_counter_is_raised_above_every_id() {
    let mut image = objects(3);
    image.globals.replica_next_id = 2;
    let decoded = decode(&image);
    assert_eq!(decoded.image.globals.replica_next_id, 4);
    assert!(decoded.findings.is_clean());
}

fn restored(image: &Image, now_ms: u64) -> (Image, Normalized, Findings) {
    let mut decoded = decode(image);
    let report =
        normalize(&mut decoded.image, now_ms, Survival::Rfc, &mut decoded.findings).unwrap();
    (decoded.image, report, decoded.findings)
}

#[test]
fn a_replica_that_a_copy_was_making_does_not_cost_the_object() {
    let mut image = objects(3);
    let name = object_mut(&mut image, "k1").name.clone();
    let disk = ReplicaPlace::Disk { path: "/d/x".into(), size: 100 };
    let object = object_mut(&mut image, "k1");
    object.replicas.push(ReplicaImage { id: 50, status: ReplicaStatus::Processing, place: disk });
    image.globals.replica_next_id = 51;
    assert_eq!(restored(&image, NOW_MS).1.kept.objects, 2);
    let transfer = TransferImage {
        name,
        kind: TransferKind::Copy,
        client: CLIENT,
        started_ms: 1,
        source: 2,
        targets: vec![50],
    };
    let transfers = vec![transfer];
    image.globals.extension = Some(Extension { transfers, ..Extension::default() });
    let (image, report, _) = restored(&image, NOW_MS);
    assert_eq!(report.kept.objects, 3);
    assert!(image.objects().all(|(_, object)| object.replicas.len() == 1));
    assert!(image.globals.extension.unwrap().transfers.is_empty());
}

#[test]
fn a_slow_wall_clock_does_not_revive_an_expired_pin() {
    let mut image = objects(1);
    object_mut(&mut image, "k0").soft_pin_ms = Some(NOW_MS + 5);
    let state_clock_ms = NOW_MS + 5;
    image.globals.extension = Some(Extension { state_clock_ms, ..Extension::default() });
    let (image, report, _) = restored(&image, NOW_MS - 1_000_000);
    assert_eq!(report.now_ms, state_clock_ms);
    assert_eq!((report.pins_kept, report.pins_expired), (0, 1));
    assert_eq!(image.objects().next().unwrap().1.soft_pin_ms, None);
}

#[test]
fn a_gracefully_unmounting_segment_keeps_its_deadline_or_gets_one() {
    let mut image = objects(1);
    image.globals.segments.segments[0].status = SegmentStatus::GracefullyUnmounting;
    let deadline = |image: &Image| {
        let record = &image.globals.extension.as_ref().unwrap().segments[0];
        (record.id, record.owner, record.unmount_deadline_ms.unwrap())
    };
    let (fresh, ..) = restored(&image, NOW_MS);
    let grace_ms = mooncake_ha_snapshot::normalize::GRACE_AFTER_RESTORE_MS;
    assert_eq!(deadline(&fresh), (SEGMENT, CLIENT, NOW_MS + grace_ms));
    image.globals.extension = fresh.globals.extension.clone();
    let (known, ..) = restored(&image, NOW_MS + 7);
    assert_eq!(deadline(&known), (SEGMENT, CLIENT, NOW_MS + grace_ms));
}

#[test]
fn dropped_objects_are_not_offloaded_any_more_and_their_space_is_free() {
    let mut image = objects(4);
    object_mut(&mut image, "k1").lease_ms = 0;
    let queue = ["k1", "k2"].map(|key| LocalDiskTaskImage {
        name: ObjectName { tenant: "default".into(), key: key.as_bytes().into() },
        size: 100,
    });
    let disk = LocalDiskImage { queue: queue.to_vec(), ..LocalDiskImage::default() };
    image.globals.segments.local_disks = vec![(CLIENT, disk)];
    let (image, report, findings) = restored(&image, NOW_MS);
    assert_eq!(report.kept, Tally { objects: 3, bytes: 300 });
    assert_eq!(findings.dropped[&DropReason::LeaseAndPinOver], Tally { objects: 1, bytes: 100 });
    assert!(findings.is_clean(), "time is no fault of the snapshot");
    let queue = &image.globals.segments.local_disks[0].1.queue;
    assert_eq!(queue.iter().map(|task| &*task.name.key).collect::<Vec<_>>(), [b"k2"]);
    let allocator = image.globals.segments.segments[0].allocator.as_ref().unwrap();
    assert_eq!((allocator.used_bytes, allocator.offset.allocation_count), (300, 3));
    // The gap in the middle is a free region of its own: 100 bytes took 104 units.
    assert_eq!(allocator.offset.table.free_storage, allocator.offset.table.size - 3 * 104);
    assert_eq!(check(&allocator.offset.table), Ok(()));
}
