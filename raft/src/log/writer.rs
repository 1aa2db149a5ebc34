//! The one thread that writes the log.
//!
//! Guards: vote, entries, truncation and purge reach the disk in the order in which they were
//! asked for; many appends share one flush; nobody is told "stored" before it is; after the first
//! failure nothing is written any more and everybody waiting is told. Leaves to `store.rs` how.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use mooncake_ha_crash::{Point, reach};
use tokio::sync::oneshot;

use crate::clock::{self, Nanos};
use crate::config::Durability;
use crate::log::Shared;
use crate::log::ahead::JOURNAL_AGE_MAX;
use crate::log::mark::{Least, Mark};
use crate::log::paced;
use crate::log::store::{StoreError, panic_text};
use crate::record::entry_bytes;
use crate::types::{Entry, Flushed, LogId, Vote};

/// Operations that share one flush, at most.
const GROUP_OPS_MAX: usize = 4096;
/// Bytes of entries that share one flush, unless a single append is larger.
const GROUP_BYTES_MAX: usize = 4 << 20;
/// How long the thread waits for work before it deletes the next few purged rows.
pub(crate) const PURGE_PAUSE: Duration = Duration::from_millis(2);
/// How long it waits when there is nothing left to do: only to notice that the node is gone.
const IDLE: Duration = Duration::from_secs(3600);

/// A sync that takes longer is told: acknowledgements and votes wait for it, and leaders fall.
const SLOW_SYNC: Duration = Duration::from_millis(500);
/// It is told this rarely.
const SLOW_SYNC_TOLD: Duration = Duration::from_secs(10);

/// Who waits for an operation to be on disk.
pub(crate) type Done = oneshot::Sender<Result<(), StoreError>>;

/// What the thread can be asked to do.
///
/// The queue has no bound of its own: openraft waits for its appends, so it holds at most what
/// the transport's window and `PROPOSALS_IN_FLIGHT_MAX` let through.
pub(crate) enum Op {
    Append {
        entries: Vec<Entry>,
        flushed: Flushed,
    },
    Truncate {
        from: u64,
    },
    Vote {
        vote: Vote,
        done: Done,
    },
    Purge {
        upto: LogId,
    },
    /// Writes what is left, then ends the thread.
    Stop {
        done: Done,
    },
}

/// How the log reaches who writes it.
#[derive(Clone)]
pub(crate) enum Queue {
    Thread(Sender<Op>),
    /// Of a simulation, which starts no threads.
    Task(tokio::sync::mpsc::UnboundedSender<Op>),
}

impl Queue {
    /// False: the writer has stopped.
    pub(crate) fn send(&self, op: Op) -> bool {
        match self {
            Self::Thread(queue) => queue.send(op).is_ok(),
            Self::Task(queue) => queue.send(op).is_ok(),
        }
    }
}

/// Starts the thread, or the task of a simulation.
pub(crate) fn spawn(
    shared: Arc<Shared>,
    mark: Mark,
    durability: Durability,
) -> std::io::Result<(Queue, Option<JoinHandle<()>>)> {
    let simulation = shared.world.simulation().cloned();
    let writer = Writer {
        shared,
        mark,
        hard: durability == Durability::Sync,
        debt: None,
        dead: None,
        written: None,
        term: 0,
        slow: SlowSyncs::default(),
    };
    if let Some(simulation) = simulation {
        return Ok((Queue::Task(paced::spawn(writer, simulation)), None));
    }
    let (sender, receiver) = channel();
    let handle = std::thread::Builder::new()
        .name("raft-log".to_owned())
        .spawn(move || writer.run(&receiver))?;
    Ok((Queue::Thread(sender), Some(handle)))
}

pub(crate) struct Writer {
    shared: Arc<Shared>,
    mark: Mark,
    hard: bool,
    /// Purged entries up to here may still have rows.
    debt: Option<u64>,
    /// The first failure; nothing is written after it.
    dead: Option<StoreError>,
    /// Newest entry handed to the store.
    written: Option<u64>,
    /// Term of the newest vote handed to the store.
    term: u64,
    slow: SlowSyncs,
}

/// Tells the operator of a disk that is too slow, now and then.
#[derive(Default)]
struct SlowSyncs {
    told_at: Option<Nanos>,
    untold: u32,
}

