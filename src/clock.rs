//! The only file that reads time.
//!
//! Everything that needs "now" takes a [`Clock`]; the state machine takes a stamp instead. Tests use
//! [`ManualClock`], so no test waits for real time to pass.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

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

/// The machine's clocks, with a wall clock that a file moves: what a drill steps.
///
/// The file holds milliseconds, which are added. While it cannot be read, what was read last counts.
#[derive(Debug)]
pub struct SteppedClock {
    system: SystemClock,
    file: PathBuf,
    /// When it was read, and what it said.
    read: Mutex<(Duration, i64)>,
}

impl SteppedClock {
    /// How long what was read counts.
    const READ_EVERY: Duration = Duration::from_millis(50);

    /// A clock that follows this file.
    pub fn new(file: PathBuf) -> Self {
        let system = SystemClock::default();
        let ahead_ms = Self::ahead_ms(&file).unwrap_or(0);
        SteppedClock { system, file, read: Mutex::new((Duration::ZERO, ahead_ms)) }
    }

    fn ahead_ms(file: &Path) -> Option<i64> {
        std::fs::read_to_string(file).ok()?.trim().parse().ok()
    }
}

impl Clock for SteppedClock {
    fn wall(&self) -> Millis {
        let now = self.system.monotonic();
        let mut read = self.read.lock();
        if now.saturating_sub(read.0) >= Self::READ_EVERY {
            *read = (now, Self::ahead_ms(&self.file).unwrap_or(read.1));
        }
        Millis(self.system.wall().0.saturating_add_signed(read.1))
    }

    fn monotonic(&self) -> Duration {
        self.system.monotonic()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_moves_the_wall_clock_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("clock");
        let hour = 3_600_000;
        let ahead = |text: Option<&str>, clock: &SteppedClock| {
            text.into_iter().for_each(|text| std::fs::write(&file, text).unwrap());
            // As if it had been read long ago.
            clock.read.lock().0 = Duration::ZERO;
            while clock.monotonic() < SteppedClock::READ_EVERY {}
            clock.wall().0.abs_diff(clock.system.wall().0)
        };
        let clock = SteppedClock::new(file.clone());
        let before = clock.monotonic();
        assert!(ahead(None, &clock) < hour / 2, "no file, no step");
        assert!(ahead(Some("3600000\n"), &clock).abs_diff(hour) < hour / 2);
        assert!(ahead(Some("-3600000"), &clock).abs_diff(hour) < hour / 2);
        assert!(clock.wall() < clock.system.wall());
        assert!(ahead(Some("nonsense"), &clock).abs_diff(hour) < hour / 2, "the last one counts");
        assert!(clock.monotonic() - before < Duration::from_secs(600));
    }
}
