//! Who may answer reads, and until when: the leader lease and the role built on it.
//!
//! Guards: a read lease is given only while (a) this node leads, (b) an entry of its own term is
//! applied, so everything acknowledged earlier is, and (c) a quorum heard from it so recently
//! that no other node can have been elected: `0.8 x lease - margin` after the send time of the
//! last quorum-acknowledged message. A sole voter needs no (c). The lease is withdrawn before a
//! transfer of leadership or a change of voters, and after a sleep of the machine.
//! Leaves to the node: asking a quorum when the lease is stale.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::clock::Nanos;
use crate::net::acked::Acked;
use crate::status::{Peer, Role};
use crate::types::{Metrics, NodeId, term_of};
use crate::world::World;

/// Taken off the lease for what clocks and scheduling may be wrong by.
const MARGIN: Duration = Duration::from_millis(20);
/// A clock that ran ahead of the monotonic one by more than this since the last look means that
/// the machine slept or was paused; acknowledgements from before count no more.
const JUMP: Duration = Duration::from_millis(200);
/// No lease.
const NEVER: Nanos = 0;
/// A sole voter's lease.
const FOREVER: Nanos = Nanos::MAX;

/// Proof that this node could answer reads when it was given: use it at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadLease {
    term: u64,
}

impl ReadLease {
    pub(crate) fn new(term: u64) -> Self {
        Self { term }
    }

    /// The term in which this node leads.
    pub fn term(self) -> u64 {
        self.term
    }
}

/// Clock differences at the last look.
#[derive(Clone, Copy)]
struct Offsets {
    boot: i128,
    wall: i128,
}

impl Offsets {
    fn now(world: &World) -> Self {
        let monotonic = i128::from(world.monotonic_ns());
        Self {
            boot: i128::from(world.boot_ns()) - monotonic,
            wall: i128::from(world.wall_ns()) - monotonic,
        }
    }
}

struct Guard {
    offsets: Offsets,
    /// Acknowledgements of messages sent before this do not count.
    floor: Option<Instant>,
    /// Reasons to give no lease at all: a transfer or a change of voters under way.
    blocks: usize,
}

/// The lease of one node; refreshed by its follower of openraft's metrics.
pub(crate) struct LeaseCell {
    until: AtomicU64,
    term: AtomicU64,
    guard: Mutex<Guard>,
    node_id: NodeId,
    lease: Duration,
    world: World,
    acked: Arc<Acked>,
    role: watch::Sender<Role>,
}

impl LeaseCell {
    pub(crate) fn new(node_id: NodeId, lease: Duration, world: World, acked: Arc<Acked>) -> Self {
        let guard = Guard { offsets: Offsets::now(&world), floor: None, blocks: 0 };
        Self {
            until: AtomicU64::new(NEVER),
            term: AtomicU64::new(0),
            guard: Mutex::new(guard),
            node_id,
            lease,
            world,
            acked,
            role: watch::Sender::new(Role::Follower { term: 0, leader: None }),
        }
    }

    /// The lease, if it is valid now. Two loads and a clock reading.
    #[inline]
    pub(crate) fn get(&self) -> Option<ReadLease> {
        let until = self.until.load(Ordering::Acquire);
        if until == NEVER || (until != FOREVER && self.world.boot_ns() >= until) {
            return None;
        }
        Some(ReadLease::new(self.term.load(Ordering::Acquire)))
    }

    /// How long the lease still lasts; `Duration::MAX` for a sole voter.
    pub(crate) fn left(&self) -> Option<Duration> {
        match self.until.load(Ordering::Acquire) {
            NEVER => None,
            FOREVER => Some(Duration::MAX),
            until => until.checked_sub(self.world.boot_ns()).map(Duration::from_nanos),
        }
    }

    pub(crate) fn role(&self) -> watch::Receiver<Role> {
        self.role.subscribe()
    }

