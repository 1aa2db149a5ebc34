//! The store behind a journal, for a log that is not synced to disk by every append.
//!
//! Guards: what `sync` has answered survives the death of the process: it is in the store or in
//! the journal. The store gets entries in larger portions and in their order; whatever else is
//! asked of it finds them there. Leaves to `journal.rs` the file, to the store what is older.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mooncake_ha_crash::{Point, reach};
use parking_lot::Mutex;

use crate::clock::{self, Nanos};
use crate::error::OpenError;
use crate::files::Disk;
use crate::log::journal::{Journal, Noted};
use crate::log::store::{Kept, LogBackend, StoreError};
use crate::record::entry_bytes;
use crate::types::{Entry, LogId, Vote};

/// How long entries are in the journal alone, at most.
pub(crate) const JOURNAL_AGE_MAX: Duration = Duration::from_secs(1);

/// What the store does not have yet.
struct Pending {
    journal: Journal,
    /// Oldest first.
    entries: Vec<Entry>,
    /// How many of them are in the journal.
    noted: usize,
    committed: Option<LogId>,
    /// Whether the journal lacks the committed id, and whether the store does.
    committed_news: bool,
    committed_owed: bool,
    /// When the oldest of them came.
    since: Option<Nanos>,
    /// Whether the store was changed and not flushed.
    is_store_dirty: bool,
}

/// See the file's head.
pub(crate) struct Ahead {
    store: Arc<dyn LogBackend>,
    pending: Mutex<Pending>,
}

/// Puts what the journal of an earlier process holds into the store, on disk; blocking.
///
/// Errors: the journal cannot be read, or the store fails.
fn recover(store: &dyn LogBackend, disk: &dyn Disk, path: &Path) -> Result<(), OpenError> {
    let Noted { entries, committed } =
        Journal::read(disk, path).map_err(OpenError::io("read", path))?;
    if entries.is_empty() && committed.is_none() {
        return Ok(());
    }
    let mut last = store.kept()?.purged;
    store.scan(&mut |entry| last = Some(entry.log_id))?;
    let fresh = following(entries, last, path);
    let last = fresh.last().map(|entry| entry.log_id).or(last);
    if !fresh.is_empty() {
        tracing::info!("{} entries come from {}", fresh.len(), path.display());
        store.append(&fresh)?;
    }
    // The id may be older than the store's, if the journal's newest records are lost.
    let known = store.kept()?.committed;
    if committed > known && committed <= last {
        store.put_committed(committed.as_ref())?;
    }
    Ok(store.sync(true)?)
}

/// Those that follow the store's newest entry, or purged one. After a power cut either side may
/// lack its end; what does not fit is dropped, for then the newest entries may be gone.
fn following(entries: Vec<Entry>, last: Option<LogId>, path: &Path) -> Vec<Entry> {
    let mut next = last.map_or(0, |last| last.index.saturating_add(1));
    let mut fresh: Vec<Entry> = Vec::new();
    for entry in entries {
        let id = entry.log_id;
        let is_known = last.is_some_and(|last| id.index <= last.index);
        let is_foreign = last.is_some_and(|last| id.index == last.index && id != last);
        if is_foreign || (!is_known && id.index != next) {
            tracing::warn!(
                "{}: entry {} does not follow the log, which ends before {next}; it and what \
                 comes after it is dropped, as after a power cut",
                path.display(),
                id.index
            );
            break;
        }
        if !is_known {
            next = next.saturating_add(1);
            fresh.push(entry);
        }
    }
    fresh
}

/// Puts what a journal holds into the store, and returns the store behind a new journal, or with
/// `is_synced` the store alone; blocking.
pub(crate) fn open(
    store: Arc<dyn LogBackend>,
    disk: &dyn Disk,
    path: &Path,
    is_synced: bool,
) -> Result<Arc<dyn LogBackend>, OpenError> {
    recover(&*store, disk, path)?;
    if is_synced {
        Journal::remove(disk, path).map_err(OpenError::io("remove", path))?;
        return Ok(store);
    }
    let journal = Journal::create(disk, path).map_err(OpenError::io("create", path))?;
    let pending = Pending {
        journal,
        entries: Vec::new(),
        noted: 0,
        committed: None,
        committed_news: false,
        committed_owed: false,
        since: None,
        is_store_dirty: false,
    };
    Ok(Arc::new(Ahead { store, pending: Mutex::new(pending) }))
}

impl Pending {
    fn failed(&self, error: &std::io::Error) -> StoreError {
        let path = self.journal.path().to_owned();
        StoreError::Failed { path, doing: "write the journal", detail: error.to_string() }
    }

    /// Entries that the journal lacks.
    fn news(&self) -> &[Entry] {
        self.entries.get(self.noted..).unwrap_or_default()
    }

    fn is_due(&self) -> bool {
        let limit = u64::try_from(JOURNAL_AGE_MAX.as_nanos()).unwrap_or(u64::MAX);
        let is_old = |since| clock::boot_ns().saturating_sub(since) >= limit;
        let bytes = self.news().iter().map(entry_bytes).fold(0, usize::saturating_add);
        self.since.is_some_and(is_old) || !self.journal.has_room_for(bytes)
    }

