//! The evictor's loop: sees that memory runs out, fences what is oldest, has it evicted in batches.
//!
//! Fences are as in `remove.rs`: none is raised over a running lease, and one of unknown outcome stands. The
//! order and the amounts come from `leader::evictor`. No lock is held over more than one object, and a
//! pass lets other work in after some looks. Nothing is tried while nothing can go.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::{JoinSet, yield_now};
use tokio::time::{MissedTickBehavior, interval};

use super::MasterNode;
use super::error::NodeError;
use crate::leader::LeaderContext;
use crate::leader::arrivals::Arrived;
use crate::leader::evictor::{Candidate, EvictionOrder, Eyes, Goal, Next, Seen};
use crate::model::ids::SHARD_COUNT;
use crate::model::{ErrorCode, GroupIdx, Millis, Object, TenantIdx};
use crate::state::Reply;
use crate::state::command::{Command, KEYS_PER_COMMAND_MAX, Key};
use crate::state::disk::command::{Fate, TierReply};
use crate::state::evict::{Evict, Victim, incarnation};
use crate::state::table::table_hash;

/// How often memory is looked at. A client whose write found no room tries again about as soon.
const EVICTION_INTERVAL: Duration = Duration::from_millis(10);

/// Objects looked at in one go.
const LOOKS_PER_GO: u32 = 512;

/// When a victim that the state has spared is proposed again.
const SPARED_AGAIN_MS: u64 = 1_000;

/// Batches of victims in the log at once: enough to keep it busy, too few to keep others waiting.
const BATCHES_IN_FLIGHT_MAX: usize = 4;

/// Counts of this process's evictions, for metrics.
#[derive(Debug, Default)]
pub struct EvictionStats {
    /// Passes that had something to try.
    pub attempted: AtomicU64,
    /// Passes that freed memory.
    pub successful: AtomicU64,
    /// Objects that lost their memory.
    pub evicted_keys: AtomicU64,
    /// Bytes of it.
    pub evicted_bytes: AtomicU64,
    /// Entries of the eviction order, at the last look.
    pub order_entries: AtomicU64,
    /// Walks over the table to build the order anew.
    pub rebuilds: AtomicU64,
}

/// What eviction keeps beside the loop.
#[derive(Debug, Default)]
pub(super) struct Eviction {
    pub stats: EvictionStats,
    /// A write found no room since the last pass that freed some.
    is_needed: AtomicBool,
}

/// What a pass did.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Passed {
    tried: u64,
    keys: u64,
    /// Bytes that came free.
    pub bytes: u64,
    /// Objects that go to disk first; they count as going.
    queued: u64,
}

impl Passed {
    /// Objects that went or will.
    fn going(&self) -> u64 {
        self.keys + self.queued
    }
}

impl MasterNode {
    /// Counts of the evictor.
    pub fn eviction_stats(&self) -> &EvictionStats {
        &self.inner.eviction.stats
    }

    /// Takes note of writes that found no room. Where there are fewer segment names than copies wanted,
    /// eviction could not help and is not asked for.
    pub(super) fn note_room(&self, command: &Command, reply: &Reply) {
        let Reply::Starts(started) = reply else { return };
        if !started.contains(&Err(ErrorCode::NoAvailableHandle)) {
            return;
        }
        let Some(wanted) = command.replicas_wanted() else { return };
        let names = self.look(|state| state.segments().allocatable().len());
        if names >= wanted as usize {
            self.inner.eviction.is_needed.store(true, Ordering::Release);
        }
    }

    /// Evicts for as long as this node leads.
    pub(super) async fn evict_while_leading(self) {
        let Some(leader) = self.leader() else { return };
        let mut order = self.build_order().await;
        let mut ticks = interval(EVICTION_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.evict_if_due(&leader, &mut order).await;
        }
    }

    /// Brings the order up to date and makes one pass if there is a reason for one.
    pub(crate) async fn evict_if_due(
        &self,
        leader: &Arc<LeaderContext>,
        order: &mut EvictionOrder,
    ) {
        let rules = self.settings().eviction;
        let arrived = self.machine().arrivals().take();
        let (usage, totals) = self.look(|state| (state.segments().memory_usage(), *state.totals()));
        match arrived {
            Arrived::These(arrivals) if !order.is_stale(totals.keys) => order.arrive(&arrivals),
            _ => *order = self.build_order().await,
        }
        self.eviction_stats().order_entries.store(order.len() as u64, Ordering::Relaxed);
        let eviction = &self.inner.eviction;
        let is_needed = eviction.is_needed.load(Ordering::Acquire);
        let Some(goal) = rules.goal(usage, totals.evictable, is_needed) else { return };
        if totals.evictable == 0 {
            eviction.is_needed.store(false, Ordering::Release);
            return;
        }
        let now = self.clock().now(self.machine().view().clock());
        if !order.has_work(now, rules.allows_soft_pinned) {
            return;
        }
        let pass = Pass::new(self, leader, order, now);
        let passed = pass.run(goal, rules.allows_soft_pinned).await;
        self.note_pass(passed);
    }

