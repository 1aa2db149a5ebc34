//! Every node serves every call: one that does not lead passes it on to the one that does.
//!
//! A forwarded call is marked, so that it is passed on once and a node that has just lost leadership says so
//! instead of passing it back. Only "not sent" and that refusal are tried again; after anything else the
//! outcome of a write is unknown and the client's connection is closed, so no write is applied twice.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::timeout;

use super::client::ResponseFrame;
use super::road::{Line, Road, Tcp};
use crate::node::MasterNode;
use crate::plant::{Bug, is_planted};
use crate::wire::Function;
use crate::wire::frame::{REQUEST_HEAD_BYTES, RESPONSE_HEAD_BYTES};
use crate::wire::older::Release;

/// Attachment of a forwarded request. Clients never send one.
const FORWARD_MARK: &[u8] = b"mooncake-ha/forwarded";

/// The same, of a request whose answer is to have the form of release 0.3.12: only the node that holds the
/// client's connection can know that.
const FORWARD_MARK_0312: &[u8] = b"mooncake-ha/forwarded/0.3.12";

/// What a node answers to a forwarded call that it cannot serve: nothing was done.
pub const NOT_LEADER: &str = "mooncake-ha: this node does not lead";

/// How long a call is held while nobody leads; then its connection is closed.
pub const HOLD_MAX: Duration = Duration::from_secs(10);

/// Pause between two attempts.
pub const HOLD_STEP: Duration = Duration::from_millis(10);

/// Bounds of one attempt. The answer may take as long as a client waits for it.
const CONNECT_MAX: Duration = Duration::from_millis(1_000);
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// Idle connections kept to one address; one more is closed.
const IDLE_MAX: usize = 128;

/// Bytes of a request's head in front of the attachment length.
const ATTACHMENT_LEN_AT: usize = 16;

/// Why a forwarded call has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ForwardError {
    /// Nobody else is known to lead.
    #[error("no other leader is known")]
    NoLeader,
    /// Nothing was done: the leader could not be reached or does not lead any more.
    #[error("the leader at {0} cannot be reached")]
    NotDone(Arc<str>),
    /// It was sent and the answer is lost: it may have been done.
    #[error("the answer of the leader at {0} is lost")]
    OutcomeUnknown(Arc<str>),
}

/// Idle connections to one address.
type Idle = Vec<Box<dyn Line>>;

/// Connections to leaders.
pub struct Forwarder {
    road: Box<dyn Road>,
    idle: Mutex<HashMap<Arc<str>, Idle>>,
    calls: AtomicU64,
}

impl Default for Forwarder {
    fn default() -> Self {
        Forwarder::new(Box::new(Tcp))
    }
}

impl Forwarder {
    /// A forwarder that reaches leaders by a road.
    pub fn new(road: Box<dyn Road>) -> Self {
        Forwarder { road, idle: Mutex::default(), calls: AtomicU64::new(0) }
    }

    /// Calls that this node has passed on, or tried to.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Has the leader answer a request frame, which carries no attachment.
    ///
    /// Errors: by cause, see [`ForwardError`].
    pub async fn call(
        &self,
        node: &MasterNode,
        frame: &[u8],
        function: Option<Function>,
        release: Release,
    ) -> Result<ResponseFrame, ForwardError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let leader = leader_address(node).ok_or(ForwardError::NoLeader)?;
        let marked = mark(frame, release);
        let (mut connection, is_fresh) = match self.take_idle(&leader) {
            Some(connection) => (connection, false),
            None => (self.connect(&leader).await?, true),
        };
        let mut answer =
            unless_another_leads(node, &leader, exchange(&mut *connection, &marked)).await;
        if answer.is_none() && !is_fresh && function.is_some_and(is_repeatable) {
            // A connection that stood idle may have been closed meanwhile.
            connection = self.connect(&leader).await?;
            answer = unless_another_leads(node, &leader, exchange(&mut *connection, &marked)).await;
        }
        match answer {
            Some(answer) if is_refusal(&answer) => Err(ForwardError::NotDone(leader)),
            Some(answer) => {
                self.give_back(leader, connection);
                Ok(answer)
            }
            None if function.is_some_and(is_repeatable) || is_planted(Bug::ForwardTwice) => {
                Err(ForwardError::NotDone(leader))
            }
            None => Err(ForwardError::OutcomeUnknown(leader)),
        }
    }

    async fn connect(&self, leader: &Arc<str>) -> Result<Box<dyn Line>, ForwardError> {
        let not_done = || ForwardError::NotDone(Arc::clone(leader));
        let connected = timeout(CONNECT_MAX, self.road.connect(leader)).await;
        connected.map_err(|_| not_done())?.map_err(|_| not_done())
    }

    fn take_idle(&self, leader: &Arc<str>) -> Option<Box<dyn Line>> {
        let mut idle = self.idle.lock();
        // Connections to earlier leaders are of no use.
        idle.retain(|address, _| address == leader);
        let connections = idle.get_mut(leader)?;
        // The leader closes what stood idle for too long, or was restarted meanwhile. A write sent there would
        // count as one whose outcome is unknown, although it never arrived.
        std::iter::from_fn(|| connections.pop()).find(|line| line.is_idle())
    }

    fn give_back(&self, leader: Arc<str>, connection: Box<dyn Line>) {
        let mut idle = self.idle.lock();
        let connections = idle.entry(leader).or_default();
        if connections.len() < IDLE_MAX {
            connections.push(connection);
        }
    }
}

