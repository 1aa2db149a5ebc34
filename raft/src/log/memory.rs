//! A log in memory that knows what a disk would have kept: for simulations.
//!
//! Guards: a power cut keeps everything up to the last sync, and of what was written later a part
//! without holes, as the store's own log does; the death of a process keeps everything that the
//! operating system had. Leaves to the simulation when that happens, and how much is kept.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::log::store::{Kept, LogBackend, StoreError};
use crate::record::entry_bytes;
use crate::types::{Entry, LogId, Vote};

/// One write, whole or not at all: the store's batches are.
enum Change {
    Append(Vec<Entry>),
    Truncate(u64),
    Vote(Vote),
    Purged(LogId),
    Committed(Option<LogId>),
    Forget(u64),
}

/// What a log holds.
#[derive(Default, Clone)]
struct Rows {
    kept: Kept,
    entries: BTreeMap<u64, Entry>,
}

impl Rows {
    fn apply(&mut self, change: &Change) {
        match change {
            Change::Append(entries) => {
                let rows = entries.iter().map(|entry| (entry.log_id.index, entry.clone()));
                self.entries.extend(rows);
            }
            Change::Truncate(from) => drop(self.entries.split_off(from)),
            Change::Vote(vote) => self.kept.vote = Some(*vote),
            Change::Purged(purged) => self.kept.purged = Some(*purged),
            Change::Committed(committed) => self.kept.committed = *committed,
            Change::Forget(upto) => {
                self.entries = self.entries.split_off(&upto.saturating_add(1));
            }
        }
    }
}

/// What goes wrong.
#[derive(Default)]
struct Faults {
    is_full: bool,
    is_unreadable: bool,
    fails_next_sync: bool,
}

#[derive(Default)]
struct Inner {
    /// What a reader finds.
    now: Rows,
    /// What a power cut leaves at least.
    safe: Rows,
    /// What came after it.
    journal: Vec<Change>,
    /// How much of that the operating system has.
    handed: usize,
    faults: Faults,
}

impl Inner {
    fn write(&mut self, doing: &'static str, change: Change) -> Result<(), StoreError> {
        if self.faults.is_full {
            return Err(failed(doing, "no space is left"));
        }
        self.now.apply(&change);
        self.journal.push(change);
        Ok(())
    }
}

fn failed(doing: &'static str, detail: &str) -> StoreError {
    StoreError::Failed { path: PathBuf::from("memory"), doing, detail: detail.to_owned() }
}

/// The disk of one node's log. Clones are the same disk; it outlives the node.
#[derive(Clone, Default)]
pub struct MemoryLog(Arc<Mutex<Inner>>);

impl MemoryLog {
    /// The node is gone, with a `power_cut` or by itself. `keep` is told the least and the most
    /// writes that may have survived and chooses.
    pub fn crash(&self, power_cut: bool, keep: impl FnOnce(usize, usize) -> usize) {
        let mut inner = self.0.lock();
        let most = inner.journal.len();
        let least = if power_cut { 0 } else { inner.handed.min(most) };
        let kept = keep(least, most).clamp(least, most);
        let journal = std::mem::take(&mut inner.journal);
        for change in journal.iter().take(kept) {
            inner.safe.apply(change);
        }
        inner.now = inner.safe.clone();
        inner.handed = 0;
        inner.faults.fails_next_sync = false;
    }

    /// Whether writes fail.
    pub fn set_full(&self, is_full: bool) {
        self.0.lock().faults.is_full = is_full;
    }

    /// Whether reads of what lies before the tail fail.
    pub fn set_unreadable(&self, is_unreadable: bool) {
        self.0.lock().faults.is_unreadable = is_unreadable;
    }

    /// The next sync fails, whatever it was for.
    pub(crate) fn fail_next_sync(&self) {
        self.0.lock().faults.fails_next_sync = true;
    }
}

impl LogBackend for MemoryLog {
    fn kept(&self) -> Result<Kept, StoreError> {
        Ok(self.0.lock().now.kept.clone())
    }

