//! The only file that reads time.
//!
//! Everything that needs "now" takes a [`Clock`]; the state machine takes a stamp instead. Tests use
//! [`ManualClock`], so no test waits for real time to pass.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::model::Millis;

/// Wall and monotonic time.
pub trait Clock: Send + Sync + 'static {
    /// Wall-clock milliseconds since the Unix epoch. May step in either direction.
    fn wall(&self) -> Millis;

    /// Time since an arbitrary start. Never runs backwards.
    fn monotonic(&self) -> Duration;
}

/// The machine's clocks.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        #[expect(clippy::disallowed_methods, reason = "this is the clock")]
        let start = Instant::now();
        SystemClock { start }
    }
}

impl Clock for SystemClock {
    fn wall(&self) -> Millis {
        #[expect(clippy::disallowed_methods, reason = "this is the clock")]
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Millis(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX))
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }
}

/// A clock that stands still until it is told to move.
#[derive(Debug, Default)]
pub struct ManualClock {
    wall_ms: AtomicU64,
    monotonic_ms: AtomicU64,
}

impl ManualClock {
    /// A clock at this wall time.
    pub fn at(wall: Millis) -> Self {
        ManualClock { wall_ms: AtomicU64::new(wall.0), monotonic_ms: AtomicU64::new(0) }
    }

    /// Moves both clocks forward.
    pub fn advance_ms(&self, ms: u64) {
        self.wall_ms.fetch_add(ms, Ordering::Relaxed);
        self.monotonic_ms.fetch_add(ms, Ordering::Relaxed);
    }

    /// Steps the wall clock only, as an operator or a time daemon does.
    pub fn step_wall_to(&self, wall: Millis) {
        self.wall_ms.store(wall.0, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn wall(&self) -> Millis {
        Millis(self.wall_ms.load(Ordering::Relaxed))
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.monotonic_ms.load(Ordering::Relaxed))
    }
}
