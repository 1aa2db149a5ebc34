//! Stamp, encode, write: the only way to change the state.
//!
//! Callers queue encoded commands; one task packs whatever waits into one entry and keeps an entry or two in
//! flight. While they are, commands gather, so batches grow with load and a lone caller waits for nothing; when the
//! next one goes is the business of `propose/queues.rs`.

mod queues;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use mooncake_ha_raft::{Node, Role};

use super::error::NodeError;
use super::machine::StoreMachine;
use crate::leader::clock::LeaderClock;
use crate::metrics::histogram::Histogram;
use crate::state::command::{Command, Stamp};
use crate::state::{Reply, encode};
use queues::{Flights, Queues, Waiting};

/// Commands that wait for the proposer at most; a caller beyond it waits to queue.
const QUEUE_MAX: usize = 8_192;

/// Steps of work that wait at most. Each kind of work keeps only a few on their way.
const WORK_QUEUE_MAX: usize = 64;

/// Counts of the proposer, for metrics.
#[derive(Debug)]
pub struct ProposeStats {
    /// Commands proposed.
    pub commands: AtomicU64,
    /// Entries proposed.
    pub entries: AtomicU64,
    /// Bytes of entries proposed.
    pub bytes: AtomicU64,
    /// Entries that were refused or whose outcome is unknown.
    pub failures: AtomicU64,
    /// Commands by entry.
    pub batches: Histogram,
    /// From proposing an entry to its replies.
    pub commit: Histogram,
}

impl Default for ProposeStats {
    fn default() -> Self {
        ProposeStats {
            commands: AtomicU64::new(0),
            entries: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            batches: Histogram::of_batches(),
            commit: Histogram::of_latency(),
        }
    }
}

/// Queues commands for the log.
#[derive(Clone, Debug)]
pub struct Proposer {
    calls: mpsc::Sender<Waiting>,
    work: mpsc::Sender<Waiting>,
    role: watch::Receiver<Role>,
    stats: Arc<ProposeStats>,
}

impl Proposer {
    /// Starts the proposer's task, among the callers if it is said where they are. It ends when the last handle
    /// is dropped.
    pub(super) fn start(packer: Packer, callers: Option<Handle>) -> Self {
        let (calls, calling) = mpsc::channel(QUEUE_MAX);
        let (work, working) = mpsc::channel(WORK_QUEUE_MAX);
        let (role, stats) = (packer.role.clone(), Arc::clone(&packer.stats));
        let queues = Queues::new(calling, working);
        match callers {
            Some(callers) => callers.spawn(packer.run(queues)),
            None => tokio::spawn(packer.run(queues)),
        };
        Proposer { calls, work, role, stats }
    }

    /// Has a command applied and returns its reply.
    ///
    /// Errors: by cause, see [`NodeError`]. Dropping the future does not take the command back.
    pub async fn propose(&self, command: &Command) -> Result<Reply, NodeError> {
        self.propose_by(&self.calls, command).await
    }

    /// As [`Proposer::propose`], for a step of work on many objects: an entry takes one of them at most.
    ///
    /// Errors: as there.
    pub async fn propose_work(&self, command: &Command) -> Result<Reply, NodeError> {
        self.propose_by(&self.work, command).await
    }

    async fn propose_by(
        &self,
        queue: &mpsc::Sender<Waiting>,
        command: &Command,
    ) -> Result<Reply, NodeError> {
        let command = encode::encode_command(command)
            .map_err(|error| NodeError::TooLarge(error.to_string()))?;
        let term = leading_term(&self.role)?;
        let (reply, answered) = oneshot::channel();
        let stopped = || NodeError::Unavailable("the proposer has stopped".into());
        queue.send(Waiting { command, term, reply }).await.map_err(|_| stopped())?;
        answered.await.map_err(|_| NodeError::OutcomeUnknown("the proposer has stopped".into()))?
    }

    /// The proposer's counts.
    pub fn stats(&self) -> &ProposeStats {
        &self.stats
    }
}