    /// Withdraws the lease until the returned block is dropped.
    pub(crate) fn block(&self) -> Block<'_> {
        let mut guard = self.guard.lock();
        guard.blocks += 1;
        self.until.store(NEVER, Ordering::Release);
        Block(self)
    }

    /// Withdraws lease and role for good: the node stops.
    pub(crate) fn end(&self) {
        let mut guard = self.guard.lock();
        guard.blocks += 1;
        self.until.store(NEVER, Ordering::Release);
        let term = self.term.load(Ordering::Acquire);
        self.set_role(Role::Follower { term, leader: None });
    }

    /// Looks at openraft's metrics and renews or withdraws lease and role.
    pub(crate) fn refresh(&self, metrics: &Metrics) {
        let mut guard = self.guard.lock();
        self.notice_jump(&mut guard);
        let leads = metrics.running_state.is_ok() && metrics.state.is_leader();
        let term = metrics.current_term;
        let ready = leads && metrics.last_applied.as_ref().map(term_of) == Some(term);
        let until = if !ready || guard.blocks > 0 {
            NEVER
        } else if self.is_sole_voter(metrics) {
            FOREVER
        } else {
            self.quorum_until(metrics, &guard)
        };
        self.term.store(term, Ordering::Release);
        self.until.store(until, Ordering::Release);
        self.set_role(if leads {
            Role::Leader { term, ready }
        } else {
            Role::Follower { term, leader: self.leader_in(metrics) }
        });
    }

    fn set_role(&self, role: Role) {
        self.role.send_if_modified(|old| {
            let changed = *old != role;
            *old = role;
            changed
        });
    }

    fn leader_in(&self, metrics: &Metrics) -> Option<Peer> {
        let id = metrics.current_leader.filter(|id| *id != self.node_id)?;
        let node = metrics.membership_config.get_node(&id);
        Some(Peer { id, addr: node.map(|node| node.addr.clone()).unwrap_or_default() })
    }

    fn is_sole_voter(&self, metrics: &Metrics) -> bool {
        let sole = |config: &[std::collections::BTreeSet<NodeId>]| {
            config.iter().all(|voters| voters.iter().eq([&self.node_id])) && !config.is_empty()
        };
        // Both: while a change is not committed, the old voters may still elect somebody.
        sole(metrics.membership_config.get_joint_config())
            && sole(metrics.committed_membership_config.get_joint_config())
    }

    /// The latest moment since which a quorum is known to have heard this leader.
    pub(crate) fn heard_since(&self, metrics: &Metrics) -> Option<Instant> {
        // Both: while a change is not committed, the old voters may still elect somebody.
        let configs = [&metrics.membership_config, &metrics.committed_membership_config];
        let configs: Vec<_> = configs.iter().flat_map(|of| of.get_joint_config()).collect();
        self.acked.since(self.node_id, metrics.current_term, &configs)
    }

    fn quorum_until(&self, metrics: &Metrics, guard: &Guard) -> Nanos {
        let Some(since) = self.heard_since(metrics) else { return NEVER };
        let age = since.elapsed();
        if guard.floor.is_some_and(|floor| age >= floor.elapsed()) {
            return NEVER;
        }
        let worth = (self.lease * 4 / 5).saturating_sub(MARGIN);
        let left = worth.saturating_sub(age);
        if left.is_zero() {
            return NEVER;
        }
        let left = u64::try_from(left.as_nanos()).unwrap_or(0);
        self.world.boot_ns().saturating_add(left)
    }

    /// Notices that the machine slept: then tokio's clock, which ages acknowledgements, stood
    /// still while the other nodes' clocks went on.
    fn notice_jump(&self, guard: &mut Guard) {
        let now = Offsets::now(&self.world);
        let jump = i128::try_from(JUMP.as_nanos()).unwrap_or(i128::MAX);
        let slept = now.boot - guard.offsets.boot > jump;
        let paused = now.wall - guard.offsets.wall > jump;
        if slept || paused {
            tracing::warn!("a clock jumped ahead; the leader lease waits for a fresh quorum");
            guard.floor = Some(Instant::now());
        }
        guard.offsets = now;
    }
}

/// Keeps the lease withdrawn while it lives.
pub(crate) struct Block<'a>(&'a LeaseCell);

impl Drop for Block<'_> {
    fn drop(&mut self) {
        let mut guard = self.0.guard.lock();
        guard.blocks = guard.blocks.saturating_sub(1);
        // Acknowledgements from before may have come from voters that are none any more.
        guard.floor = Some(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_never_valid_before_it_was_earned_or_while_it_is_blocked() {
        let cell = LeaseCell::new(1, Duration::from_secs(1), World::default(), Arc::default());
        assert_eq!(cell.get(), None);
        cell.until.store(FOREVER, Ordering::Release);
        cell.term.store(4, Ordering::Release);
        assert_eq!(cell.get(), Some(ReadLease { term: 4 }));
        let block = cell.block();
        assert_eq!(cell.get(), None);
        drop(block);
        assert_eq!(cell.get(), None, "only a refresh gives it back");
    }

    #[test]
    fn a_lease_runs_out_by_itself() {
        let cell = LeaseCell::new(1, Duration::from_secs(1), World::default(), Arc::default());
        cell.until.store(cell.world.boot_ns() + 5_000_000, Ordering::Release);
        assert!(cell.get().is_some());
        while cell.get().is_some() {
            std::thread::yield_now();
        }
        assert_eq!(cell.left(), None);
    }
}
