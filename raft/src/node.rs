//! A running node: propose, read, look, stop.
//!
//! Guards: a proposer always learns "applied", "refused" or "outcome unknown"; a node that failed
//! refuses at once. Leaves to `open.rs` how it came to be, to `lease.rs` when reads are safe,
//! to `members.rs` changes of the cluster.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use openraft::async_runtime::watch::WatchReceiver as _;
use openraft::errors::{
    ClientWriteError, ForwardToLeader, InitializeError, LinearizableReadError, RaftError,
};
use openraft::impls::ProgressResponder;
use openraft::{Instant as _, LinearizerOption, Raft};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::adapter::{Adapter, Applied};
use crate::compact::{Answer, Compactor};
use crate::config::{Config, ENTRY_BYTES_MAX, PROPOSALS_IN_FLIGHT_MAX};
use crate::dir::DataDir;
use crate::error::{AdminError, OpenError, ProposeError, ReadError};
use crate::lease::{LeaseCell, ReadLease};
use crate::log::LogStore;
use crate::log::store::SledLog;
use crate::machine::{AnyReply, Erased, ErasedMachine, Machine};
use crate::net::client::Connector;
use crate::net::peers::Peers;
use crate::net::server::{self, Server};
use crate::net::transfer::Inbox;
use crate::open::{self, Stored};
use crate::status::{self, LogPointers, Member, Peer, Role, Status};
use crate::types::{CommittedLeaderId, EntryBytes, Metrics, TypeConfig};
use crate::world::Listener;

/// How long a sole voter may take from start to leading; it takes milliseconds.
const SOLE_START_MAX: Duration = Duration::from_secs(30);
/// How often a read looks whether a quorum has heard this leader; mostly it has at the first look.
const HEARD_LOOK: Duration = Duration::from_millis(1);

/// What all handles of a node share, whatever its machine.
pub(crate) struct Inner {
    pub(crate) config: Config,
    pub(crate) raft: Raft<TypeConfig, Adapter>,
    pub(crate) lease: Arc<LeaseCell>,
    pub(crate) peers: Arc<Peers>,
    log: LogStore,
    applied: Arc<Applied>,
    fatal: watch::Sender<Option<String>>,
    proposals: Semaphore,
    compactor: mpsc::Sender<Answer>,
    snapshot_error: Arc<Mutex<Option<String>>>,
    /// The lock on the directory; given back when the node has stopped.
    dir: Mutex<Option<DataDir>>,
    workers: Mutex<Option<JoinSet<()>>>,
}

/// A node of a cluster that replicates an `M`. Cheap to clone.
///
/// ```
/// use std::io::{Read, Write};
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// use mooncake_ha_raft::{Config, Machine, MachineError, Node};
///
/// /// Adds up the lengths of all entries.
/// #[derive(Default)]
/// struct Sum(AtomicU64);
///
/// impl Machine for Sum {
///     type Reply = u64;
///     type Frozen = u64;
///
///     fn apply(&self, _index: u64, entry: &[u8]) -> Result<u64, MachineError> {
///         Ok(self.0.fetch_add(entry.len() as u64, Ordering::SeqCst) + entry.len() as u64)
///     }
///     fn freeze(&self) -> u64 {
///         self.0.load(Ordering::SeqCst)
///     }
///     fn save(frozen: u64, to: &mut dyn Write) -> std::io::Result<()> {
///         to.write_all(&frozen.to_le_bytes())
///     }
///     fn load(&self, from: &mut dyn Read) -> Result<(), MachineError> {
///         let mut sum = [0; 8];
///         from.read_exact(&mut sum).map_err(|e| MachineError::new(e.to_string()))?;
///         self.0.store(u64::from_le_bytes(sum), Ordering::SeqCst);
///         Ok(())
///     }
/// }
///
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let dir = tempfile::tempdir()?;
/// let node = Node::open(Config::new(1, "docs", dir.path()), Arc::new(Sum::default())).await?;
/// assert_eq!(node.propose("four".into()).await?, 4);
/// assert_eq!(node.propose("seven..".into()).await?, 11);
/// assert!(node.read_lease().is_some());
/// node.shutdown().await;
/// # Ok(()) }
/// ```
pub struct Node<M> {
    pub(crate) inner: Arc<Inner>,
    machine: PhantomData<fn() -> M>,
}

