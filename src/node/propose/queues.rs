//! What waits for the packer, and when it has waited long enough.
//!
//! An entry costs much more than a command in it, so few and large ones are wanted: those who were answered together
//! are likely to ask again together, and are waited for as long as more of them keep coming. There is no timer, and a
//! lone caller waits for nobody.
//!
//! There are two queues. What a client waits for goes into the next entry; of the leader's own work on many
//! objects, such as evictions, an entry takes one command, so a client waits for little of it.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::yield_now;

use crate::node::error::NodeError;
use crate::state::Reply;
use crate::state::command::COMMANDS_PER_ENTRY_MAX;

/// Bytes of commands in one entry; a single larger command gets an entry of its own.
const ENTRY_BYTES_WANTED: usize = 64 << 10;

/// Entries that are proposed and not yet applied at most: one on its way through the log while the next follows.
const ENTRIES_IN_FLIGHT_MAX: usize = 2;

/// An entry with no more commands than this keeps nobody waiting: the next one may follow whatever its size.
const FEW_COMMANDS: usize = 4;

/// Looks in a row that find nobody new before those are given up who were answered and have not asked again.
/// A look costs about a microsecond.
const IDLE_LOOKS_MAX: u32 = 8;

/// A queued command.
pub(super) struct Waiting {
    pub command: Vec<u8>,
    /// The term in which it was queued. It is appended in no other: what the leader decided with it, such as
    /// the fence of a removal, has lost its meaning when leadership is lost and gained again.
    pub term: u64,
    pub reply: oneshot::Sender<Result<Reply, NodeError>>,
}

/// Entries on their way.
#[derive(Default)]
pub(super) struct Flights {
    entries: AtomicUsize,
    commands: AtomicUsize,
    /// Commands of the newest entry that was answered.
    answered: AtomicUsize,
    landed: Notify,
}

/// What becomes of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// It is proposed.
    Go,
    /// More may come in a moment.
    Look,
    /// It waits for an entry to land, or to grow.
    Wait,
}

impl Flights {
    /// An entry with so many commands is proposed.
    pub fn depart(&self, commands: usize) {
        self.entries.fetch_add(1, Ordering::AcqRel);
        self.commands.fetch_add(commands, Ordering::AcqRel);
    }

    /// Its callers have been answered.
    pub fn land(&self, commands: usize) {
        self.answered.store(commands, Ordering::Release);
        self.commands.fetch_sub(commands, Ordering::AcqRel);
        self.entries.fetch_sub(1, Ordering::AcqRel);
        self.landed.notify_one();
    }

    /// `idle_looks` is how often in a row nobody new was found.
    fn judge(&self, batch: &Batch, idle_looks: u32) -> Verdict {
        let (size, flying) = (batch.waiting.len(), self.commands.load(Ordering::Acquire));
        match self.entries.load(Ordering::Acquire) {
            0 if batch.is_full || size >= self.answered.load(Ordering::Acquire) => Verdict::Go,
            0 if idle_looks >= IDLE_LOOKS_MAX => Verdict::Go,
            0 => Verdict::Look,
            ENTRIES_IN_FLIGHT_MAX.. => Verdict::Wait,
            _ if batch.is_full || flying <= FEW_COMMANDS || size >= 2 * flying => Verdict::Go,
            _ => Verdict::Wait,
        }
    }
}

/// Commands that will share an entry.
#[derive(Default)]
struct Batch {
    waiting: Vec<Waiting>,
    bytes: usize,
    has_work: bool,
    is_full: bool,
}

impl Batch {
    fn add(&mut self, waiting: Waiting) {
        self.bytes += waiting.command.len();
        self.waiting.push(waiting);
        self.is_full |= self.waiting.len() >= COMMANDS_PER_ENTRY_MAX;
    }

    /// Whether the command leaves the batch within its bounds.
    fn has_room_for(&self, waiting: &Waiting) -> bool {
        self.waiting.is_empty() || self.bytes + waiting.command.len() <= ENTRY_BYTES_WANTED
    }
}

/// What waits for the packer.
pub(super) struct Queues {
    calls: mpsc::Receiver<Waiting>,
    work: mpsc::Receiver<Waiting>,
    /// A call that did not fit into the entry before.
    held: Option<Waiting>,
}

impl Queues {
    pub fn new(calls: mpsc::Receiver<Waiting>, work: mpsc::Receiver<Waiting>) -> Self {
        Queues { calls, work, held: None }
    }

    /// The commands of the next entry, within its bounds; `None` if nobody can queue any more.
    pub async fn next(&mut self, flights: &Flights) -> Option<Vec<Waiting>> {
        let mut batch = Batch::default();
        self.first(&mut batch).await?;
        let mut idle_looks = 0;
        loop {
            // The callers of the entry before are awake by now: those that are about to ask for something
            // else come along. A lone caller loses nothing, for then nobody else is ready to run.
            yield_now().await;
            let before = batch.waiting.len();
            self.gather(&mut batch);
            idle_looks = if batch.waiting.len() > before { 0 } else { idle_looks + 1 };
            match flights.judge(&batch, idle_looks) {
                Verdict::Go => return Some(batch.waiting),
                Verdict::Look => {}
                Verdict::Wait => {
                    tokio::select! {
                        biased;
                        () = flights.landed.notified() => idle_looks = 0,
                        Some(call) = self.calls.recv(), if !batch.is_full => {
                            self.take(call, &mut batch);
                        }
                    }
                }
            }
        }
    }

    async fn first(&mut self, batch: &mut Batch) -> Option<()> {
        if let Some(held) = self.held.take() {
            batch.add(held);
            return Some(());
        }
        tokio::select! {
            biased;
            Some(call) = self.calls.recv() => batch.add(call),
            Some(work) = self.work.recv() => {
                batch.add(work);
                batch.has_work = true;
            }
            else => return None,
        }
        Some(())
    }

    /// Adds a call, or keeps it for the next entry.
    fn take(&mut self, call: Waiting, batch: &mut Batch) {
        match batch.has_room_for(&call) {
            true => batch.add(call),
            false => {
                self.held = Some(call);
                batch.is_full = true;
            }
        }
    }

    /// Takes what waits, up to the bounds of an entry: calls, and one step of work.
    fn gather(&mut self, batch: &mut Batch) {
        while !batch.is_full {
            let Ok(next) = self.calls.try_recv() else { break };
            self.take(next, batch);
        }
        if !batch.has_work
            && !batch.is_full
            && let Ok(work) = self.work.try_recv()
        {
            batch.add(work);
            batch.has_work = true;
        }
    }
}

#[cfg(test)]
mod tests;
