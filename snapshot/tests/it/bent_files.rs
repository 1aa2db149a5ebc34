//! Damage that has no fixture: files and records bent by hand. Outcomes as for the fixtures.

use mooncake_ha_snapshot::*;

use crate::fixtures::{cluster, payloads};

/// The newer snapshot of the base: 20 objects.
fn base() -> Payloads {
    payloads(&cluster("base_pair").join("20261129_182740_639"))
}

fn decode(payloads: &Payloads) -> Result<Decoded, SnapshotError> {
    decode_image(payloads, &Limits::default())
}

/// A metadata file written by hand: the shards as given, then the rest.
fn metadata(count: u32, write_shards: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    rmp::encode::write_map_len(&mut bytes, 3).unwrap();
    rmp::encode::write_str(&mut bytes, "shards").unwrap();
    rmp::encode::write_map_len(&mut bytes, count).unwrap();
    write_shards(&mut bytes);
    rmp::encode::write_str(&mut bytes, "discarded_replicas").unwrap();
    rmp::encode::write_array_len(&mut bytes, 0).unwrap();
    rmp::encode::write_str(&mut bytes, "replica_next_id").unwrap();
    rmp::encode::write_uint(&mut bytes, 9).unwrap();
    bytes
}

fn pack(content: &[u8]) -> Vec<u8> {
    let mut packer = zstd::bulk::Compressor::new(1).unwrap();
    packer.include_contentsize(true).unwrap();
    packer.compress(content).unwrap()
}

/// A file with one object whose array the caller writes.
fn with_object(write_object: impl FnOnce(&mut Vec<u8>)) -> Payloads {
    let mut content = Vec::new();
    rmp::encode::write_map_len(&mut content, 1).unwrap();
    rmp::encode::write_str(&mut content, "metadata").unwrap();
    rmp::encode::write_array_len(&mut content, 1).unwrap();
    rmp::encode::write_array_len(&mut content, 3).unwrap();
    rmp::encode::write_str(&mut content, "default").unwrap();
    rmp::encode::write_str(&mut content, "key-0").unwrap();
    write_object(&mut content);
    let metadata = metadata(1, |bytes| {
        rmp::encode::write_uint(bytes, 703).unwrap();
        rmp::encode::write_bin(bytes, &pack(&content)).unwrap();
    });
    Payloads { metadata, ..base() }
}

/// The first six fields of an object and its replica count.
fn head(bytes: &mut Vec<u8>, fields: u32, replicas: u64) {
    rmp::encode::write_array_len(bytes, fields).unwrap();
    rmp::encode::write_str(bytes, "1-2").unwrap();
    for value in [1, 100, 4_000_000_000_000_u64] {
        rmp::encode::write_uint(bytes, value).unwrap();
    }
    rmp::encode::write_bool(bytes, true).unwrap();
    rmp::encode::write_uint(bytes, 5).unwrap();
    rmp::encode::write_uint(bytes, replicas).unwrap();
}

fn disk_replica(bytes: &mut Vec<u8>) {
    rmp::encode::write_array_len(bytes, 4).unwrap();
    for value in [1, 3, 1] {
        rmp::encode::write_uint(bytes, value).unwrap();
    }
    rmp::encode::write_array_len(bytes, 2).unwrap();
    rmp::encode::write_str(bytes, "/d/x").unwrap();
    rmp::encode::write_uint(bytes, 100).unwrap();
}

#[test]
fn every_era_of_objects_is_told_by_its_types() {
    // Which optional fields an era has: data type, hard pin, group, checksum.
    let eras = [
        [false, false, false, false],
        [true, false, false, false],
        [false, true, false, false],
        [true, true, false, false],
        [false, true, true, false],
        [true, true, true, false],
        [true, true, true, true],
    ];
    for era in eras {
        let fields = 8 + era.iter().filter(|is_there| **is_there).count() as u32;
        let [has_type, has_pin, has_group, has_checksum] = era;
        let payloads = with_object(|bytes| {
            head(bytes, fields, 1);
            if has_type {
                rmp::encode::write_uint(bytes, 2).unwrap();
            }
            disk_replica(bytes);
            if has_pin {
                rmp::encode::write_bool(bytes, true).unwrap();
            }
            if has_group {
                rmp::encode::write_str(bytes, "key-0").unwrap();
            }
            if has_checksum {
                rmp::encode::write_uint(bytes, u64::MAX).unwrap();
            }
        });
        let decoded = decode(&payloads).unwrap();
        let object = decoded.image.objects().next().unwrap().1;
        assert_eq!(object.soft_pin_ms, Some(5), "{era:?}");
        assert_eq!(object.data_type, if has_type { 2 } else { 0 }, "{era:?}");
        assert_eq!(object.hard_pinned, has_pin, "{era:?}");
        assert_eq!(&*object.group, if has_group { &b"key-0"[..] } else { b"" }, "{era:?}");
        assert_eq!(object.checksum, has_checksum.then_some(u64::MAX), "{era:?}");
    }
}

