//! What a node takes from its surroundings: time, files, connections, somewhere to block.
//!
//! Guards: on a machine it is the operating system and costs one comparison. A simulation brings
//! its own ([`Surroundings`]): then the node starts no thread and reads no clock, so that one seed
//! is one run. Leaves to `files.rs` the files of a machine, to `clock.rs` its clocks.

use std::fmt::Debug;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use openraft::base::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinError;

use crate::clock::{self, Nanos};
use crate::files::{Disk, Machine};
use crate::log::memory::MemoryLog;

/// Half of a connection between nodes.
pub type ReadHalf = Box<dyn AsyncRead + Send + Sync + Unpin>;
/// The other half.
pub type WriteHalf = Box<dyn AsyncWrite + Send + Sync + Unpin>;

/// What a simulation puts in the place of a machine.
pub trait Surroundings: Send + Sync + 'static {
    /// Nanoseconds since boot, suspended time included.
    fn boot_ns(&self) -> Nanos;
    /// Nanoseconds since boot without suspended time.
    fn monotonic_ns(&self) -> Nanos;
    /// Wall clock in nanoseconds since 1970.
    fn wall_ns(&self) -> Nanos;
    /// Where everything but the log lies.
    fn disk(&self) -> Arc<dyn Disk>;
    /// Where the log lies.
    fn log(&self) -> MemoryLog;
    /// How long the next group of the log takes to be written and synced.
    fn log_write_time(&self) -> Duration;
    /// Connects to a peer.
    fn connect(&self, addr: &str) -> BoxFuture<'static, io::Result<(ReadHalf, WriteHalf)>>;
    /// The next connection from a peer.
    fn accept(&self) -> BoxFuture<'static, io::Result<(ReadHalf, WriteHalf)>>;
    /// A planted bug: a node that restarts votes at once. For tests of the simulation.
    fn is_gate_skipped(&self) -> bool {
        false
    }
}

/// Where a node gets its time, its disk and its connections from.
#[derive(Clone, Default)]
pub struct World(Option<Arc<dyn Surroundings>>);

impl Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_none() { "World(machine)" } else { "World(simulated)" })
    }
}

impl World {
    /// A simulated one.
    pub fn simulated(surroundings: Arc<dyn Surroundings>) -> Self {
        Self(Some(surroundings))
    }

    /// The simulation, if it is one.
    pub(crate) fn simulation(&self) -> Option<&Arc<dyn Surroundings>> {
        self.0.as_ref()
    }

    /// See [`clock::boot_ns`].
    #[inline]
    pub(crate) fn boot_ns(&self) -> Nanos {
        match &self.0 {
            None => clock::boot_ns(),
            Some(other) => other.boot_ns(),
        }
    }

    /// See [`clock::monotonic_ns`].
    pub(crate) fn monotonic_ns(&self) -> Nanos {
        match &self.0 {
            None => clock::monotonic_ns(),
            Some(other) => other.monotonic_ns(),
        }
    }

    /// See [`clock::wall_ns`].
    pub(crate) fn wall_ns(&self) -> Nanos {
        match &self.0 {
            None => clock::wall_ns(),
            Some(other) => other.wall_ns(),
        }
    }

    pub(crate) fn disk(&self) -> Arc<dyn Disk> {
        match &self.0 {
            None => Arc::new(Machine),
            Some(other) => other.disk(),
        }
    }

    /// Does work that blocks: aside on a machine, at once in a simulation, where nothing blocks.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        match &self.0 {
            None => tokio::task::spawn_blocking(work).await,
            Some(_) => Ok(work()),
        }
    }

    /// The same on a thread that gives way to all others; an error is a sentence.
    pub(crate) async fn behind<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, String> {
        match &self.0 {
            None => crate::behind::behind("raft-snapshot", work).await,
            Some(_) => Ok(work()),
        }
    }

    /// Opens a connection to a peer.
    pub(crate) async fn connect(&self, addr: &str) -> io::Result<Incoming> {
        match &self.0 {
            None => TcpStream::connect(addr).await.map(Incoming::Tcp),
            Some(other) => {
                let (reader, writer) = other.connect(addr).await?;
                Ok(Incoming::Halves(reader, writer))
            }
        }
    }
}

/// A connection before anything was said on it.
pub(crate) enum Incoming {
    Tcp(TcpStream),
    Halves(ReadHalf, WriteHalf),
}

/// Where peers connect to.
pub(crate) enum Listener {
    Tcp(TcpListener),
    Simulated(Arc<dyn Surroundings>),
}

impl Listener {
    /// The next connection, and from where it comes.
    pub(crate) async fn accept(&self) -> io::Result<(Incoming, String)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, from) = listener.accept().await?;
                Ok((Incoming::Tcp(stream), from.to_string()))
            }
            Self::Simulated(other) => {
                let (reader, writer) = other.accept().await?;
                Ok((Incoming::Halves(reader, writer), "a peer".to_owned()))
            }
        }
    }
}
