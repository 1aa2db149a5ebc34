//! The operator's door of a real process: every page over plain HTTP, no client library.
//!
//! What the pages must look like was read off the peer's own answers.

mod api;
mod counts;
mod drain;
mod metadata_server;
mod pages;
mod ports;
pub mod seed;
