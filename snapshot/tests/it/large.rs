//! Snapshots that are large enough to be read by two threads: they give what one would have given.

use mooncake_ha_snapshot::*;

use crate::made::Maker;

const NOW_MS: u64 = 1_795_976_850_000;
/// Enough that either thread gets hundreds of shards.
const OBJECTS: u32 = 20_000;

fn image() -> Image {
    let mut maker = Maker::default();
    for number in 0..OBJECTS {
        maker.object("default", format!("key-{number}-{}", number * 7919).as_bytes(), 100);
    }
    maker.finish()
}

fn decode(image: &Image) -> Decoded {
    decode_image(&encode_image(image).unwrap(), &Limits::default()).unwrap()
}

/// An object of the shard that is so many shards from the first.
fn object_in(image: &mut Image, shard: usize) -> &mut ObjectImage {
    image.shards.values_mut().nth(shard).unwrap().first_mut().unwrap()
}

#[test]
fn a_whole_snapshot_is_read_as_it_was_written() {
    let image = image();
    let decoded = decode(&image);
    assert!(decoded.image == image, "it differs");
    assert_eq!((decoded.findings.total(), decoded.objects_seen), (0, u64::from(OBJECTS)));
    let mut normal = decoded.image;
    let mut findings = Findings::default();
    let kept = normalize(&mut normal, NOW_MS, Survival::Rfc, &mut findings).unwrap().kept;
    assert_eq!((kept.objects, kept.bytes), (u64::from(OBJECTS), u64::from(OBJECTS) * 100));
    assert!(normal == image, "it differs");
}

#[test]
fn two_objects_far_apart_that_share_memory_are_both_dropped() {
    let mut image = image();
    let last = image.shards.len() - 1;
    let stolen = object_in(&mut image, 0).replicas[0].place.clone();
    object_in(&mut image, last).replicas[0].place = stolen;
    let decoded = decode(&image);
    let dropped = &decoded.findings.dropped[&DropReason::OverlappingMemory];
    assert_eq!((dropped.objects, decoded.image.object_count()), (2, u64::from(OBJECTS) - 2));
    // The node that nobody claims any more is free, in a table made new.
    assert_eq!(decoded.findings.counts[&Effect::Repaired], 1);
}

#[test]
fn what_is_found_is_told_in_the_order_of_the_shards() {
    let mut image = image();
    let count = image.shards.len();
    for shard in [count - 1, 3, count / 2, 0] {
        object_in(&mut image, shard).replicas.clear();
    }
    let shards: Vec<u16> = image.shards.keys().copied().collect();
    let decoded = decode(&image);
    let told: Vec<u16> = decoded.findings.list.iter().filter_map(|found| found.shard).collect();
    assert_eq!(told, [0, 3, count / 2, count - 1].map(|at| shards[at]));
    assert_eq!(decoded.findings.dropped[&DropReason::SegmentUnusable].objects, 4);
}

#[test]
fn objects_that_time_has_taken_are_counted_by_both_threads() {
    let mut image = image();
    let last = image.shards.len() - 1;
    for shard in [0, last] {
        let object = object_in(&mut image, shard);
        (object.lease_ms, object.soft_pin_ms) = (0, Some(NOW_MS + 1));
    }
    let mut findings = Findings::default();
    let normalized =
        normalize(&mut image, NOW_MS + 60_000_000, Survival::Rfc, &mut findings).unwrap();
    assert_eq!((normalized.kept.objects, normalized.pins_expired), (0, 2));
    assert_eq!(findings.dropped[&DropReason::LeaseAndPinOver].objects, u64::from(OBJECTS));
}

#[test]
fn what_both_threads_open_counts_against_one_budget() {
    let payloads = encode_image(&image()).unwrap();
    let limits = Limits { total_bytes_max: 2 << 20, ..Limits::default() };
    let error = decode_image(&payloads, &limits).unwrap_err();
    assert!(matches!(error, SnapshotError::TooLarge { .. }), "{error}");
}