/// What makes entries of commands.
pub(super) struct Packer {
    raft: Node<StoreMachine>,
    role: watch::Receiver<Role>,
    machine: Arc<StoreMachine>,
    clock: Arc<LeaderClock>,
    chance: Box<dyn Fn() -> u64 + Send + Sync>,
    stats: Arc<ProposeStats>,
}

impl Packer {
    pub fn new(
        raft: Node<StoreMachine>,
        machine: Arc<StoreMachine>,
        clock: Arc<LeaderClock>,
        chance: Box<dyn Fn() -> u64 + Send + Sync>,
    ) -> Self {
        let (role, stats) = (raft.watch_role(), Arc::default());
        Packer { raft, role, machine, clock, chance, stats }
    }

    async fn run(self, mut queues: Queues) {
        let flights = Arc::new(Flights::default());
        while let Some(batch) = queues.next(&flights).await {
            let Some((term, batch)) = self.of_this_term(batch) else { continue };
            let entry = self.pack(&batch);
            let (raft, stats) = (self.raft.clone(), Arc::clone(&self.stats));
            let flights = Arc::clone(&flights);
            flights.depart(batch.len());
            tokio::spawn(async move {
                let (started, commands) = (Instant::now(), batch.len());
                let replies = raft.propose_in(term, entry).await;
                match replies {
                    Ok(_) => stats.commit.observe_time(started.elapsed()),
                    Err(_) => _ = stats.failures.fetch_add(1, Ordering::Relaxed),
                }
                answer(batch, replies);
                flights.land(commands);
            });
        }
    }

    /// The commands that were queued in the term in which this node leads now; the others are refused, and
    /// their callers may try again. `None` if none is left. The term goes along to where the entry is appended,
    /// because this node may lose leadership and gain it again until then.
    fn of_this_term(&self, batch: Vec<Waiting>) -> Option<(u64, Vec<Waiting>)> {
        let leading = leading_term(&self.role);
        let (current, past): (Vec<_>, Vec<_>) =
            batch.into_iter().partition(|waiting| leading.as_ref() == Ok(&waiting.term));
        for waiting in past {
            let hint = format!("it led in term {}", waiting.term);
            // The caller may have gone; nothing was done.
            let _ = waiting.reply.send(Err(NodeError::NotLeader { hint }));
        }
        let term = current.first()?.term;
        Some((term, current))
    }

    fn pack(&self, batch: &[Waiting]) -> Bytes {
        let now = self.clock.now(self.machine.view().clock());
        let stamp = Stamp { now, seed: (self.chance)() };
        let commands: Vec<&[u8]> = batch.iter().map(|waiting| &*waiting.command).collect();
        let entry = encode::join(stamp, &commands);
        self.stats.entries.fetch_add(1, Ordering::Relaxed);
        self.stats.commands.fetch_add(batch.len() as u64, Ordering::Relaxed);
        self.stats.bytes.fetch_add(entry.len() as u64, Ordering::Relaxed);
        self.stats.batches.observe(batch.len() as u64);
        Bytes::from(entry)
    }
}

/// The term in which this node leads. Errors: it does not.
fn leading_term(role: &watch::Receiver<Role>) -> Result<u64, NodeError> {
    match &*role.borrow() {
        Role::Leader { term, .. } => Ok(*term),
        Role::Follower { leader, .. } => {
            let hint = leader.as_ref().map_or("no leader is known".into(), |leader| {
                format!("node {} at {} does", leader.id, leader.addr)
            });
            Err(NodeError::NotLeader { hint })
        }
    }
}

fn answer(batch: Vec<Waiting>, replies: Result<Vec<Reply>, mooncake_ha_raft::ProposeError>) {
    match replies {
        Ok(replies) => {
            for (waiting, reply) in batch.into_iter().zip(replies) {
                // The caller may have gone; its command is done all the same.
                let _ = waiting.reply.send(Ok(reply));
            }
        }
        Err(error) => {
            let error = NodeError::from(error);
            for waiting in batch {
                let _ = waiting.reply.send(Err(error.clone()));
            }
        }
    }
}
