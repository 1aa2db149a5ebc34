//! Where state, leadership and Raft meet: the master that every door knocks at.
//!
//! `propose` is the only way to change the state, `read` the only way to serve a read, `remove` the only
//! place where a removal crosses a read lease. [`MasterNode`] is a cheap handle on all of it.

mod drain;
pub mod drive;
pub mod dynamic;
pub mod error;
pub mod evict;
pub mod feed;
pub mod machine;
pub mod propose;
mod quota;
pub mod read;
mod regex;
mod remove;
pub mod settings;
mod snapshots;
mod te_cleanup;
mod te_remote;
pub mod tenants;
pub mod tiers;
mod workers;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

use mooncake_ha_raft::{AdminError, Machine, Node, Status};

use crate::clock::Clock;
use crate::leader::LeaderContext;
use crate::leader::clock::LeaderClock;
use crate::model::{ClientId, Millis};
use crate::state::command::Command;
use crate::state::image::FrozenState;
pub use crate::state::leadership::Leadership;
use crate::state::reply::Swept;
use crate::state::{Reply, State};
use drive::Drive;
use error::NodeError;
use machine::StoreMachine;
pub use mooncake_ha_raft::{Role, behind, stand_back};
use propose::{Packer, ProposeStats, Proposer};
pub(crate) use regex::probe;
use settings::NodeSettings;

/// How often a node that stops tries to hand over; each try ends after a few election time-outs.
const HAND_OVERS_MAX: u32 = 3;

/// Counts of this process's sweeps, for metrics.
#[derive(Debug, Default)]
pub struct SweepStats {
    /// Soft pins that ended.
    pub pins_expired: AtomicU64,
    /// Due registrations that no longer named a pin.
    pub pins_stale: AtomicU64,
    /// Sweeps proposed.
    pub sweeps: AtomicU64,
}

impl SweepStats {
    fn note(&self, swept: &Swept) {
        self.sweeps.fetch_add(1, Ordering::Relaxed);
        self.pins_expired.fetch_add(swept.pins_expired, Ordering::Relaxed);
        self.pins_stale.fetch_add(swept.pins_stale, Ordering::Relaxed);
    }
}

struct Inner {
    raft: Node<StoreMachine>,
    machine: Arc<StoreMachine>,
    clock: Arc<LeaderClock>,
    settings: NodeSettings,
    proposer: Proposer,
    leader: RwLock<Option<Arc<LeaderContext>>>,
    sweeps: SweepStats,
    eviction: evict::Eviction,
    quota: quota::QuotaRoom,
    policies: tenants::PolicyDesk,
    promotions: tiers::PromotionStats,
    dynamic: dynamic::DynamicStats,
    has_loops: bool,
}

/// A running master node.
#[derive(Clone)]
pub struct MasterNode {
    inner: Arc<Inner>,
}

