//! Counters of running clients, for the live view. What counts in the end is in the histories.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::drill::history::ClientNo;
use crate::drill::moment::Moment;

/// What clients see now.
#[derive(Debug, Default)]
pub struct Pulse {
    writes: AtomicU64,
    reads: AtomicU64,
    unanswered: AtomicU64,
    refused: AtomicU64,
    last: Mutex<BTreeMap<ClientNo, Moment>>,
    refusals: Mutex<BTreeMap<String, u64>>,
}

/// Kinds of refusals that are told apart.
const REFUSALS_MAX: usize = 64;

/// The counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PulseNow {
    /// Acknowledged writes and removals.
    pub writes: u64,
    /// Answered reads.
    pub reads: u64,
    /// Calls without an answer.
    pub unanswered: u64,
    /// Writes that a master refused.
    pub refused: u64,
    /// Clients at work.
    pub clients: usize,
    /// Clients without an answer for a second and more.
    pub waiting: usize,
}

/// From this on a client counts as waiting.
const WAITING_MS: u64 = 1_000;

impl Pulse {
    /// A client begins.
    pub fn join(&self, client: ClientNo, at: Moment) {
        self.last.lock().insert(client, at);
    }

    /// A client ends.
    pub fn part(&self, client: ClientNo) {
        self.last.lock().remove(&client);
    }

    /// A write was acknowledged.
    pub fn wrote(&self, client: ClientNo, at: Moment) {
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.last.lock().insert(client, at);
    }

    /// A read was answered.
    pub fn read(&self, client: ClientNo, at: Moment) {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.last.lock().insert(client, at);
    }

    /// A call got no answer.
    pub fn missed(&self) {
        self.unanswered.fetch_add(1, Ordering::Relaxed);
    }

    /// A master refused a write.
    pub fn refused(&self, client: ClientNo, at: Moment, what: String) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        self.last.lock().insert(client, at);
        let mut refusals = self.refusals.lock();
        if refusals.len() < REFUSALS_MAX || refusals.contains_key(&what) {
            *refusals.entry(what).or_default() += 1;
        }
    }

    /// Refused writes by call and code.
    pub fn refusals(&self) -> BTreeMap<String, u64> {
        self.refusals.lock().clone()
    }

    /// The counters now.
    pub fn now(&self, now: Moment) -> PulseNow {
        let last = self.last.lock();
        let is_waiting = |last: &&Moment| now.since(**last) / 1000 >= WAITING_MS;
        PulseNow {
            writes: self.writes.load(Ordering::Relaxed),
            reads: self.reads.load(Ordering::Relaxed),
            unanswered: self.unanswered.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            clients: last.len(),
            waiting: last.values().filter(is_waiting).count(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_without_an_answer_for_a_second_is_waiting() {
        let pulse = Pulse::default();
        pulse.join(ClientNo(1), Moment(0));
        pulse.wrote(ClientNo(2), Moment(900_000));
        let now = pulse.now(Moment(1_000_000));
        assert_eq!((now.clients, now.waiting, now.writes), (2, 1, 1));
        pulse.part(ClientNo(1));
        assert_eq!(pulse.now(Moment(1_000_000)).waiting, 0);
    }
}