impl<M> Clone for Node<M> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), machine: PhantomData }
    }
}

impl<M: Machine> Node<M> {
    /// Opens the data directory, loads the raft snapshot, replays what is known to be committed
    /// and starts. With a sole voter it returns when the node leads and everything is applied.
    ///
    /// An empty directory becomes a new cluster of `config.peers`, or of this node alone.
    ///
    /// # Errors
    /// See [`OpenError`]; nothing is running then. The machine may have been loaded already.
    ///
    /// # Cancellation
    /// Not safe: drop the future only to end the process.
    pub async fn open(config: Config, machine: Arc<M>) -> Result<Self, OpenError> {
        config.validate()?;
        let is_machine = config.world.simulation().is_none();
        let listener = match config.listen.filter(|_| is_machine) {
            Some(addr) => Some(
                TcpListener::bind(addr)
                    .await
                    .map_err(|why| OpenError::Listen { addr: addr.to_string(), why })?,
            ),
            None => None,
        };
        Self::open_on(listener, config, machine).await
    }

    /// The same with a listener for peers that is already bound; `config.listen` only says its
    /// address.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub async fn open_on(
        listener: Option<TcpListener>,
        config: Config,
        machine: Arc<M>,
    ) -> Result<Self, OpenError> {
        config.validate()?;
        let simulated = config.world.simulation().filter(|_| config.listen.is_some());
        let listener = match simulated {
            Some(simulation) => Some(Listener::Simulated(Arc::clone(simulation))),
            None => listener.map(Listener::Tcp),
        };
        let inner = start(listener, config, Arc::new(Erased(machine))).await?;
        Ok(Self { inner, machine: PhantomData })
    }

    /// Proposes an entry; returns what the machine said when this node applied it.
    ///
    /// # Errors
    /// See [`ProposeError`]; only [`ProposeError::OutcomeUnknown`] leaves open whether the entry
    /// is applied.
    ///
    /// # Cancellation
    /// Dropping the future does not take the entry back.
    pub async fn propose(&self, entry: Bytes) -> Result<M::Reply, ProposeError> {
        reply_of::<M>(self.inner.propose(entry, None).await?)
    }

    /// As [`Node::propose`], but only while this node leads in `term`. What a leader decided in one
    /// term is appended in no other, even if this node leads in both: the term is compared where
    /// the entry is appended.
    ///
    /// # Errors
    /// [`ProposeError::NotLeader`] also if this node leads in another term; nothing was appended.
    pub async fn propose_in(&self, term: u64, entry: Bytes) -> Result<M::Reply, ProposeError> {
        reply_of::<M>(self.inner.propose(entry, Some(term)).await?)
    }

    /// Proof that reads of the machine are linearizable right now, without asking anybody: about
    /// 30 ns. `None`: use [`Node::read_barrier`].
    #[inline]
    pub fn read_lease(&self) -> Option<ReadLease> {
        self.inner.lease.get()
    }

    /// The same, asking a quorum if need be.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn read_barrier(&self) -> Result<ReadLease, ReadError> {
        match self.inner.lease.get() {
            Some(lease) => Ok(lease),
            None => self.inner.read_barrier().await,
        }
    }

    /// Follows the role of this node.
    pub fn watch_role(&self) -> watch::Receiver<Role> {
        self.inner.lease.role()
    }

    /// Follows the reason why this node stopped; `None` while it runs.
    pub fn watch_fatal(&self) -> watch::Receiver<Option<String>> {
        self.inner.fatal.subscribe()
    }

    /// Everything about this node; reads the sizes of some files.
    pub fn status(&self) -> Status {
        self.inner.status()
    }

    /// Makes a raft snapshot now and purges the log behind it; returns the index it reaches.
    ///
    /// # Errors
    /// [`AdminError::Refused`] with the reason; the node goes on.
    pub async fn trigger_snapshot(&self) -> Result<Option<u64>, AdminError> {
        let (answer, answered) = oneshot::channel();
        self.inner.compactor.send(answer).await.map_err(|_| AdminError::Stopped)?;
        let made = answered.await.map_err(|_| AdminError::Stopped)?;
        made.map_err(AdminError::Refused)
    }

    /// Stops: hands leadership over if there is somebody to take it, writes what is queued, gives
    /// the directory free. Other handles of the node refuse everything afterwards.
    pub async fn shutdown(self) {
        self.inner.shutdown().await;
    }
}

