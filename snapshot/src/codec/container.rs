//! All payloads of a snapshot in one stream, for the compaction of the log.
//!
//! Layout (integers little-endian): magic, version, then sections, each as tag, length, bytes,
//! crc32 of tag, length and bytes; an end tag without bytes closes the stream. The bytes are those
//! of the files, so there is one codec with two callers.

use std::io::{Read, Write};

use super::Payloads;
use crate::error::{SnapshotError, SnapshotFile};

const FILE: SnapshotFile = SnapshotFile::Container;
const MAGIC: &[u8; 8] = b"MCHASNAP";
/// Version written. Version 1 is the only one so far.
pub const CONTAINER_VERSION: u16 = 1;
/// Bytes asked of the stream at once, and so what a wrong length can allocate in vain.
const CHUNK_BYTES: u64 = 1 << 20;

const TAG_END: u8 = 0;
const TAG_METADATA: u8 = 1;
const TAG_SEGMENTS: u8 = 2;
const TAG_TASKS: u8 = 3;
const TAG_EXTENSION: u8 = 4;

fn io(source: std::io::Error) -> SnapshotError {
    SnapshotError::Io { file: FILE, source }
}

/// Writes the payloads as one stream and flushes it.
///
/// Errors: the stream's.
pub fn write_container(payloads: &Payloads, to: &mut dyn Write) -> Result<(), SnapshotError> {
    to.write_all(MAGIC).map_err(io)?;
    to.write_all(&CONTAINER_VERSION.to_le_bytes()).map_err(io)?;
    write_section(to, TAG_METADATA, &payloads.metadata)?;
    write_section(to, TAG_SEGMENTS, &payloads.segments)?;
    write_section(to, TAG_TASKS, &payloads.task_manager)?;
    if let Some(extension) = &payloads.extension {
        write_section(to, TAG_EXTENSION, extension)?;
    }
    write_section(to, TAG_END, &[])?;
    to.flush().map_err(io)
}

fn write_section(to: &mut dyn Write, tag: u8, bytes: &[u8]) -> Result<(), SnapshotError> {
    let length = (bytes.len() as u64).to_le_bytes();
    to.write_all(&[tag]).map_err(io)?;
    to.write_all(&length).map_err(io)?;
    to.write_all(bytes).map_err(io)?;
    to.write_all(&crc_of(tag, length, bytes).to_le_bytes()).map_err(io)
}

fn crc_of(tag: u8, length: [u8; 8], bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&[tag]);
    hasher.update(&length);
    hasher.update(bytes);
    hasher.finalize()
}

/// Reads a stream written by [`write_container`] up to its end tag; `section_bytes_max` bounds each
/// payload.
///
/// Errors: a broken or foreign stream, a payload beyond the limit, the stream's own errors. Memory
/// grows only with bytes that have arrived.
pub fn read_container(
    from: &mut dyn Read,
    section_bytes_max: u64,
) -> Result<Payloads, SnapshotError> {
    let magic: [u8; 8] = read_fixed(from)?;
    if magic != *MAGIC {
        return Err(SnapshotError::damaged(FILE, "start", "this is not a snapshot container"));
    }
    let version = u16::from_le_bytes(read_fixed(from)?);
    if version != CONTAINER_VERSION {
        let what = format!("version {version} (this program reads {CONTAINER_VERSION})");
        return Err(SnapshotError::Unsupported { file: FILE, what });
    }
    let mut sections: [Option<Vec<u8>>; 4] = [None, None, None, None];
    loop {
        let (tag, bytes) = read_section(from, section_bytes_max)?;
        if tag == TAG_END {
            break;
        }
        let place = format!("section {tag}");
        match sections.get_mut(usize::from(tag).wrapping_sub(1)) {
            Some(slot) if slot.is_none() => *slot = Some(bytes),
            Some(_) => return Err(SnapshotError::damaged(FILE, place, "it appears twice")),
            None => return Err(SnapshotError::damaged(FILE, place, "an unknown section")),
        }
    }
    let [metadata, segments, task_manager, extension] = sections;
    let missing = |file| move || SnapshotError::damaged(FILE, "end", format!("{file} is missing"));
    Ok(Payloads {
        metadata: metadata.ok_or_else(missing(SnapshotFile::Metadata))?,
        segments: segments.ok_or_else(missing(SnapshotFile::Segments))?,
        task_manager: task_manager.ok_or_else(missing(SnapshotFile::TaskManager))?,
        extension,
    })
}

fn read_section(from: &mut dyn Read, limit: u64) -> Result<(u8, Vec<u8>), SnapshotError> {
    let [tag] = read_fixed(from)?;
    let length_bytes: [u8; 8] = read_fixed(from)?;
    let length = u64::from_le_bytes(length_bytes);
    let place = || format!("section {tag}");
    if length > limit {
        return Err(SnapshotError::TooLarge { file: FILE, place: place(), bytes: length, limit });
    }
    let mut bytes = Vec::new();
    let mut left = length;
    while left > 0 {
        let step = left.min(CHUNK_BYTES);
        let got = Read::take(&mut *from, step).read_to_end(&mut bytes).map_err(io)? as u64;
        if got == 0 {
            return Err(SnapshotError::damaged(FILE, place(), "the stream ends inside it"));
        }
        left = left.saturating_sub(got);
    }
    let crc32 = u32::from_le_bytes(read_fixed(from)?);
    if crc_of(tag, length_bytes, &bytes) != crc32 {
        return Err(SnapshotError::damaged(FILE, place(), "its checksum does not match"));
    }
    Ok((tag, bytes))
}

fn read_fixed<const N: usize>(from: &mut dyn Read) -> Result<[u8; N], SnapshotError> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes).map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => {
            SnapshotError::damaged(FILE, "end", "the stream ends too early")
        }
        _ => io(error),
    })?;
    Ok(bytes)
}
