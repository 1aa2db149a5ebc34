//! The end of the log in memory: what was appended but is not on disk yet, and as much before it
//! as the cache may hold.
//!
//! Guards: an entry is readable from the moment append returns until it is on disk, at least;
//! indices are consecutive; the newest entry is always here unless everything is purged.
//! Leaves to `store.rs` what lies before the tail.

use std::collections::VecDeque;

use crate::record::entry_bytes;
use crate::types::{Entry, LogId};

/// A size mark is set about every so many bytes of log.
const MARK_BYTES: u64 = 128 * 1024;

/// Where the log stood, in bytes written since this process opened it, before an index.
#[derive(Clone, Copy)]
struct Mark {
    index: u64,
    bytes: u64,
}

/// See the file's head.
pub(crate) struct Tail {
    entries: VecDeque<Entry>,
    bytes: usize,
    cache_bytes: usize,
    /// Entries up to here are in the store.
    stored: Option<u64>,
    last: Option<LogId>,
    purged: Option<LogId>,
    /// Index of the oldest entry there is, in memory or in the store.
    begin: Option<u64>,
    /// Sorted by index; bytes never fall.
    marks: VecDeque<Mark>,
    total: u64,
}

impl Tail {
    pub(crate) fn new(cache_bytes: usize) -> Self {
        Self {
            entries: VecDeque::new(),
            bytes: 0,
            cache_bytes,
            stored: None,
            last: None,
            purged: None,
            begin: None,
            marks: VecDeque::new(),
            total: 0,
        }
    }

    /// Newest entry, or what was purged last if none is left.
    pub(crate) fn last(&self) -> Option<LogId> {
        self.last.max(self.purged)
    }

    pub(crate) fn purged(&self) -> Option<LogId> {
        self.purged
    }

    /// Index of the oldest entry in memory or in the store.
    pub(crate) fn begin(&self) -> Option<u64> {
        self.begin
    }

    /// Index of the oldest entry in memory.
    pub(crate) fn first_index(&self) -> Option<u64> {
        self.entries.front().map(|entry| entry.log_id.index)
    }

    pub(crate) fn push(&mut self, entry: Entry) {
        let size = entry_bytes(&entry);
        let index = entry.log_id.index;
        let due = self.marks.back().is_none_or(|mark| self.total - mark.bytes >= MARK_BYTES);
        if due {
            self.marks.push_back(Mark { index, bytes: self.total });
        }
        self.begin.get_or_insert(index);
        self.total = self.total.saturating_add(size as u64);
        self.bytes = self.bytes.saturating_add(size);
        self.last = Some(entry.log_id);
        self.entries.push_back(entry);
    }

    /// Notes that entries up to `index` are in the store; the cache may now let go of them.
    pub(crate) fn stored_to(&mut self, index: u64) {
        self.stored = self.stored.max(Some(index));
        self.evict();
    }

    fn evict(&mut self) {
        while self.bytes > self.cache_bytes && self.entries.len() > 1 {
            let Some(front) = self.entries.front() else { return };
            if Some(front.log_id.index) > self.stored {
                return;
            }
            self.bytes = self.bytes.saturating_sub(entry_bytes(front));
            self.entries.pop_front();
        }
    }

    /// Drops entries from `index` on. `last` is what then is the newest one, which the caller
    /// knows even if it is not in memory.
    pub(crate) fn truncate_from(&mut self, index: u64, last: Option<LogId>) {
        while self.entries.back().is_some_and(|entry| entry.log_id.index >= index) {
            if let Some(entry) = self.entries.pop_back() {
                let size = entry_bytes(&entry);
                self.bytes = self.bytes.saturating_sub(size);
                self.total = self.total.saturating_sub(size as u64);
            }
        }
        while self.marks.back().is_some_and(|mark| mark.index >= index) {
            self.marks.pop_back();
        }
        if let Some(mark) = self.marks.back() {
            self.total = self.total.max(mark.bytes);
        }
        self.stored = self.stored.min(index.checked_sub(1));
        self.last = self.last.min(last);
        self.begin = self.begin.filter(|begin| *begin < index);
    }

    pub(crate) fn purge_to(&mut self, upto: LogId) {
        self.purged = self.purged.max(Some(upto));
        let next = upto.index.saturating_add(1);
        let any_left = self.last.is_some_and(|last| last.index >= next);
        self.begin = self.begin.filter(|_| any_left).map(|begin| begin.max(next));
        while self.entries.front().is_some_and(|entry| entry.log_id.index <= upto.index) {
            if let Some(entry) = self.entries.pop_front() {
                self.bytes = self.bytes.saturating_sub(entry_bytes(&entry));
            }
        }
        // The mark before the first kept index stays: sizes are counted from it.
        while self.marks.get(1).is_some_and(|mark| mark.index <= next) {
            self.marks.pop_front();
        }
    }