async fn start(
    listener: Option<Listener>,
    config: Config,
    machine: Arc<dyn ErasedMachine>,
) -> Result<Arc<Inner>, OpenError> {
    let fatal = watch::Sender::new(None);
    let (stored_config, stored_fatal) = (config.clone(), fatal.clone());
    let load = move || open::open_stored(&stored_config, machine, &stored_fatal);
    let stored = config
        .world
        .blocking(load)
        .await
        .map_err(|e| OpenError::Raft(format!("opening was interrupted: {e}")))??;
    let Stored { dir, log, snapshots, adapter, peers } = stored;
    let gate = gate(&config, &log);
    let applied = adapter.applied();
    let raft_config = Arc::new(open::raft_config(&config)?);
    let raft =
        Raft::new(config.node_id, raft_config, Connector(Arc::clone(&peers)), log.clone(), adapter)
            .await
            .map_err(|e| OpenError::Raft(first_reason(&fatal, &e)))?;
    let mut workers = JoinSet::new();
    if !gate.is_zero() {
        raft.runtime_config().elect(false);
        workers.spawn(open_gate(raft.clone(), gate));
    }
    if let Some(listener) = listener {
        let gate = u64::try_from(gate.as_nanos()).unwrap_or(u64::MAX);
        let server = Server {
            peers: Arc::clone(&peers),
            raft: raft.clone(),
            inbox: Inbox::new(snapshots.clone()),
            gate_until: if gate == 0 { 0 } else { config.world.boot_ns().saturating_add(gate) },
        };
        workers.spawn(server::serve(listener, Arc::new(server)));
    }
    let acked = Arc::clone(&peers.acked);
    let lease = LeaseCell::new(config.node_id, config.lease(), config.world.clone(), acked);
    let lease = Arc::new(lease);
    let compactor =
        Compactor::new(&config, raft.clone(), log.clone(), Arc::clone(&applied), snapshots);
    let snapshot_error = Arc::clone(&compactor.error);
    let (compactor_asked, asked) = mpsc::channel(1);
    workers.spawn(compactor.run(asked));
    workers.spawn(follow(raft.clone(), Arc::clone(&lease), fatal.clone(), config.heartbeat));
    let inner = Arc::new(Inner {
        config,
        raft,
        lease,
        peers,
        log,
        applied,
        fatal,
        proposals: Semaphore::new(PROPOSALS_IN_FLIGHT_MAX),
        compactor: compactor_asked,
        snapshot_error,
        dir: Mutex::new(Some(dir)),
        workers: Mutex::new(Some(workers)),
    });
    match inner.begin().await {
        Ok(()) => Ok(inner),
        Err(e) => {
            inner.stop().await;
            Err(e)
        }
    }
}

/// How long this node neither votes nor campaigns. It may have confirmed a leader just before it
/// stopped, and openraft forgets that: voting at once would elect a second leader while the first
/// one still answers reads. Zero where nobody else could.
fn gate(config: &Config, log: &LogStore) -> Duration {
    let confirmed = log.vote().is_some_and(|vote| vote.committed);
    let alone = config.peers.len() < 2 && !config.join && config.listen.is_none();
    let is_skipped = config.world.simulation().is_some_and(|world| world.is_gate_skipped());
    if confirmed && !alone && !is_skipped { config.lease() } else { Duration::ZERO }
}

