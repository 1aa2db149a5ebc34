//! Changes of the cluster: add, promote, remove, hand over leadership.
//!
//! Guards: the leader lease is withdrawn while voters change or leadership moves; a learner votes
//! only when it answers and has nearly caught up; the leader cannot remove itself unawares.
//! Leaves to openraft the joint consensus.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use openraft::errors::{ClientWriteError, RaftError};
use openraft::{BasicNode, ChangeMembers};
use tokio::time::{Instant, timeout};

use crate::config::{CATCH_UP_LAG_MAX, check_address};
use crate::error::AdminError;
use crate::machine::Machine;
use crate::node::{Inner, Node};
use crate::status::{Member, Peer, Role};
use crate::types::{NodeId, TypeConfig};

/// A change of members that takes longer than this lacks a quorum.
const CHANGE_MAX: Duration = Duration::from_secs(30);
/// How long a promotion waits for the learner to catch up.
const CATCH_UP_MAX: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(20);

impl<M: Machine> Node<M> {
    /// Who belongs to the cluster, as this node knows it. Cheap, unlike [`Node::status`].
    pub fn members(&self) -> Vec<Member> {
        self.inner.members()
    }

    /// Adds a node that receives entries but does not vote.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn add_learner(&self, id: NodeId, addr: &str) -> Result<(), AdminError> {
        check_address(id, addr).map_err(|e| AdminError::Refused(e.to_string()))?;
        let inner = &self.inner;
        let known = inner.members().into_iter().find(|member| member.id == id);
        if known.is_some_and(|member| member.addr != addr) {
            let text = format!("node {id} is a member at another address; remove it first");
            return Err(AdminError::Refused(text));
        }
        let node = BasicNode { addr: addr.to_owned() };
        inner.change(ChangeMembers::AddNodes([(id, node)].into())).await
    }

    /// Makes a learner a voter, after waiting for it to catch up.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn promote(&self, id: NodeId) -> Result<(), AdminError> {
        let inner = &self.inner;
        let start = Instant::now();
        loop {
            inner.must_lead()?;
            let member = inner.members().into_iter().find(|member| member.id == id);
            let Some(member) = member else {
                let text = format!("node {id} is no member; add it as a learner first");
                return Err(AdminError::Refused(text));
            };
            if member.voter {
                return Ok(());
            }
            // In a young cluster a node that never came up lacks few entries, too.
            let has_come = inner.is_alive(&member) && member.matched.is_some();
            if has_come && member.lag.is_some_and(|lag| lag <= CATCH_UP_LAG_MAX) {
                break;
            }
            if start.elapsed() > CATCH_UP_MAX {
                return Err(AdminError::Timeout(format!("catching up of node {id}")));
            }
            tokio::time::sleep(LOOK).await;
        }
        let _block = inner.lease.block();
        inner.change(ChangeMembers::AddVoterIds([id].into())).await
    }

    /// Removes a node, voter or learner.
    ///
    /// # Errors
    /// [`AdminError::Refused`] for this node itself: hand leadership over first.
    pub async fn remove(&self, id: NodeId) -> Result<(), AdminError> {
        let inner = &self.inner;
        inner.must_lead()?;
        if id == inner.config.node_id {
            let text = format!("node {id} leads; transfer leadership first, then remove it");
            return Err(AdminError::Refused(text));
        }
        let Some(member) = inner.members().into_iter().find(|member| member.id == id) else {
            return Err(AdminError::Refused(format!("node {id} is no member")));
        };
        let _block = inner.lease.block();
        let ids: BTreeSet<NodeId> = [id].into();
        if member.voter {
            inner.change(ChangeMembers::RemoveVoters(ids)).await
        } else {
            inner.change(ChangeMembers::RemoveNodes(ids)).await
        }
    }

    /// Hands leadership to `to`, or to the voter that is closest behind; returns who leads then.
    ///
    /// # Errors
    /// See [`AdminError`]; after a timeout the voters elect by themselves.
    pub async fn transfer_leader(&self, to: Option<NodeId>) -> Result<Peer, AdminError> {
        self.inner.transfer_leader(to).await
    }
}

impl Inner {
    fn members(&self) -> Vec<Member> {
        crate::node::members_of(&self.metrics(), self.config.node_id)
    }

    fn must_lead(&self) -> Result<(), AdminError> {
        if self.has_stopped() {
            return Err(AdminError::Stopped);
        }
        match &*self.lease.role().borrow() {
            Role::Leader { .. } => Ok(()),
            Role::Follower { leader, .. } => Err(AdminError::NotLeader { leader: leader.clone() }),
        }
    }

    async fn change(&self, change: ChangeMembers<NodeId, BasicNode>) -> Result<(), AdminError> {
        self.must_lead()?;
        let text = change.to_string();
        let changed = timeout(CHANGE_MAX, self.raft.change_membership(change, false)).await;
        match changed {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(e)) => Err(self.admin_error(e)),
            Err(_) => Err(AdminError::Timeout(text)),
        }
    }

    fn admin_error(
        &self,
        error: RaftError<TypeConfig, ClientWriteError<TypeConfig>>,
    ) -> AdminError {
        match error {
            RaftError::APIError(ClientWriteError::ForwardToLeader(forward)) => {
                AdminError::NotLeader { leader: self.peer_in(forward) }
            }
            RaftError::APIError(other) => AdminError::Refused(other.to_string()),
            RaftError::Fatal(_) => AdminError::Stopped,
        }
    }

    /// Whether a member has answered within the length of the leader's lease.
    fn is_alive(&self, member: &Member) -> bool {
        let lease = u64::try_from(self.config.lease().as_millis()).unwrap_or(u64::MAX);
        member.heard_ms_ago.is_some_and(|ago| ago <= lease)
    }

    /// The voter to hand over to: alive, and closest behind.
    fn successor(&self) -> Option<NodeId> {
        let candidates: BTreeMap<u64, NodeId> = self
            .members()
            .into_iter()
            .filter(|member| member.voter && member.id != self.config.node_id)
            .filter(|member| self.is_alive(member))
            .filter_map(|member| Some((member.lag?, member.id)))
            .collect();
        candidates.into_values().next()
    }

    pub(crate) async fn transfer_leader(&self, to: Option<NodeId>) -> Result<Peer, AdminError> {
        self.must_lead()?;
        let me = self.config.node_id;
        let to = match to {
            Some(to) if to == me => {
                return Err(AdminError::Refused(format!("node {me} leads already")));
            }
            Some(to) => to,
            None => self.successor().ok_or_else(|| {
                AdminError::Refused("no other voter is alive and close enough".to_owned())
            })?,
        };
        let voter = self.members().iter().any(|member| member.id == to && member.voter);
        if !voter {
            return Err(AdminError::Refused(format!("node {to} is no voter")));
        }
        // Before raft hears of it: followers may elect at once.
        let _block = self.lease.block();
        let mut role = self.lease.role();
        self.raft.trigger().transfer_leader(to).await.map_err(|_| AdminError::Stopped)?;
        let moved = role.wait_for(|role| matches!(role, Role::Follower { leader: Some(_), .. }));
        match timeout(self.config.election_max * 4, moved).await {
            Ok(Ok(role)) => match &*role {
                Role::Follower { leader: Some(peer), .. } => Ok(peer.clone()),
                _ => Err(AdminError::Stopped),
            },
            Ok(Err(_)) => Err(AdminError::Stopped),
            Err(_) => Err(AdminError::Timeout(format!("hand-over to node {to}"))),
        }
    }
}
