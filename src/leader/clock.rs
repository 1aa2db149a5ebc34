//! The leader's clock: wall time that neither jumps nor runs backwards.
//!
//! State time never falls, so one stamp from a wall clock that is a year ahead would freeze it there. A step
//! of more than a second is therefore not followed at once: the clock goes on by monotonic time and closes
//! the gap slowly. An operator sees the gap in the metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::clock::Clock;
use crate::model::Millis;

/// A difference between wall and elapsed time up to this is drift and is followed at once.
const STEP_MS_MAX: i64 = 1_000;

/// Beyond it, the gap is closed by one part in this many of the time that passes.
const SLEW_DIVISOR: i64 = 100;

#[derive(Debug)]
struct Anchor {
    /// What the clock said at `monotonic_ms`.
    now_ms: i64,
    monotonic_ms: i64,
    /// Monotonic time that has not been used for slewing yet.
    unused_slew_ms: i64,
}

/// The clock that stamps entries and measures read leases.
pub struct LeaderClock {
    clock: Arc<dyn Clock>,
    anchor: Mutex<Anchor>,
    last_ms: AtomicU64,
    gap_ms: AtomicI64,
    steps: AtomicU64,
}

fn signed(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

fn elapsed_ms(elapsed: Duration) -> i64 {
    i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX)
}

impl LeaderClock {
    /// A clock that starts at the wall time.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let anchor = Anchor {
            now_ms: signed(clock.wall().0),
            monotonic_ms: elapsed_ms(clock.monotonic()),
            unused_slew_ms: 0,
        };
        LeaderClock {
            clock,
            anchor: Mutex::new(anchor),
            last_ms: AtomicU64::new(0),
            gap_ms: AtomicI64::new(0),
            steps: AtomicU64::new(0),
        }
    }

    /// The time now, never before `floor` (the state's clock) and never before an earlier answer.
    pub fn now(&self, floor: Millis) -> Millis {
        let now = self.advance();
        let last = self.last_ms.fetch_max(now.max(floor.0), Ordering::AcqRel);
        Millis(now.max(floor.0).max(last))
    }

    fn advance(&self) -> u64 {
        let mut anchor = self.anchor.lock();
        let wall = signed(self.clock.wall().0);
        let monotonic = elapsed_ms(self.clock.monotonic());
        let passed = (monotonic - anchor.monotonic_ms).max(0);
        let expected = anchor.now_ms.saturating_add(passed);
        let gap = wall.saturating_sub(expected);
        let shift = if gap.abs() <= STEP_MS_MAX {
            anchor.unused_slew_ms = 0;
            gap
        } else {
            anchor.unused_slew_ms += passed;
            let slew = anchor.unused_slew_ms / SLEW_DIVISOR;
            anchor.unused_slew_ms -= slew * SLEW_DIVISOR;
            gap.clamp(-slew, slew)
        };
        anchor.now_ms = expected.saturating_add(shift);
        anchor.monotonic_ms = monotonic;
        self.note_gap(gap - shift);
        u64::try_from(anchor.now_ms).unwrap_or(0)
    }

    fn note_gap(&self, gap: i64) {
        let before = self.gap_ms.swap(gap, Ordering::Relaxed);
        if gap.abs() > STEP_MS_MAX && before.abs() <= STEP_MS_MAX {
            self.steps.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Monotonic time, for intervals that must not notice a step.
    pub fn monotonic(&self) -> Duration {
        self.clock.monotonic()
    }

    /// Milliseconds by which the wall clock is ahead of this clock (negative: behind).
    pub fn gap_ms(&self) -> i64 {
        self.gap_ms.load(Ordering::Relaxed)
    }

    /// Steps of the wall clock seen so far.
    pub fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }
}

impl std::fmt::Debug for LeaderClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LeaderClock").field("gap_ms", &self.gap_ms()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;

    fn at(ms: u64) -> (Arc<ManualClock>, LeaderClock) {
        let manual = Arc::new(ManualClock::at(Millis(ms)));
        let clock = LeaderClock::new(manual.clone());
        (manual, clock)
    }

    #[test]
    fn small_drift_is_followed_at_once_but_never_backwards() {
        let (manual, clock) = at(100_000);
        manual.step_wall_to(Millis(100_500));
        assert_eq!(clock.now(Millis(0)), Millis(100_500));
        manual.step_wall_to(Millis(100_100));
        assert_eq!(clock.now(Millis(0)), Millis(100_500));
        manual.advance_ms(600);
        assert_eq!(clock.now(Millis(0)), Millis(100_700));
    }

    #[test]
    fn a_step_of_a_year_is_closed_slowly() {
        let (manual, clock) = at(1_000_000);
        let year = 31_536_000_000;
        manual.step_wall_to(Millis(1_000_000 + year));
        assert_eq!(clock.now(Millis(0)), Millis(1_000_000));
        for _ in 0..100 {
            manual.advance_ms(100);
            clock.now(Millis(0));
        }
        assert_eq!(clock.now(Millis(0)), Millis(1_010_100));
        assert_eq!(clock.steps(), 1);
        assert!(clock.gap_ms() > 31_000_000_000);
    }

    #[test]
    fn a_step_back_does_not_stop_time() {
        let (manual, clock) = at(1_000_000);
        manual.step_wall_to(Millis(0));
        manual.advance_ms(1_000);
        assert_eq!(clock.now(Millis(0)), Millis(1_000_990));
    }

    #[test]
    fn the_state_clock_is_a_floor() {
        let (_, clock) = at(1_000);
        assert_eq!(clock.now(Millis(5_000)), Millis(5_000));
        assert_eq!(clock.now(Millis(0)), Millis(5_000));
    }
}
