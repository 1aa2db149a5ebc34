//! The leader's side of having a follower write a snapshot: who is there, what was asked, what came of it.
//!
//! Followers call; the leader never calls them, so it needs to know nothing of their addresses. Guards that there is
//! one order at a time and that a report counts only for the order that stands: a follower that comes late is told
//! so and removes what it wrote. Knows no clock; times come in.

use std::collections::BTreeMap;
use std::time::Duration;

use mooncake_ha_snapshot::SnapshotId;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

/// A follower that was silent for this long is not there. It calls every [`CALL_PERIOD`].
const SILENCE_MAX: Duration = Duration::from_secs(5);
/// How often a follower calls.
pub const CALL_PERIOD: Duration = Duration::from_secs(1);
/// Followers that are remembered; a cluster has fewer members.
const HELPERS_MAX: usize = 64;

/// What a follower is asked to write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// Names the order in all further calls.
    pub ticket: u64,
    /// The id under which the files go.
    #[serde(with = "as_text")]
    pub id: SnapshotId,
    /// The state must have applied this entry first, so that nothing is in the snapshot that was freed before the
    /// order was given.
    pub min_applied: u64,
    /// The leader's term.
    pub term: u64,
}

mod as_text {
    use mooncake_ha_snapshot::SnapshotId;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub fn serialize<S: Serializer>(id: &SnapshotId, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(id)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<SnapshotId, D::Error> {
        let text = String::deserialize(from)?;
        SnapshotId::parse(&text).ok_or_else(|| D::Error::custom("no snapshot id"))
    }
}

/// What a follower wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// The entry up to which the state reached.
    pub applied_index: u64,
    /// The replica counter of that state.
    pub next_replica_id: u64,
    /// Objects in it.
    pub objects: u64,
    /// Bytes of the files.
    pub bytes: u64,
}

/// An order that stands.
pub struct Order {
    /// Who was asked.
    pub node_id: u64,
    report: oneshot::Receiver<Result<Written, String>>,
}

impl Order {
    /// What the follower reports.
    ///
    /// Errors: why it could not, as a sentence.
    pub async fn report(&mut self) -> Result<Written, String> {
        match (&mut self.report).await {
            Ok(report) => report,
            Err(_) => Err("the order was withdrawn".into()),
        }
    }
}

struct Open {
    node_id: u64,
    offer: Offer,
    report: oneshot::Sender<Result<Written, String>>,
}

#[derive(Default)]
struct Papers {
    /// When each follower called last.
    heard: BTreeMap<u64, Duration>,
    last_ticket: u64,
    open: Option<Open>,
}

/// Where orders lie.
#[derive(Default)]
pub struct Desk {
    papers: Mutex<Papers>,
}

impl Desk {
    /// A follower calls; answers what it is asked to write.
    pub fn hear(&self, node_id: u64, now: Duration) -> Option<Offer> {
        let mut papers = self.papers.lock();
        papers.heard.retain(|_, at| now.saturating_sub(*at) <= SILENCE_MAX);
        if papers.heard.len() < HELPERS_MAX || papers.heard.contains_key(&node_id) {
            papers.heard.insert(node_id, now);
        }
        let open = papers.open.as_ref().filter(|open| open.node_id == node_id);
        open.map(|open| open.offer.clone())
    }

    /// Whether the follower has called lately.
    pub fn is_heard(&self, node_id: u64, now: Duration) -> bool {
        let papers = self.papers.lock();
        papers.heard.get(&node_id).is_some_and(|at| now.saturating_sub(*at) <= SILENCE_MAX)
    }

    /// The follower to ask: the one that called last.
    pub fn helper(&self, now: Duration) -> Option<u64> {
        let papers = self.papers.lock();
        let there = papers.heard.iter().filter(|(_, at)| now.saturating_sub(**at) <= SILENCE_MAX);
        there.max_by_key(|(_, at)| **at).map(|(node_id, _)| *node_id)
    }

