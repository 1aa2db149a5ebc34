//! The leader's loops: sweep what is due, give up silent clients, finish unmounts.
//!
//! They run exactly while this node leads: gaining leadership starts them with a fresh [`LeaderContext`],
//! losing it aborts them. Each does bounded work a step and lets other commands in between.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use super::MasterNode;
use super::drain::DRAIN_INTERVAL;
use super::dynamic::DYNAMIC_INTERVAL;
use super::error::NodeError;
use super::tiers::{LOST_FILES_INTERVAL, PROMOTION_INTERVAL};
use crate::leader::LeaderContext;
use crate::leader::sweeper::{self, SweepRules};
use crate::model::{SegmentId, SegmentStatus};
use crate::state::Reply;
use crate::state::command::Command;
use crate::state::leadership::Leadership;

/// How often silent clients are looked for.
const LIVENESS_INTERVAL: Duration = Duration::from_secs(1);

/// How often unmounting segments are looked for.
const UNMOUNT_INTERVAL: Duration = Duration::from_millis(50);

/// How often the policy file of tenants is looked at.
const TENANTS_INTERVAL: Duration = Duration::from_secs(1);

/// Pause before a failed announcement is tried again.
const ANNOUNCE_PAUSE: Duration = Duration::from_millis(100);

/// Allocations that one command of an unmount drops, and segments that are drained at once. Other commands
/// wait behind as many steps, so both are small; two hide the way through the log.
const ALLOCATIONS_PER_STEP: u32 = 512;
const DRAINS_AT_ONCE_MAX: usize = 2;

impl MasterNode {
    /// Follows the role for as long as the node runs; `following` is told once the first role is in force.
    pub(super) async fn follow_role(self, following: oneshot::Sender<()>) {
        let mut role = self.raft().watch_role();
        let mut loops = JoinSet::new();
        let mut following = Some(following);
        loop {
            let now = role.borrow_and_update().clone();
            let leading = now.is_ready_leader().then(|| now.term());
            let before = self.leader().map(|leader| leader.term);
            if leading != before {
                loops.abort_all();
                // Looked at before anybody can begin one in this term.
                let unfinished = self.unfinished_restore();
                self.set_leader(leading.map(|term| self.new_context(term)));
                if let Some(term) = leading {
                    self.unfence_all();
                    tracing::info!(term, "leading");
                    if self.inner.has_loops {
                        self.start_loops(term, unfinished, &mut loops);
                    }
                } else {
                    self.machine().arrivals().close();
                    tracing::info!(term = now.term(), "following");
                }
            }
            if let Some(following) = following.take() {
                // Nobody waits any more if opening was given up.
                let _ = following.send(());
            }
            if role.changed().await.is_err() {
                return;
            }
        }
    }

    fn new_context(&self, term: u64) -> Arc<LeaderContext> {
        let settings = self.settings();
        let now = self.clock().now(self.machine().view().clock());
        let heard = self.clock().monotonic();
        let (lease_ttl, client_ttl) = (settings.lease_ttl, settings.client_ttl);
        Arc::new(LeaderContext::new(term, now, heard, lease_ttl, client_ttl))
    }

    fn start_loops(&self, term: u64, unfinished: Option<u64>, loops: &mut JoinSet<()>) {
        loops.spawn(self.clone().announce(term));
        if let Some(attempt) = unfinished {
            let node = self.clone();
            loops.spawn(async move { node.abort_restore(attempt).await });
        }
        loops.spawn(self.clone().every(self.settings().sweep_interval, Work::Sweep));
        loops.spawn(self.clone().every(LIVENESS_INTERVAL, Work::Liveness));
        loops.spawn(self.clone().every(UNMOUNT_INTERVAL, Work::Unmount));
        loops.spawn(self.clone().every(TENANTS_INTERVAL, Work::Tenants));
        loops.spawn(self.clone().every(LOST_FILES_INTERVAL, Work::LostFiles));
        loops.spawn(self.clone().every(DRAIN_INTERVAL, Work::Drain));
        if self.settings().tiers.promotion.is_some() {
            loops.spawn(self.clone().every(PROMOTION_INTERVAL, Work::Promote));
        }
        if self.settings().dynamic.is_some() {
            loops.spawn(self.clone().every(DYNAMIC_INTERVAL, Work::Replicate));
        }
        loops.spawn(self.clone().evict_while_leading());
    }

