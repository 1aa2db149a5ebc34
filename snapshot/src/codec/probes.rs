//! Every decoder of this crate that meets bytes from outside, as functions for fuzzing.
//!
//! No part of the crate's face. Each must return for any bytes: no panic, no hang, no memory beyond the limits below.
//! What is packed or under a checksum in a file is packed here, since chance would not get that right.

use super::compress::Packer;
use super::manifest::{Descriptor, check_manifest};
use super::{Limits, Payloads, decode_exact, encode_image};
use crate::catalog::SnapshotId;
use crate::image::Image;
use crate::normalize::{Survival, normalize};
use crate::settle::decode_image;
use crate::summary::Summary;

/// The name of a decoder, and what feeds it bytes.
pub type Probe = (&'static str, fn(&[u8]));

/// All of them.
pub const PROBES: &[Probe] = &[
    ("snapshot_metadata", metadata),
    ("snapshot_shard", shard),
    ("snapshot_segments", segments),
    ("snapshot_tasks", tasks),
    ("snapshot_extension", extension),
    ("snapshot_container", container),
    ("snapshot_texts", texts),
];

/// Small, so that a decoder that allocates by a number in a file is caught.
const LIMITS: Limits = Limits {
    file_bytes_max: 1 << 24,
    shard_bytes_max: 1 << 22,
    total_bytes_max: 1 << 24,
    node_entries_max: 1 << 16,
};
/// An instant between those in the seeds, so that some leases and pins are over and others are not.
const NOW_MS: u64 = 1_795_976_860_639;

fn base() -> Payloads {
    encode_image(&Image::default()).unwrap_or_default()
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    Packer::new(1).and_then(|mut packer| packer.pack(bytes)).unwrap_or_default()
}

/// Everything that is done with the files of a snapshot.
fn decode(payloads: &Payloads) {
    let _ = decode_exact(payloads, &LIMITS, |_| Ok::<(), crate::error::SnapshotError>(()));
    let Ok(decoded) = decode_image(payloads, &LIMITS) else { return };
    let _ = Summary::of(&decoded.image, NOW_MS).to_string();
    for survival in [Survival::Complete, Survival::Rfc, Survival::Lease] {
        let (mut image, mut findings) = (decoded.image.clone(), decoded.findings.clone());
        if normalize(&mut image, NOW_MS, survival, &mut findings).is_ok()
            && let Ok(again) = encode_image(&image)
        {
            let again = decode_image(&again, &Limits::default());
            assert!(again.is_ok(), "what was written can be read: {:?}", again.err());
        }
    }
}

/// The file as it comes.
fn metadata(bytes: &[u8]) {
    decode(&Payloads { metadata: bytes.to_vec(), ..base() });
}

/// The content of a shard: in the shard that the first two bytes name, beside no segments.
fn shard(bytes: &[u8]) {
    let (number, content) = bytes.split_at(bytes.len().min(2));
    let number = number.iter().fold(0_u16, |sum, byte| (sum << 8) | u16::from(*byte)) % 1024;
    let frame = packed(content);
    let mut file = vec![0x83, 0xa6];
    file.extend_from_slice(b"shards");
    file.extend_from_slice(&[0x81, 0xcd]);
    file.extend_from_slice(&number.to_be_bytes());
    file.push(0xc6);
    file.extend_from_slice(&u32::try_from(frame.len()).unwrap_or_default().to_be_bytes());
    file.extend_from_slice(&frame);
    file.push(0xb2);
    file.extend_from_slice(b"discarded_replicas");
    file.extend_from_slice(&[0x90, 0xaf]);
    file.extend_from_slice(b"replica_next_id");
    file.push(1);
    decode(&Payloads { metadata: file, ..base() });
}

/// The content of the file, and the file as it comes.
fn segments(bytes: &[u8]) {
    decode(&Payloads { segments: packed(bytes), ..base() });
    decode(&Payloads { segments: bytes.to_vec(), ..base() });
}

/// The content of the file, and the file as it comes.
fn tasks(bytes: &[u8]) {
    decode(&Payloads { task_manager: packed(bytes), ..base() });
    decode(&Payloads { task_manager: bytes.to_vec(), ..base() });
}

/// The file as it comes, and with a right checksum.
fn extension(bytes: &[u8]) {
    decode(&Payloads { extension: Some(bytes.to_vec()), ..base() });
    let mut sealed = bytes.to_vec();
    sealed.extend_from_slice(&crc32fast::hash(bytes).to_le_bytes());
    decode(&Payloads { extension: Some(sealed), ..base() });
}

fn container(bytes: &[u8]) {
    if let Ok(payloads) = super::container::read_container(&mut &*bytes, LIMITS.file_bytes_max) {
        decode(&payloads);
    }
}

/// Manifest, descriptor and pointer.
fn texts(bytes: &[u8]) {
    let _ = check_manifest(bytes);
    if let Ok(descriptor) = Descriptor::read(bytes) {
        assert_eq!(Descriptor::read(descriptor.write().as_bytes()).ok(), Some(descriptor));
    }
    let id = std::str::from_utf8(bytes).ok().and_then(SnapshotId::parse);
    if let Some(instant_ms) = id.and_then(SnapshotId::instant_ms) {
        assert_eq!(Some(SnapshotId::at(instant_ms)), id, "an id names its instant");
    }
}