    /// Entries of `[from, to)` that are in memory, oldest first, until `bytes_max` is reached;
    /// at least one if there is any.
    pub(crate) fn read(&self, from: u64, to: u64, bytes_max: usize) -> Vec<Entry> {
        let Some(first) = self.first_index() else { return Vec::new() };
        let skip = usize::try_from(from.saturating_sub(first)).unwrap_or(usize::MAX);
        let mut bytes = 0_usize;
        let mut found = Vec::new();
        for entry in self.entries.iter().skip(skip) {
            if entry.log_id.index >= to || (bytes >= bytes_max && !found.is_empty()) {
                break;
            }
            bytes = bytes.saturating_add(entry_bytes(entry));
            found.push(entry.clone());
        }
        found
    }

    /// Bytes of entries that are not purged, to within `MARK_BYTES`.
    pub(crate) fn log_bytes(&self) -> u64 {
        self.marks.front().map_or(0, |mark| self.total.saturating_sub(mark.bytes))
    }

    /// Bytes of entries after `index`, to within `MARK_BYTES`.
    pub(crate) fn bytes_after(&self, index: Option<u64>) -> u64 {
        let Some(index) = index else { return self.log_bytes() };
        let at = self.marks.partition_point(|mark| mark.index <= index);
        let mark = at.checked_sub(1).and_then(|at| self.marks.get(at)).or(self.marks.front());
        mark.map_or(0, |mark| self.total.saturating_sub(mark.bytes))
    }

    /// Largest index that may be purged so that about `keep_bytes` of log stay.
    pub(crate) fn purge_point(&self, keep_bytes: u64) -> Option<u64> {
        let at =
            self.marks.partition_point(|mark| self.total.saturating_sub(mark.bytes) >= keep_bytes);
        let mark = at.checked_sub(1).and_then(|at| self.marks.get(at))?;
        mark.index.checked_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::types::{EntryBytes, Payload, log_id};

    fn entry(index: u64, size: usize) -> Entry {
        let payload = Payload::Normal(EntryBytes(Bytes::from(vec![0; size])));
        Entry { log_id: log_id(1, index), payload }
    }

    fn filled(count: u64, size: usize, cache: usize) -> Tail {
        let mut tail = Tail::new(cache);
        (1..=count).for_each(|index| tail.push(entry(index, size)));
        tail
    }

    #[test]
    fn entries_not_yet_stored_stay_whatever_the_cache_says() {
        let mut tail = filled(100, 1000, 5000);
        assert_eq!(tail.first_index(), Some(1));
        tail.stored_to(50);
        assert_eq!(tail.first_index(), Some(51));
        tail.stored_to(100);
        assert!(tail.first_index() > Some(90));
        assert_eq!(tail.last().unwrap().index, 100);
    }

    #[test]
    fn a_read_is_bounded_by_bytes_but_yields_at_least_one_entry() {
        let tail = filled(10, 1000, 1 << 20);
        assert_eq!(tail.read(3, 8, usize::MAX).len(), 5);
        assert_eq!(tail.read(3, 8, 1).len(), 1);
        assert_eq!(tail.read(3, 8, 2000).len(), 2);
        assert!(tail.read(11, 20, 1).is_empty());
    }

    #[test]
    fn sizes_follow_truncation_and_purge() {
        let mut tail = filled(1000, 1000, usize::MAX);
        let all = tail.log_bytes();
        assert_eq!(all, 1000 * 1021);
        tail.truncate_from(501, Some(log_id(1, 500)));
        assert!(tail.log_bytes().abs_diff(all / 2) <= MARK_BYTES);
        assert_eq!(tail.last().unwrap().index, 500);
        tail.purge_to(log_id(1, 250));
        assert!(tail.log_bytes().abs_diff(all / 4) <= MARK_BYTES + 2000);
        assert_eq!(tail.first_index(), Some(251));
    }

    #[test]
    fn the_purge_point_keeps_about_what_was_asked_for() {
        let tail = filled(10_000, 1000, usize::MAX);
        let point = tail.purge_point(1 << 20).unwrap();
        let kept = tail.bytes_after(Some(point));
        assert!((1 << 20..=(1 << 20) + 2 * MARK_BYTES).contains(&kept), "{kept}");
        assert_eq!(tail.purge_point(1 << 40), None);
    }
}
