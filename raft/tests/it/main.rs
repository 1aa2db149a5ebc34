//! Stories of whole nodes with a counter machine.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods
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
