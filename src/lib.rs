//! mooncake-ha: a Raft-replicated drop-in for the master of Mooncake Store.
//!
//! Rooms in reading order; arrows of use point down this list only (`docs/ARCHITECTURE.md`).

pub mod cli;
pub mod clock;
pub mod config;
pub mod model;
pub mod serve;