async fn open_gate(raft: Raft<TypeConfig, Adapter>, gate: Duration) {
    tokio::time::sleep(gate).await;
    raft.runtime_config().elect(true);
}

fn reply_of<M: Machine>(reply: AnyReply) -> Result<M::Reply, ProposeError> {
    reply.take::<M::Reply>().ok_or_else(|| {
        ProposeError::OutcomeUnknown("the entry was applied without a reply".to_owned())
    })
}

fn first_reason(fatal: &watch::Sender<Option<String>>, error: &impl ToString) -> String {
    fatal.borrow().clone().unwrap_or_else(|| error.to_string())
}

/// Renews lease and role whenever openraft's metrics change, and every third of a heartbeat.
async fn follow(
    raft: Raft<TypeConfig, Adapter>,
    lease: Arc<LeaseCell>,
    fatal: watch::Sender<Option<String>>,
    heartbeat: Duration,
) {
    let mut metrics = raft.metrics();
    loop {
        let state = {
            let now = metrics.borrow_and_update();
            lease.refresh(&now);
            now.running_state.clone()
        };
        if let Err(e) = state {
            if e != openraft::errors::Fatal::Stopped {
                let reason = e.to_string();
                fatal.send_if_modified(|old| old.is_none() && old.replace(reason).is_none());
            }
            lease.end();
            return;
        }
        // A failure that openraft has not met yet, in a purge for instance: no limping on.
        if fatal.borrow().is_some() {
            lease.end();
            if let Err(e) = raft.shutdown().await {
                tracing::warn!("raft did not stop in order: {e}");
            }
            return;
        }
        // Time passing alone changes nothing in the metrics, but a jump of a clock does to us.
        if let Ok(Err(_)) = tokio::time::timeout(heartbeat / 3, metrics.changed()).await {
            lease.end();
            return;
        }
    }
}

impl Inner {
    /// Forms a cluster in an empty directory, and waits for a sole voter to lead.
    async fn begin(&self) -> Result<(), OpenError> {
        let broken = |e: &dyn ToString| OpenError::Raft(e.to_string());
        let initialized = self.raft.is_initialized().await.map_err(|e| broken(&e))?;
        if !initialized && !self.config.join {
            let members = open::first_members(&self.config);
            match self.raft.initialize(members).await {
                // A peer was quicker and asked for a vote: it brings the same members.
                Ok(()) | Err(RaftError::APIError(InitializeError::NotAllowed(_))) => {}
                Err(e) => return Err(broken(&e)),
            }
        }
        let me = self.config.node_id;
        // Not from the metrics: they may lag behind `initialize`.
        let alone = self
            .raft
            .with_raft_state(move |state| state.membership_state.effective().voter_ids().eq([me]))
            .await
            .map_err(|e| broken(&e))?;
        if !alone {
            return Ok(());
        }
        if initialized {
            // openraft would do so itself at the next tick.
            self.raft.trigger().elect(false).await.map_err(|e| broken(&e))?;
        }
        let mut role = self.lease.role();
        let mut fatal = self.fatal.subscribe();
        tokio::select! {
            biased;
            led = tokio::time::timeout(SOLE_START_MAX, role.wait_for(Role::is_ready_leader)) => {
                led.map(|_| ()).map_err(|_| broken(&"the only voter did not become leader"))
            }
            failed = fatal.wait_for(Option::is_some) => {
                let reason = failed.ok().and_then(|reason| reason.clone()).unwrap_or_default();
                Err(OpenError::Raft(reason))
            }
        }
    }

