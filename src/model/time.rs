//! Milliseconds, durations and deadlines of the state machine.
//!
//! All state time is wall-clock milliseconds since the Unix epoch as the leader stamped it; nothing here
//! reads a clock. Sums saturate at the greatest instant that the peer can represent, so that a huge TTL
//! never overflows (RFC "Master configuration", behaviour spec 3.4).

use serde::{Deserialize, Serialize};

/// The greatest representable instant: the peer counts nanoseconds since the epoch in a signed 64-bit
/// number, so 2^63 - 1 ns, truncated to milliseconds (April 2262).
pub const INSTANT_MS_MAX: u64 = 9_223_372_036_854;

/// A point in state time: milliseconds since the Unix epoch.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Millis(pub u64);

/// A length of time in milliseconds.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Ttl(pub u64);

/// The instant at which something ends. At `now == deadline` it has ended.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Deadline(pub u64);

impl Millis {
    /// The instant `ttl` after this one, saturating at [`INSTANT_MS_MAX`].
    pub fn after(self, ttl: Ttl) -> Deadline {
        Deadline(self.0.saturating_add(ttl.0).min(INSTANT_MS_MAX))
    }

    /// Milliseconds from `earlier` to this instant, 0 if `earlier` is not earlier.
    pub fn since(self, earlier: Millis) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl Deadline {
    /// Whether the deadline has been reached at `now` (closed: equality counts as reached).
    pub fn is_reached(self, now: Millis) -> bool {
        now.0 >= self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_over_at_its_own_millisecond() {
        let deadline = Millis(100).after(Ttl(5));
        assert!(!deadline.is_reached(Millis(104)));
        assert!(deadline.is_reached(Millis(105)));
    }

    #[test]
    fn a_huge_ttl_saturates_instead_of_overflowing() {
        assert_eq!(Millis(1).after(Ttl(u64::MAX)), Deadline(INSTANT_MS_MAX));
        assert_eq!(Millis(u64::MAX).after(Ttl(u64::MAX)), Deadline(INSTANT_MS_MAX));
    }
}
