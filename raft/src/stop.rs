//! Whether a node can be stopped while the others go on serving.
//!
//! Guards: "yes" is said only if a majority of the voters would be left, each heard lately and close
//! to the end of the log. A voter that has died is missed with the next heartbeat, which finds nobody; one that is
//! silent after a few of them. Only the leader knows that; how others ask it is left to the caller.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::config::CATCH_UP_LAG_MAX;
use crate::machine::Machine;
use crate::node::{Node, members_of};
use crate::status::{Member, Role};
use crate::types::NodeId;

/// Heartbeats that a voter may leave unanswered before it counts no more. Fewer would doubt a voter whose disk or
/// core was busy for a moment; more would call a cluster safe for longer that is not.
const BEATS_UNHEARD_MAX: u32 = 3;

/// Why a node should not be stopped now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StopRefused {
    /// This node does not lead, so it does not know how the others are; ask the leader.
    #[error("this node does not lead, so it cannot know; ask the leader")]
    NotLeader,
    /// It leads and does not serve yet.
    #[error("the leader does not serve yet; wait until it does")]
    NotReady,
    /// There is no other voter.
    #[error("node {0} is the only voter; without it nothing is served")]
    OnlyVoter(NodeId),
    /// Too few voters would be left; the text names those that do not count, and why.
    #[error(
        "without node {id} {left} of {voters} voters would be up to date, \
         and {needed} are needed{missing}"
    )]
    TooFew {
        /// The node in question.
        id: NodeId,
        /// Voters that would be left and count.
        left: usize,
        /// How many there are.
        voters: usize,
        /// A majority of them.
        needed: usize,
        /// ": node 3 was last heard ..." for each that does not count.
        missing: String,
    },
}

impl<M: Machine> Node<M> {
    /// Whether the cluster serves on if node `id` is stopped now. Any node that does not vote may go.
    ///
    /// # Errors
    /// See [`StopRefused`]; each is a sentence for the operator.
    pub fn may_stop(&self, id: NodeId) -> Result<(), StopRefused> {
        let inner = &self.inner;
        match &*inner.lease.role().borrow() {
            Role::Leader { ready: true, .. } => {}
            Role::Leader { .. } => return Err(StopRefused::NotReady),
            Role::Follower { .. } => return Err(StopRefused::NotLeader),
        }
        let own = inner.config.node_id;
        let members = members_of(&inner.metrics(), own);
        // A voter that is silent for longer than a leader lease campaigns, or is not there.
        let silence_max =
            inner.config.heartbeat.saturating_mul(BEATS_UNHEARD_MAX).min(inner.config.lease());
        let heard = Heard {
            leader: own,
            ms_max: u64::try_from(silence_max.as_millis()).unwrap_or(u64::MAX),
            unreached: inner.peers.unreached(),
        };
        judge(&members, id, &heard)
    }
}

/// What the leader has heard of others.
struct Heard {
    leader: NodeId,
    /// Longest silence of a voter that counts.
    ms_max: u64,
    /// Voters to which the last question came to nothing.
    unreached: BTreeSet<NodeId>,
}

fn judge(members: &[Member], id: NodeId, heard: &Heard) -> Result<(), StopRefused> {
    let voters: Vec<&Member> = members.iter().filter(|member| member.voter).collect();
    if !voters.iter().any(|voter| voter.id == id) {
        return Ok(());
    }
    if voters.len() == 1 {
        return Err(StopRefused::OnlyVoter(id));
    }
    let mut missing = String::new();
    let mut left = 0;
    for voter in voters.iter().filter(|voter| voter.id != id) {
        match lack(voter, heard) {
            None => left += 1,
            Some(lack) => {
                let mark = if missing.is_empty() { ':' } else { ',' };
                // Writing to a string cannot fail.
                let _ = write!(missing, "{mark} node {} {lack}", voter.id);
            }
        }
    }
    let (voters, needed) = (voters.len(), voters.len() / 2 + 1);
    match left >= needed {
        true => Ok(()),
        false => Err(StopRefused::TooFew { id, left, voters, needed, missing }),
    }
}

