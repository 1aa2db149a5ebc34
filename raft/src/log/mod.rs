//! The log as openraft wants it: append now, be told later, read at any time.
//!
//! Guards: what was appended is readable at once and on disk before it is acknowledged; vote and
//! entries keep their order; a read beyond the tail goes to the store on a blocking thread, never
//! on a runtime worker. Leaves to `writer.rs` the writing, to `store.rs` the bytes on disk.

pub(crate) mod ahead;
pub(crate) mod journal;
pub(crate) mod mark;
pub(crate) mod memory;
pub(crate) mod paced;
pub(crate) mod row;
pub(crate) mod store;
pub(crate) mod tail;
pub(crate) mod writer;

use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use futures_util::Stream;
use openraft::storage::{LogState, RaftLogReader, RaftLogStorage};
use parking_lot::{Mutex, RwLock};
use tokio::sync::{oneshot, watch};

use crate::config::{Config, Durability};
use crate::error::OpenError;
use crate::log::mark::Mark;
use crate::log::store::{Kept, LogBackend, SledLog, StoreError};
use crate::log::tail::Tail;
use crate::log::writer::{Op, Queue};
use crate::types::{Entry, Flushed, LogId, TypeConfig, Vote};
use crate::world::World;

/// Bytes of entries in one read for replication or replay.
const READ_BYTES_MAX: usize = 1 << 20;
/// Entries in one such read.
const READ_ENTRIES_MAX: u64 = 4096;
/// How long a stopped log waits until the store has let go of its file.
const RELEASE_MAX: Duration = Duration::from_secs(10);

/// The committed id, and whether the store lacks it.
#[derive(Default)]
pub(crate) struct Committed {
    pub(crate) id: Option<LogId>,
    pub(crate) dirty: bool,
}

/// What the log's readers and its writer thread share.
pub(crate) struct Shared {
    pub(crate) path: PathBuf,
    store: RwLock<Option<Arc<dyn LogBackend>>>,
    pub(crate) tail: Mutex<Tail>,
    pub(crate) vote: Mutex<Option<Vote>>,
    pub(crate) committed: Mutex<Committed>,
    fatal: watch::Sender<Option<String>>,
    world: World,
}

impl Shared {
    /// The store, until the log is stopped.
    pub(crate) fn store(&self) -> Result<Arc<dyn LogBackend>, StoreError> {
        self.store.read().clone().ok_or_else(|| StoreError::Failed {
            path: self.path.clone(),
            doing: "use after stop",
            detail: "the node is stopping".to_owned(),
        })
    }

    /// Notes the first reason why the node must stop.
    pub(crate) fn fail(&self, reason: String) {
        self.fatal.send_if_modified(|fatal| {
            let first = fatal.is_none();
            if first {
                *fatal = Some(reason);
            }
            first
        });
    }
}

/// The log of one node. Cheap to clone; the writer thread ends with [`LogStore::stop`].
#[derive(Clone)]
pub(crate) struct LogStore {
    shared: Arc<Shared>,
    queue: Queue,
    thread: Arc<Mutex<Option<JoinHandle<()>>>>,
}

impl LogStore {
    /// Opens the sled log of a node, and what stands beside it; blocking.
    pub(crate) fn open(
        path: &Path,
        mark: &Path,
        journal: &Path,
        config: &Config,
        fatal: watch::Sender<Option<String>>,
    ) -> Result<Self, OpenError> {
        let mark = Mark::open(&*config.world.disk(), mark)?;
        let store: Arc<dyn LogBackend> = match config.world.simulation() {
            None => Arc::new(SledLog::open(path, config.store_cache_bytes)?),
            Some(simulation) => Arc::new(simulation.log()),
        };
        let is_synced = config.durability == Durability::Sync;
        let store = ahead::open(store, &*config.world.disk(), journal, is_synced)?;
        Self::with_store(path, store, mark, config, fatal)
    }

    /// Reads and checks a log, then starts its writer; blocking.
    pub(crate) fn with_store(
        path: &Path,
        store: Arc<dyn LogBackend>,
        mark: Mark,
        config: &Config,
        fatal: watch::Sender<Option<String>>,
    ) -> Result<Self, OpenError> {
        let Kept { vote, purged, committed } = store.kept()?;
        let mut tail = Tail::new(config.log_cache_bytes);
        if let Some(purged) = purged {
            tail.purge_to(purged);
        }
        store.scan(&mut |entry| {
            let index = entry.log_id.index;
            tail.push(entry);
            tail.stored_to(index);
        })?;
        check_reach(&mark, &tail, vote.as_ref())?;
        // Without a disk sync of appends a power cut may take entries but leave the id.
        let committed = committed.min(tail.last());
        let shared = Arc::new(Shared {
            path: path.to_owned(),
            store: RwLock::new(Some(store)),
            tail: Mutex::new(tail),
            vote: Mutex::new(vote),
            committed: Mutex::new(Committed { id: committed, dirty: false }),
            fatal,
            world: config.world.clone(),
        });
        let (queue, thread) = writer::spawn(Arc::clone(&shared), mark, config.durability)
            .map_err(OpenError::io("start the writer of", path))?;
        Ok(Self { shared, queue, thread: Arc::new(Mutex::new(thread)) })
    }

