//! Decides when to sweep and how much (RFC "Expiration cleanup").
//!
//! A sweep is proposed only when something is due. Soft pins are bounded by a deadline, not by a count (see
//! [`Sweep::pins_until`]), so the planner learns how wide a slice of time holds about as many pins as one
//! command should clear.

use crate::model::{Deadline, Millis};
use crate::state::State;
use crate::state::command::Sweep;
use crate::state::reply::Swept;
use crate::state::tasks::TaskRules;

/// Pins that one sweep should clear: about as long as the other commands of an entry.
const PINS_WANTED: u64 = 2_048;

/// Unfinished writes and set-aside items that one sweep ends at most.
const ITEMS_MAX: u32 = 512;

/// The widest slice of time that a sweep covers.
const SLICE_MS_MAX: u64 = 1 << 40;

/// What counts as too old, as the deployment has it.
#[derive(Clone, Copy, Debug)]
pub struct SweepRules {
    /// Age at which an unfinished write, copy or move is dropped.
    pub release_timeout_ms: u64,
    /// What becomes of old tasks.
    pub tasks: TaskRules,
}

/// The next slice of time to sweep.
#[derive(Debug)]
pub struct SweepPlanner {
    /// Width of the slice of deadlines, at least 1 ms.
    slice_ms: u64,
}

impl Default for SweepPlanner {
    fn default() -> Self {
        SweepPlanner { slice_ms: 1_000 }
    }
}

impl SweepPlanner {
    /// What to sweep at `now`, or `None` if nothing is due. `next_pin` is the first deadline of the index.
    pub fn plan(
        &self,
        state: &State,
        next_pin: Option<Deadline>,
        now: Millis,
        rules: &SweepRules,
    ) -> Option<Sweep> {
        let release_timeout_ms = rules.release_timeout_ms;
        let due_pin = next_pin.filter(|deadline| deadline.is_reached(now));
        let is_write_due = state
            .oldest_write()
            .is_some_and(|start| start.0.saturating_add(release_timeout_ms) < now.0);
        let is_transfer_due = state
            .transfers()
            .oldest()
            .is_some_and(|(start, _)| start.0.saturating_add(release_timeout_ms) <= now.0);
        let is_task_due = state.tasks().is_due(&rules.tasks, now);
        let is_discard_due = state.discards().next_release().is_some_and(|at| at <= now);
        let is_grace_over = state
            .segments()
            .iter()
            .any(|(_, mounted)| mounted.unmount_at.is_some_and(|at| at <= now));
        let is_work_due = is_write_due || is_transfer_due || is_task_due;
        let is_due = is_work_due || is_discard_due || is_grace_over;
        if due_pin.is_none() && !is_due {
            return None;
        }
        let slice_end = due_pin.map_or(0, |first| first.0.saturating_add(self.slice_ms));
        let pins_until = Millis(slice_end.min(now.0));
        let (items_max, tasks) = (ITEMS_MAX, rules.tasks);
        Some(Sweep { pins_until, items_max, release_timeout_ms, tasks })
    }

    /// Learns from what the last sweep cleared.
    pub fn learn(&mut self, swept: &Swept) {
        let cleared = swept.pins_expired + swept.pins_stale;
        if cleared > PINS_WANTED {
            self.slice_ms = (self.slice_ms / 2).max(1);
        } else if cleared < PINS_WANTED / 4 {
            self.slice_ms = (self.slice_ms * 2).min(SLICE_MS_MAX);
        }
    }
}
