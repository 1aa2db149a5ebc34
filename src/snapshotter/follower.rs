//! A follower's side of snapshots: asks the leader for work, writes the files, reports.
//!
//! A thread of its own with plain blocking calls, so that neither replication nor a stop of the node waits for a
//! leader that does not answer. Guards that nothing is published here: the leader makes visible what was staged, and
//! what it no longer wants is removed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use mooncake_ha_snapshot::Catalog;
use serde::Deserialize;
use ureq::Agent;

use super::THREAD;
use super::desk::{CALL_PERIOD, Offer, Written};
use crate::config::Secret;
use crate::node::{MasterNode, stand_back};
use crate::state::image::{LEASE_BYTES_MAX, Leases};

/// How long a call may take; a table of leases is the largest answer.
const CALL_MAX: Duration = Duration::from_secs(10);
/// Bytes of an offer.
const OFFER_BYTES_MAX: u64 = 4 << 10;
/// How long this node's state may lag behind what the leader asks for.
const CATCH_UP_MAX: Duration = Duration::from_secs(10);
const CATCH_UP_STEP: Duration = Duration::from_millis(20);

#[derive(Deserialize)]
struct Answer {
    offer: Option<Offer>,
}

/// The running thread; it ends soon after this goes.
pub struct Follower {
    /// Never sent on; the thread sees it go.
    _stop: mpsc::Sender<()>,
    /// The ticket that still stands, shared with the thread that writes.
    is_stopping: Arc<AtomicBool>,
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.is_stopping.store(true, Ordering::Release);
    }
}

struct Worker {
    node: MasterNode,
    catalog: Arc<Catalog>,
    token: Secret,
    agent: Agent,
    is_stopping: Arc<AtomicBool>,
}

/// An order in hand.
struct Job {
    ticket: u64,
    is_wanted: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<()>,
}

impl Follower {
    /// Starts asking the leader for work, whenever this node does not lead.
    ///
    /// Errors: no thread can be started.
    pub(super) fn start(
        node: MasterNode,
        catalog: Arc<Catalog>,
        token: Secret,
    ) -> std::io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let is_stopping = Arc::new(AtomicBool::new(false));
        let agent: Agent = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(CALL_MAX))
            .build()
            .into();
        let worker = Worker { node, catalog, token, agent, is_stopping: Arc::clone(&is_stopping) };
        std::thread::Builder::new()
            .name("mooncake-ha-snap".into())
            .spawn(move || Arc::new(worker).run(&stopped))?;
        Ok(Follower { _stop: stop, is_stopping })
    }
}

impl Worker {
    fn run(self: &Arc<Self>, stopped: &mpsc::Receiver<()>) {
        let mut job: Option<Job> = None;
        while stopped.recv_timeout(CALL_PERIOD) == Err(RecvTimeoutError::Timeout) {
            let offer = self.leader().and_then(|leader| Some((self.ask(&leader)?, leader)));
            job = job.filter(|job| !job.thread.is_finished());
            let ticket = offer.as_ref().map(|(offer, _)| offer.ticket);
            match (&job, offer) {
                (Some(job), _) => {
                    // A leader that does not answer may still wait; one that asks for something else does not.
                    let is_wanted = ticket.is_none_or(|ticket| ticket == job.ticket);
                    job.is_wanted.fetch_and(is_wanted, Ordering::AcqRel);
                }
                (None, Some((offer, leader))) => job = self.begin(offer, leader),
                (None, None) => {}
            }
        }
        if let Some(job) = job {
            job.is_wanted.store(false, Ordering::Release);
        }
    }

    /// The leader's admin port; `None` while this node leads or knows of none.
    fn leader(&self) -> Option<String> {
        if self.node.leader().is_some() {
            return None;
        }
        let told = self.node.machine().watch_leadership().borrow().clone()?;
        let is_other = told.node_id != self.node.settings().node_id;
        let is_led = self.node.status_leader() == Some(told.node_id);
        (is_other && is_led).then(|| format!("http://{}", told.admin_address))
    }

    fn call(&self, url: &str) -> Result<ureq::Body, String> {
        let mut request = self.agent.post(url);
        if !self.token.is_empty() {
            request = request.header("authorization", format!("Bearer {}", self.token.reveal()));
        }
        let answer = request.send_empty().map_err(|error| format!("{url}: {error}"))?;
        match answer.status().is_success() {
            true => Ok(answer.into_body()),
            false => Err(format!("{url}: status {}", answer.status())),
        }
    }

    /// What the leader wants written.
    fn ask(&self, leader: &str) -> Option<Offer> {
        let own = self.node.settings().node_id;
        let url = format!("{leader}/api/v1/snapshots/work?node_id={own}");
        // A leader that does not answer is no news here; replication tells of it.
        let mut body = self.call(&url).ok()?;
        let text = body.with_config().limit(OFFER_BYTES_MAX).read_to_vec().ok()?;
        serde_json::from_slice::<Answer>(&text).ok()?.offer
    }

