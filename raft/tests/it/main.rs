//! Stories of whole nodes with a counter machine.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods
)]

mod cluster;
mod proxy;
mod replication;
mod single;
mod support;
