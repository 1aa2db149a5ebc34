//! TCP ports for masters and client names.
//!
//! A master under test is killed and started again on the same ports. A port from the kernel's
//! ephemeral range could meanwhile have become the local end of somebody's outgoing connection, so
//! ports are taken from below that range, each at most once in this process, from a place that
//! differs between processes, and only if nobody listens there.

use std::net::TcpListener;
use std::process;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering};

/// Above the ports on which the client's transfer engine listens (15000 to 17000).
const FIRST: u16 = 17_100;
const LAST: u16 = 32_700;
const TRIES_MAX: u16 = 500;

/// A port on which nobody listens.
///
/// Panics: if 500 ports in a row are taken.
pub fn free_port() -> u16 {
    static START: OnceLock<u16> = OnceLock::new();
    static TAKEN: AtomicU16 = AtomicU16::new(0);
    let span = LAST - FIRST;
    let start =
        *START.get_or_init(|| u16::try_from(process::id() * 131 % u32::from(span)).unwrap());
    for _ in 0..TRIES_MAX {
        let step = TAKEN.fetch_add(1, Ordering::Relaxed) % span;
        let port = FIRST + (start + step) % span;
        if TcpListener::bind(("0.0.0.0", port)).is_ok() {
            return port;
        }
    }
    panic!("no free port found between {FIRST} and {LAST}");
}
