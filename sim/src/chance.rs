//! The one place where chance enters the process: everything that asks the operating system for
//! random bytes gets those of a seed.
//!
//! Seeds of hash maps, of tokio's choice between ready branches and wakers, of openraft's election
//! time-outs and of `rand::random` all come from `getrandom`, which the standard library and the
//! `getrandom` crates look up by name; this one takes its place. It must be seeded before the first
//! of them asks, and one process is one run: some keep counters for as long as the process lives.

use std::sync::atomic::{AtomicU64, Ordering};

use rand::SeedableRng;
use rand::rngs::SmallRng;

/// State of the generator.
static STATE: AtomicU64 = AtomicU64::new(0);

/// What the state grows by; odd, so that all values come.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Begins the sequence of a seed.
pub fn seed(seed: u64) {
    STATE.store(mixed(seed), Ordering::Relaxed);
}

/// Dice of their own for a part of the simulation: what one part rolls does not move the others.
pub fn dice(seed: u64, part: u64) -> SmallRng {
    SmallRng::seed_from_u64(mixed(seed ^ mixed(part)))
}

fn mixed(value: u64) -> u64 {
    let value = value.wrapping_add(STEP);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

fn next() -> u64 {
    mixed(STATE.fetch_add(STEP, Ordering::Relaxed))
}

/// The libraries' way to random bytes.
#[expect(unsafe_code, reason = "a C function by its name is the only seam that all of them share")]
#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(buffer: *mut u8, length: usize, _flags: u32) -> isize {
    if length > 0 {
        // SAFETY: the callers promise a buffer of that length, as they do to the C library's.
        let bytes = unsafe { std::slice::from_raw_parts_mut(buffer, length) };
        for chunk in bytes.chunks_mut(8) {
            let drawn = next().to_le_bytes();
            chunk.iter_mut().zip(drawn).for_each(|(byte, drawn)| *byte = drawn);
        }
    }
    isize::try_from(length).unwrap_or(isize::MAX)
}
