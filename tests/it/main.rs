//! Integration tests, one binary so that a small machine links once: the house rules, the command line, real
//! processes with the stock client.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod admin;
mod bench;
mod catalog;
mod cli;
mod cluster;
mod crash;
mod discovery;
mod drill;
mod events;
mod fuzz;
mod hostile;
mod house;
mod partition;
mod restore;
mod scenarios;
mod scenarios_dynamic;
mod scenarios_tenants;
mod scenarios_tiers;
mod scenarios_transfer;
mod scenarios_upsert;
mod soft_pin;
mod stock_client;
mod support;
