//! A small file that takes entries for the operating system's hands before the store has them.
//!
//! Guards: a record is found again after the death of the process, whole or not at all; records
//! of an earlier round, which lie behind the newest ones, are not taken for newer ones.
//! Leaves to `ahead.rs` what is noted when, and to the store everything older.
//!
//! Record: `round u64 LE | length u32 LE | crc32 u32 LE | body`, the crc over round, length and
//! body. Body: sealed committed id, then entries. A round begins at the start of the file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{BufMut, Bytes};
use mooncake_ha_crash::{Point, syncing, tear};

use crate::files::{Disk, DiskFile, How};
use crate::record::{self, LogIdRecord, RecordError, decode_entry, encode_entry, log_id_record};
use crate::types::{Entry, LogId};

/// Bytes of records that are noted before they go to the store: it wakes all its threads for every
/// flush, so few are wanted, and each of them holds up whoever appends for some milliseconds.
pub(crate) const JOURNAL_BYTES_MAX: u64 = 512 << 10;
/// Bytes of a record before its body.
const HEAD_BYTES: usize = 16;
/// Bytes of a sealed committed id: whether there is one, term, index.
const COMMITTED_BYTES_MAX: usize = record::SEAL_BYTES + 17;

/// What was noted and may be missing in the store.
#[derive(Debug, Default)]
pub(crate) struct Noted {
    /// Entries, oldest first.
    pub(crate) entries: Vec<Entry>,
    /// The newest committed id, if any was noted.
    pub(crate) committed: Option<LogId>,
}

impl Noted {
    /// What the bytes of a journal say, up to the first that are no record of its round.
    pub(crate) fn parse(mut rest: Bytes) -> Self {
        let mut noted = Self::default();
        let mut round = None;
        while let Ok(Some((of, body))) = take_record(&mut rest) {
            if *round.get_or_insert(of) != of {
                break;
            }
            let Ok((committed, entries)) = parse_body(body) else { break };
            noted.committed = noted.committed.max(committed);
            noted.entries.extend(entries);
        }
        noted
    }
}

/// The open file. Its bytes are bounded by `JOURNAL_BYTES_MAX`.
pub(crate) struct Journal {
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    round: u64,
    at: u64,
    /// Whether a reader would find a record.
    is_used: bool,
    buffer: Vec<u8>,
}

impl Journal {
    /// What is in the file, if there is one; blocking. Where a record is no record the rest is
    /// dropped: that is where the process died, or the power failed.
    pub(crate) fn read(disk: &dyn Disk, path: &Path) -> std::io::Result<Noted> {
        if !disk.exists(path) {
            return Ok(Noted::default());
        }
        let file = disk.open(path, How::Read)?;
        Ok(Noted::parse(Bytes::from(file.read_start(JOURNAL_BYTES_MAX)?)))
    }

    /// Makes the file anew, empty; blocking. Whatever it held must be in the store, on disk.
    pub(crate) fn create(disk: &dyn Disk, path: &Path) -> std::io::Result<Self> {
        let file = disk.open(path, How::Create)?;
        syncing(path, || file.sync())?;
        disk.sync_parent(path)?;
        let path = path.to_owned();
        Ok(Self { path, file, round: 1, at: 0, is_used: false, buffer: Vec::new() })
    }

    /// Removes the file, if there is one; blocking. Whatever it held must be in the store.
    pub(crate) fn remove(disk: &dyn Disk, path: &Path) -> std::io::Result<()> {
        if !disk.exists(path) {
            return Ok(());
        }
        disk.remove(path)?;
        disk.sync_parent(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a record with so many bytes of entries fits.
    pub(crate) fn has_room_for(&self, bytes: usize) -> bool {
        let size = bytes.saturating_add(HEAD_BYTES).saturating_add(COMMITTED_BYTES_MAX);
        self.at.saturating_add(size as u64) <= JOURNAL_BYTES_MAX
    }

    /// Hands a record to the operating system.
    pub(crate) fn note(
        &mut self,
        entries: &[Entry],
        committed: Option<LogId>,
    ) -> std::io::Result<()> {
        let other = |e: RecordError| std::io::Error::other(e.to_string());
        let mut record = std::mem::take(&mut self.buffer);
        record.clear();
        record.resize(HEAD_BYTES, 0);
        let committed = log_id_record(committed.as_ref());
        record.extend_from_slice(&record::seal(&committed).map_err(other)?);
        entries.iter().try_for_each(|entry| encode_entry(entry, &mut record)).map_err(other)?;
        let length = record.len().saturating_sub(HEAD_BYTES);
        let length = u32::try_from(length).map_err(std::io::Error::other)?;
        let (head, body) = record.split_at_mut(HEAD_BYTES);
        let mut fields = &mut *head;
        fields.put_u64_le(self.round);
        fields.put_u32_le(length);
        fields.put_u32_le(crc(self.round, length, body));
        tear(Point::JournalTorn, &record, |half| self.file.write_at(half, self.at));
        self.file.write_at(&record, self.at)?;
        self.at = self.at.saturating_add(record.len() as u64);
        self.is_used = true;
        self.buffer = record;
        Ok(())
    }

    /// Begins anew: the store has all that was noted. A reader may still find it, and what it
    /// finds is what the store has as well.
    pub(crate) fn turn(&mut self) {
        self.round = self.round.saturating_add(1);
        self.at = 0;
    }

    /// As [`Journal::turn`], and nobody finds what was noted, not even after a power cut: it is
    /// about to be taken back.
    pub(crate) fn forget(&mut self) -> std::io::Result<()> {
        if !self.is_used {
            return Ok(());
        }
        self.turn();
        self.note(&[], None)?;
        self.turn();
        syncing(&self.path, || self.file.sync())?;
        self.is_used = false;
        Ok(())
    }
}

fn crc(round: u64, length: u32, body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&round.to_le_bytes());
    hasher.update(&length.to_le_bytes());
    hasher.update(body);
    hasher.finalize()
}

/// A record of the first round around these bytes, whatever they are, for `probes`.
pub(crate) fn sealed(body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    let mut record = Vec::with_capacity(HEAD_BYTES.saturating_add(body.len()));
    record.put_u64_le(1);
    record.put_u32_le(length);
    record.put_u32_le(crc(1, length, body));
    record.extend_from_slice(body);
    record
}

/// Takes a record off the front: its round and its body.
fn take_record(bytes: &mut Bytes) -> Result<Option<(u64, Bytes)>, RecordError> {
    let Some(head) = bytes.get(..HEAD_BYTES) else { return Ok(None) };
    let (round, length, sum): (u64, u32, u32) = record::unpack(head)?;
    let size = HEAD_BYTES.saturating_add(length as usize);
    let Some(body) = bytes.get(HEAD_BYTES..size) else { return Ok(None) };
    if crc(round, length, body) != sum {
        return Err(RecordError::Checksum);
    }
    let body = bytes.split_to(size).slice(HEAD_BYTES..);
    Ok(Some((round, body)))
}

fn parse_body(body: Bytes) -> Result<(Option<LogId>, Vec<Entry>), RecordError> {
    let (committed, rest) = record::open_prefix::<Option<LogIdRecord>>(&body)?;
    let mut rest = body.slice(body.len().saturating_sub(rest.len())..);
    let mut entries = Vec::new();
    while !rest.is_empty() {
        entries.push(decode_entry(&mut rest)?);
    }
    Ok((committed.map(LogId::from), entries))
}

#[cfg(test)]
mod tests;
