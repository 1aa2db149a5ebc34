//! TCP ports for the nodes of a drill.
//!
//! A node is killed and started again on the same ports. A port of the kernel's ephemeral range could meanwhile
//! have become the near end of somebody's connection, so ports are taken from below that range, from a place
//! that differs between processes, each once.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

const FIRST: u16 = 17_100;
const SPAN: u16 = 15_600;
const TRIES_MAX: u16 = 2_000;

/// Spreads processes that start one after the other over the range.
const PROCESS_STRIDE: u32 = 131;

/// A port on which nobody listens; `None` if [`TRIES_MAX`] in a row are taken.
pub fn free_port() -> Option<u16> {
    static TAKEN: AtomicU16 = AtomicU16::new(0);
    let start = std::process::id().wrapping_mul(PROCESS_STRIDE) % u32::from(SPAN);
    let start = u16::try_from(start).unwrap_or(0);
    (0..TRIES_MAX).find_map(|_| {
        let step = TAKEN.fetch_add(1, Ordering::Relaxed) % SPAN;
        let port = FIRST + (start % SPAN + step) % SPAN;
        TcpListener::bind(("0.0.0.0", port)).is_ok().then_some(port)
    })
}