    /// Hands the operating system what is new.
    fn note(&mut self) -> Result<(), StoreError> {
        if self.news().is_empty() && !self.committed_news {
            return Ok(());
        }
        let news = self.entries.get(self.noted..).unwrap_or_default();
        reach(Point::JournalBegins);
        let noted = self.journal.note(news, self.committed);
        noted.map_err(|e| self.failed(&e))?;
        self.noted = self.entries.len();
        self.committed_news = false;
        reach(Point::JournalNoted);
        Ok(())
    }
}

impl Ahead {
    /// Gives the store everything and has it write that.
    fn settle_all(&self, hard: bool) -> Result<(), StoreError> {
        let (entries, committed) = {
            let pending = self.pending.lock();
            (pending.entries.clone(), pending.committed_owed.then_some(pending.committed))
        };
        if !entries.is_empty() {
            self.store.append(&entries)?;
        }
        if let Some(committed) = committed {
            self.store.put_committed(committed.as_ref())?;
        }
        // A reader finds the entries here until they are there.
        self.store.sync(hard)?;
        reach(Point::JournalSettled);
        let mut pending = self.pending.lock();
        pending.entries = Vec::new();
        pending.noted = 0;
        pending.committed_news = false;
        pending.committed_owed = false;
        pending.since = None;
        pending.is_store_dirty = false;
        pending.journal.turn();
        Ok(())
    }

    /// As [`Ahead::settle_all`], if there is anything.
    fn settle_some(&self) -> Result<(), StoreError> {
        match self.has_backlog() {
            true => self.settle_all(false),
            false => Ok(()),
        }
    }

    fn dirty(&self) {
        self.pending.lock().is_store_dirty = true;
    }
}

impl LogBackend for Ahead {
    fn kept(&self) -> Result<Kept, StoreError> {
        self.store.kept()
    }

    fn scan(&self, visit: &mut dyn FnMut(Entry)) -> Result<(), StoreError> {
        self.settle_some()?;
        self.store.scan(visit)
    }

    fn read(&self, from: u64, to: u64, bytes_max: usize) -> Result<Vec<Entry>, StoreError> {
        let first = {
            let pending = self.pending.lock();
            let first = pending.entries.first().map(|entry| entry.log_id.index);
            if let Some(first) = first
                && first <= from
            {
                return Ok(some_of(&pending.entries, first, from, to, bytes_max));
            }
            first
        };
        self.store.read(from, first.map_or(to, |first| first.min(to)), bytes_max)
    }

    fn append(&self, entries: &[Entry]) -> Result<(), StoreError> {
        reach(Point::LogAppendBegins);
        let mut pending = self.pending.lock();
        pending.since.get_or_insert_with(clock::boot_ns);
        pending.entries.extend_from_slice(entries);
        Ok(())
    }

    fn truncate_from(&self, index: u64) -> Result<(), StoreError> {
        self.settle_some()?;
        {
            let mut pending = self.pending.lock();
            let forgotten = pending.journal.forget();
            forgotten.map_err(|e| pending.failed(&e))?;
            pending.is_store_dirty = true;
        }
        self.store.truncate_from(index)
    }

    fn put_vote(&self, vote: &Vote) -> Result<(), StoreError> {
        self.settle_some()?;
        self.dirty();
        self.store.put_vote(vote)
    }

    fn put_purged(&self, purged: &LogId) -> Result<(), StoreError> {
        self.settle_some()?;
        self.dirty();
        self.store.put_purged(purged)
    }

    fn put_committed(&self, committed: Option<&LogId>) -> Result<(), StoreError> {
        let mut pending = self.pending.lock();
        pending.committed = committed.copied();
        pending.committed_news = true;
        pending.committed_owed = true;
        Ok(())
    }

    fn purge_some(&self, upto: u64) -> Result<bool, StoreError> {
        self.dirty();
        self.store.purge_some(upto)
    }

    fn sync(&self, hard: bool) -> Result<(), StoreError> {
        {
            let mut pending = self.pending.lock();
            if !hard && !pending.is_due() {
                pending.note()?;
                if !std::mem::take(&mut pending.is_store_dirty) {
                    return Ok(());
                }
                drop(pending);
                return self.store.sync(false);
            }
        }
        self.settle_all(hard)
    }

    fn has_backlog(&self) -> bool {
        let pending = self.pending.lock();
        !pending.entries.is_empty() || pending.committed_owed
    }

    fn settle(&self) -> Result<(), StoreError> {
        self.settle_some()
    }
}

/// Entries of `[from, to)`, until about `bytes_max`; at least one if there is any. `first` is the
/// index of the first one.
fn some_of(entries: &[Entry], first: u64, from: u64, to: u64, bytes_max: usize) -> Vec<Entry> {
    let skip = usize::try_from(from.saturating_sub(first)).unwrap_or(usize::MAX);
    let mut found: Vec<Entry> = Vec::new();
    let mut bytes = 0_usize;
    for entry in entries.iter().skip(skip) {
        if entry.log_id.index >= to || (bytes >= bytes_max && !found.is_empty()) {
            break;
        }
        bytes = bytes.saturating_add(entry_bytes(entry));
        found.push(entry.clone());
    }
    found
}

#[cfg(test)]
mod tests;