    fn note_pass(&self, passed: Passed) {
        let (eviction, stats) = (&self.inner.eviction, &self.inner.eviction.stats);
        if passed.tried > 0 {
            stats.attempted.fetch_add(1, Ordering::Relaxed);
        }
        if passed.keys > 0 {
            eviction.is_needed.store(false, Ordering::Release);
            stats.successful.fetch_add(1, Ordering::Relaxed);
            stats.evicted_keys.fetch_add(passed.keys, Ordering::Relaxed);
            stats.evicted_bytes.fetch_add(passed.bytes, Ordering::Relaxed);
            tracing::debug!(keys = passed.keys, bytes = passed.bytes, "evicted");
        }
    }

    /// Walks the table, shard by shard. What arrives meanwhile is collected and may be in the order twice,
    /// which costs a look.
    pub(crate) async fn build_order(&self) -> EvictionOrder {
        self.eviction_stats().rebuilds.fetch_add(1, Ordering::Relaxed);
        self.machine().arrivals().open();
        let mut order = EvictionOrder::default();
        for shard in 0..SHARD_COUNT {
            order.walk(self.machine().view(), shard);
            yield_now().await;
        }
        order
    }

    /// The objects that go together with this one or not at all: the members of its group (behaviour 7.5).
    fn company(&self, candidate: Candidate) -> Vec<Candidate> {
        let view = self.machine().view();
        let group = view.table.peek(candidate.object(), |object| object.group);
        let Some(group) = group.filter(|group| *group != GroupIdx::NONE) else {
            return vec![candidate];
        };
        let members = view.group_members(group).into_iter();
        let member = |(_, at)| {
            let incarnation = view.table.peek(at, incarnation)?;
            Some(Candidate::new(at, incarnation))
        };
        members.filter_map(member).collect()
    }
}

/// A fenced victim.
struct Picked {
    candidate: Candidate,
    /// It was taken from the order; other members of a group still have their place in it.
    has_left_order: bool,
    victim: Victim,
    tenant: TenantIdx,
    put_start: Millis,
    /// What would come free of it, as it was when it was fenced.
    bytes: u64,
}

/// A batch that came back from the log.
struct Landed {
    picked: Vec<Picked>,
    fates: Result<Vec<Fate>, NodeError>,
}

/// One pass of eviction, with its time fixed.
pub(super) struct Pass<'a> {
    node: &'a MasterNode,
    leader: &'a Arc<LeaderContext>,
    order: &'a mut EvictionOrder,
    now: Millis,
    spares_soft_pinned: bool,
    /// Objects that may still be queued for disks in this pass.
    queueable: u64,
    batch: Vec<Picked>,
    /// Victims in the batches of `flights`.
    flying: u64,
    flights: JoinSet<Landed>,
    passed: Passed,
    has_failed: bool,
}

impl<'a> Pass<'a> {
    /// A pass over the candidates of an order.
    pub fn new(
        node: &'a MasterNode,
        leader: &'a Arc<LeaderContext>,
        order: &'a mut EvictionOrder,
        now: Millis,
    ) -> Self {
        Pass {
            node,
            leader,
            order,
            now,
            spares_soft_pinned: true,
            queueable: node.settings().tiers.queued_per_pass(),
            batch: Vec::new(),
            flying: 0,
            flights: JoinSet::new(),
            passed: Passed::default(),
            has_failed: false,
        }
    }

    /// First the oldest without an active pin, up to the ideal; then, if that was less than what is needed,
    /// soft-pinned ones.
    async fn run(mut self, goal: Goal, allows_soft_pinned: bool) -> Passed {
        self.evict_until(goal.ideal).await;
        if allows_soft_pinned && self.passed.going() < goal.lower {
            self.spares_soft_pinned = false;
            self.evict_until(goal.lower).await;
        }
        self.passed
    }

    /// First the oldest without an active pin, until so many bytes are free; then, if that was not enough,
    /// soft-pinned ones.
    pub async fn run_for_bytes(mut self, wanted: u64, allows_soft_pinned: bool) -> Passed {
        self.free(wanted).await;
        if allows_soft_pinned && self.passed.bytes < wanted {
            self.spares_soft_pinned = false;
            self.free(wanted).await;
        }
        self.passed
    }

