//! Ending what has passed its time: soft pins, unfinished writes, set-aside memory, grace times of segments, and
//! what the other files sweep: transfers, tasks, reservations, and work on disks.
//!
//! The leader proposes a sweep only when something is due. Cost is in proportion to what is due: each kind
//! has an order from which the due ones are taken (RFC "Expiration cleanup").

use crate::model::{Deadline, Millis, ObjectRef, Replica};

use super::State;
use super::command::{Sweep, SweepPins};
use super::reply::Swept;

impl State {
    pub(super) fn sweep(&mut self, sweep: &Sweep) -> Swept {
        let mut swept = Swept::default();
        self.sweep_pins(sweep.pins_until.min(self.clock), &mut swept);
        self.sweep_writes(sweep, &mut swept);
        swept.transfers_dropped += self.sweep_transfers(sweep.items_max, sweep.release_timeout_ms);
        swept.tier_jobs_dropped += self.sweep_tiers(sweep.items_max, sweep.release_timeout_ms);
        swept.reservations_expired += self.sweep_reservations(sweep.items_max);
        swept.tasks_failed += self.sweep_tasks(&sweep.tasks, sweep.items_max);
        self.sweep_discards(sweep.items_max, &mut swept);
        self.sweep_grace(&mut swept);
        swept
    }

    pub(super) fn sweep_some_pins(&mut self, sweep: &SweepPins) -> Swept {
        let mut swept = Swept::default();
        let due = self.deadlines.take_before(sweep.until, sweep.shards, self.clock);
        self.clear_pins(due, &mut swept);
        swept
    }

    fn sweep_pins(&mut self, until: Millis, swept: &mut Swept) {
        let due = self.deadlines.take_due(until, usize::MAX);
        self.clear_pins(due, swept);
    }

    /// Clears each pin if the object still has that deadline. A pin that was enabled anew since has another
    /// one and stays.
    fn clear_pins(&mut self, due: Vec<(Deadline, ObjectRef)>, swept: &mut Swept) {
        for (deadline, object) in due {
            let is_cleared = self.edit(object, |object| {
                let is_due = object.pin() == Some(deadline);
                if is_due {
                    object.set_pin(None);
                }
                is_due
            });
            match is_cleared {
                Some(true) => swept.pins_expired += 1,
                _ => swept.pins_stale += 1,
            }
        }
    }

    /// Drops writes that never ended within the release timeout; their memory is free at once, since the time
    /// that protects it is over.
    fn sweep_writes(&mut self, sweep: &Sweep, swept: &mut Swept) {
        for _ in 0..sweep.items_max {
            let Some((&(start, _), &object)) = self.writes.first_key_value() else { return };
            if start.0.saturating_add(sweep.release_timeout_ms) >= self.clock.0 {
                return;
            }
            self.drop_replicas(object, |replica: &Replica| replica.is_being_put());
            self.erase_if_gone(object);
            self.counters.discards += 1;
            self.counters.releases += 1;
            swept.writes_dropped += 1;
        }
    }

    fn sweep_discards(&mut self, items_max: u32, swept: &mut Swept) {
        for _ in 0..items_max {
            let Some(discard) = self.discards.pop_due(self.clock) else { return };
            for replica in &discard.replicas {
                self.free(&replica.place);
            }
            // What only a catalog snapshot held is no write that was given up.
            let is_write = discard.held.is_none_or(|held| held.earliest.is_some());
            self.counters.releases += u64::from(is_write);
            swept.discards_released += 1;
        }
    }

    /// Unmounts segments whose grace time is over.
    fn sweep_grace(&mut self, swept: &mut Swept) {
        let clock = self.clock;
        let due: Vec<_> = self
            .segments
            .iter()
            .filter(|(_, mounted)| mounted.unmount_at.is_some_and(|at| at <= clock))
            .map(|(index, _)| index)
            .collect();
        for index in &due {
            self.begin_unmount(*index);
            swept.segments_unmounted += 1;
        }
        if !due.is_empty() {
            self.publish_directory();
        }
    }
}
