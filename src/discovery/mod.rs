//! The door by which clients find the leader: the two calls of etcd that a Mooncake client makes.
//!
//! A client told `etcd://h1:50062;h2:50062` reads one key and watches it. Every node answers from the
//! leadership that the log announces, so all nodes tell the same view under the same revision, and the
//! revision is the term: it grows with every change of the leader, over restarts too. Guards that a view
//! once known is never taken back, that revisions never fall, and that every watch answer has a header
//! (without one the client's whole process dies). The form of the calls is in `service`, their meaning in
//! `range` and `watch`, what is told in `view`. Who leads is decided elsewhere.

mod incoming;
mod messages;
mod range;
mod service;
mod view;
mod watch;

use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch::{Receiver, Sender, channel as watch_channel};
use tokio::time::Instant;
use tonic::transport::Server;

use crate::node::{Leadership, Role};

/// Connections served at once; one more is closed right after it was accepted.
pub const CONNECTIONS_MAX: usize = 16_384;

/// Calls and watch streams open at once on a connection; one more waits at the client (HTTP/2 rule).
pub const CALLS_A_CONNECTION_MAX: u32 = 64;

/// Watch streams served at once; one more is answered RESOURCE_EXHAUSTED.
pub const WATCH_STREAMS_MAX: usize = 16_384;

/// Watches on one stream; one more is answered as canceled, with the reason.
pub const WATCHES_A_STREAM_MAX: usize = 16;

/// Bytes of one request; a larger one fails its call with OUT_OF_RANGE before it is read.
pub const MESSAGE_BYTES_MAX: usize = 2 * 1024;

/// Bytes of the headers of one request; more fails the call.
const HEADER_BYTES_MAX: u32 = 8 * 1024;

/// How long a read of the view is held while no leader was ever known. Below the five seconds that clients
/// give the call, because a client that is setting up does not try twice (discovery notes, section 1).
pub const HOLD_MAX: Duration = Duration::from_secs(4);

/// How long a read waits for the announcement of a leader that is elected already. It takes milliseconds, and the old
/// leader is told if it does not come.
const SETTLE_MAX: Duration = Duration::from_secs(1);

/// A watch that begins within this time of a new leader is told of that leader once more at its end. A client watches
/// at one node and then reads at another, which may be the last to hear: what it missed at the first it would know
/// half a minute later. Longer than a read waits for an announcement, so that the read after it is right anywhere.
const REPEAT_AFTER: Duration = SETTLE_MAX;

/// Silence after which a client is asked, by an HTTP/2 ping, whether it is still there.
const PING_INTERVAL: Duration = Duration::from_secs(30);

/// Time for the answer to such a ping; then the connection is closed.
const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// Time for open connections to end when the node stops.
const STOP_GRACE: Duration = Duration::from_secs(1);

/// What the door tells and who tells it.
#[derive(Clone, Debug)]
pub struct Discovery {
    /// The newest announcement of a leader that this node has applied.
    pub leadership: Receiver<Option<Leadership>>,
    /// Who leads as far as this node knows, announced or not.
    pub role: Receiver<Role>,
    /// This node, for the headers of the answers.
    pub node_id: u64,
}

/// Serves the listener until `stop` turns true. Open watches then end with UNAVAILABLE, which sends their
/// clients to another node; what is still open after a second is cut.
pub async fn serve(listener: TcpListener, discovery: Discovery, stop: Receiver<bool>) {
    if let Ok(address) = listener.local_addr() {
        tracing::info!(%address, "clients find the leader here");
    }
    let (told, news) = watch_channel(None);
    let noting = note_news(discovery.leadership.clone(), told);
    let service = service::Door::new(discovery, news, stop.clone());
    let incoming = incoming::accept(listener, stop.clone());
    let server = Server::builder()
        .max_concurrent_streams(CALLS_A_CONNECTION_MAX)
        .http2_max_header_list_size(HEADER_BYTES_MAX)
        .http2_keepalive_interval(Some(PING_INTERVAL))
        .http2_keepalive_timeout(Some(PING_TIMEOUT))
        .serve_with_incoming_shutdown(service, incoming, stopped(stop.clone()));
    let cut = async {
        stopped(stop).await;
        tokio::time::sleep(STOP_GRACE).await;
    };
    tokio::select! {
        served = server => {
            if let Err(error) = served {
                tracing::error!(%error, "the discovery port has failed; clients must use another node's");
            }
        }
        () = cut => {}
        () = noting => {}
    }
}

/// Notes when this node began to tell of the leader that it tells of; ends only with the door.
async fn note_news(mut leadership: Receiver<Option<Leadership>>, told: Sender<Option<Instant>>) {
    while leadership.changed().await.is_ok() {
        told.send_replace(Some(Instant::now()));
    }
    // The node is gone, and the door is about to be.
    std::future::pending().await
}

/// Waits until the node stops; a node that is gone has stopped.
async fn stopped(mut stop: Receiver<bool>) {
    let _ = stop.wait_for(|is_stopping| *is_stopping).await;
}

pub(crate) use messages::probe;

#[cfg(test)]
mod tests;
