//! Files that real masters wrote: read, judged, written again.

use mooncake_ha_snapshot::{Decoder, Image, Limits, Payloads, decode_image, encode_image};

use crate::fixtures::sound_payloads;

/// Everything as stored, without judging it.
fn read_plainly(payloads: &Payloads) -> Image {
    let mut decoder = Decoder::open(payloads, &Limits::default()).unwrap();
    let mut image = Image::default();
    while let Some(shard) = decoder.next_shard().unwrap() {
        image.shards.insert(shard.stored, shard.objects);
    }
    let (globals, findings) = decoder.finish();
    assert_eq!(findings.total(), 0, "{findings:?}");
    image.globals = globals;
    image
}

/// A frame's content.
fn open(frame: &[u8]) -> Vec<u8> {
    zstd::stream::decode_all(frame).unwrap()
}

/// The metadata file with every shard unpacked, as a list of values to compare.
fn unpacked_metadata(bytes: &[u8]) -> Vec<Vec<u8>> {
    const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
    let mut parts = Vec::new();
    let mut rest = bytes;
    while let Some(at) = rest.windows(4).position(|window| window == MAGIC) {
        // Up to the frame, without the length of the frame, which depends on the compressor.
        let head = rest[..at].len();
        parts.push(rest[..head.saturating_sub(3)].to_vec());
        let length = zstd::zstd_safe::find_frame_compressed_size(&rest[at..]).unwrap();
        parts.push(open(&rest[at..at + length]));
        rest = &rest[at + length..];
    }
    parts.push(rest.to_vec());
    parts
}

#[test]
fn every_real_snapshot_is_written_again_with_the_same_content() {
    for (name, payloads) in sound_payloads() {
        let image = read_plainly(&payloads);
        let again = encode_image(&image).unwrap();
        assert_eq!(read_plainly(&again), image, "{name}");
        assert_eq!(open(&again.task_manager), open(&payloads.task_manager), "{name}");
        let (ours, theirs) =
            (unpacked_metadata(&again.metadata), unpacked_metadata(&payloads.metadata));
        assert_eq!(ours.last(), theirs.last(), "{name}");
        let contents = |parts: &[Vec<u8>]| -> Vec<Vec<u8>> {
            parts.iter().skip(1).step_by(2).cloned().collect()
        };
        assert_eq!(contents(&ours), contents(&theirs), "{name}");
    }
}

#[test]
fn every_real_snapshot_is_consistent() {
    for (name, payloads) in sound_payloads() {
        let decoded = decode_image(&payloads, &Limits::default()).unwrap();
        assert_eq!(decoded.findings.list, [], "{name}");
        assert_eq!(decoded.image, read_plainly(&payloads), "{name}");
        assert_eq!(decoded.objects_seen, decoded.image.object_count());
    }
}