    fn scan(&self, visit: &mut dyn FnMut(Entry)) -> Result<(), StoreError> {
        let rows = self.0.lock().now.clone();
        let purged = rows.kept.purged.map(|id| id.index);
        let mut next = purged.map(|purged| purged.saturating_add(1));
        for (index, entry) in rows.entries {
            if Some(index) <= purged {
                continue;
            }
            if next.is_some_and(|next| next != index) {
                let detail = format!("{index} follows {next:?}");
                return Err(StoreError::Damaged { path: PathBuf::from("memory"), index, detail });
            }
            next = Some(index.saturating_add(1));
            visit(entry);
        }
        Ok(())
    }

    fn read(&self, from: u64, to: u64, bytes_max: usize) -> Result<Vec<Entry>, StoreError> {
        let inner = self.0.lock();
        if inner.faults.is_unreadable {
            return Err(failed("read", "the disk answers with an error"));
        }
        let mut found = Vec::new();
        let mut bytes = 0_usize;
        if from < to {
            for entry in inner.now.entries.range(from..to).map(|(_, entry)| entry) {
                if bytes >= bytes_max && !found.is_empty() {
                    break;
                }
                bytes = bytes.saturating_add(entry_bytes(entry));
                found.push(entry.clone());
            }
        }
        Ok(found)
    }

    fn append(&self, entries: &[Entry]) -> Result<(), StoreError> {
        self.0.lock().write("append", Change::Append(entries.to_vec()))
    }

    fn truncate_from(&self, index: u64) -> Result<(), StoreError> {
        self.0.lock().write("truncate", Change::Truncate(index))
    }

    fn put_vote(&self, vote: &Vote) -> Result<(), StoreError> {
        self.0.lock().write("write", Change::Vote(*vote))
    }

    fn put_purged(&self, purged: &LogId) -> Result<(), StoreError> {
        self.0.lock().write("write", Change::Purged(*purged))
    }

    fn put_committed(&self, committed: Option<&LogId>) -> Result<(), StoreError> {
        self.0.lock().write("write", Change::Committed(committed.copied()))
    }

    fn purge_some(&self, upto: u64) -> Result<bool, StoreError> {
        self.0.lock().write("purge", Change::Forget(upto)).map(|()| false)
    }

    fn sync(&self, hard: bool) -> Result<(), StoreError> {
        let mut inner = self.0.lock();
        if std::mem::take(&mut inner.faults.fails_next_sync) {
            return Err(failed("fdatasync", "the disk answers with an error"));
        }
        inner.handed = inner.journal.len();
        if hard {
            let journal = std::mem::take(&mut inner.journal);
            journal.iter().for_each(|change| inner.safe.apply(change));
            inner.handed = 0;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{EntryBytes, Payload, log_id};

    fn entry(index: u64) -> Entry {
        let payload = Payload::Normal(EntryBytes(bytes::Bytes::from_static(b"x")));
        Entry { log_id: log_id(1, index), payload }
    }

    fn indices(log: &MemoryLog) -> Vec<u64> {
        let mut found = Vec::new();
        log.scan(&mut |entry| found.push(entry.log_id.index)).unwrap();
        found
    }

    #[test]
    fn a_power_cut_keeps_what_was_synced_and_a_part_without_holes_of_what_was_not() {
        let log = MemoryLog::default();
        log.append(&[entry(0), entry(1)]).unwrap();
        log.sync(true).unwrap();
        log.append(&[entry(2)]).unwrap();
        log.append(&[entry(3)]).unwrap();
        log.sync(false).unwrap();
        log.append(&[entry(4)]).unwrap();
        log.crash(true, |least, most| {
            assert_eq!((least, most), (0, 3));
            1
        });
        assert_eq!(indices(&log), [0, 1, 2]);
    }

    #[test]
    fn the_death_of_the_process_keeps_what_the_system_had() {
        let log = MemoryLog::default();
        log.append(&[entry(0)]).unwrap();
        log.sync(false).unwrap();
        log.append(&[entry(1)]).unwrap();
        log.crash(false, |least, _| least);
        assert_eq!(indices(&log), [0]);
    }
}