impl SlowSyncs {
    fn note(&mut self, took: Nanos) {
        if Duration::from_nanos(took) < SLOW_SYNC {
            return;
        }
        self.untold = self.untold.saturating_add(1);
        let now = clock::boot_ns();
        let since = self.told_at.map(|at| Duration::from_nanos(now.saturating_sub(at)));
        if since.is_none_or(|since| since >= SLOW_SYNC_TOLD) {
            tracing::warn!(
                "the disk of the raft log took {:?} to sync ({} slow ones since the last word of \
                 it); writes wait for it, and a leader may lose its place",
                Duration::from_nanos(took),
                self.untold
            );
            *self = Self { told_at: Some(now), untold: 0 };
        }
    }
}

/// Whoever waits for the current group.
#[derive(Default)]
struct Waiting {
    appends: Vec<(Flushed, Option<u64>)>,
    dones: Vec<Done>,
    stop: bool,
}

impl Writer {
    fn run(mut self, queue: &Receiver<Op>) {
        self.begin();
        loop {
            let group = match queue.recv_timeout(self.pause()) {
                Ok(first) => collect(first, || queue.try_recv().ok()),
                Err(RecvTimeoutError::Timeout) => Vec::new(),
                Err(RecvTimeoutError::Disconnected) => return,
            };
            if self.turn(group) {
                return;
            }
        }
    }

    /// How long to wait for work before something that was put off is done.
    pub(crate) fn pause(&self) -> Duration {
        let has_backlog = || self.shared.store().is_ok_and(|store| store.has_backlog());
        match self.debt {
            _ if self.dead.is_some() => IDLE,
            Some(_) => PURGE_PAUSE,
            None if has_backlog() => JOURNAL_AGE_MAX,
            None => IDLE,
        }
    }

    /// Takes over what was found in the log.
    pub(crate) fn begin(&mut self) {
        self.debt = self.shared.tail.lock().purged().map(|id| id.index);
        self.written = self.shared.tail.lock().last().map(|id| id.index);
        self.term = self.shared.vote.lock().map_or(0, |vote| vote.leader_id.term);
    }

    /// Writes one group, answers who waits for it, then pays some purge debt. True: stop.
    pub(crate) fn turn(&mut self, group: Vec<Op>) -> bool {
        let mut waiting = Waiting::default();
        let result = match &self.dead {
            Some(error) => {
                group.into_iter().for_each(|op| waiting.add(op));
                Err(error.clone())
            }
            None => self.guarded(|this| this.write(group, &mut waiting)),
        };
        let stop = waiting.stop;
        if let Ok(()) = &result
            && let Some(index) = waiting.appends.iter().filter_map(|(_, last)| *last).max()
        {
            self.shared.tail.lock().stored_to(index);
        }
        waiting.answer(&result);
        if self.dead.is_none() && !stop {
            // An error has been noted by `guarded`; the debt is void then.
            let _ = self.guarded(Self::pay_debt);
        }
        stop
    }

    /// Runs something that touches the store; a failure or a panic in it is the end.
    fn guarded(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let result = catch_unwind(AssertUnwindSafe(|| work(self))).unwrap_or_else(|panic| {
            Err(StoreError::Failed {
                path: self.shared.path.clone(),
                doing: "write",
                detail: panic_text(panic.as_ref()),
            })
        });
        if let Err(error) = &result {
            tracing::error!("{error}");
            self.shared.fail(error.to_string());
            self.dead = Some(error.clone());
            self.debt = None;
        }
        result
    }

