//! Decides when to sweep and how much (RFC "Expiration cleanup").
//!
//! A sweep is proposed only when something is due, and each is small: other commands wait behind it. Soft pins
//! have a command of their own, because they can be very many at once.

use crate::model::Millis;
use crate::state::State;
use crate::state::command::{Sweep, SweepPins};
use crate::state::tasks::TaskRules;

/// Pins that one sweep ends, about: some hundred microseconds of work.
const PINS_WANTED: usize = 512;

/// Unfinished writes and set-aside items that one sweep ends at most.
const ITEMS_MAX: u32 = 512;

/// What counts as too old, as the deployment has it.
#[derive(Clone, Copy, Debug)]
pub struct SweepRules {
    /// Age at which an unfinished write, copy or move is dropped.
    pub release_timeout_ms: u64,
    /// What becomes of old tasks.
    pub tasks: TaskRules,
}

/// The soft pins to end next, or `None` if none is due.
pub fn plan_pins(state: &State, now: Millis) -> Option<SweepPins> {
    let (until, shards) = state.deadlines().due_bound(now, PINS_WANTED)?;
    Some(SweepPins { until, shards })
}

/// What else to sweep at `now`, or `None` if nothing is due.
pub fn plan(state: &State, now: Millis, rules: &SweepRules) -> Option<Sweep> {
    let release_timeout_ms = rules.release_timeout_ms;
    let is_write_due = state
        .oldest_write()
        .is_some_and(|start| start.0.saturating_add(release_timeout_ms) < now.0);
    let is_transfer_due = state
        .transfers()
        .oldest()
        .is_some_and(|(start, _)| start.0.saturating_add(release_timeout_ms) <= now.0);
    let is_task_due = state.tasks().is_due(&rules.tasks, now);
    let is_discard_due = state.discards().next_release().is_some_and(|at| at <= now);
    let is_grace_over =
        state.segments().iter().any(|(_, mounted)| mounted.unmount_at.is_some_and(|at| at <= now));
    let is_tier_job_due = state
        .tiers()
        .oldest()
        .is_some_and(|start| start.0.saturating_add(release_timeout_ms) <= now.0);
    let is_reservation_due = state.dynamic().next_expiry().is_some_and(|at| at <= now);
    let is_work_due = is_write_due || is_transfer_due || is_task_due || is_tier_job_due;
    let is_due = is_work_due || is_reservation_due || is_discard_due || is_grace_over;
    let (items_max, tasks) = (ITEMS_MAX, rules.tasks);
    is_due.then_some(Sweep { pins_until: Millis(0), items_max, release_timeout_ms, tasks })
}
