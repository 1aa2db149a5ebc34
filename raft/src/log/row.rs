//! How a group of entries becomes rows of the store, and back.
//!
//! Guards: no row is larger than `ROW_BYTES_MAX`, because the store puts pages above 128 KiB into
//! files that it never syncs, and a page holds up to 17 rows; every row carries its own checksum,
//! which also covers its key, so a row can neither change nor move unnoticed.
//! Leaves to `store.rs`: reading and writing.
//!
//! Key: `first index u64 BE | part u16 BE`, so a range scan walks the log in order.
//! Value: `version u8 | parts u16 LE | crc32 u32 LE | slice of the group`.

use bytes::{BufMut, Bytes};

use crate::record::{RECORD_VERSION, RecordError, decode_entry};
use crate::types::Entry;

/// Largest value of a row: with the 16 bytes that the store puts before it, it just fills a size class of memory
/// allocators. The store keeps a thousand pages of eight or more rows in memory, whatever it is told.
pub(crate) const ROW_BYTES_MAX: usize = 3 * 1024 - 16;
/// Bytes of a value before the slice.
pub(crate) const ROW_HEAD_BYTES: usize = 7;
/// Bytes of a key.
pub(crate) const KEY_BYTES: usize = 10;
/// A group is closed when it reaches this size; a single larger entry is a group of its own.
pub(crate) const GROUP_BYTES_MAX: usize = 256 * 1024;
const SLICE_BYTES_MAX: usize = ROW_BYTES_MAX - ROW_HEAD_BYTES;

/// A key of a row.
pub(crate) type Key = [u8; KEY_BYTES];

/// The key of one part of the group that starts at `first`.
pub(crate) fn key(first: u64, part: u16) -> Key {
    let mut key = [0; KEY_BYTES];
    let (index, rest) = key.split_at_mut(8);
    index.copy_from_slice(&first.to_be_bytes());
    rest.copy_from_slice(&part.to_be_bytes());
    key
}

/// First index and part in a key.
pub(crate) fn parse_key(key: &[u8]) -> Result<(u64, u16), RecordError> {
    let short = RecordError::Short { want: KEY_BYTES, got: key.len() };
    let (first, rest) = key.split_first_chunk::<8>().ok_or(short.clone())?;
    let (part, rest) = rest.split_first_chunk::<2>().ok_or(short)?;
    if !rest.is_empty() {
        return Err(RecordError::Trailing(rest.len()));
    }
    Ok((u64::from_be_bytes(*first), u16::from_be_bytes(*part)))
}

fn row_crc(key: &[u8], parts: u16, slice: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(key);
    hasher.update(&[RECORD_VERSION]);
    hasher.update(&parts.to_le_bytes());
    hasher.update(slice);
    hasher.finalize()
}

/// Cuts an encoded group into rows.
pub(crate) fn rows(first: u64, group: &[u8]) -> Result<Vec<(Key, Vec<u8>)>, RecordError> {
    let count = group.len().div_ceil(SLICE_BYTES_MAX);
    let too_long = RecordError::TooLong(group.len(), SLICE_BYTES_MAX * usize::from(u16::MAX));
    let parts = u16::try_from(count).map_err(|_| too_long)?;
    let rows = (0..parts).zip(group.chunks(SLICE_BYTES_MAX)).map(|(part, slice)| {
        let key = key(first, part);
        let mut value = Vec::with_capacity(ROW_HEAD_BYTES.saturating_add(slice.len()));
        value.put_u8(RECORD_VERSION);
        value.put_u16_le(parts);
        value.put_u32_le(row_crc(&key, parts, slice));
        value.extend_from_slice(slice);
        (key, value)
    });
    Ok(rows.collect())
}

/// Number of parts and slice of a row, checksum verified.
pub(crate) fn parse_row<'a>(key: &[u8], value: &'a [u8]) -> Result<(u16, &'a [u8]), RecordError> {
    let short = RecordError::Short { want: ROW_HEAD_BYTES, got: value.len() };
    let (version, rest) = value.split_first().ok_or(short.clone())?;
    if *version != RECORD_VERSION {
        return Err(RecordError::Version(*version));
    }
    let (parts, rest) = rest.split_first_chunk::<2>().ok_or(short.clone())?;
    let (crc, slice) = rest.split_first_chunk::<4>().ok_or(short)?;
    let parts = u16::from_le_bytes(*parts);
    if row_crc(key, parts, slice) != u32::from_le_bytes(*crc) {
        return Err(RecordError::Checksum);
    }
    Ok((parts, slice))
}

