//! The log on disk: the trait that the writer thread drives, and its sled form.
//!
//! Guards the five rules that make sled safe for a log (docs/raft.md has the measurements):
//! an own fdatasync after every flush, rows of at most 3 KiB, one writer, index files (`snap.*`)
//! that may be damaged and are then rebuilt, big-endian keys.
//! Leaves to `writer.rs` the order and grouping of writes.

use std::fs::File;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use mooncake_ha_crash::{Point, reach, syncing};
use parking_lot::{Mutex, RwLock};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::dir::sync_parent;
use crate::error::OpenError;
use crate::log::row::{self, Assembler, GROUP_BYTES_MAX, ROW_HEAD_BYTES};
use crate::record::{self, LogIdRecord, VoteRecord, encode_entry, log_id_record};
use crate::types::{Entry, LogId, Vote};

/// Rows deleted between two flushes when purging: more would stall the writer noticeably.
pub(crate) const PURGE_ROWS_MAX: usize = 256;

/// Why the store failed. There is no temporary failure: the node stops.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum StoreError {
    /// Stored bytes are not what was written.
    #[error(
        "raft log {path}: damaged at index {index}: {detail}; this node has stopped, {}",
        crate::error::REMEDY
    )]
    Damaged { path: PathBuf, index: u64, detail: String },
    /// The file system or the store refused.
    #[error(
        "raft log {path}: {doing} failed: {detail}; this node has stopped, check free space and \
         the disk, then start it again"
    )]
    Failed { path: PathBuf, doing: &'static str, detail: String },
}

impl From<StoreError> for std::io::Error {
    fn from(error: StoreError) -> Self {
        std::io::Error::other(error)
    }
}

impl From<StoreError> for OpenError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Damaged { path, index, detail } => {
                OpenError::damaged("raft log", path, format!("at index {index}: {detail}"))
            }
            StoreError::Failed { path, doing, detail } => {
                let source = std::io::Error::other(detail);
                OpenError::Io { what: doing, path, why: source }
            }
        }
    }
}

/// What is kept beside the entries.
#[derive(Debug, Clone, Default)]
pub(crate) struct Kept {
    pub(crate) vote: Option<Vote>,
    pub(crate) purged: Option<LogId>,
    pub(crate) committed: Option<LogId>,
}