#[test]
fn an_object_with_too_few_or_too_many_fields_is_dropped_alone() {
    let short = with_object(|bytes| {
        rmp::encode::write_array_len(bytes, 6).unwrap();
        bytes.extend([0xc0; 6]);
    });
    let long = with_object(|bytes| {
        head(bytes, 10, 1);
        disk_replica(bytes);
        rmp::encode::write_bool(bytes, true).unwrap();
        rmp::encode::write_bool(bytes, true).unwrap();
    });
    let many_replicas = with_object(|bytes| head(bytes, 7, u64::from(u32::MAX)));
    for payloads in [short, long, many_replicas] {
        let decoded = decode(&payloads).unwrap();
        assert_eq!(decoded.findings.dropped[&DropReason::DamagedRecord].objects, 1);
        assert_eq!(decoded.findings.list[0].key.as_deref(), Some("default/key-0"));
        assert_eq!((decoded.objects_seen, decoded.image.object_count()), (1, 0));
    }
}

#[test]
fn a_nof_replica_is_refused_with_its_reason() {
    let payloads = with_object(|bytes| {
        head(bytes, 8, 1);
        rmp::encode::write_array_len(bytes, 4).unwrap();
        for value in [1, 3, 3] {
            rmp::encode::write_uint(bytes, value).unwrap();
        }
        rmp::encode::write_nil(bytes).unwrap();
    });
    let decoded = decode(&payloads).unwrap();
    assert!(decoded.findings.list[0].what.contains("NVMe-oF"), "{:?}", decoded.findings);
}

#[test]
fn a_file_whose_top_level_is_wrong_fails_the_candidate() {
    let shards_is_int = {
        let mut bytes = metadata(0, |_| {});
        bytes[8] = 5;
        bytes
    };
    let shard_1024 = metadata(1, |bytes| {
        rmp::encode::write_uint(bytes, 1024).unwrap();
        rmp::encode::write_bin(bytes, &pack(&[0x80])).unwrap();
    });
    let shard_twice = metadata(2, |bytes| {
        for _ in 0..2 {
            rmp::encode::write_uint(bytes, 1).unwrap();
            rmp::encode::write_bin(bytes, &pack(&[0x80])).unwrap();
        }
    });
    let shard_is_nil = metadata(1, |bytes| {
        rmp::encode::write_uint(bytes, 1).unwrap();
        rmp::encode::write_nil(bytes).unwrap();
    });
    let no_next_id = {
        let mut bytes = metadata(0, |_| {});
        bytes.truncate(bytes.len() - 17);
        bytes[0] = 0x82;
        bytes
    };
    let not_a_map = vec![0x90];
    for metadata in [shards_is_int, shard_1024, shard_twice, shard_is_nil, no_next_id, not_a_map] {
        let error = decode(&Payloads { metadata, ..base() }).unwrap_err();
        assert_eq!(error.file(), Some(SnapshotFile::Metadata), "{error}");
    }
}

#[test]
fn bytes_after_the_data_and_unknown_keys_are_accepted() {
    let mut payloads = base();
    payloads.metadata.extend_from_slice(b"16 bytes of junk");
    let decoded = decode(&payloads).unwrap();
    assert_eq!(decoded.image.object_count(), 20);
    assert_eq!(decoded.findings.list[0].effect, Effect::Accepted);
    // A fourth key at the end of the top level.
    let mut payloads = base();
    payloads.metadata[0] = 0x84;
    payloads.metadata.extend_from_slice(&[0xa3, b'n', b'e', b'w', 0x92, 0xc0, 0xc0]);
    let decoded = decode(&payloads).unwrap();
    assert_eq!((decoded.image.object_count(), decoded.findings.total()), (20, 0));
}

#[test]
fn a_segment_without_allocator_takes_its_objects_with_it() {
    let mut image = decode(&base()).unwrap().image;
    image.globals.segments.segments[0].allocator = None;
    let decoded = decode(&encode_image(&image).unwrap()).unwrap();
    assert_eq!(decoded.image.object_count(), 0);
    assert_eq!(decoded.findings.lost_to_damage(), 20);
}

#[test]
fn segments_of_eight_and_of_ten_fields_are_read() {
    let mut image = decode(&base()).unwrap().image;
    image.globals.segments.segments[0].host_id = None;
    let decoded = decode(&encode_image(&image).unwrap()).unwrap();
    assert_eq!(decoded.image, image);
    // Ten fields: a tenth after the host id, which ends the record.
    let content = zstd::stream::decode_all(&base().segments[..]).unwrap();
    let at = content.windows(3).position(|window| window == [0xa2, b'c', b's']).unwrap();
    let mut content = [&content[..at], &[0xa3, b't', b'c', b'p'], &content[at..]].concat();
    let nine = content.iter().position(|byte| *byte == 0x99).unwrap();
    content[nine] = 0x9a;
    let decoded = decode(&Payloads { segments: pack(&content), ..base() }).unwrap();
    assert_eq!((decoded.image.object_count(), decoded.findings.total()), (20, 0));
}
