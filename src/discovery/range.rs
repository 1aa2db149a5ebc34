//! The read of the view.
//!
//! Guards that a client never hears "no such key": while no leader was ever known the call is held, then
//! fails as a call that may be tried again. Any other key is absent, at once.

use tokio::sync::watch::Receiver;
use tonic::Status;

use super::messages::{RangeRequest, RangeResponse};
use super::view::{self, View};
use super::{Discovery, HOLD_MAX, stopped};

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
        known = tokio::time::timeout(HOLD_MAX, discovery.first_view()) => known.ok().flatten(),
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

    /// Waits until a leader is known; `None` if the node is gone.
    async fn first_view(&mut self) -> Option<View> {
        let known = self.leadership.wait_for(Option::is_some).await.ok()?.clone();
        Some(View { leadership: known, node_id: self.node_id })
    }
}
