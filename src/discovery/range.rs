//! The read of the view.
//!
//! Guards that a client never hears "no such key": while no leader was ever known the call is held, then
//! fails as a call that may be tried again. Any other key is absent, at once. Guards also that a client which
//! one node has told of a new leader does not hear of the old one from the next: a client asks its nodes in turn,
//! believes the read, and then watches for up to 30 s.

use std::time::Duration;

use tokio::sync::watch::Receiver;
use tonic::Status;

use super::messages::{RangeRequest, RangeResponse};
use super::view::{self, View};
use super::{Discovery, HOLD_MAX, SETTLE_MAX, stopped};
use crate::node::Role;

/// Answers the call.
///
/// Errors: UNAVAILABLE when no leader became known in [`HOLD_MAX`] or the node stops meanwhile;
/// OUT_OF_RANGE when a revision other than the current one is asked for.
pub(super) async fn answer(
    mut discovery: Discovery,
    stop: Receiver<bool>,
    request: RangeRequest,
) -> Result<RangeResponse, Status> {
    if !view::is_asked(&request.key, &request.range_end) {
        let header = Some(discovery.view().header());
        return Ok(RangeResponse { header, ..RangeResponse::default() });
    }
    let known = tokio::select! {
        known = discovery.settled_view(SETTLE_MAX) => known,
        () = stopped(stop) => None,
    };
    let view = known.ok_or_else(|| Status::unavailable("no leader is known yet; try again"))?;
    check_revision(request.revision, view.revision())?;
    let mut kvs: Vec<_> = view.key_value(&request.key).into_iter().collect();
    let count = i64::from(!kvs.is_empty());
    if request.count_only {
        kvs.clear();
    } else if request.keys_only {
        kvs.iter_mut().for_each(|kv| kv.value.clear());
    }
    Ok(RangeResponse { header: Some(view.header()), kvs, count })
}

/// Only now can be read; the texts are the ones that etcd's library knows.
fn check_revision(asked: i64, now: i64) -> Result<(), Status> {
    match asked {
        asked if asked <= 0 || asked == now => Ok(()),
        asked if asked > now => {
            Err(Status::out_of_range("etcdserver: mvcc: required revision is a future revision"))
        }
        _ => Err(Status::out_of_range("etcdserver: mvcc: required revision has been compacted")),
    }
}

impl Discovery {
    /// What is known now.
    pub(super) fn view(&self) -> View {
        View { leadership: self.leadership.borrow().clone(), node_id: self.node_id }
    }

    /// Waits, bounded, until a leader is known and until one that is elected is announced here.
    async fn settled_view(&mut self, settle_max: Duration) -> Option<View> {
        let known = self.leadership.wait_for(Option::is_some);
        tokio::time::timeout(HOLD_MAX, known).await.ok()?.ok()?;
        // Afterwards the old leader is told: better than nothing, for it may be the new one again.
        let _ = tokio::time::timeout(settle_max, self.announced()).await;
        Some(self.view())
    }

    async fn announced(&mut self) {
        while self.is_announcement_due() {
            tokio::select! {
                Ok(()) = self.leadership.changed() => {}
                Ok(()) = self.role.changed() => {}
                // The node is gone.
                else => return,
            }
        }
    }

    /// Whether this node knows of a leader in a later term than the announced one.
    fn is_announcement_due(&self) -> bool {
        let elected = match &*self.role.borrow() {
            Role::Leader { term, .. } | Role::Follower { term, leader: Some(_) } => Some(*term),
            Role::Follower { leader: None, .. } => None,
        };
        elected > self.leadership.borrow().as_ref().map(|told| told.term)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mooncake_ha_raft::Peer;
    use tokio::sync::watch;
    use tokio::time::timeout;

    use super::*;
    use crate::node::Leadership;

    const LONG: Duration = Duration::from_secs(3_600);
    const SHORT: Duration = Duration::from_millis(1);

    fn told(term: u64) -> Option<Leadership> {
        let address = |kind: &str| Arc::from(format!("{kind}{term}:1"));
        Some(Leadership {
            term,
            node_id: 2,
            rpc_address: address("h"),
            admin_address: address("a"),
        })
    }

    /// A node that knows `leader` as the leader of term 5, with term 4 announced.
    fn after_election(leader: Option<Peer>) -> (watch::Sender<Option<Leadership>>, Discovery) {
        let leadership = watch::Sender::new(told(4));
        let role = watch::Sender::new(Role::Follower { term: 5, leader }).subscribe();
        let discovery = Discovery { leadership: leadership.subscribe(), role, node_id: 3 };
        (leadership, discovery)
    }

    fn peer() -> Option<Peer> {
        Some(Peer { id: 2, addr: "h:1".to_owned() })
    }

    #[tokio::test]
    async fn a_read_waits_for_the_announcement_of_the_leader_that_is_followed() {
        let (leadership, mut discovery) = after_election(peer());
        let mut read = std::pin::pin!(discovery.settled_view(LONG));
        assert!(timeout(SHORT, &mut read).await.is_err());
        leadership.send_replace(told(5));
        assert_eq!(read.await.unwrap().revision(), 5);
    }

    #[tokio::test]
    async fn an_announcement_that_does_not_come_is_not_waited_for_without_end() {
        let (_leadership, mut discovery) = after_election(peer());
        assert_eq!(discovery.settled_view(SHORT).await.unwrap().revision(), 4);
    }

    #[tokio::test]
    async fn the_old_leader_is_told_while_nobody_else_is_elected() {
        let (_leadership, mut discovery) = after_election(None);
        assert_eq!(discovery.settled_view(LONG).await.unwrap().revision(), 4);
    }
}
