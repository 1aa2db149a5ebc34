//! The one place of this crate that reads a clock.
//!
//! Guards: leases are counted on a clock that never jumps and keeps running while the machine is
//! suspended, so that a leader that slept cannot believe in a lease that ran out meanwhile.
//! Leaves to others: what a lease is worth (`lease.rs`), timers (tokio's).

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Nanoseconds of a clock.
pub(crate) type Nanos = u64;

/// Nanoseconds since boot, suspended time included. Costs about 25 ns.
#[inline]
pub(crate) fn boot_ns() -> Nanos {
    nanos(clock_gettime(ClockId::Boottime))
}

/// Nanoseconds since boot without suspended time: the clock that tokio and openraft count on.
pub(crate) fn monotonic_ns() -> Nanos {
    nanos(clock_gettime(ClockId::Monotonic))
}

/// Wall clock in nanoseconds since 1970; only ever compared with itself, to notice a jump.
pub(crate) fn wall_ns() -> Nanos {
    nanos(clock_gettime(ClockId::Realtime))
}

/// Wall clock in milliseconds since 1970, for humans reading a status.
pub(crate) fn wall_ms() -> u64 {
    wall_ns() / 1_000_000
}

fn nanos(time: Timespec) -> Nanos {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let rest = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boot_clock_does_not_run_backwards() {
        let first = boot_ns();
        assert!(boot_ns() >= first);
        assert!(first > 0);
    }

    #[test]
    fn the_boot_clock_is_cheap_enough_for_every_read() {
        let start = boot_ns();
        let rounds = 10_000;
        for _ in 0..rounds {
            std::hint::black_box(boot_ns());
        }
        let each = (boot_ns() - start) / rounds;
        println!("{each} ns");
        assert!(each < 5_000, "{each} ns for one reading");
    }
}