    /// Tells the log, and with it every node and client, that this node serves.
    async fn announce(self, term: u64) {
        let settings = self.settings();
        let told = Leadership {
            term,
            node_id: settings.node_id,
            rpc_address: Arc::clone(&settings.rpc_address),
            admin_address: Arc::clone(&settings.admin_address),
        };
        while let Err(error) = self.propose(&Command::Lead(told.clone())).await {
            tracing::warn!(%error, "the announcement of this leader is tried again");
            tokio::time::sleep(ANNOUNCE_PAUSE).await;
        }
    }

    async fn every(self, period: Duration, work: Work) {
        let mut ticks = interval(period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let done = match work {
                Work::Sweep => self.sweep().await,
                Work::Liveness => self.give_up_silent_clients().await,
                Work::Unmount => self.finish_unmounts().await,
                Work::Tenants => self.follow_policy_file().await,
                Work::LostFiles => self.drop_lost_files().await,
                Work::Promote => self.promote_wished().await,
                Work::Drain => self.step_drains().await,
                Work::Replicate => self.replicate_hot().await,
            };
            // Lost leadership ends the loop from outside; anything else is tried again next time.
            if let Err(error) = done {
                tracing::warn!(%error, ?work, "leader's work was not done; it is tried again");
            }
        }
    }

    /// Sweeps until nothing is due.
    pub(crate) async fn sweep(&self) -> Result<(), NodeError> {
        let settings = self.settings();
        let rules = SweepRules {
            release_timeout_ms: settings.rules.release_timeout_ms,
            tasks: settings.tasks.rules,
        };
        loop {
            let now = self.clock().now(self.machine().view().clock());
            // Drops stale registrations: what is planned then names a pin.
            self.machine().next_deadline();
            let (pins, rest) = self
                .machine()
                .look(|state| (sweeper::plan_pins(state, now), sweeper::plan(state, now, &rules)));
            if pins.is_none() && rest.is_none() {
                return Ok(());
            }
            let planned = [pins.map(Command::SweepPins), rest.map(Command::Sweep)];
            for command in planned.iter().flatten() {
                if let Reply::Swept(swept) = self.propose_work(command).await? {
                    self.sweep_stats().note(&swept);
                }
            }
        }
    }

    /// Gives up the clients that were silent for too long.
    pub(crate) async fn give_up_silent_clients(&self) -> Result<(), NodeError> {
        let Some(leader) = self.leader() else { return Ok(()) };
        let now = self.clock().monotonic();
        let expired =
            self.machine().look(|state| leader.liveness.lock().expired(state.clients(), now));
        if expired.is_empty() {
            return Ok(());
        }
        for gone in &expired {
            tracing::warn!(client = %gone.client, "client is silent; its segments are unmounted");
        }
        let segments = self.segments_to_clean(&expired);
        self.propose(&Command::ExpireClients(expired)).await?;
        self.clean_metadata(&segments).await
    }

    /// Drops what is left of the segments that are going away.
    pub(crate) async fn finish_unmounts(&self) -> Result<(), NodeError> {
        // Grace times are short, so they do not wait for the sweeper's turn.
        let now = self.clock().now(self.machine().view().clock());
        let is_grace_over = self.machine().look(|state| {
            let mut segments = state.segments().iter();
            segments.any(|(_, mounted)| mounted.unmount_at.is_some_and(|at| at <= now))
        });
        if is_grace_over {
            self.sweep().await?;
        }
        let unmounting = self.machine().look(|state| {
            let segments = state.segments().iter();
            let ending = segments.filter(|(_, m)| m.status == SegmentStatus::Unmounting);
            ending.map(|(_, mounted)| mounted.segment.id).collect::<Vec<_>>()
        });
        let mut unmounting = unmounting.into_iter();
        let mut drains = JoinSet::new();
        loop {
            while drains.len() < DRAINS_AT_ONCE_MAX
                && let Some(segment) = unmounting.next()
            {
                drains.spawn(self.clone().drain(segment));
            }
            match drains.join_next().await {
                Some(drained) => {
                    drained.map_err(|error| NodeError::OutcomeUnknown(error.to_string()))??;
                }
                None => return Ok(()),
            }
        }
    }

    /// Drops what is left of an unmounting segment, step by step.
    async fn drain(self, segment: SegmentId) -> Result<(), NodeError> {
        let step = Command::DrainUnmounted { segment, allocations_max: ALLOCATIONS_PER_STEP };
        while let Reply::Drained { is_finished: false } = self.propose_work(&step).await? {}
        Ok(())
    }
}

#[derive(Clone, Copy, Debug)]
enum Work {
    Sweep,
    Liveness,
    Unmount,
    Tenants,
    LostFiles,
    Promote,
    Drain,
    Replicate,
}
