//! The door for those who follow which objects come and go: KV events over ZeroMQ (`docs/events.md`).
//!
//! Every node listens, the one that leads publishes. What is told and by which number is the state's
//! (`state/presence.rs`); the newest of it waits in `node/feed.rs`. A subscriber that connects, or that waits at a
//! node that takes over, is told the last minute again: by the numbers it sees what it knows already, and that
//! nothing is missing. A slow one is not waited for: it loses the oldest events and sees the gap.

mod message;
mod subscriber;
mod zmtp;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::time::{MissedTickBehavior, interval};

use crate::config::EventsConfig;
use crate::metrics::Metrics;
use crate::model::Millis;
use crate::node::MasterNode;
use crate::node::feed::Feed;

pub use message::{Form, encode};
pub(crate) use zmtp::probe;

/// Subscribers served at once; one more is closed right after it was accepted.
pub const SUBSCRIBERS_MAX: usize = 256;

/// What happened in this time before is told again to one who comes, in milliseconds of state time. Longer than a
/// failover and the subscriber's way to the new leader.
pub const REPLAY_MS: u64 = 60_000;

/// Batches read from the feed at once.
const BATCHES_READ_MAX: usize = 64;

/// How often it is looked who leads, beside the notice of a new role.
const LEAD_INTERVAL: Duration = Duration::from_millis(100);

/// Pause after a failed accept, so that a process out of file descriptors does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A term in which this node leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Term {
    number: u64,
    /// State time of the take-over.
    since: Millis,
}

/// What is published, from where, in which form.
pub struct Publisher {
    node: MasterNode,
    feed: Arc<Feed>,
    form: Form,
    metrics: Arc<Metrics>,
}

impl Publisher {
    /// A publisher of what the node puts into its feed; `None` if the node has none.
    pub fn new(config: &EventsConfig, node: MasterNode, metrics: Arc<Metrics>) -> Option<Self> {
        let feed = Arc::clone(node.machine().feed()?);
        let form = Form {
            backend_id: config.backend_id.clone(),
            has_legacy_fields: config.emit_legacy_compat,
            has_object_key: config.emit_object_key,
        };
        metrics.events.is_enabled.store(true, Ordering::Relaxed);
        Some(Publisher { node, feed, form, metrics })
    }

    /// Where one who comes now begins.
    fn replay_from(&self) -> u64 {
        let now = self.node.machine().view().clock();
        self.feed.first_since(Millis(now.0.saturating_sub(REPLAY_MS)))
    }

    /// The message of a batch.
    fn message(&self, batch: &crate::node::feed::Batch) -> bytes::Bytes {
        batch.message.get_or_init(|| encode(batch, &self.form)).clone()
    }

    /// Says in which term this node leads, to its subscribers.
    async fn follow_leadership(&self, told: watch::Sender<Option<Term>>) {
        let mut role = self.node.raft().watch_role();
        let mut ticks = interval(LEAD_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let leader = self.node.leader();
            let term = leader.map(|leader| Term { number: leader.term, since: leader.since });
            told.send_if_modified(|told| std::mem::replace(told, term) != term);
            tokio::select! {
                changed = role.changed() => if changed.is_err() { return },
                _ = ticks.tick() => {}
            }
        }
    }

    /// Counts what is published while this node leads, whether anybody listens or not.
    async fn count(&self, mut leading: watch::Receiver<Option<Term>>) {
        let mut newest = self.feed.watch();
        let (mut counted, mut next) = (None, 0);
        loop {
            newest.borrow_and_update();
            let term = *leading.borrow_and_update();
            if let Some(term) = term {
                if counted != Some(term) {
                    next = next.max(self.feed.first_since(term.since));
                }
                next = self.count_from(next);
            }
            counted = term;
            tokio::select! {
                changed = newest.changed() => if changed.is_err() { return },
                changed = leading.changed() => if changed.is_err() { return },
            }
        }
    }

    fn count_from(&self, mut next: u64) -> u64 {
        loop {
            let read = self.feed.read(next, None, BATCHES_READ_MAX);
            let Some(last) = read.batches.last() else { return next };
            next = last.sequence + 1;
            let counters = &self.metrics.events;
            let events: u64 = read.batches.iter().map(|batch| batch.changes.len() as u64).sum();
            let unparsed = read.batches.iter().map(|batch| message::unparsed_keys(batch)).sum();
            counters.published_batches.fetch_add(read.batches.len() as u64, Ordering::Relaxed);
            counters.published_events.fetch_add(events, Ordering::Relaxed);
            counters.skipped_unparsed_keys.fetch_add(unparsed, Ordering::Relaxed);
        }
    }
}

/// Serves subscribers until `stop` turns true.
pub async fn serve(listener: TcpListener, publisher: Publisher, mut stop: watch::Receiver<bool>) {
    if let Ok(address) = listener.local_addr() {
        tracing::info!(%address, "events about objects are published here");
    }
    let publisher = Arc::new(publisher);
    let (told, leading) = watch::channel(None);
    let stopping = stop.clone();
    let accepting = accept(&listener, &publisher, &leading, &stopping);
    tokio::select! {
        () = accepting => {}
        () = publisher.follow_leadership(told) => {}
        () = publisher.count(leading.clone()) => {}
        _ = stop.wait_for(|is_stopping| *is_stopping) => {}
    }
}

async fn accept(
    listener: &TcpListener,
    publisher: &Arc<Publisher>,
    leading: &watch::Receiver<Option<Term>>,
    stop: &watch::Receiver<bool>,
) {
    let places = Arc::new(Semaphore::new(SUBSCRIBERS_MAX));
    loop {
        let (socket, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a subscriber was not accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            tracing::warn!(%peer, limit = SUBSCRIBERS_MAX, "too many subscribers of events");
            continue;
        };
        let (publisher, leading, mut stop) = (Arc::clone(publisher), leading.clone(), stop.clone());
        tokio::spawn(async move {
            let subscribers = &publisher.metrics.events.subscribers;
            subscribers.fetch_add(1, Ordering::Relaxed);
            let served = tokio::select! {
                served = subscriber::serve(socket, &publisher, leading) => served,
                _ = stop.wait_for(|is_stopping| *is_stopping) => Ok(()),
            };
            subscribers.fetch_sub(1, Ordering::Relaxed);
            drop(place);
            if let Err(error) = served {
                tracing::debug!(%peer, %error, "subscriber's connection closed");
            }
        });
    }
}
