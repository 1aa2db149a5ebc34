//! Replication of opaque entries: openraft on a sled log, raft snapshots as files.
//!
//! A [`Node`] keeps a [`Machine`] equal on every node of a cluster. An entry is bytes, a reply
//! is whatever the machine returns on the node that proposed it.
//!
//! ```text
//!        purged      snapshot        applied     committed        last
//!  ........|..............|..............|.............|..............|
//!   gone     kept for       in the state   safe for ever  may be taken
//!            lagging peers                                back
//! ```
//!
//! Promises: vote and entries are on disk, in order, before they are acknowledged; checksums on
//! everything that is read back; a failed write stops the node instead of limping on; one
//! process a directory; a leader lease is proven, never assumed. `docs/raft.md` says how.

mod adapter;
mod behind;
mod clock;
mod compact;
mod config;
mod dir;
mod error;
mod files;
mod lease;
mod log;
mod machine;
mod members;
mod net;
mod node;
mod open;
#[doc(hidden)]
pub mod probes;
mod record;
mod snapshot_file;
mod status;
mod stop;
mod types;
mod world;

pub use behind::{behind, stand_back};
pub use config::{
    CLUSTER_ID_BYTES_MAX, Config, ConfigError, Durability, ENTRY_BYTES_MAX,
    PROPOSALS_IN_FLIGHT_MAX, TlsFiles,
};
pub use error::{AdminError, OpenError, ProposeError, ReadError};
#[doc(hidden)]
pub use files::{Disk, DiskFile, How};
pub use lease::ReadLease;
#[doc(hidden)]
pub use log::memory::MemoryLog;
pub use machine::{Machine, MachineError};
pub use node::Node;
pub use status::{LogPointers, Member, Peer, Role, Status};
pub use stop::StopRefused;
pub use types::NodeId;
#[doc(hidden)]
pub use world::{ReadHalf, Surroundings, World, WriteHalf};