impl MasterNode {
    /// Opens the node: replays its log and, in a cluster of one, serves when this returns.
    ///
    /// Errors: the data directory or the raft port cannot be used; the message says what, where and what to do.
    pub async fn open(
        raft: mooncake_ha_raft::Config,
        settings: NodeSettings,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, mooncake_ha_raft::OpenError> {
        Self::open_driven(raft, settings, clock, Drive::default()).await
    }

    /// As [`MasterNode::open`], driven by the caller.
    #[doc(hidden)]
    pub async fn open_driven(
        raft: mooncake_ha_raft::Config,
        settings: NodeSettings,
        clock: Arc<dyn Clock>,
        drive: Drive,
    ) -> Result<Self, mooncake_ha_raft::OpenError> {
        let Drive { chance, has_loops, callers } = drive;
        let feed = settings.events_kept.map(|kept| Arc::new(feed::Feed::new(kept)));
        let machine = Arc::new(StoreMachine::feeding(feed));
        let raft = Node::open(raft, Arc::clone(&machine)).await?;
        let clock = Arc::new(LeaderClock::new(clock));
        let packer = Packer::new(raft.clone(), Arc::clone(&machine), Arc::clone(&clock), chance);
        let proposer = Proposer::start(packer, callers);
        let (leader, sweeps) = (RwLock::default(), SweepStats::default());
        let inner = Inner {
            raft,
            machine,
            clock,
            settings,
            proposer,
            leader,
            sweeps,
            eviction: evict::Eviction::default(),
            quota: quota::QuotaRoom::default(),
            policies: tenants::PolicyDesk::default(),
            promotions: tiers::PromotionStats::default(),
            dynamic: dynamic::DynamicStats::default(),
            has_loops,
        };
        let node = MasterNode { inner: Arc::new(inner) };
        let (following, ready) = tokio::sync::oneshot::channel();
        tokio::spawn(node.clone().follow_role(following));
        // Only a task that panicked drops the sender, and then no door opens.
        let _ = ready.await;
        Ok(node)
    }

    /// Has a command applied.
    ///
    /// Errors: by cause, see [`NodeError`].
    pub async fn propose(&self, command: &Command) -> Result<Reply, NodeError> {
        let reply = self.inner.proposer.propose(command).await?;
        self.note_room(command, &reply);
        Ok(reply)
    }

    /// Has a step of work on many objects applied: calls go before it, and wait for little of it.
    ///
    /// Errors: by cause, see [`NodeError`].
    pub async fn propose_work(&self, command: &Command) -> Result<Reply, NodeError> {
        self.inner.proposer.propose_work(command).await
    }

    /// Looks at the state between two entries. Keep it short: apply waits meanwhile.
    pub fn look<R>(&self, look: impl FnOnce(&State) -> R) -> R {
        self.inner.machine.look(look)
    }

    /// Takes handles to the whole state, for a snapshot. Apply waits only while they are taken.
    pub fn freeze(&self) -> FrozenState {
        self.inner.machine.freeze()
    }

    /// Notes that a client lives, for as long as this node leads.
    pub fn hear(&self, client: ClientId) {
        if let Some(leader) = self.leader() {
            leader.liveness.lock().hear(client, self.inner.clock.monotonic());
        }
    }

    /// What leadership adds to the state; `None` while this node does not lead.
    pub fn leader(&self) -> Option<Arc<LeaderContext>> {
        self.inner.leader.read().clone()
    }

    fn set_leader(&self, leader: Option<Arc<LeaderContext>>) {
        *self.inner.leader.write() = leader;
    }

    /// Whether an earlier leader may have promised a reader that an object, whose write began at `put_start`,
    /// is still there at `now`.
    fn may_be_promised(&self, put_start: Millis, now: Millis) -> bool {
        self.leader().is_none_or(|leader| {
            // Equality counts: a leader with a slow clock takes over at the very stamp of the last entry.
            put_start <= leader.since && !leader.no_removal_before.is_reached(now)
        })
    }

    /// Replication.
    pub fn raft(&self) -> &Node<StoreMachine> {
        &self.inner.raft
    }

    /// The state as Raft sees it.
    pub fn machine(&self) -> &StoreMachine {
        &self.inner.machine
    }

    /// The clock that stamps entries and measures leases.
    pub fn clock(&self) -> &LeaderClock {
        &self.inner.clock
    }

    /// What the node decides by.
    pub fn settings(&self) -> &NodeSettings {
        &self.inner.settings
    }

    /// Counts of the proposer.
    pub fn propose_stats(&self) -> &ProposeStats {
        self.inner.proposer.stats()
    }

    /// Counts of the sweeper.
    pub fn sweep_stats(&self) -> &SweepStats {
        &self.inner.sweeps
    }

    /// The node that leads, as far as this node knows.
    pub fn status_leader(&self) -> Option<u64> {
        match &*self.inner.raft.watch_role().borrow() {
            Role::Leader { .. } => Some(self.inner.settings.node_id),
            Role::Follower { leader, .. } => leader.as_ref().map(|leader| leader.id),
        }
    }

    /// Everything Raft says of this node.
    pub fn status(&self) -> Status {
        self.inner.raft.status()
    }

    /// Hands leadership to another node if this one leads and somebody can take it; answers whether somebody has.
    pub async fn hand_over(&self) -> bool {
        if self.leader().is_none() || self.status().members.len() < 2 {
            return false;
        }
        for _ in 0..HAND_OVERS_MAX {
            match self.inner.raft.transfer_leader(None).await {
                Ok(_) => return true,
                // Somebody else was quicker: clients have where to go.
                Err(AdminError::NotLeader { .. }) => return true,
                // The successor's disk may have been slow; it or another one may do better now.
                Err(error @ AdminError::Timeout(_)) => {
                    tracing::info!(%error, "leadership is not handed over; it is tried again");
                }
                Err(error) => {
                    tracing::info!(%error, "leadership is not handed over");
                    return false;
                }
            }
        }
        false
    }

    /// Stops replication.
    pub async fn shutdown(&self) {
        self.inner.raft.clone().shutdown().await;
    }
}