    /// Vote as last saved.
    pub(crate) fn vote(&self) -> Option<Vote> {
        *self.shared.vote.lock()
    }

    /// Committed id as last known here.
    pub(crate) fn committed(&self) -> Option<LogId> {
        self.shared.committed.lock().id
    }

    /// Everything up to here is purged.
    pub(crate) fn purged(&self) -> Option<LogId> {
        self.shared.tail.lock().purged()
    }

    /// Newest entry.
    pub(crate) fn last(&self) -> Option<LogId> {
        self.shared.tail.lock().last()
    }

    /// Bytes of entries that are not purged.
    pub(crate) fn log_bytes(&self) -> u64 {
        self.shared.tail.lock().log_bytes()
    }

    /// Bytes of entries after `index`.
    pub(crate) fn bytes_after(&self, index: Option<u64>) -> u64 {
        self.shared.tail.lock().bytes_after(index)
    }

    /// Largest index to purge so that about `keep_bytes` stay.
    pub(crate) fn purge_point(&self, keep_bytes: u64) -> Option<u64> {
        self.shared.tail.lock().purge_point(keep_bytes)
    }

    /// Writes what is queued, syncs, and ends the writer thread.
    pub(crate) async fn stop(&self) -> Result<(), StoreError> {
        let (done, stopped) = oneshot::channel();
        if !self.queue.send(Op::Stop { done }) {
            return Ok(());
        }
        let result = stopped.await.unwrap_or(Ok(()));
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            // The thread has answered, so this is a moment; its panics are caught inside.
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
        // Closes the store even if somebody still holds this log, so that the directory is free.
        let store = self.shared.store.write().take();
        let path = self.shared.path.clone();
        let released = self.shared.world.blocking(move || {
            drop(store);
            store::wait_until_free(&path)
        });
        match tokio::time::timeout(RELEASE_MAX, released).await {
            Ok(Ok(Err(e))) => tracing::warn!("raft log {}: {e}", self.shared.path.display()),
            Err(_) => tracing::warn!(
                "raft log {} is still in use {RELEASE_MAX:?} after its stop",
                self.shared.path.display()
            ),
            Ok(_) => {}
        }
        result
    }

    fn send(&self, op: Op) -> io::Result<()> {
        match self.queue.send(op) {
            true => Ok(()),
            false => Err(io::Error::other("the raft log's writer has stopped")),
        }
    }

    /// Entries of `[from, to)`, oldest first, until about `bytes_max`; blocking.
    pub(crate) fn read_blocking(
        &self,
        from: u64,
        to: u64,
        bytes_max: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        let to = match self.read_tail(from, to, bytes_max) {
            Found::Here(found) => return Ok(found),
            Found::Store { to } => to,
        };
        match self.shared.store()?.read(from, to, bytes_max) {
            Ok(found) if found.first().is_none_or(|entry| entry.log_id.index == from) => Ok(found),
            // What was purged meanwhile may be half gone, and nobody needs it any more.
            _ if Some(from) <= self.purged().map(|id| id.index) => Ok(Vec::new()),
            Ok(_) => Err(self.lost(from)),
            Err(error) => {
                self.shared.fail(error.to_string());
                Err(error)
            }
        }
    }

    fn lost(&self, index: u64) -> StoreError {
        let detail = "the entry is missing, later ones follow".to_owned();
        let error = StoreError::Damaged { path: self.shared.path.clone(), index, detail };
        self.shared.fail(error.to_string());
        error
    }

    /// Reads from memory, or says up to where the store may be asked: what memory holds, or has
    /// truncated, may still be something else in the store.
    fn read_tail(&self, from: u64, to: u64, bytes_max: usize) -> Found {
        let tail = self.shared.tail.lock();
        let Some(last) = tail.last() else { return Found::Here(Vec::new()) };
        let to = to.min(last.index.saturating_add(1));
        if from >= to || tail.begin().is_none() {
            return Found::Here(Vec::new());
        }
        match tail.first_index() {
            Some(first) if first <= from => Found::Here(tail.read(from, to, bytes_max)),
            Some(first) => Found::Store { to: to.min(first) },
            None => Found::Store { to },
        }
    }

    async fn read(&self, from: u64, to: u64, bytes_max: usize) -> io::Result<Vec<Entry>> {
        if let Found::Here(found) = self.read_tail(from, to, bytes_max) {
            return Ok(found);
        }
        let this = self.clone();
        let read = move || this.read_blocking(from, to, bytes_max);
        Ok(self.shared.world.blocking(read).await.map_err(io::Error::other)??)
    }
}