/// A place for the log. Writes come from one thread, in order; reads from any.
///
/// A segment file could replace sled behind this trait without touching anything else.
pub(crate) trait LogBackend: Send + Sync + 'static {
    /// Vote, purged and committed as last written.
    fn kept(&self) -> Result<Kept, StoreError>;
    /// Walks all entries after `purged`, oldest first.
    fn scan(&self, visit: &mut dyn FnMut(Entry)) -> Result<(), StoreError>;
    /// Entries of `[from, to)`, oldest first, until about `bytes_max`; at least one if there is.
    fn read(&self, from: u64, to: u64, bytes_max: usize) -> Result<Vec<Entry>, StoreError>;
    /// Adds entries that follow the newest one.
    fn append(&self, entries: &[Entry]) -> Result<(), StoreError>;
    /// Drops all entries from `index` on.
    fn truncate_from(&self, index: u64) -> Result<(), StoreError>;
    /// Keeps the vote.
    fn put_vote(&self, vote: &Vote) -> Result<(), StoreError>;
    /// Keeps how far the log is purged; the entries go later, see `purge_some`.
    fn put_purged(&self, purged: &LogId) -> Result<(), StoreError>;
    /// Keeps how far the log is committed.
    fn put_committed(&self, committed: Option<&LogId>) -> Result<(), StoreError>;
    /// Deletes a few rows of purged entries; true if there are more.
    fn purge_some(&self, upto: u64) -> Result<bool, StoreError>;
    /// Hands everything written to the operating system, and with `hard` to the disk.
    fn sync(&self, hard: bool) -> Result<(), StoreError>;
    /// Whether some of what `sync` was told of waits for [`LogBackend::settle`].
    fn has_backlog(&self) -> bool {
        false
    }
    /// Does what `sync` has put off.
    fn settle(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

const VOTE: &[u8] = b"vote";
const PURGED: &[u8] = b"purged";
const COMMITTED: &[u8] = b"committed";

/// The log in sled: tree `log` for rows, tree `meta` for the rest.
pub(crate) struct SledLog {
    path: PathBuf,
    db: sled::Db,
    log: sled::Tree,
    meta: sled::Tree,
    /// Held by whoever walks rows, and exclusively by whoever rewrites or deletes them: a walk is
    /// many steps, between which sled lets a batch through, and a group of which one half is old
    /// and the other half is gone looks like no group at all.
    rows: RwLock<()>,
    /// Where a group is put together; kept, because memory of its size is costly to come by.
    group: Mutex<Vec<u8>>,
    /// A second handle on sled's file. sled's flush is `sync_file_range`, which reaches neither
    /// the disk's cache nor the file's metadata; fdatasync acts on the inode, whoever wrote.
    file: File,
}

impl SledLog {
    /// Opens or creates the log in `path`.
    pub(crate) fn open(path: &Path, cache_bytes: u64) -> Result<Self, OpenError> {
        let db = match open_once(path, cache_bytes) {
            Ok(db) => db,
            Err(first) => {
                // The index files only speed up opening; sled writes them unsynced and then
                // refuses to open when they are torn.
                if !set_index_aside(path)? {
                    return Err(first.into_open_error(path));
                }
                tracing::warn!(
                    path = %path.display(),
                    reason = %first.text(),
                    "raft log did not open; its index files are set aside, trying once more"
                );
                open_once(path, cache_bytes).map_err(|e| e.into_open_error(path))?
            }
        };
        let tree =
            |name: &str| db.open_tree(name).map_err(|e| OpenFailure::from(e).into_open_error(path));
        let (log, meta) = (tree("log")?, tree("meta")?);
        let file_path = path.join("db");
        let file = File::open(&file_path).map_err(OpenError::io("open", &file_path))?;
        reach(Point::LogCreated);
        syncing(&file_path, || file.sync_all()).map_err(OpenError::io("sync", &file_path))?;
        sync_parent(&file_path).map_err(OpenError::io("sync directory of", &file_path))?;
        sync_parent(path).map_err(OpenError::io("sync directory of", path))?;
        reach(Point::LogCreatedSynced);
        Ok(Self {
            path: path.to_owned(),
            db,
            log,
            meta,
            rows: RwLock::new(()),
            group: Mutex::default(),
            file,
        })
    }

    /// Directory into which sled puts overlong pages, unsynced; stays empty.
    pub(crate) fn blobs_dir(path: &Path) -> PathBuf {
        path.join("blobs")
    }

    fn failed(&self, doing: &'static str) -> impl FnOnce(sled::Error) -> StoreError + use<'_> {
        move |e| match e {
            sled::Error::Corruption { .. } => self.damaged(0)(e),
            other => {
                StoreError::Failed { path: self.path.clone(), doing, detail: other.to_string() }
            }
        }
    }

    fn damaged<E: ToString>(&self, index: u64) -> impl FnOnce(E) -> StoreError + use<'_, E> {
        move |e| StoreError::Damaged { path: self.path.clone(), index, detail: e.to_string() }
    }

    fn get<T: DeserializeOwned>(&self, name: &[u8]) -> Result<Option<T>, StoreError> {
        let Some(bytes) = self.meta.get(name).map_err(self.failed("read"))? else {
            return Ok(None);
        };
        record::open(&bytes).map(Some).map_err(self.damaged(0))
    }

    fn put<T: Serialize>(&self, name: &[u8], value: &T) -> Result<(), StoreError> {
        let bytes = record::seal(value).map_err(self.damaged(0))?;
        self.meta.insert(name, bytes).map_err(self.failed("write"))?;
        Ok(())
    }

    /// First index of the group that holds `index` or ends before it.
    fn group_of(&self, index: u64) -> Result<Option<u64>, StoreError> {
        match self.log.range(..=row::key(index, u16::MAX)).next_back() {
            None => Ok(None),
            Some(Err(e)) => Err(self.failed("read")(e)),
            Some(Ok((key, _))) => {
                let (first, _) = row::parse_key(&key).map_err(self.damaged(index))?;
                Ok(Some(first))
            }
        }
    }

    /// [`LogBackend::read`] for who holds `rows`.
    fn walk(&self, from: u64, to: u64, bytes_max: usize) -> Result<Vec<Entry>, StoreError> {
        if from >= to {
            return Ok(Vec::new());
        }
        let Some(first) = self.group_of(from)? else { return Ok(Vec::new()) };
        let mut assembler = Assembler::default();
        let mut found = Vec::new();
        let mut bytes = 0_usize;
        let range = (Bound::Included(row::key(first, 0)), Bound::Excluded(row::key(to, 0)));
        for row in self.log.range::<row::Key, _>(range).skip_while(is_headless) {
            let (key, value) = row.map_err(self.failed("read"))?;
            let Some((_, entries)) = assembler.push(&key, &value).map_err(self.damaged(from))?
            else {
                continue;
            };
            for entry in entries {
                let index = entry.log_id.index;
                if index < from {
                    continue;
                }
                if index >= to || (bytes >= bytes_max && !found.is_empty()) {
                    return Ok(found);
                }
                bytes = bytes.saturating_add(record::entry_bytes(&entry));
                found.push(entry);
            }
        }
        assembler.finish().map_err(self.damaged(from))?;
        Ok(found)
    }

    fn purged(&self) -> Result<Option<u64>, StoreError> {
        Ok(self.kept()?.purged.map(|id| id.index))
    }

    fn stage(&self, batch: &mut sled::Batch, first: u64, group: &[u8]) -> Result<(), StoreError> {
        for (key, value) in row::rows(first, group).map_err(self.damaged(first))? {
            batch.insert(&key, value);
        }
        Ok(())
    }

    fn stage_entries(&self, batch: &mut sled::Batch, entries: &[Entry]) -> Result<(), StoreError> {
        let mut group = self.group.lock();
        group.clear();
        let mut first = None;
        for entry in entries {
            let index = entry.log_id.index;
            let start = *first.get_or_insert(index);
            encode_entry(entry, &mut group).map_err(self.damaged(index))?;
            if group.len() >= GROUP_BYTES_MAX {
                self.stage(batch, start, &group)?;
                group.clear();
                first = None;
            }
        }
        let staged = first.map_or(Ok(()), |first| self.stage(batch, first, &group));
        group.clear();
        group.shrink_to(2 * GROUP_BYTES_MAX);
        staged
    }
}

impl LogBackend for SledLog {
    fn kept(&self) -> Result<Kept, StoreError> {
        Ok(Kept {
            vote: self.get::<VoteRecord>(VOTE)?.map(Vote::from),
            purged: self.get::<LogIdRecord>(PURGED)?.map(LogId::from),
            committed: self.get::<Option<LogIdRecord>>(COMMITTED)?.flatten().map(LogId::from),
        })
    }

    fn scan(&self, visit: &mut dyn FnMut(Entry)) -> Result<(), StoreError> {
        let purged = self.purged()?;
        // Rows before that are on their way out.
        let begin = purged.map_or(0, |purged| purged.saturating_add(1));
        let begin = self.group_of(begin)?.unwrap_or(0);
        let mut assembler = Assembler::default();
        let mut next = None;
        for row in self.log.range(row::key(begin, 0)..).skip_while(is_headless) {
            let (key, value) = row.map_err(self.failed("read"))?;
            let at = row::parse_key(&key).map_or(0, |(first, _)| first);
            let Some((_, entries)) = assembler.push(&key, &value).map_err(self.damaged(at))? else {
                continue;
            };
            for entry in entries {
                let index = entry.log_id.index;
                if Some(index) <= purged {
                    continue;
                }
                let want = next.unwrap_or_else(|| purged.map_or(index, |p| p.saturating_add(1)));
                if index != want {
                    let detail = format!("entry {want} is missing, {index} follows");
                    return Err(self.damaged(want)(detail));
                }
                next = Some(index.saturating_add(1));
                visit(entry);
            }
        }
        assembler.finish().map_err(self.damaged(next.unwrap_or(0)))
    }

    fn read(&self, from: u64, to: u64, bytes_max: usize) -> Result<Vec<Entry>, StoreError> {
        let _walk = self.rows.read();
        self.walk(from, to, bytes_max)
    }

    fn append(&self, entries: &[Entry]) -> Result<(), StoreError> {
        let mut batch = sled::Batch::default();
        self.stage_entries(&mut batch, entries)?;
        reach(Point::LogAppendBegins);
        self.log.apply_batch(batch).map_err(self.failed("append"))?;
        reach(Point::LogAppended);
        Ok(())
    }

    fn truncate_from(&self, index: u64) -> Result<(), StoreError> {
        let _rewrite = self.rows.write();
        let mut batch = sled::Batch::default();
        let start = match self.group_of(index)? {
            Some(first) if first < index => first,
            _ => index,
        };
        // The group that `index` lies in is written anew without its end, in the same batch;
        // unless all that is left of it is purged.
        let any_left = index.checked_sub(1) > self.purged()?;
        let kept = if any_left { self.walk(start, index, usize::MAX)? } else { Vec::new() };
        for row in self.log.range(row::key(start, 0)..) {
            let (key, value) = row.map_err(self.failed("truncate"))?;
            debug_assert!(value.len() >= ROW_HEAD_BYTES);
            batch.remove(key);
        }
        self.stage_entries(&mut batch, &kept)?;
        self.log.apply_batch(batch).map_err(self.failed("truncate"))?;
        reach(Point::Truncated);
        Ok(())
    }

    fn put_vote(&self, vote: &Vote) -> Result<(), StoreError> {
        reach(Point::VoteBegins);
        self.put(VOTE, &VoteRecord::from(vote))?;
        reach(Point::VoteWritten);
        Ok(())
    }

    fn put_purged(&self, purged: &LogId) -> Result<(), StoreError> {
        reach(Point::PurgeBegins);
        self.put(PURGED, &LogIdRecord::from(purged))?;
        reach(Point::PurgeWritten);
        Ok(())
    }

    fn put_committed(&self, committed: Option<&LogId>) -> Result<(), StoreError> {
        self.put(COMMITTED, &log_id_record(committed))?;
        reach(Point::LogCommittedWritten);
        Ok(())
    }

    fn purge_some(&self, upto: u64) -> Result<bool, StoreError> {
        let _delete = self.rows.write();
        // The group that holds the first kept entry stays whole.
        let Some(keep) = self.group_of(upto.saturating_add(1))? else { return Ok(false) };
        let mut batch = sled::Batch::default();
        let mut count = 0;
        for row in self.log.range(..row::key(keep, 0)).take(PURGE_ROWS_MAX) {
            let (key, _) = row.map_err(self.failed("purge"))?;
            batch.remove(key);
            count += 1;
        }
        if count == 0 {
            return self.purge_last_group(keep, upto);
        }
        self.log.apply_batch(batch).map_err(self.failed("purge"))?;
        reach(Point::PurgeRowsDeleted);
        Ok(true)
    }

    fn sync(&self, hard: bool) -> Result<(), StoreError> {
        reach(Point::LogFlushBegins);
        self.db.flush().map_err(self.failed("flush"))?;
        reach(Point::LogFlushed);
        if hard {
            let synced = syncing(&self.path.join("db"), || self.file.sync_data());
            synced.map_err(|e| StoreError::Failed {
                path: self.path.clone(),
                doing: "fdatasync",
                detail: e.to_string(),
            })?;
            reach(Point::LogSynced);
        }
        Ok(())
    }
}

impl SledLog {
    /// Deletes the one group left before the purge point if all of it is purged, as happens when
    /// a raft snapshot overtakes the log. The caller holds `rows`.
    fn purge_last_group(&self, first: u64, upto: u64) -> Result<bool, StoreError> {
        if first > upto || !self.walk(upto.saturating_add(1), u64::MAX, 1)?.is_empty() {
            return Ok(false);
        }
        let mut batch = sled::Batch::default();
        for row in self.log.range(row::key(first, 0)..=row::key(first, u16::MAX)) {
            let (key, _) = row.map_err(self.failed("purge"))?;
            batch.remove(key);
        }
        self.log.apply_batch(batch).map_err(self.failed("purge"))?;
        Ok(false)
    }
}

/// Whether the first row of a group is gone: a purge, which deletes in the order of keys, may have
/// stopped in the midst of it. If it was damage, an entry will be missing.
fn is_headless(row: &sled::Result<(sled::IVec, sled::IVec)>) -> bool {
    row.as_ref().is_ok_and(|(key, _)| row::parse_key(key).is_ok_and(|(_, part)| part > 0))
}

/// Why sled did not open: an error, or a panic, which its recovery is prone to.
enum OpenFailure {
    Error(sled::Error),
    Panic(String),
}

impl From<sled::Error> for OpenFailure {
    fn from(error: sled::Error) -> Self {
        Self::Error(error)
    }
}

impl OpenFailure {
    fn text(&self) -> String {
        match self {
            Self::Error(e) => e.to_string(),
            Self::Panic(text) => text.clone(),
        }
    }

    fn into_open_error(self, path: &Path) -> OpenError {
        match self {
            Self::Error(sled::Error::Io(source)) => {
                OpenError::Io { what: "open raft log in", path: path.to_owned(), why: source }
            }
            other => OpenError::damaged("raft log", path, other.text()),
        }
    }
}

fn open_once(path: &Path, cache_bytes: u64) -> Result<sled::Db, OpenFailure> {
    let config = sled::Config::new()
        .path(path)
        .mode(sled::Mode::HighThroughput)
        .flush_every_ms(None)
        .cache_capacity(cache_bytes);
    match catch_unwind(AssertUnwindSafe(|| config.open())) {
        Ok(result) => Ok(result?),
        Err(panic) => Err(OpenFailure::Panic(panic_text(panic.as_ref()))),
    }
}

/// Waits until nobody has the log open; blocking. sled's own threads hold its file for a moment
/// after the last handle is gone, and whoever opened the directory meanwhile would be refused.
pub(crate) fn wait_until_free(path: &Path) -> std::io::Result<()> {
    match File::open(path.join("db")) {
        // sled locks its file just so; ours is another handle, free again when it is closed.
        Ok(file) => file.lock(),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(e),
    }
}

/// What a caught panic said.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("panic: {}", text.unwrap_or_else(|| "without a message".to_owned()))
}

/// Renames sled's index files; true if there was any.
fn set_index_aside(path: &Path) -> Result<bool, OpenError> {
    let mut any = false;
    let Ok(entries) = std::fs::read_dir(path) else { return Ok(false) };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        if name.starts_with("snap.") {
            let aside = path.join(format!("aside-{name}"));
            std::fs::rename(entry.path(), &aside).map_err(OpenError::io("rename", entry.path()))?;
            any = true;
        }
    }
    Ok(any)
}

#[cfg(test)]
mod tests;
