//! Bytes from strangers: whatever they are, reading ends with a value or an error.

use mooncake_ha_snapshot::*;

use crate::fixtures::{cluster, payloads};
use crate::made::Maker;

/// A generator of numbers that looks random and gives the same ones every time.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below
    }
}

/// Reads and restores; whatever comes out must be consistent.
fn read(payloads: &Payloads) {
    let limits = Limits { total_bytes_max: 64 << 20, ..Limits::default() };
    let Ok(decoded) = decode_image(payloads, &limits) else { return };
    let mut image = decoded.image;
    let again = decode_image(&encode_image(&image).unwrap(), &Limits::default()).unwrap();
    assert_eq!(again.findings.list, []);
    assert_eq!(again.image, image);
    normalize(&mut image, 1_795_976_900_000, Survival::Rfc, &mut Findings::default()).unwrap();
}

fn small() -> Payloads {
    let mut maker = Maker::default();
    for n in 0..12_u8 {
        maker.object("default", &[b'k', n], 100 + u64::from(n));
    }
    let mut image = maker.finish();
    image.globals.extension = Some(Extension { applied_index: 1, ..Extension::default() });
    encode_image(&image).unwrap()
}

#[test]
fn flipped_bits_in_a_real_snapshot_never_break_the_reader() {
    let sound = payloads(&cluster("base_pair").join("20261129_182740_639"));
    let mut numbers = Numbers(1);
    for round in 0..1500 {
        let mut damaged = sound.clone();
        let file = match round % 3 {
            0 => &mut damaged.metadata,
            1 => &mut damaged.segments,
            _ => &mut damaged.task_manager,
        };
        let at = numbers.next(file.len());
        file[at] ^= 1 << numbers.next(8);
        read(&damaged);
    }
}

#[test]
fn flipped_bits_inside_unpacked_shards_never_break_the_reader() {
    // Packed again with a right checksum, so that only the structure can tell.
    let snapshot = cluster("local_disk").join("20261129_182429_037");
    let sound = payloads(&snapshot);
    let content = zstd::stream::decode_all(&sound.segments[..]).unwrap();
    let mut numbers = Numbers(2);
    for _ in 0..1500 {
        let mut content = content.clone();
        let at = numbers.next(content.len());
        content[at] ^= 1 << numbers.next(8);
        let mut packer = zstd::bulk::Compressor::new(1).unwrap();
        packer.include_contentsize(true).unwrap();
        let segments = packer.compress(&content).unwrap();
        read(&Payloads { segments, ..sound.clone() });
    }
}

#[test]
fn cut_files_never_break_the_reader() {
    let sound = payloads(&cluster("processing").join("20261129_182255_288"));
    let mut numbers = Numbers(3);
    for _ in 0..300 {
        let mut damaged = sound.clone();
        damaged.metadata.truncate(numbers.next(sound.metadata.len()));
        read(&damaged);
        let mut damaged = sound.clone();
        damaged.segments.truncate(numbers.next(sound.segments.len()));
        read(&damaged);
    }
}

#[test]
fn every_flipped_bit_of_our_own_snapshot_is_noticed() {
    let sound = small();
    let extension = sound.extension.clone().unwrap();
    let mut numbers = Numbers(4);
    for round in 0..2000 {
        let mut damaged = sound.clone();
        let file = match round % 4 {
            0 => &mut damaged.metadata,
            1 => &mut damaged.segments,
            2 => &mut damaged.task_manager,
            _ => damaged.extension.as_mut().unwrap(),
        };
        let at = numbers.next(file.len());
        file[at] ^= 1 << numbers.next(8);
        assert!(decode_image(&damaged, &Limits::default()).is_err());
    }
    for length in 0..extension.len() {
        let cut = Some(extension[..length].to_vec());
        let damaged = Payloads { extension: cut, ..sound.clone() };
        assert!(decode_image(&damaged, &Limits::default()).is_err(), "{length}");
    }
}

#[test]
fn every_flipped_bit_and_every_cut_of_a_container_is_noticed() {
    let mut stream = Vec::new();
    write_container(&small(), &mut stream).unwrap();
    for length in 0..stream.len() {
        assert!(read_container(&mut &stream[..length], 1 << 30).is_err(), "{length}");
        let mut damaged = stream.clone();
        damaged[length] ^= 1 << (length % 8);
        assert!(read_container(&mut &damaged[..], 1 << 30).is_err(), "{length}");
    }
}

#[test]
fn a_small_file_that_claims_to_be_huge_costs_nothing() {
    let zeros = vec![0_u8; 64 << 20];
    let mut packer = zstd::bulk::Compressor::new(19).unwrap();
    packer.include_contentsize(true).unwrap();
    let bomb = packer.compress(&zeros).unwrap();
    assert!(bomb.len() < 10_000);
    let limits = Limits { total_bytes_max: 32 << 20, ..Limits::default() };
    let damaged = Payloads { task_manager: bomb.clone(), extension: None, ..small() };
    assert!(matches!(decode_image(&damaged, &limits), Err(SnapshotError::TooLarge { .. })));
    // An array that says it has four billion elements, in a file of six bytes.
    let metadata =
        vec![0x83, 0xa6, b's', b'h', b'a', b'r', b'd', b's', 0xdf, 0xff, 0xff, 0xff, 0xff];
    let damaged = Payloads { metadata, extension: None, ..small() };
    assert!(decode_image(&damaged, &Limits::default()).is_err());
}