    async fn propose(&self, entry: Bytes, term: Option<u64>) -> Result<AnyReply, ProposeError> {
        if !open::fits(entry.len()) {
            return Err(ProposeError::TooLarge { size: entry.len(), limit: ENTRY_BYTES_MAX });
        }
        let _place = self.proposals.acquire().await.map_err(|_| ProposeError::Stopped)?;
        if self.has_stopped() {
            return Err(ProposeError::Stopped);
        }
        if let Some(term) = term {
            return self.write_in(term, EntryBytes(entry)).await;
        }
        match self.raft.client_write(EntryBytes(entry)).await {
            Ok(written) => Ok(written.data),
            Err(RaftError::APIError(ClientWriteError::ForwardToLeader(forward))) => {
                Err(ProposeError::NotLeader { leader: self.peer_in(forward) })
            }
            // Also a fatal error: the entry may have reached a quorum before.
            Err(e) => Err(ProposeError::OutcomeUnknown(first_reason(&self.fatal, &e))),
        }
    }

    async fn write_in(&self, term: u64, entry: EntryBytes) -> Result<AnyReply, ProposeError> {
        let (responder, written) = ProgressResponder::complete_only();
        let write = self.raft.write(entry).with_leader(CommittedLeaderId::new(term));
        // Not even queued, but why is told by the fatal error, as below.
        if let Err(e) = write.responder(responder).await {
            return Err(ProposeError::OutcomeUnknown(first_reason(&self.fatal, &e)));
        }
        match written.await {
            Ok(Ok(written)) => Ok(written.data),
            Ok(Err(ClientWriteError::ForwardToLeader(forward))) => {
                Err(ProposeError::NotLeader { leader: self.peer_in(forward) })
            }
            Ok(Err(e)) => Err(ProposeError::OutcomeUnknown(first_reason(&self.fatal, &e))),
            Err(_) => {
                let stopped = "replication has stopped";
                Err(ProposeError::OutcomeUnknown(first_reason(&self.fatal, &stopped)))
            }
        }
    }

    async fn read_barrier(&self) -> Result<ReadLease, ReadError> {
        if self.has_stopped() {
            return Err(ReadError::Stopped);
        }
        // Always a fresh round: openraft's own notion of a valid lease does not know that the
        // machine slept.
        let asked = Instant::now();
        let option = LinearizerOption::new(Some(Duration::ZERO), true);
        let linearizer = match self.raft.get_read_linearizer(option).await {
            Ok(linearizer) => linearizer,
            Err(RaftError::APIError(LinearizableReadError::ForwardToLeader(forward))) => {
                return Err(ReadError::NotLeader { leader: self.peer_in(forward) });
            }
            Err(RaftError::APIError(LinearizableReadError::QuorumNotEnough(_))) => {
                return Err(ReadError::NoQuorum);
            }
            Err(RaftError::Fatal(_)) => return Err(ReadError::Stopped),
        };
        let at = linearizer.read_log_id().log_id();
        let term = at.leader_id.term;
        linearizer.await_ready(&self.raft).await.map_err(|_| ReadError::Stopped)?;
        self.heard_after(asked).await?;
        Ok(ReadLease::new(term))
    }

    /// Waits until a quorum has answered what was sent after `asked`, for a lease at most. openraft may have taken an
    /// answer that was held up for one to a newer request, see `net/acked.rs`.
    async fn heard_after(&self, asked: Instant) -> Result<(), ReadError> {
        while self.lease.heard_since(&self.metrics()).is_none_or(|since| since < asked) {
            if asked.elapsed() > self.config.lease() {
                return Err(ReadError::NoQuorum);
            }
            tokio::time::sleep(HEARD_LOOK).await;
        }
        Ok(())
    }

    pub(crate) fn peer_in(&self, forward: ForwardToLeader<TypeConfig>) -> Option<Peer> {
        let id = forward.leader_id?;
        let addr = forward.leader_node.map(|node| node.addr).unwrap_or_default();
        (id != self.config.node_id).then_some(Peer { id, addr })
    }

    pub(crate) fn metrics(&self) -> Metrics {
        self.raft.metrics().borrow_watched().clone()
    }

    pub(crate) fn has_stopped(&self) -> bool {
        self.fatal.borrow().is_some()
    }