/// Checks that nothing is missing at the end of the log, where sled would not notice.
fn check_reach(mark: &Mark, tail: &Tail, vote: Option<&Vote>) -> Result<(), OpenError> {
    let least = mark.least();
    let next = tail.last().map_or(0, |last| last.index.saturating_add(1));
    let term = vote.map_or(0, |vote| vote.leader_id.term);
    if next < least.next || term < least.term {
        let detail = format!(
            "the log ends before index {next} in term {term}, but it was on disk up to index {} \
             in term {}",
            least.next, least.term
        );
        return Err(OpenError::damaged("end of the raft log", mark.path(), detail));
    }
    Ok(())
}

/// Where entries are.
enum Found {
    Here(Vec<Entry>),
    Store { to: u64 },
}

/// A range as `[from, to)`.
fn half_open(range: &impl RangeBounds<u64>) -> (u64, u64) {
    let from = match range.start_bound() {
        Bound::Included(from) => *from,
        Bound::Excluded(from) => from.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let to = match range.end_bound() {
        Bound::Included(to) => to.saturating_add(1),
        Bound::Excluded(to) => *to,
        Bound::Unbounded => u64::MAX,
    };
    (from, to)
}

impl RaftLogReader<TypeConfig> for LogStore {
    async fn entries_stream<RB>(
        &mut self,
        range: RB,
    ) -> impl Stream<Item = Result<Entry, io::Error>> + Send
    where
        RB: RangeBounds<u64> + Clone + Debug + Send,
    {
        // In pieces: after a restart this may be the whole log.
        let (from, to) = half_open(&range);
        let start = (self.clone(), from, Vec::new().into_iter());
        futures_util::stream::unfold(Some(start), move |state| async move {
            let (log, mut next, mut piece) = state?;
            if let Some(entry) = piece.next() {
                return Some((Ok(entry), Some((log, next, piece))));
            }
            let end = to.min(next.saturating_add(READ_ENTRIES_MAX));
            match log.read(next, end, READ_BYTES_MAX).await {
                Ok(found) => {
                    next = next.saturating_add(found.len() as u64);
                    piece = found.into_iter();
                    let entry = piece.next()?;
                    Some((Ok(entry), Some((log, next, piece))))
                }
                Err(e) => Some((Err(e), None)),
            }
        })
    }

    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + Send>(
        &mut self,
        range: RB,
    ) -> Result<Vec<Entry>, io::Error> {
        let (mut from, to) = half_open(&range);
        from = from.max(self.shared.tail.lock().begin().unwrap_or(from));
        let mut found = Vec::new();
        while from < to {
            let piece = self.read(from, to, READ_BYTES_MAX).await?;
            let Some(last) = piece.last() else { break };
            from = last.log_id.index.saturating_add(1);
            found.extend(piece);
        }
        Ok(found)
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, io::Error> {
        Ok(self.vote())
    }

    async fn limited_get_log_entries(
        &mut self,
        start: u64,
        end: u64,
    ) -> Result<Vec<Entry>, io::Error> {
        self.read(start, end, READ_BYTES_MAX).await
    }
}

impl RaftLogStorage<TypeConfig> for LogStore {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<TypeConfig>, io::Error> {
        let tail = self.shared.tail.lock();
        Ok(LogState { last_purged_log_id: tail.purged(), last_log_id: tail.last() })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), io::Error> {
        let (done, saved) = oneshot::channel();
        self.send(Op::Vote { vote: *vote, done })?;
        saved.await.map_err(io::Error::other)??;
        *self.shared.vote.lock() = Some(*vote);
        Ok(())
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> Result<(), io::Error> {
        *self.shared.committed.lock() = Committed { id: committed, dirty: true };
        Ok(())
    }

    async fn read_committed(&mut self) -> Result<Option<LogId>, io::Error> {
        Ok(self.committed())
    }

    async fn append<I>(&mut self, entries: I, flushed: Flushed) -> Result<(), io::Error>
    where
        I: IntoIterator<Item = Entry> + Send,
        I::IntoIter: Send,
    {
        let entries: Vec<Entry> = entries.into_iter().collect();
        {
            let mut tail = self.shared.tail.lock();
            entries.iter().cloned().for_each(|entry| tail.push(entry));
        }
        self.send(Op::Append { entries, flushed })
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> Result<(), io::Error> {
        let from = last.map_or(0, |id| id.index.saturating_add(1));
        self.shared.tail.lock().truncate_from(from, last);
        self.send(Op::Truncate { from })
    }

    async fn purge(&mut self, upto: LogId) -> Result<(), io::Error> {
        self.shared.tail.lock().purge_to(upto);
        self.send(Op::Purge { upto })
    }
}

#[cfg(test)]
mod tests;
