//! Waiting on a condition, with a limit that fails the test.
//!
//! Tests never sleep for a fixed time and hope: they wait until something is true, or check that
//! something stays true.

use std::thread;
use std::time::Duration;

use mooncake_ha::clock::{Clock, SystemClock};

const POLL: Duration = Duration::from_millis(20);
/// For a machine that does ten other things; what must be quick says so by `eventually_within`.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits up to a minute until `condition` holds.
#[track_caller]
pub fn eventually(what: &str, condition: impl FnMut() -> bool) {
    eventually_within(PATIENCE, what, condition);
}

/// Waits up to `limit` until `condition` holds; a condition that never holds fails the test.
#[track_caller]
pub fn eventually_within(limit: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    let clock = SystemClock::default();
    while !condition() {
        assert!(clock.monotonic() < limit, "not within {limit:?}: {what}");
        thread::sleep(POLL);
    }
}

/// Checks again and again for `duration` that `condition` holds.
#[track_caller]
pub fn holds_for(duration: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    let clock = SystemClock::default();
    while clock.monotonic() < duration {
        assert!(condition(), "no longer true after {:?}: {what}", clock.monotonic());
        thread::sleep(POLL);
    }
}

/// Unix milliseconds of this machine, which the masters under test share.
pub fn wall_ms() -> u64 {
    SystemClock::default().wall().0
}
