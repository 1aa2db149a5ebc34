//! mooncake-ha: a Raft-replicated drop-in for the master of Mooncake Store.
//!
//! Rooms in reading order; arrows of use point down this list only (`docs/ARCHITECTURE.md`).

pub mod bench;
pub mod cli;
pub mod drill;
#[doc(hidden)]
pub mod probes;
pub mod serve;

pub mod admin;
pub mod discovery;
pub mod events;
pub mod rpc;

pub mod restore;
pub mod snapshotter;

pub mod backup;

pub mod node;

pub mod metrics;
pub mod wire;

pub mod config;
pub mod leader;

pub mod state;

pub mod alloc;
pub mod clock;
pub mod model;
#[doc(hidden)]
pub mod plant;
