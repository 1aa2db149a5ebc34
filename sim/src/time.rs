//! Simulated time: one count of milliseconds for all, and each node's own idea of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use mooncake_ha::clock::Clock;
use mooncake_ha::model::Millis;

/// The wall clock at the start of every run: some day in 2026.
const EPOCH_MS: u64 = 1_770_000_000_000;

const NS_IN_MS: u64 = 1_000_000;

/// How long the machines are up when a run starts.
const UPTIME_MS: u64 = 5_000_000;

/// Milliseconds since the run began, and what has happened, numbered. Clones are the same time.
#[derive(Clone, Default)]
pub struct Time {
    now_ms: Arc<AtomicU64>,
    events: Arc<AtomicU64>,
}

impl Time {
    /// Milliseconds since the run began.
    pub fn ms(&self) -> u64 {
        self.now_ms.load(Ordering::Relaxed)
    }

    /// One millisecond passes.
    pub fn tick(&self) {
        self.now_ms.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of the next thing that happens: a total order, since the run has one thread.
    pub fn next_event(&self) -> u64 {
        self.events.fetch_add(1, Ordering::Relaxed)
    }
}

/// The clocks of one node.
pub struct NodeClock {
    time: Time,
    /// How far the wall clock is off.
    wall_off_ms: AtomicI64,
    /// How much faster its oscillator runs, in parts per million.
    drift_ppm: i64,
}

impl NodeClock {
    /// A clock that is right but for its drift.
    pub fn new(time: Time, drift_ppm: i64) -> Self {
        NodeClock { time, wall_off_ms: AtomicI64::new(0), drift_ppm }
    }

    /// Somebody sets the wall clock.
    pub fn step_wall(&self, by_ms: i64) {
        self.wall_off_ms.fetch_add(by_ms, Ordering::Relaxed);
    }

    /// How far the wall clock is off.
    pub fn wall_off_ms(&self) -> i64 {
        self.wall_off_ms.load(Ordering::Relaxed)
    }

    /// Nanoseconds since the node's machine has started.
    pub fn boot_ns(&self) -> u64 {
        let ms = UPTIME_MS.saturating_add(self.time.ms());
        let drift = i64::try_from(ms).unwrap_or(i64::MAX).saturating_mul(self.drift_ppm);
        ms.saturating_mul(NS_IN_MS).saturating_add_signed(drift)
    }

    /// Nanoseconds since 1970.
    pub fn wall_ns(&self) -> u64 {
        let base = self.boot_ns().saturating_add(EPOCH_MS.saturating_mul(NS_IN_MS));
        let off = self.wall_off_ms().saturating_mul(NS_IN_MS.cast_signed());
        base.saturating_add_signed(off)
    }
}

impl Clock for NodeClock {
    fn wall(&self) -> Millis {
        Millis(self.wall_ns() / NS_IN_MS)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_nanos(self.boot_ns())
    }
}
