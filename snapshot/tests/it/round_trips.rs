//! Whatever an image holds comes back from its files and from the container.

use mooncake_ha_snapshot::*;
use proptest::prelude::*;

use crate::made::{CLIENT, Maker, SEGMENT};

/// What varies between objects.
type Varied = (Vec<u8>, u32, Option<u64>, u8, Vec<u8>, Option<u64>, u8);

fn varied() -> impl Strategy<Value = Varied> {
    (
        prop::collection::vec(any::<u8>(), 1..40),
        1_u32..100_000,
        prop::option::of(0..=codec::INSTANT_MS_MAX),
        any::<u8>(),
        prop_oneof![3 => Just(Vec::new()), 1 => prop::collection::vec(any::<u8>(), 1..3)],
        prop::option::of(any::<u64>()),
        0_u8..4,
    )
}

fn further_place(kind: u8, size: u64) -> ReplicaPlace {
    match kind {
        1 => ReplicaPlace::Disk { path: "/d/x".into(), size },
        2 => ReplicaPlace::LocalDisk { client: CLIENT, size, endpoint: "h:1".into() },
        _ => {
            let (path, aligned_size) = ("/d/dfs_shard_03.data".into(), size.next_multiple_of(4096));
            ReplicaPlace::Dfs { path, offset: 1 << 40, size, aligned_size, shard: -3 }
        }
    }
}

fn image_of(objects: Vec<Varied>) -> Image {
    let mut maker = Maker::default();
    let mut names = std::collections::BTreeSet::new();
    for (key, size, soft_pin_ms, data_type, group, checksum, kind) in objects {
        let tenant = ["default", "tA", "tenant-\u{e9}"][usize::from(data_type % 3)];
        if !names.insert((tenant, key.clone())) {
            continue;
        }
        let more = maker.replica(further_place(kind, u64::from(size)));
        let object = maker.object(tenant, &key, u64::from(size));
        object.soft_pin_ms = soft_pin_ms;
        object.data_type = data_type;
        object.hard_pinned = data_type > 127;
        object.group = group.into();
        object.checksum = checksum;
        if kind > 0 {
            object.replicas.push(more);
        }
        if data_type % 7 == 0 {
            object.replicas[0].status = ReplicaStatus::Processing;
        }
    }
    maker.finish()
}

/// An extension with something in every field.
fn full_extension() -> Extension {
    let name = ObjectName { tenant: "tA".into(), key: (*b"k\xff").into() };
    Extension {
        applied_index: 812,
        applied_term: 7,
        state_clock_ms: 1_795_976_860_639,
        pending_pins: vec![PendingPinImage {
            name: name.clone(),
            action: PinActionImage::Enable,
            ttl_ms: 60_000,
            eligible: vec![3, 4],
        }],
        writes: vec![WriteImage {
            name: name.clone(),
            writer: CLIENT,
            started_ms: 5,
            replicas: vec![3, 4],
        }],
        transfers: vec![TransferImage {
            name,
            kind: TransferKind::Move,
            client: CLIENT,
            started_ms: 6,
            source: 1,
            targets: vec![9],
        }],
        segments: vec![SegmentRecord {
            id: SEGMENT,
            owner: CLIENT,
            protocol: "tcp".into(),
            unmount_deadline_ms: Some(9),
        }],
        clients: vec![ClientRecord { id: CLIENT, host_id: "host".into() }],
        http_metadata: [(b"a".to_vec(), b"1".to_vec())].into(),
        tenant_policies: vec![TenantPolicyImage { tenant: "tA".into(), quota_bytes: 1 << 30 }],
        sections: [("later".to_string(), vec![1, 2, 3]), (String::new(), Vec::new())].into(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn an_image_comes_back_from_its_files_and_from_the_container(
        objects in prop::collection::vec(varied(), 0..60),
        has_extension in any::<bool>(),
    ) {
        let mut image = image_of(objects);
        image.globals.extension = has_extension.then(full_extension);
        let payloads = encode_image(&image).unwrap();
        let decoded = decode_image(&payloads, &Limits::default()).unwrap();
        prop_assert_eq!(&decoded.findings.list, &[]);
        prop_assert_eq!(&decoded.image, &image);
        let mut stream = Vec::new();
        write_container(&payloads, &mut stream).unwrap();
        let mut from = &stream[..];
        prop_assert_eq!(read_container(&mut from, 1 << 20).unwrap(), payloads);
        prop_assert!(from.is_empty());
    }
}

#[test]
fn equal_images_give_equal_bytes() {
    let image = |_| image_of(vec![(b"k".to_vec(), 100, None, 1, Vec::new(), None, 2)]);
    assert_eq!(encode_image(&image(1)).unwrap(), encode_image(&image(2)).unwrap());
}

#[test]
fn files_that_do_not_belong_together_are_recognised() {
    let mut image = image_of(vec![(b"k".to_vec(), 100, None, 1, Vec::new(), None, 0)]);
    image.globals.extension = Some(full_extension());
    let mut payloads = encode_image(&image).unwrap();
    image.globals.replica_next_id += 1;
    payloads.metadata = encode_image(&image).unwrap().metadata;
    let error = decode_image(&payloads, &Limits::default()).unwrap_err();
    assert_eq!(error.file(), Some(SnapshotFile::Metadata), "{error}");
}

#[test]
fn an_image_that_breaks_the_order_of_names_is_not_written() {
    let mut image = image_of(Vec::new());
    let mut maker = Maker::default();
    maker.object("default", b"a", 1);
    let (&shard, objects) =
        maker.finish().shards.iter().next().map(|(s, o)| (s, o.clone())).unwrap();
    image.shards.insert(shard, [objects.clone(), objects].concat());
    assert!(matches!(encode_image(&image), Err(SnapshotError::Unwritable { .. })));
    let mut encoder = SnapshotEncoder::new().unwrap();
    assert!(encoder.shard(1024, std::iter::empty::<&ObjectImage>()).is_err());
}

#[test]
fn a_snapshot_beyond_the_limits_is_refused() {
    let objects = (0..100_u8).map(|n| (vec![b'k', n], 100, None, 0, Vec::new(), None, 0)).collect();
    let payloads = encode_image(&image_of(objects)).unwrap();
    let narrow = [
        Limits { file_bytes_max: 100, ..Limits::default() },
        Limits { shard_bytes_max: 100, ..Limits::default() },
        Limits { total_bytes_max: 1000, ..Limits::default() },
        Limits { node_entries_max: 100, ..Limits::default() },
    ];
    for limits in narrow {
        assert!(decode_image(&payloads, &limits).is_err(), "{limits:?}");
    }
    let mut stream = Vec::new();
    write_container(&payloads, &mut stream).unwrap();
    assert!(matches!(read_container(&mut &stream[..], 10), Err(SnapshotError::TooLarge { .. })));
}
