//! The load generator: any master that speaks the wire protocol, ours or the peer, from outside.
//!
//! `run` measures operations, `stall` the longest pause of a call while something large happens, `restore` a
//! snapshot and cold restores from it, `compare` two masters side by side, `replay` a recorded trace, `scale` how
//! cost grows. A store is set up with memory that
//! nobody has: the master only hands out addresses. Latency is measured from when a call was due, so a server
//! that stands still cannot hide by keeping the generator waiting.

pub mod campaign;
pub mod compare;
pub mod cores;
pub mod cost;
pub mod drive;
pub mod keys;
pub mod link;
pub mod probe;
pub mod progress;
pub mod replay;
pub mod report;
pub mod restore;
pub mod run;
pub mod scale;
pub mod server;
pub mod stall;
pub mod store;
pub mod tally;
pub mod work;

use std::io;

use crate::rpc::client::ClientError;

/// Why a measurement ended without a result.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The options contradict each other.
    #[error("{0}")]
    Usage(String),
    /// The connection to the master failed.
    #[error("connection to {address}: {error}")]
    Connection {
        /// Of the master.
        address: String,
        /// Why.
        error: io::Error,
    },
    /// A call of the set-up had no result.
    #[error("{call}: {error}")]
    Call {
        /// Which.
        call: &'static str,
        /// Why.
        error: ClientError,
    },
    /// The master refused a step of the set-up.
    #[error("{what} was refused: {why}")]
    Refused {
        /// What was asked.
        what: String,
        /// The answer.
        why: String,
    },
    /// The master's RPC layer refused a call of the load.
    #[error("the master's RPC layer refused a call with code {0}")]
    Rpc(u8),
    /// An answer does not decode.
    #[error("an answer does not decode: {0}")]
    Answer(#[from] crate::wire::pack::UnpackError),
    /// The server that was to be measured could not be started or looked at.
    #[error("{0}")]
    Server(String),
    /// What was waited for did not happen.
    #[error("{0}")]
    TooLong(String),
    /// A fault of this program.
    #[error("fault of the load generator: {0}")]
    Internal(String),
}