/// Why a voter does not count; `None` if it does.
fn lack(voter: &Member, heard: &Heard) -> Option<String> {
    if voter.id == heard.leader {
        return None;
    }
    if heard.unreached.contains(&voter.id) {
        return Some("cannot be reached".to_owned());
    }
    match (voter.heard_ms_ago, voter.lag) {
        (None, _) => Some("is not heard".to_owned()),
        (Some(ms), _) if ms > heard.ms_max => Some(format!("was last heard {ms} ms ago")),
        (Some(_), None) => Some("is at an unknown entry".to_owned()),
        (Some(_), Some(lag)) if lag > CATCH_UP_LAG_MAX => Some(format!("is {lag} entries behind")),
        (Some(_), Some(_)) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn voter(id: NodeId, heard_ms_ago: Option<u64>, lag: u64) -> Member {
        let lag = Some(lag);
        Member { id, addr: String::new(), voter: true, matched: None, lag, heard_ms_ago }
    }

    fn all_good() -> Vec<Member> {
        vec![voter(1, None, 0), voter(2, Some(100), 3), voter(3, Some(150), 1_000)]
    }

    fn may_stop(members: &[Member], id: NodeId) -> Result<(), String> {
        may_stop_without(members, &[], id)
    }

    fn may_stop_without(
        members: &[Member],
        unreached: &[NodeId],
        id: NodeId,
    ) -> Result<(), String> {
        let unreached = unreached.iter().copied().collect();
        let heard = Heard { leader: 1, ms_max: 900, unreached };
        judge(members, id, &heard).map_err(|refused| refused.to_string())
    }

    #[test]
    fn one_that_was_heard_a_moment_ago_and_is_not_there_any_more_counts_no_more() {
        let refused = may_stop_without(&all_good(), &[3], 2).unwrap_err();
        assert!(refused.ends_with("node 3 cannot be reached"), "{refused}");
        assert_eq!(may_stop_without(&all_good(), &[3], 3), Ok(()));
        assert_eq!(may_stop_without(&all_good(), &[1], 2), Ok(()), "the leader is itself");
    }

    #[test]
    fn with_all_voters_up_to_date_each_of_them_may_go() {
        for id in 1..=3 {
            assert_eq!(may_stop(&all_good(), id), Ok(()), "{id}");
        }
    }

    #[test]
    fn one_that_is_silent_or_behind_keeps_the_others_from_going_but_may_go_itself() {
        for (bad, why) in [
            (voter(3, Some(901), 0), "node 3 was last heard 901 ms ago"),
            (voter(3, None, 0), "node 3 is not heard"),
            (voter(3, Some(1), 1_001), "node 3 is 1001 entries behind"),
        ] {
            let members = [&all_good()[..2], &[bad]].concat();
            for id in [1, 2] {
                let refused = may_stop(&members, id).unwrap_err();
                let head =
                    format!("without node {id} 1 of 3 voters would be up to date, and 2 are");
                assert!(refused.starts_with(&head) && refused.ends_with(why), "{refused}");
            }
            assert_eq!(may_stop(&members, 3), Ok(()));
        }
    }

    #[test]
    fn the_only_voter_may_not_go_and_a_learner_may() {
        let learner = Member { voter: false, ..voter(2, None, 9_999) };
        let members = [voter(1, None, 0), learner];
        assert!(may_stop(&members, 1).unwrap_err().contains("only voter"));
        assert_eq!(may_stop(&members, 2), Ok(()));
        assert_eq!(may_stop(&members, 7), Ok(()), "it is no member");
    }

    #[test]
    fn of_five_voters_one_may_be_lost_before_another_goes() {
        let five = |down: usize| -> Vec<Member> {
            let heard = |id: u64| if id > 5 - down as u64 { None } else { Some(10) };
            (1..=5).map(|id| voter(id, heard(id), 0)).collect()
        };
        assert_eq!(may_stop(&five(1), 2), Ok(()));
        assert!(may_stop(&five(2), 2).is_err());
    }
}
