//! Our own file beside the peer's: everything that their format has no place for.
//!
//! Layout (integers little-endian): magic, version, length of the record, the record (bincode,
//! fixed-size integers), number of sections, each section as name length, name, length, bytes; last
//! a crc32 of all that comes before it. The record starts with a crc32 of each payload file, so a
//! snapshot whose files do not belong together is recognised. Read only as a whole: any fault costs
//! the candidate, because restoring without it would silently forget policies and pending work.

use std::collections::BTreeMap;

use bincode::Options;
use serde::{Deserialize, Serialize};

use crate::error::{SnapshotError, SnapshotFile};
use crate::image::Extension;

const FILE: SnapshotFile = SnapshotFile::Extension;
const MAGIC: &[u8; 8] = b"MCHAEXT\n";
/// Version written. Version 1 is the only one so far.
pub const EXTENSION_VERSION: u16 = 1;
/// Greatest number of further sections.
pub const SECTIONS_MAX: u32 = 1024;
/// Greatest length of a section's name in bytes.
pub const SECTION_NAME_MAX: usize = 256;
/// Greatest size of the record and of one section.
pub const SECTION_BYTES_MAX: u64 = 1 << 30;

/// What a payload file must be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct PayloadCheck {
    name: String,
    bytes: u64,
    crc32: u32,
}

/// The versioned part of the file.
#[derive(Serialize, Deserialize)]
struct Record {
    payloads: Vec<PayloadCheck>,
    extension: Extension,
}

fn options() -> impl Options {
    bincode::DefaultOptions::new()
        .with_fixint_encoding()
        .with_limit(SECTION_BYTES_MAX)
        .reject_trailing_bytes()
}

/// A payload file's name and bytes.
pub(crate) type NamedPayload<'a> = (SnapshotFile, &'a [u8]);

/// The whole file, for these payloads.
pub(crate) fn write_extension(
    extension: &Extension,
    payloads: &[NamedPayload<'_>],
) -> Result<Vec<u8>, SnapshotError> {
    let refuse = |what: String| SnapshotError::Unwritable { file: FILE, what };
    let checks = payloads.iter().map(|(file, bytes)| check_of(*file, bytes)).collect();
    let record = Record { payloads: checks, extension: extension.clone() };
    let record = options().serialize(&record).map_err(|error| refuse(error.to_string()))?;
    if extension.sections.len() as u64 > u64::from(SECTIONS_MAX) {
        return Err(refuse(format!("more than {SECTIONS_MAX} sections")));
    }
    let mut bytes = Vec::new();
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&EXTENSION_VERSION.to_le_bytes());
    bytes.extend_from_slice(&(record.len() as u64).to_le_bytes());
    bytes.extend_from_slice(&record);
    bytes.extend_from_slice(&(extension.sections.len() as u32).to_le_bytes());
    for (name, section) in &extension.sections {
        if name.len() > SECTION_NAME_MAX || section.len() as u64 > SECTION_BYTES_MAX {
            return Err(refuse(format!("section {name:?} is too large")));
        }
        bytes.extend_from_slice(&(name.len() as u16).to_le_bytes());
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(&(section.len() as u64).to_le_bytes());
        bytes.extend_from_slice(section);
    }
    let crc32 = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&crc32.to_le_bytes());
    Ok(bytes)
}

fn check_of(file: SnapshotFile, bytes: &[u8]) -> PayloadCheck {
    PayloadCheck {
        name: file.file_name().to_string(),
        bytes: bytes.len() as u64,
        crc32: crc32fast::hash(bytes),
    }
}

/// Reads the whole file and compares the payloads with what it says of them.
pub(crate) fn read_extension(
    bytes: &[u8],
    payloads: &[NamedPayload<'_>],
) -> Result<Extension, SnapshotError> {
    let (content, crc32) =
        bytes.split_last_chunk::<4>().ok_or_else(|| damaged("it is shorter than its checksum"))?;
    if crc32fast::hash(content) != u32::from_le_bytes(*crc32) {
        return Err(damaged("its checksum does not match"));
    }
    let mut cursor = Cursor { rest: content };
    if cursor.fixed()? != *MAGIC {
        return Err(damaged("it does not start as such a file does"));
    }
    let version = u16::from_le_bytes(cursor.fixed()?);
    if version != EXTENSION_VERSION {
        let what = format!("version {version} (this program reads {EXTENSION_VERSION})");
        return Err(SnapshotError::Unsupported { file: FILE, what });
    }
    let length = u64::from_le_bytes(cursor.fixed()?);
    let record = cursor.take(length)?;
    let Record { payloads: checks, mut extension } =
        options().deserialize(record).map_err(|error| damaged(&format!("record: {error}")))?;
    extension.sections = read_sections(&mut cursor)?;
    if !cursor.rest.is_empty() {
        return Err(damaged("bytes after its last section"));
    }
    for payload in payloads {
        compare(&checks, *payload)?;
    }
    Ok(extension)
}

fn read_sections(cursor: &mut Cursor<'_>) -> Result<BTreeMap<String, Vec<u8>>, SnapshotError> {
    let count = u32::from_le_bytes(cursor.fixed()?);
    if count > SECTIONS_MAX {
        return Err(damaged("too many sections"));
    }
    let mut sections = BTreeMap::new();
    for _ in 0..count {
        let length = u16::from_le_bytes(cursor.fixed()?);
        let name = std::str::from_utf8(cursor.take(u64::from(length))?);
        let name = name.map_err(|_| damaged("a section name is not UTF-8"))?.to_string();
        let length = u64::from_le_bytes(cursor.fixed()?);
        sections.insert(name, cursor.take(length)?.to_vec());
    }
    Ok(sections)
}

fn compare(checks: &[PayloadCheck], (file, bytes): NamedPayload<'_>) -> Result<(), SnapshotError> {
    let found = check_of(file, bytes);
    match checks.iter().find(|check| check.name == found.name) {
        Some(check) if *check == found => Ok(()),
        Some(check) => {
            let what = format!(
                "{} bytes with checksum {:08x}, but {FILE} says {} bytes with {:08x}",
                found.bytes, found.crc32, check.bytes, check.crc32
            );
            Err(SnapshotError::damaged(file, "the file", what))
        }
        None => Err(damaged(&format!("it says nothing of {file}"))),
    }
}

fn damaged(what: &str) -> SnapshotError {
    SnapshotError::damaged(FILE, "the file", what)
}

/// Walks a slice; a length beyond its end is a fault.
struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn take(&mut self, count: u64) -> Result<&'a [u8], SnapshotError> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let split = self.rest.split_at_checked(count);
        let (head, rest) = split.ok_or_else(|| damaged("it ends inside a field"))?;
        self.rest = rest;
        Ok(head)
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], SnapshotError> {
        let split = self.rest.split_first_chunk::<N>();
        let (head, rest) = split.ok_or_else(|| damaged("it ends inside a field"))?;
        self.rest = rest;
        Ok(*head)
    }
}