    fn write(&mut self, group: Vec<Op>, waiting: &mut Waiting) -> Result<(), StoreError> {
        let store = self.shared.store()?;
        if group.is_empty() {
            // Purging goes first: its syncs settle what is old.
            return if self.debt.is_some() { Ok(()) } else { store.settle() };
        }
        let has_vote = group.iter().any(|op| matches!(op, Op::Vote { .. }));
        let mut hard = self.hard;
        let mut pending: Vec<Entry> = Vec::new();
        let mut group = group.into_iter();
        let result = loop {
            let Some(op) = group.next() else { break self.flush_pending(&mut pending) };
            let result = match op {
                Op::Append { entries, flushed } => {
                    let last = entries.last().map(|entry| entry.log_id.index);
                    waiting.appends.push((flushed, last));
                    pending.extend(entries);
                    Ok(())
                }
                Op::Truncate { from } => self.flush_pending(&mut pending).and_then(|()| {
                    self.written = self.written.min(from.checked_sub(1));
                    reach(Point::TruncateBegins);
                    self.mark.lower(from).map_err(|e| self.failed_mark(&e))?;
                    reach(Point::TruncateMarkLowered);
                    store.truncate_from(from)
                }),
                Op::Vote { vote, done } => {
                    waiting.dones.push(done);
                    hard = true;
                    self.term = vote.leader_id.term;
                    self.flush_pending(&mut pending).and_then(|()| store.put_vote(&vote))
                }
                Op::Purge { upto } => self.flush_pending(&mut pending).and_then(|()| {
                    self.debt = self.debt.max(Some(upto.index));
                    self.written = self.written.max(Some(upto.index));
                    store.put_purged(&upto)
                }),
                Op::Stop { done } => {
                    waiting.dones.push(done);
                    waiting.stop = true;
                    hard = true;
                    self.flush_pending(&mut pending)
                }
            };
            if result.is_err() {
                break result;
            }
        };
        // Whoever comes after a failure must hear of it too.
        group.for_each(|op| waiting.add(op));
        result?;
        self.put_committed()?;
        let before = clock::boot_ns();
        store.sync(hard)?;
        self.slow.note(clock::boot_ns().saturating_sub(before));
        if hard {
            let next = self.written.map_or(0, |index| index.saturating_add(1));
            let least = Least { next, term: self.term };
            self.mark.raise(least).map_err(|e| self.failed_mark(&e))?;
            reach(if has_vote { Point::VoteSynced } else { Point::LogMarkRaised });
        }
        Ok(())
    }

    fn failed_mark(&self, error: &std::io::Error) -> StoreError {
        let path = self.mark.path().to_owned();
        StoreError::Failed { path, doing: "write the mark", detail: error.to_string() }
    }

    fn flush_pending(&mut self, pending: &mut Vec<Entry>) -> Result<(), StoreError> {
        let Some(last) = pending.last().map(|entry| entry.log_id.index) else { return Ok(()) };
        self.shared.store()?.append(pending)?;
        pending.clear();
        self.written = Some(last);
        Ok(())
    }

    /// The committed id rides along with the next group. Losing the newest one costs nothing: it
    /// is only where a restarted node starts from before it hears of a leader.
    fn put_committed(&mut self) -> Result<(), StoreError> {
        let mut committed = self.shared.committed.lock();
        // An id beyond the entries written here would promise what a restart cannot replay.
        if !committed.dirty || committed.id.map(|id| id.index) > self.written {
            return Ok(());
        }
        self.shared.store()?.put_committed(committed.id.as_ref())?;
        committed.dirty = false;
        Ok(())
    }

    fn pay_debt(&mut self) -> Result<(), StoreError> {
        let Some(upto) = self.debt else { return Ok(()) };
        if !self.shared.store()?.purge_some(upto)? {
            self.debt = None;
        }
        self.shared.store()?.sync(false)?;
        reach(Point::PurgeFlushed);
        Ok(())
    }
}

impl Waiting {
    fn add(&mut self, op: Op) {
        match op {
            Op::Append { entries, flushed } => {
                let last = entries.last().map(|entry| entry.log_id.index);
                self.appends.push((flushed, last));
            }
            Op::Vote { done, .. } => self.dones.push(done),
            Op::Stop { done } => {
                self.dones.push(done);
                self.stop = true;
            }
            Op::Truncate { .. } | Op::Purge { .. } => {}
        }
    }

    fn answer(self, result: &Result<(), StoreError>) {
        for (flushed, _) in self.appends {
            flushed.io_completed(result.clone().map_err(std::io::Error::from));
        }
        for done in self.dones {
            // Nobody waits any more: fine.
            let _ = done.send(result.clone());
        }
    }
}

/// Takes what is queued, up to the bounds of a group. A vote ends a group: nothing that follows
/// it may reach the disk without it.
pub(crate) fn collect(first: Op, mut more: impl FnMut() -> Option<Op>) -> Vec<Op> {
    let mut group = Vec::new();
    let mut bytes = 0_usize;
    let mut next = Some(first);
    while let Some(op) = next {
        let last = matches!(op, Op::Vote { .. } | Op::Stop { .. });
        if let Op::Append { entries, .. } = &op {
            bytes = entries.iter().map(entry_bytes).fold(bytes, usize::saturating_add);
        }
        group.push(op);
        if last || group.len() >= GROUP_OPS_MAX || bytes >= GROUP_BYTES_MAX {
            break;
        }
        next = more();
    }
    group
}