/// Where the node that leads serves clients, if it is another one and has announced itself.
fn leader_address(node: &MasterNode) -> Option<Arc<str>> {
    let leader = node.status_leader()?;
    let announced = node.machine().look(|state| state.leadership().cloned())?;
    let is_other = announced.node_id != node.settings().node_id;
    (announced.node_id == leader && is_other).then_some(announced.rpc_address)
}

/// Waits for an answer for as long as nobody else leads. A leader whose host is gone, or that stands still, closes no
/// connection: without this its callers would wait for an answer that cannot come while another node serves.
async fn unless_another_leads(
    node: &MasterNode,
    leader: &Arc<str>,
    answer: impl Future<Output = Option<ResponseFrame>>,
) -> Option<ResponseFrame> {
    let mut leadership = node.machine().watch_leadership();
    let another =
        leadership.wait_for(|told| told.as_ref().is_some_and(|told| told.rpc_address != *leader));
    tokio::select! {
        // An answer that is there counts, whoever leads by now.
        biased;
        answer = answer => answer,
        Ok(_) = another => None,
    }
}

/// Of which release the client of a forwarded request is; `None` if the request was not forwarded.
pub fn forwarded(attachment: &[u8]) -> Option<Release> {
    match attachment {
        FORWARD_MARK => Some(Release::V0313),
        FORWARD_MARK_0312 => Some(Release::V0312),
        _ => None,
    }
}

fn mark(frame: &[u8], release: Release) -> Vec<u8> {
    let mark = match release {
        Release::V0312 => FORWARD_MARK_0312,
        Release::V0313 => FORWARD_MARK,
    };
    let mut marked = frame.to_vec();
    let length = u32::try_from(mark.len()).unwrap_or_default().to_le_bytes();
    if let Some(field) = marked.get_mut(ATTACHMENT_LEN_AT..REQUEST_HEAD_BYTES) {
        field.copy_from_slice(&length);
    }
    marked.extend_from_slice(mark);
    marked
}

async fn exchange(connection: &mut dyn Line, frame: &[u8]) -> Option<ResponseFrame> {
    timeout(ANSWER_MAX, connection.exchange(frame)).await.ok()?
}

fn is_refusal(answer: &ResponseFrame) -> bool {
    let is_exception = answer.head.rpc_error == 10;
    is_exception
        && answer.bytes.len() > RESPONSE_HEAD_BYTES
        && answer.body().ends_with(NOT_LEADER.as_bytes())
}

/// Calls that change nothing but leases and heartbeats: sending one twice does no harm.
fn is_repeatable(function: Function) -> bool {
    matches!(
        function,
        Function::ExistKey
            | Function::BatchExistKey
            | Function::GetReplicaList
            | Function::BatchGetReplicaList
            | Function::GetReplicaListByRegex
            | Function::BatchQueryIp
            | Function::Ping
            | Function::QuerySegmentStatus
            | Function::QuerySegmentStatusById
            | Function::QueryTask
            | Function::GetAllNoFSegments
            | Function::GetNoFSegmentsByName
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::frame::RequestHead;
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn a_connection_that_the_leader_has_closed_is_not_used_again() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let leader: Arc<str> = listener.local_addr().unwrap().to_string().into();
        let forwarder = Forwarder::default();
        let mut served = Vec::new();
        for _ in 0..2 {
            let connection = forwarder.connect(&leader).await.unwrap();
            served.push(listener.accept().await.unwrap().0);
            forwarder.give_back(Arc::clone(&leader), connection);
        }
        let open = served.remove(0);
        drop(served);
        let newest_is_idle = || forwarder.idle.lock()[&leader].last().unwrap().is_idle();
        let seen = async {
            while newest_is_idle() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(CONNECT_MAX, seen).await.expect("the end of the connection is seen");
        let taken = forwarder.take_idle(&leader).unwrap();
        assert!(taken.is_idle(), "the older one, which is open");
        assert!(forwarder.take_idle(&leader).is_none());
        drop(open);
    }

    #[test]
    fn a_marked_frame_has_the_same_call_and_the_mark_as_attachment() {
        let mut frame = Vec::new();
        RequestHead::write(7, Function::Ping.id(), &mut frame, |out| out.extend([1, 2, 3]));
        for release in [Release::V0312, Release::V0313] {
            let marked = mark(&frame, release);
            let (head, length) = RequestHead::parse(&marked).unwrap().unwrap();
            assert_eq!((head.sequence, head.function_id), (7, Function::Ping.id()));
            assert_eq!(head.body(&marked), [1, 2, 3]);
            assert_eq!(length, marked.len());
            assert_eq!(forwarded(&marked[length - head.attachment_len..]), Some(release));
        }
        assert_eq!(forwarded(b""), None);
    }
}
