//! The client's door: frames in, answers out, in request order on every connection.
//!
//! A hostile or broken frame closes its own connection and no other. When this node cannot serve a call, the
//! connection is closed and the client calls again elsewhere; no error is invented for its application.

pub mod client;
mod connection;
mod convert;
mod dispatch;
mod forward;
mod handlers;
mod not_built;
mod older;
mod release;
#[doc(hidden)]
pub mod road;
mod tally;
mod tenancy;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use connection::Closed;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::metrics::Metrics;
use crate::node::MasterNode;
use crate::wire::older::Release;

/// Connections served at once; one more is closed right after it was accepted.
pub const CONNECTIONS_MAX: usize = 32_768;

/// Pause after a failed accept, so that a process out of file descriptors does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What the handlers need.
pub struct Service {
    /// The master.
    pub node: MasterNode,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// What clients are told of shared storage.
    pub storage: StorageAnswer,
    /// Seconds after which an idle connection is closed.
    pub idle_timeout: Option<Duration>,
    /// Whether TCP_NODELAY is set.
    pub is_no_delay: bool,
    not_built: not_built::NotBuilt,
    forwarder: forward::Forwarder,
    releases: release::Releases,
}

/// The answer to GetStorageConfig.
#[derive(Clone, Debug, Default)]
pub struct StorageAnswer {
    /// Whether clients may evict from it.
    pub is_disk_eviction_enabled: bool,
    /// Quota, 0 for none.
    pub quota_bytes: u64,
}

impl Service {
    /// A service on a node.
    pub fn new(
        node: MasterNode,
        metrics: Arc<Metrics>,
        storage: StorageAnswer,
        idle_timeout: Option<Duration>,
        is_no_delay: bool,
    ) -> Self {
        Service {
            node,
            metrics,
            storage,
            idle_timeout,
            is_no_delay,
            not_built: not_built::NotBuilt::default(),
            forwarder: forward::Forwarder::default(),
            releases: release::Releases::default(),
        }
    }

    /// The same service, which takes a client of which nothing is known for one of `release`.
    pub fn assuming(mut self, release: Release) -> Self {
        self.releases = release::Releases::assuming(release);
        self
    }

    /// The same service, which reaches the leader by another road than TCP.
    #[doc(hidden)]
    pub fn with_road(mut self, road: Box<dyn road::Road>) -> Self {
        self.forwarder = forward::Forwarder::new(road);
        self
    }

    /// Answers the first request in `input` as on a connection: its length and the answer's bytes. `None`: it is not
    /// complete yet.
    ///
    /// Errors: the connection is to be closed; see [`Closed`].
    #[doc(hidden)]
    pub async fn answer(&self, input: &[u8]) -> Result<Option<(usize, Vec<u8>)>, Closed> {
        connection::answer_first(self, input).await
    }

    /// Calls passed on to a leader so far.
    pub fn passed_on(&self) -> u64 {
        self.forwarder.calls()
    }

    /// Connections open now.
    pub fn connections(&self) -> usize {
        self.metrics.connections.load(Ordering::Relaxed)
    }
}

/// Serves the listener until `stop` turns true.
pub async fn serve(listener: TcpListener, service: Arc<Service>, mut stop: watch::Receiver<bool>) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|is_stopping| *is_stopping) => return,
        };
        match accepted {
            Ok((socket, peer)) => {
                if service.metrics.connections.load(Ordering::Relaxed) >= CONNECTIONS_MAX {
                    tracing::warn!(%peer, limit = CONNECTIONS_MAX, "too many connections");
                    continue;
                }
                service.metrics.connections.fetch_add(1, Ordering::Relaxed);
                let (service, mut stop) = (Arc::clone(&service), stop.clone());
                tokio::spawn(async move {
                    let served = tokio::select! {
                        served = connection::serve(socket, peer.ip(), &service) => served,
                        _ = stop.wait_for(|is_stopping| *is_stopping) => Ok(()),
                    };
                    service.metrics.connections.fetch_sub(1, Ordering::Relaxed);
                    if let Err(error) = served {
                        tracing::debug!(%peer, %error, "connection closed");
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

#[cfg(test)]
mod tests;