    fn status(&self) -> Status {
        let metrics = self.metrics();
        let role = self.lease.role().borrow().clone();
        let current = self.applied.current();
        let dir = &self.config.data_dir;
        Status {
            node_id: self.config.node_id,
            cluster_id: self.config.cluster_id.clone(),
            term: metrics.current_term,
            leader: leader_of(&metrics),
            log: self.pointers(&metrics),
            members: members_of(&metrics, self.config.node_id),
            log_bytes: self.log.log_bytes(),
            data_dir_bytes: status::dir_bytes(dir),
            log_blobs: status::dir_entries(&SledLog::blobs_dir(&dir.join("log"))),
            snapshot_bytes: current.file.as_ref().map_or(0, |file| file.bytes),
            snapshot_at_ms: current.at_ms,
            snapshot_error: self.snapshot_error.lock().clone(),
            lease_left_ms: self
                .lease
                .left()
                .map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX)),
            fatal: self.fatal.borrow().clone(),
            data_dir: dir.clone(),
            role,
        }
    }

    /// Read from the oldest to the newest pointer, each at least as far as the one before: they
    /// move while they are read.
    fn pointers(&self, metrics: &Metrics) -> LogPointers {
        let purged = self.log.purged().map(|id| id.index);
        let covered = self.applied.current().file.and_then(|file| file.meta.last_log_id);
        let snapshot = covered.map(|id| id.index).max(purged);
        let applied = self.applied.index().max(snapshot);
        let committed = metrics.local_committed.map(|id| id.index).max(applied);
        let last = self.log.last().map(|id| id.index).max(committed);
        LogPointers { purged, snapshot, applied, committed, last }
    }

    async fn shutdown(&self) {
        // Clients then wait for a hand-over instead of an election.
        match self.transfer_leader(None).await {
            Ok(peer) => tracing::info!("leadership handed over to node {}", peer.id),
            Err(e) => tracing::debug!("leadership not handed over: {e}"),
        }
        self.lease.end();
        self.stop().await;
    }

    /// Ends raft, then the workers, then the log; the order in which they need each other.
    async fn stop(&self) {
        if let Err(e) = self.raft.shutdown().await {
            tracing::warn!("raft did not stop in order: {e}");
        }
        let workers = self.workers.lock().take();
        if let Some(mut workers) = workers {
            workers.shutdown().await;
        }
        if let Err(e) = self.log.stop().await {
            tracing::error!("{e}");
        }
        let dir = self.dir.lock().take();
        drop(dir);
    }
}

fn leader_of(metrics: &Metrics) -> Option<Peer> {
    let id = metrics.current_leader?;
    let node = metrics.membership_config.get_node(&id);
    Some(Peer { id, addr: node.map(|node| node.addr.clone()).unwrap_or_default() })
}

pub(crate) fn members_of(metrics: &Metrics, me: u64) -> Vec<Member> {
    let voters: std::collections::BTreeSet<u64> = metrics.membership_config.voter_ids().collect();
    let last = metrics.last_log_index;
    let leads = metrics.state.is_leader();
    let member = |id: u64, addr: &str| {
        let matched = match (&metrics.replication, leads && id == me) {
            (_, true) => last,
            (Some(all), _) => all.get(&id).and_then(|at| at.as_ref().map(|at| at.index)),
            (None, _) => None,
        };
        let next = |index: Option<u64>| index.map_or(0, |index| index.saturating_add(1));
        let lag = leads.then(|| next(last).saturating_sub(next(matched)));
        let heard = metrics.heartbeat.as_ref().and_then(|all| all.get(&id).copied().flatten());
        let heard_ms_ago = heard
            .filter(|_| leads)
            .map(|at| u64::try_from(at.into_inner().elapsed().as_millis()).unwrap_or(u64::MAX));
        let addr = addr.to_owned();
        Member { id, addr, voter: voters.contains(&id), matched, lag, heard_ms_ago }
    };
    metrics.membership_config.nodes().map(|(id, node)| member(*id, &node.addr)).collect()
}
