//! Stories of whole nodes with a counter machine.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test ends by panicking, and waits by the clock"
)]

mod child;
mod cluster;
mod crash;
mod damage;
mod hostile;
mod nemesis;
mod power;
mod processes;
mod proxy;
mod replication;
mod single;
mod support;
mod tls;
