//! How nodes talk: own frames over TCP, three connections to each peer.
//!
//! Guards: heartbeats and votes never wait behind entries, entries never behind a raft snapshot;
//! everything is checksummed; peers prove that they belong here. Order of reading: `frame`,
//! `message`, `acked`, `peers`, `client`, `server`, `transfer`.

pub(crate) mod acked;
pub(crate) mod client;
pub(crate) mod frame;
pub(crate) mod message;
pub(crate) mod peers;
pub(crate) mod server;
pub(crate) mod tls;
pub(crate) mod transfer;
