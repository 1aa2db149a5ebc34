//! When each voter is known to have heard this leader: what the leader lease counts from.
//!
//! Guards: an answer counts from the moment at which its own request was sent. openraft tells answers apart by log id,
//! so a late answer, held up with its connection, counts there as one to a newer request with the same last entry: a
//! deposed leader would be given a fresh lease.
//! Leaves to `lease.rs` for how long that is worth.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::types::NodeId;

/// For each node that answered an append: the term of the request, and when the newest one answered was sent.
/// Bounded by the members there have been.
#[derive(Debug, Default)]
pub(crate) struct Acked(Mutex<BTreeMap<NodeId, (u64, Instant)>>);

impl Acked {
    /// Notes an answer of `by` to an append of `term` that was sent at `sent`.
    pub(crate) fn note(&self, by: NodeId, term: u64, sent: Instant) {
        let mut acked = self.0.lock();
        let newest = acked.entry(by).or_insert((term, sent));
        *newest = (*newest).max((term, sent));
    }

    /// The latest moment since which a majority of every one of `configs` has heard the leader `me` of `term`; `None`
    /// if there is none. The leader counts as one that hears itself now.
    pub(crate) fn since(
        &self,
        me: NodeId,
        term: u64,
        configs: &[&BTreeSet<NodeId>],
    ) -> Option<Instant> {
        let now = Instant::now();
        let acked = self.0.lock();
        let heard = |id: &NodeId| match acked.get(id) {
            _ if *id == me => Some(now),
            Some((of, sent)) if *of == term => Some(*sent),
            _ => None,
        };
        let majority = |voters: &&BTreeSet<NodeId>| {
            let mut times: Vec<Instant> = voters.iter().filter_map(heard).collect();
            times.sort_unstable();
            // The last of a majority of the latest ones.
            times.into_iter().rev().nth(voters.len() / 2)
        };
        configs.iter().map(majority).min().flatten()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_late_answer_counts_from_when_its_own_request_was_sent() {
        let acked = Acked::default();
        let three: BTreeSet<NodeId> = [1, 2, 3].into();
        let sent = Instant::now() - Duration::from_millis(10);
        assert_eq!(acked.since(1, 4, &[&three]), None, "nobody but the leader itself");
        acked.note(2, 4, sent);
        assert_eq!(acked.since(1, 4, &[&three]), Some(sent));
        assert_eq!(acked.since(1, 5, &[&three]), None, "an answer to a request of another term");
        let later = sent + Duration::from_millis(5);
        acked.note(3, 4, later);
        assert_eq!(acked.since(1, 4, &[&three]), Some(later), "two of three are enough");
        acked.note(3, 4, sent);
        assert_eq!(acked.since(1, 4, &[&three]), Some(later), "an older answer takes nothing back");
    }

    #[test]
    fn every_configuration_of_a_change_needs_its_own_majority() {
        let acked = Acked::default();
        let (old, new): (BTreeSet<NodeId>, BTreeSet<NodeId>) = ([1, 2, 3].into(), [1, 4, 5].into());
        let sent = Instant::now();
        acked.note(2, 1, sent);
        assert_eq!(acked.since(1, 1, &[&old, &new]), None);
        let earlier = sent - Duration::from_millis(1);
        acked.note(5, 1, earlier);
        assert_eq!(acked.since(1, 1, &[&old, &new]), Some(earlier));
        assert_eq!(acked.since(1, 1, &[]), None, "without voters there is no lease");
    }

    #[test]
    fn of_four_voters_three_must_have_heard() {
        let acked = Acked::default();
        let four: BTreeSet<NodeId> = [1, 2, 3, 4].into();
        let sent = Instant::now();
        acked.note(2, 1, sent);
        assert_eq!(acked.since(1, 1, &[&four]), None);
        acked.note(3, 1, sent);
        assert_eq!(acked.since(1, 1, &[&four]), Some(sent));
    }
}
