//! Integration tests: real processes, the real wire, the stock client.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod discovery;
mod stock_client;
mod support;