    /// Writes on a thread of its own, while this one keeps calling.
    fn begin(self: &Arc<Self>, offer: Offer, leader: String) -> Option<Job> {
        let (worker, is_wanted) = (Arc::clone(self), Arc::new(AtomicBool::new(true)));
        let (ticket, wanted) = (offer.ticket, Arc::clone(&is_wanted));
        let write = move || worker.carry_out(&offer, &leader, &wanted);
        let thread = std::thread::Builder::new().name(THREAD.into()).spawn(write);
        match thread {
            Ok(thread) => Some(Job { ticket, is_wanted, thread }),
            Err(error) => {
                tracing::warn!(%error, "no catalog snapshot: no thread can be started");
                None
            }
        }
    }

    fn carry_out(&self, offer: &Offer, leader: &str, is_wanted: &AtomicBool) {
        let go_on =
            || is_wanted.load(Ordering::Acquire) && !self.is_stopping.load(Ordering::Acquire);
        let written = self.write(offer, leader, &go_on);
        let ticket = offer.ticket;
        let report = match &written {
            Ok(Written { applied_index, next_replica_id, objects, bytes }) => format!(
                "applied_index={applied_index}&next_replica_id={next_replica_id}\
                 &objects={objects}&bytes={bytes}"
            ),
            Err(why) => {
                let set = percent_encoding::NON_ALPHANUMERIC;
                format!("failed={}", percent_encoding::utf8_percent_encode(why, set))
            }
        };
        let told = self.call(&format!("{leader}/api/v1/snapshots/done?ticket={ticket}&{report}"));
        match (written, told) {
            (Ok(_), Ok(_)) => {
                tracing::info!(id = %offer.id, "catalog snapshot written for the leader")
            }
            (Ok(_), Err(why)) => {
                // Had the leader taken the report, it would have published already, or never will: an answer that
                // was lost after that must not cost a snapshot that is visible.
                tracing::warn!(id = %offer.id, "the leader no longer wants this catalog snapshot: {why}");
                self.discard_unless_published(offer);
            }
            (Err(why), _) => tracing::warn!(id = %offer.id, "catalog snapshot not written: {why}"),
        }
    }

    fn discard_unless_published(&self, offer: &Offer) {
        match self.catalog.is_listed(offer.id) {
            Ok(false) => self.catalog.discard(offer.id),
            Ok(true) => {}
            Err(error) => {
                tracing::warn!(id = %offer.id, %error, "its files are left to retirement")
            }
        }
    }

    fn write(
        &self,
        offer: &Offer,
        leader: &str,
        go_on: &dyn Fn() -> bool,
    ) -> Result<Written, String> {
        let url = format!("{leader}/api/v1/snapshots/leases?ticket={}", offer.ticket);
        let mut body = self.call(&url)?;
        let bytes = body.with_config().limit(LEASE_BYTES_MAX as u64 + 1).read_to_vec();
        let bytes = bytes.map_err(|error| format!("{url}: {error}"))?;
        let leases = Leases::decode(&bytes).ok_or_else(|| format!("{url}: no table of leases"))?;
        self.catch_up(offer.min_applied, go_on)?;
        // Asked before the state is frozen, so that it holds at least this entry.
        let applied_index = self.applied();
        let frozen = self.node.freeze();
        // Not before: entries wait until all handles are taken.
        stand_back();
        let (objects, next_replica_id) = (frozen.objects(), frozen.next_replica_id());
        let failed = |error: mooncake_ha_snapshot::SnapshotError| error.to_string();
        let payloads = frozen.payloads(applied_index, offer.term, Some(&leases)).map_err(failed)?;
        self.catalog.stage(offer.id, &payloads, go_on).map_err(failed)?;
        Ok(Written { applied_index, next_replica_id, objects, bytes: payloads.total_bytes() })
    }

    fn applied(&self) -> u64 {
        self.node.status().log.applied.unwrap_or_default()
    }

    fn catch_up(&self, min_applied: u64, go_on: &dyn Fn() -> bool) -> Result<(), String> {
        let steps = CATCH_UP_MAX.as_millis() / CATCH_UP_STEP.as_millis();
        for _ in 0..steps {
            if self.applied() >= min_applied {
                return Ok(());
            }
            if !go_on() {
                return Err("it is no longer wanted".into());
            }
            std::thread::sleep(CATCH_UP_STEP);
        }
        let applied = self.applied();
        Err(format!("this node is at entry {applied} and entry {min_applied} is needed"))
    }
}