    /// Evicts until so many bytes are free or nothing can go any more. Ends as `evict_until` does.
    async fn free(&mut self, wanted: u64) {
        let mut is_exhausted = false;
        while self.passed.bytes < wanted && !is_exhausted && !self.has_failed {
            let mut expected = self.passed.bytes;
            while expected < wanted {
                let picked = self.batch.len();
                match self.next() {
                    Next::Oldest(candidate) => self.pick(candidate),
                    Next::Pause => yield_now().await,
                    Next::Nothing => {
                        is_exhausted = true;
                        break;
                    }
                }
                let new = self.batch.iter().skip(picked).map(|picked| picked.bytes);
                expected = expected.saturating_add(new.sum());
            }
            self.send().await;
            while self.land().await {}
        }
    }

    /// Evicts until so many objects went or nothing can go any more. Ends, because `now` is fixed and what
    /// could not go comes up again only later than that.
    async fn evict_until(&mut self, wanted: u64) {
        let mut is_exhausted = false;
        while self.passed.going() < wanted && !is_exhausted && !self.has_failed {
            while self.passed.going() + self.flying + (self.batch.len() as u64) < wanted {
                match self.next() {
                    Next::Oldest(candidate) => self.pick(candidate),
                    Next::Pause => yield_now().await,
                    Next::Nothing => {
                        is_exhausted = true;
                        break;
                    }
                }
                if self.batch.len() >= KEYS_PER_COMMAND_MAX {
                    self.send().await;
                }
            }
            self.send().await;
            while self.land().await {}
        }
    }

    fn next(&mut self) -> Next {
        let eyes = eyes(self.node, self.leader, self.now);
        match self.spares_soft_pinned {
            true => self.order.next(&eyes, LOOKS_PER_GO),
            false => self.order.next_soft_pinned(&eyes, LOOKS_PER_GO),
        }
    }

    /// Fences a candidate and its company and adds them to the batch; if one of them may be being read, none.
    fn pick(&mut self, candidate: Candidate) {
        let eyes = eyes(self.node, self.leader, self.now);
        // A leased group is known by any of its members, without a look at the others.
        if let Some(until) = eyes.leased_until(candidate) {
            self.order.put_back_until(candidate, until);
            return;
        }
        let company = self.node.company(candidate);
        let mut fenced = Vec::with_capacity(company.len());
        // Even a member that would stay in any case keeps the others while it is read.
        if let Some(until) = company.iter().filter_map(|member| eyes.leased_until(*member)).max() {
            self.order.put_back_until(candidate, until);
            return;
        }
        for member in company {
            let until = match eyes.look(member) {
                Seen::Open { .. } => self.fence(member, candidate, &mut fenced),
                Seen::SoftPinned { .. } if !self.spares_soft_pinned => {
                    self.fence(member, candidate, &mut fenced)
                }
                Seen::Leased(until) | Seen::Promised(until) => Err(until),
                Seen::SoftPinned { .. } | Seen::Blocked | Seen::Gone => Ok(()),
            };
            if let Err(until) = until {
                fenced.iter().for_each(|picked| self.unfence(picked, false));
                self.order.put_back_until(candidate, until);
                return;
            }
        }
        if !fenced.iter().any(|picked| picked.has_left_order) {
            self.order.put_back(candidate, self.now);
        }
        self.batch.append(&mut fenced);
    }

    /// Closes an object to new leases. Errors: it was leased meanwhile, until then. One whose removal is in
    /// flight is left to that.
    fn fence(
        &self,
        member: Candidate,
        taken: Candidate,
        fenced: &mut Vec<Picked>,
    ) -> Result<(), Millis> {
        let view = self.node.machine().view();
        let close = |object: &Object| {
            use crate::model::object::FenceRefused;
            match view.fence(member.object(), object, self.now, false) {
                Ok(()) => {
                    let copies = object.replicas.iter().filter(|r| r.is_evictable()).count() as u64;
                    let bytes = object.size.saturating_mul(copies);
                    Ok(Some((object.tenant, victim_of(object), object.put_start, bytes)))
                }
                Err(FenceRefused::AlreadyFenced) => Ok(None),
                Err(FenceRefused::Leased) => Err(view.lease_end(member.object(), object)),
            }
        };
        let closed = view.table.peek(member.object(), close).unwrap_or(Ok(None))?;
        fenced.extend(closed.map(|(tenant, victim, put_start, bytes)| Picked {
            candidate: member,
            has_left_order: member == taken,
            victim: Victim { tenant: self.tenant(tenant), ..victim },
            tenant,
            put_start,
            bytes,
        }));
        Ok(())
    }

