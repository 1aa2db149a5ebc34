//! Instants of one drill: microseconds since it began, on one clock for clients, faults and findings.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::clock::{Clock, SystemClock};

/// Microseconds since the drill began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Moment(pub u64);

impl Moment {
    /// Later than everything.
    pub const NEVER: Moment = Moment(u64::MAX);

    /// Whole milliseconds since the drill began.
    pub fn ms(self) -> u64 {
        self.0 / 1000
    }

    /// Seconds, for people.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// This much later.
    pub fn after(self, ms: u64) -> Moment {
        Moment(self.0.saturating_add(ms.saturating_mul(1000)))
    }

    /// Microseconds since `earlier`.
    pub fn since(self, earlier: Moment) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// The clock of one drill. Clones show the same time.
#[derive(Clone, Debug, Default)]
pub struct Stopwatch(Arc<SystemClock>);

impl Stopwatch {
    /// Now.
    pub fn now(&self) -> Moment {
        Moment(u64::try_from(self.0.monotonic().as_micros()).unwrap_or(u64::MAX))
    }

    /// Unix milliseconds of this machine.
    pub fn wall_ms(&self) -> u64 {
        self.0.wall().0
    }

    /// Whether `limit` has passed since `start`.
    pub fn is_over(&self, start: Moment, limit: Duration) -> bool {
        u128::from(self.now().since(start)) > limit.as_micros()
    }
}