    /// Asks a follower; an earlier order no longer stands. The ticket of the offer is set here.
    pub fn place(&self, node_id: u64, offer: Offer, now: Duration) -> Order {
        let (told, report) = oneshot::channel();
        let mut papers = self.papers.lock();
        // From the clock, so that a ticket of this process's last life does not fit.
        let ticket = u64::try_from(now.as_micros()).unwrap_or(u64::MAX);
        papers.last_ticket = ticket.max(papers.last_ticket.saturating_add(1));
        let offer = Offer { ticket: papers.last_ticket, ..offer };
        papers.open = Some(Open { node_id, offer, report: told });
        Order { node_id, report }
    }

    /// Whether the order with this ticket stands.
    pub fn is_current(&self, ticket: u64) -> bool {
        self.papers.lock().open.as_ref().is_some_and(|open| open.offer.ticket == ticket)
    }

    /// Takes the order back.
    pub fn withdraw(&self) {
        self.papers.lock().open = None;
    }

    /// A follower reports; answers whether its order still stood.
    pub fn report(&self, ticket: u64, report: Result<Written, String>) -> bool {
        let mut papers = self.papers.lock();
        let open = papers.open.take_if(|open| open.offer.ticket == ticket);
        open.is_some_and(|open| open.report.send(report).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITTEN: Written = Written { applied_index: 9, next_replica_id: 4, objects: 1, bytes: 2 };

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn offer() -> Offer {
        Offer { ticket: 0, id: SnapshotId::at(1), min_applied: 7, term: 3 }
    }

    #[tokio::test]
    async fn only_the_follower_that_was_asked_sees_the_order_and_reports_once() {
        let desk = Desk::default();
        assert_eq!(desk.helper(seconds(1)), None);
        assert_eq!((desk.hear(2, seconds(1)), desk.hear(3, seconds(2))), (None, None));
        assert_eq!(desk.helper(seconds(2)), Some(3));
        let mut order = desk.place(3, offer(), seconds(2));
        assert_eq!(desk.hear(2, seconds(3)), None);
        let seen = desk.hear(3, seconds(3)).unwrap();
        assert_eq!((seen.id, seen.min_applied, seen.term), (SnapshotId::at(1), 7, 3));
        assert!(desk.is_current(seen.ticket) && !desk.is_current(seen.ticket + 1));
        assert!(!desk.report(seen.ticket + 1, Ok(WRITTEN)));
        assert!(desk.report(seen.ticket, Ok(WRITTEN)));
        assert!(!desk.report(seen.ticket, Ok(WRITTEN)), "it was reported already");
        assert_eq!(order.report().await, Ok(WRITTEN));
    }

    #[tokio::test]
    async fn a_report_for_an_order_that_was_taken_back_counts_for_nothing() {
        let desk = Desk::default();
        let mut first = desk.place(2, offer(), seconds(1));
        let ticket = desk.hear(2, seconds(1)).unwrap().ticket;
        desk.withdraw();
        assert!(first.report().await.is_err());
        let mut second = desk.place(2, offer(), seconds(1));
        assert!(!desk.report(ticket, Ok(WRITTEN)));
        let next = desk.hear(2, seconds(1)).unwrap().ticket;
        assert!(next > ticket && desk.report(next, Err("no space".into())));
        assert_eq!(second.report().await, Err("no space".into()));
    }

    #[test]
    fn a_silent_follower_is_not_asked() {
        let desk = Desk::default();
        desk.hear(2, seconds(1));
        assert!(desk.is_heard(2, seconds(6)) && !desk.is_heard(2, seconds(7)));
        assert_eq!((desk.helper(seconds(6)), desk.helper(seconds(7))), (Some(2), None));
    }

    #[test]
    fn an_offer_travels_as_json() {
        let text = serde_json::to_string(&offer()).unwrap();
        assert_eq!(serde_json::from_str::<Offer>(&text).unwrap(), offer());
    }
}
