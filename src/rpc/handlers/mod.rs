//! What each call does: check the request, ask the node, shape the answer. One file a family.
//!
//! A handler never sees the state. `Ok` is an answer, refusals included; `Err` means that this node cannot
//! serve the call, and ends the connection.

pub mod disk;
pub mod nof;
pub mod promotion;
pub mod read;
pub mod regex;
pub mod remove;
pub mod segment;
pub mod session;
pub mod task;
pub mod transfer;
pub mod upsert;
pub mod write;

use crate::node::error::NodeError;

/// What a handler returns.
pub type Answer<T> = Result<T, NodeError>;