    fn tenant(&self, tenant: TenantIdx) -> Option<crate::model::Tenant> {
        if tenant == TenantIdx(0) {
            return None;
        }
        self.node.look(|state| state.tenant_name(tenant).cloned())
    }

    /// Opens an object to leases again. If it was evicted only its own remains, such as a copy on disk, may
    /// still be fenced by us. If it was not, a write may have replaced it, and its heir has our fence.
    fn unfence(&self, picked: &Picked, was_evicted: bool) {
        let table = &self.node.machine().view().table;
        let key = &picked.victim.key.0;
        if was_evicted {
            table.peek(picked.candidate.object(), |object| {
                if *object.key == **key && object.put_start == picked.put_start {
                    object.lease.unfence();
                }
            });
            return;
        }
        let hash = table_hash(&picked.victim.tenant.clone().unwrap_or_default(), key);
        table.look(hash, picked.tenant, key, |object| {
            if let Some(object) = object {
                object.lease.unfence();
            }
        });
    }

    /// Sends the batch, after waiting for a place among the batches in flight.
    async fn send(&mut self) {
        while self.flights.len() >= BATCHES_IN_FLIGHT_MAX {
            self.land().await;
        }
        while !self.batch.is_empty() {
            // A group may have made the batch larger than a command may be.
            let rest = self.batch.split_off(self.batch.len().min(KEYS_PER_COMMAND_MAX));
            let picked = std::mem::replace(&mut self.batch, rest);
            self.flying += picked.len() as u64;
            self.passed.tried += picked.len() as u64;
            let victims = picked.iter().map(|picked| picked.victim.clone()).collect();
            let spares_soft_pinned = self.spares_soft_pinned;
            let queued_max = self.queueable.min(picked.len() as u64);
            self.queueable -= queued_max;
            let evict = Evict { victims, spares_soft_pinned };
            let command = self.node.settings().tiers.of_eviction(evict, queued_max);
            let node = self.node.clone();
            self.flights.spawn(async move {
                let freed = match node.propose_work(&command).await {
                    Ok(Reply::Evicted(freed)) => Ok(freed.into_iter().map(Fate::evicted).collect()),
                    Ok(Reply::Tier(TierReply::Evicted(fates))) => Ok(fates),
                    Ok(other) => Err(NodeError::OutcomeUnknown(format!("{other:?}"))),
                    Err(error) => Err(error),
                };
                Landed { picked, fates: freed }
            });
        }
    }

    /// Waits for one batch; returns whether there was one.
    async fn land(&mut self) -> bool {
        let Some(landed) = self.flights.join_next().await else { return false };
        let Ok(Landed { picked, fates }) = landed else {
            self.has_failed = true;
            return true;
        };
        self.flying = self.flying.saturating_sub(picked.len() as u64);
        let is_unknown = matches!(fates, Err(NodeError::OutcomeUnknown(_)));
        let is_decided = fates.is_ok();
        let fates = fates.unwrap_or_else(|error| {
            tracing::warn!(%error, "a batch of evictions was not done; it is tried again");
            self.has_failed = true;
            Vec::new()
        });
        let mut fates = fates.into_iter();
        for picked in picked {
            let Fate { freed: bytes, is_queued } = fates.next().unwrap_or_default();
            self.passed.queued += u64::from(is_queued && bytes == 0);
            if bytes > 0 {
                self.passed.keys += 1;
                self.passed.bytes += bytes;
            }
            let is_over = bytes > 0 && !is_queued;
            if picked.has_left_order && !is_over && is_decided {
                // The state has spared it, as it does while a snapshot could bring its memory back, or while the
                // object is on its way to a disk.
                let again = Millis(self.now.0.saturating_add(SPARED_AGAIN_MS));
                self.order.put_back_until(picked.candidate, again);
            } else if picked.has_left_order && !is_over {
                self.order.put_back(picked.candidate, self.now);
            }
            if !is_unknown {
                self.unfence(&picked, bytes > 0);
            }
        }
        true
    }
}

fn eyes<'a>(node: &'a MasterNode, leader: &LeaderContext, now: Millis) -> Eyes<'a> {
    let (since, promised_until) = (leader.since, leader.no_removal_before);
    Eyes { view: node.machine().view(), now, promised_until, since }
}

/// The object as a victim, its tenant aside.
fn victim_of(object: &Object) -> Victim {
    let (key, incarnation) = (Key(object.key.to_vec()), incarnation(object));
    Victim { tenant: None, key, incarnation }
}