/// Puts the rows of a group together, in the order of their keys.
#[derive(Default)]
pub(crate) struct Assembler {
    first: u64,
    parts: u16,
    seen: u16,
    bytes: Vec<u8>,
}

impl Assembler {
    /// Takes the next row; returns the entries of the group when it was the last one.
    pub(crate) fn push(
        &mut self,
        key: &[u8],
        value: &[u8],
    ) -> Result<Option<(u64, Vec<Entry>)>, RecordError> {
        let (first, part) = parse_key(key)?;
        let (parts, slice) = parse_row(key, value)?;
        if self.seen == 0 {
            self.first = first;
            self.parts = parts;
        }
        if first != self.first || parts != self.parts || part != self.seen {
            let text =
                format!("part {part} of group {first} follows {} of {}", self.seen, self.first);
            return Err(RecordError::Content(text));
        }
        self.bytes.extend_from_slice(slice);
        self.seen = self.seen.saturating_add(1);
        if self.seen < self.parts {
            return Ok(None);
        }
        self.seen = 0;
        let bytes = Bytes::from(std::mem::take(&mut self.bytes));
        Ok(Some((first, entries(first, bytes)?)))
    }

    /// Checks that no group is left unfinished.
    pub(crate) fn finish(&self) -> Result<(), RecordError> {
        if self.seen == 0 {
            return Ok(());
        }
        let text = format!("group {} ends after {} of {} parts", self.first, self.seen, self.parts);
        Err(RecordError::Content(text))
    }
}

fn entries(first: u64, mut bytes: Bytes) -> Result<Vec<Entry>, RecordError> {
    let mut entries: Vec<Entry> = Vec::new();
    while !bytes.is_empty() {
        let entry = decode_entry(&mut bytes)?;
        let want = first.saturating_add(entries.len() as u64);
        if entry.log_id.index != want {
            let text = format!("entry {} where {want} must be", entry.log_id.index);
            return Err(RecordError::Content(text));
        }
        entries.push(entry);
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::encode_entry;
    use crate::types::{EntryBytes, Payload, log_id};

    fn group(first: u64, sizes: &[usize]) -> (Vec<Entry>, Vec<u8>) {
        let mut bytes = Vec::new();
        let entries: Vec<Entry> = (first..)
            .zip(sizes)
            .map(|(index, size)| {
                let payload = Payload::Normal(EntryBytes(Bytes::from(vec![index as u8; *size])));
                Entry { log_id: log_id(1, index), payload }
            })
            .collect();
        for entry in &entries {
            encode_entry(entry, &mut bytes).unwrap();
        }
        (entries, bytes)
    }

    #[test]
    fn a_group_of_any_size_survives_its_rows_and_no_row_is_too_large() {
        for sizes in [vec![0], vec![10, 20], vec![ROW_BYTES_MAX * 3], vec![5000; 40]] {
            let (want, bytes) = group(7, &sizes);
            let rows = rows(7, &bytes).unwrap();
            let mut assembler = Assembler::default();
            let mut got = None;
            for (key, value) in &rows {
                assert!(value.len() <= ROW_BYTES_MAX);
                got = assembler.push(key, value).unwrap();
            }
            assert_eq!(got.unwrap(), (7, want));
            assembler.finish().unwrap();
        }
    }

    #[test]
    fn keys_sort_as_their_numbers_do() {
        assert!(key(255, 3) < key(256, 0));
        assert!(key(256, 0) < key(256, 1));
        assert_eq!(parse_key(&key(1 << 40, 9)).unwrap(), (1 << 40, 9));
    }

    #[test]
    fn a_flipped_bit_a_missing_part_and_a_moved_row_are_noticed() {
        let (_, bytes) = group(1, &[20_000]);
        let rows = rows(1, &bytes).unwrap();
        let (first_key, first) = rows.first().unwrap();
        for byte in [0, 1, 4, 100] {
            let mut bad = first.clone();
            bad[byte] ^= 4;
            assert!(Assembler::default().push(first_key, &bad).is_err(), "byte {byte}");
        }
        assert!(Assembler::default().push(&key(2, 0), first).is_err());
        let mut assembler = Assembler::default();
        assembler.push(first_key, first).unwrap();
        assert!(assembler.finish().is_err());
        let (third_key, third) = rows.get(2).unwrap();
        assert!(assembler.push(third_key, third).is_err());
    }
}
