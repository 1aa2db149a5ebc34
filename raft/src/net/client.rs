//! The asking side: one connection for appends, one for snapshots, a few for control messages.
//!
//! Guards: every wait has a deadline; a connection with an unread reply on it is never used
//! again; appends are pipelined, but no more than `IN_FLIGHT_MAX` of them.
//! Leaves to openraft when to ask again, to `transfer.rs` the sending of raft snapshots.

use std::future::{Future, ready};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, StreamExt, stream};
use openraft::base::{BoxFuture, BoxStream};
use openraft::errors::{RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{Backoff, RPCOption, stream_append_sequential};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, StreamAppendError,
    StreamAppendResult, TransferLeaderError, TransferLeaderRequest, TransferLeaderResponse,
    VoteRequest, VoteResponse,
};
use openraft::{BasicNode, RaftNetworkFactory, RaftNetworkV2};
use parking_lot::Mutex;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use crate::adapter::RaftSnapshot;
use crate::net::acked::Acked;
use crate::net::frame::{self, BODY_BYTES_MAX, Frame, HELLO_BYTES_MAX, Kind};
use crate::net::message::{
    AppendReply, Challenge, Channel, PROTOCOL, TransferAsk, TransferSay, VoteAsk, VoteSay, Welcome,
    encode_append,
};
use crate::net::peers::Peers;
use crate::net::tls::{self, Stream as PeerStream};
use crate::net::transfer;
use crate::record::{self, RecordError};
use crate::snapshot_file::SnapshotFile;
use crate::types::{LogId, NodeId, TypeConfig, Vote};
use crate::world::{Incoming, ReadHalf, WriteHalf};

/// Appends on the way to one peer without a reply.
const IN_FLIGHT_MAX: usize = 32;
/// Idle control connections kept for one peer; more are closed after use.
const IDLE_MAX: usize = 4;
/// How long connecting and the first words may take.
const CONNECT_MAX: Duration = Duration::from_secs(1);
/// Pauses before a peer that could not be reached is tried again; the last one repeats.
const PAUSES_MS: [u64; 4] = [50, 100, 200, 400];

/// An open connection.
pub(crate) struct Wire {
    pub(crate) reader: BufReader<ReadHalf>,
    pub(crate) writer: WriteHalf,
    next_id: u64,
}

impl Wire {
    pub(crate) fn new(stream: PeerStream) -> Self {
        let PeerStream { reader, writer, .. } = stream;
        Self { reader: BufReader::new(reader), writer, next_id: 1 }
    }

    pub(crate) async fn send(&mut self, frame: &Frame) -> std::io::Result<()> {
        frame::write(&mut self.writer, frame).await
    }

    pub(crate) async fn receive(&mut self, max: usize) -> std::io::Result<Frame> {
        frame::read(&mut self.reader, max).await?.ok_or_else(|| closed().into())
    }

    async fn ask(&mut self, kind: Kind, body: bytes::Bytes) -> std::io::Result<Frame> {
        let id = self.next_id;
        self.next_id = self.next_id.wrapping_add(1);
        self.send(&Frame::new(kind, id, body)).await?;
        let reply = self.receive(HELLO_BYTES_MAX).await?;
        if reply.id == id { Ok(reply) } else { Err(std::io::Error::other("reply out of order")) }
    }
}

fn closed() -> std::io::ErrorKind {
    std::io::ErrorKind::UnexpectedEof
}

/// Idle control connections to one peer.
#[derive(Default)]
pub(crate) struct Pool(Mutex<Vec<Wire>>);

impl Pool {
    fn take(&self) -> Option<Wire> {
        self.0.lock().pop()
    }

    fn give(&self, wire: Wire) {
        let mut idle = self.0.lock();
        if idle.len() < IDLE_MAX {
            idle.push(wire);
        }
    }
}

/// Makes connections for openraft.
#[derive(Clone)]
pub(crate) struct Connector(pub(crate) Arc<Peers>);

impl Connector {
    fn connection(&self, to: NodeId, node: &BasicNode, channel: Channel) -> Connection {
        let addr = self.0.address(to, &node.addr);
        Connection { peers: Arc::clone(&self.0), to, addr, channel, wire: None }
    }
}

impl RaftNetworkFactory<TypeConfig> for Connector {
    type Network = Connection;

    async fn new_client(&mut self, target: NodeId, node: &BasicNode) -> Connection {
        self.connection(target, node, Channel::Append)
    }

    async fn new_heartbeat_client(&mut self, target: NodeId, node: &BasicNode) -> Connection {
        self.connection(target, node, Channel::Control)
    }

    async fn new_snapshot_client(&mut self, target: NodeId, node: &BasicNode) -> Connection {
        self.connection(target, node, Channel::Snapshot)
    }
}

/// What openraft talks to one peer through.
pub(crate) struct Connection {
    pub(crate) peers: Arc<Peers>,
    pub(crate) to: NodeId,
    addr: String,
    channel: Channel,
    /// Kept between append sessions.
    wire: Option<Wire>,
}

pub(crate) fn unreachable(error: impl std::fmt::Display) -> Unreachable<TypeConfig> {
    Unreachable::from_string(error)
}

impl Connection {
    /// Connects and exchanges first words.
    pub(crate) async fn connect(&self, channel: Channel) -> std::io::Result<Wire> {
        let words = async {
            let mut wire = Wire::new(self.open().await?);
            let challenge = wire.receive(HELLO_BYTES_MAX).await?;
            let challenge: Challenge = body_of(&challenge, Kind::Challenge)?;
            if challenge.protocol != PROTOCOL {
                let text = format!("protocol {} there, {PROTOCOL} here", challenge.protocol);
                return Err(self.refused(&text));
            }
            let hello = self.peers.hello(self.to, channel, &challenge.nonce);
            let body = record::pack(&hello).map_err(std::io::Error::other)?;
            wire.send(&Frame::new(Kind::Hello, 0, body)).await?;
            let answer = wire.receive(HELLO_BYTES_MAX).await?;
            if answer.kind == Kind::Refused {
                return Err(self.refused(&String::from_utf8_lossy(&answer.body)));
            }
            let welcome: Welcome = body_of(&answer, Kind::Welcome)?;
            let checked = self.peers.check_welcome(&hello, &challenge.nonce, &welcome);
            checked.map_err(|reason| self.refused(&reason))?;
            Ok(wire)
        };
        timeout(CONNECT_MAX, words).await.map_err(|_| std::io::Error::from(timed_out()))?
    }

    /// Connects, and makes sure that it is the node that is looked for, as far as TLS can tell.
    async fn open(&self) -> std::io::Result<PeerStream> {
        let stream = match self.peers.config.world.connect(&self.addr).await? {
            Incoming::Tcp(stream) => stream,
            Incoming::Halves(reader, writer) => {
                return Ok(PeerStream { reader, writer, certificate: None });
            }
        };
        // Small messages must not wait for an acknowledgement of the ones before.
        stream.set_nodelay(true)?;
        let Some(tls) = &self.peers.tls else { return Ok(tls::plain(stream)) };
        let stream = tls.connect(stream, &self.addr).await.map_err(|e| match e.kind() {
            std::io::ErrorKind::InvalidData => self.refused(&format!("TLS: {e}")),
            _ => e,
        })?;
        let named = tls::speaks_for(stream.certificate.as_ref(), self.to);
        named.map_err(|reason| self.refused(&format!("TLS: {reason}")))?;
        Ok(stream)
    }

    fn refused(&self, reason: &str) -> std::io::Error {
        let text = format!("node {} at {}: {reason}", self.to, self.addr);
        self.peers.complain(self.to, &text);
        std::io::Error::new(std::io::ErrorKind::ConnectionRefused, text)
    }

    /// Asks on a control connection. An idle one may have died unnoticed, so a failure on it is
    /// tried once more on a fresh one; every request here may be repeated.
    async fn ask(&self, kind: Kind, body: bytes::Bytes) -> std::io::Result<Frame> {
        let pool = self.peers.pool(self.to);
        let deadline = self.peers.reply_max();
        let asked = async {
            if let Some(mut wire) = pool.take()
                && let Ok(reply) = wire.ask(kind, body.clone()).await
            {
                pool.give(wire);
                return Ok(reply);
            }
            let mut wire = self.connect(Channel::Control).await?;
            let reply = wire.ask(kind, body).await?;
            pool.give(wire);
            Ok(reply)
        };
        let asked = timeout(deadline, asked).await;
        let answer = asked.map_err(|_| std::io::Error::from(timed_out())).flatten();
        self.peers.note_reached(self.to, answer.as_ref().map(|_| ()));
        answer
    }

    /// Waits for the first request, then connects if need be. The pause of `backoff` is within
    /// that wait: who connects before it tries a peer that is down again without any pause.
    async fn begin<S>(&mut self, mut input: S) -> Result<Option<Session<'_>>, RPCError<TypeConfig>>
    where
        S: Stream<Item = AppendEntriesRequest<TypeConfig>> + Send + Unpin + 'static,
    {
        let Some(first) = input.next().await else { return Ok(None) };
        let wire = match self.wire.take() {
            Some(wire) => wire,
            None => self.connect(Channel::Append).await.map_err(unreachable)?,
        };
        let (sent, sent_rx) = mpsc::channel(IN_FLIGHT_MAX);
        let deadline = self.peers.reply_max();
        let input = stream::iter([first]).chain(input);
        let sender = tokio::spawn(send_appends(input, wire.writer, sent, deadline));
        Ok(Some(Session {
            acked: &self.peers.acked,
            to: self.to,
            home: &mut self.wire,
            reader: wire.reader,
            sent: sent_rx,
            sender: AbortOnDrop(sender),
            deadline,
        }))
    }

    async fn ask_for<T: serde::de::DeserializeOwned>(
        &self,
        kind: Kind,
        body: Result<Vec<u8>, RecordError>,
        answer: Kind,
    ) -> Result<T, RPCError<TypeConfig>> {
        let body = body.map_err(unreachable)?;
        let reply = self.ask(kind, body.into()).await.map_err(unreachable)?;
        Ok(body_of(&reply, answer).map_err(unreachable)?)
    }
}

fn timed_out() -> std::io::ErrorKind {
    std::io::ErrorKind::TimedOut
}

/// Decodes the body of a frame that must be of `kind`.
pub(crate) fn body_of<T: serde::de::DeserializeOwned>(
    frame: &Frame,
    kind: Kind,
) -> std::io::Result<T> {
    if frame.kind == Kind::Failed {
        return Err(std::io::Error::other(String::from_utf8_lossy(&frame.body).into_owned()));
    }
    if frame.kind != kind {
        return Err(std::io::Error::other(format!("{:?} instead of {kind:?}", frame.kind)));
    }
    record::unpack(&frame.body).map_err(std::io::Error::other)
}

impl RaftNetworkV2<TypeConfig> for Connection {
    type SnapshotData = SnapshotFile;

    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<TypeConfig>,
        _option: RPCOption,
    ) -> Result<AppendEntriesResponse<TypeConfig>, RPCError<TypeConfig>> {
        let last = rpc.entries.last().map(|entry| entry.log_id).or(rpc.prev_log_id);
        let body = encode_append(&rpc).map_err(unreachable)?;
        let sent = Instant::now();
        let reply = self.ask(Kind::Append, body).await.map_err(unreachable)?;
        let reply: AppendReply = body_of(&reply, Kind::AppendReply).map_err(unreachable)?;
        let result = result_of(reply);
        if follows(&result) {
            self.peers.acked.note(self.to, rpc.vote.leader_id.term, sent);
        }
        Ok(match result {
            Ok(stored) if stored == last => AppendEntriesResponse::Success,
            Ok(stored) => AppendEntriesResponse::PartialSuccess(stored),
            Err(StreamAppendError::Conflict(_)) => AppendEntriesResponse::Conflict,
            Err(StreamAppendError::HigherVote(vote)) => AppendEntriesResponse::HigherVote(vote),
        })
    }

    fn stream_append<'s, S>(
        &'s mut self,
        input: S,
        option: RPCOption,
    ) -> BoxFuture<'s, Result<AppendResults<'s>, RPCError<TypeConfig>>>
    where
        S: Stream<Item = AppendEntriesRequest<TypeConfig>> + Send + Unpin + 'static,
    {
        if self.channel != Channel::Append {
            return stream_append_sequential(self, input, option);
        }
        Box::pin(async move {
            let results = stream::once(self.begin(input)).flat_map(|begun| match begun {
                Ok(session) => stream::unfold(session, Session::next).left_stream(),
                Err(e) => stream::once(ready(Err(e))).right_stream(),
            });
            let results: AppendResults<'_> = Box::pin(results);
            Ok(results)
        })
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<TypeConfig>,
        _option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, RPCError<TypeConfig>> {
        let body = record::pack(&VoteAsk::from(&rpc));
        Ok(self.ask_for::<VoteSay>(Kind::Vote, body, Kind::VoteReply).await?.into())
    }

    async fn pre_vote(
        &mut self,
        rpc: VoteRequest<TypeConfig>,
        _option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, RPCError<TypeConfig>> {
        let body = record::pack(&VoteAsk::from(&rpc));
        Ok(self.ask_for::<VoteSay>(Kind::PreVote, body, Kind::VoteReply).await?.into())
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: RaftSnapshot,
        cancel: impl Future<Output = ReplicationClosed> + Send + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<TypeConfig>, StreamingError<TypeConfig>> {
        tokio::select! {
            biased;
            closed = cancel => Err(StreamingError::Closed(closed)),
            sent = transfer::send(self, vote, &snapshot.snapshot) => match sent {
                Ok(vote) => Ok(SnapshotResponse::new(vote)),
                Err(e) => {
                    let text = format!("raft snapshot for node {} was not sent: {e}", self.to);
                    self.peers.complain(self.to, &text);
                    Err(unreachable(e).into())
                }
            }
        }
    }

    async fn transfer_leader(
        &mut self,
        req: TransferLeaderRequest<TypeConfig>,
        _option: RPCOption,
    ) -> Result<TransferLeaderResponse<TypeConfig>, RPCError<TypeConfig>> {
        let body = record::pack(&TransferAsk::from(&req));
        let say: TransferSay = self.ask_for(Kind::Transfer, body, Kind::TransferReply).await?;
        Ok(say.map_err(|reason| {
            tracing::warn!(to = self.to, "leadership was not taken over: {reason}");
            let expected = req.last_log_id().copied();
            TransferLeaderError::LogNotFlushed { expected, actual: None }
        }))
    }

    fn backoff(&self) -> Option<Backoff> {
        let last = PAUSES_MS.last().copied().unwrap_or(400);
        let pauses = PAUSES_MS.into_iter().chain(std::iter::repeat(last));
        Some(Backoff::new(pauses.map(Duration::from_millis)))
    }
}

type AppendResults<'s> =
    BoxStream<'s, Result<StreamAppendResult<TypeConfig>, RPCError<TypeConfig>>>;

fn result_of(reply: AppendReply) -> StreamAppendResult<TypeConfig> {
    match reply {
        AppendReply::Stored(stored) => Ok(stored.map(LogId::from)),
        AppendReply::Conflict(at) => Err(StreamAppendError::Conflict(at.into())),
        AppendReply::HigherVote(vote) => Err(StreamAppendError::HigherVote(vote.into())),
    }
}

/// Whether a node that answers so follows who has asked.
fn follows(result: &StreamAppendResult<TypeConfig>) -> bool {
    matches!(result, Ok(_) | Err(StreamAppendError::Conflict(_)))
}

/// An append without a reply yet.
struct Sent {
    id: u64,
    term: u64,
    /// Before it was written.
    at: Instant,
    last: Option<LogId>,
}

/// Writes requests until there are no more; gives the connection's half back.
async fn send_appends<S>(
    mut input: S,
    mut writer: WriteHalf,
    sent: mpsc::Sender<Sent>,
    deadline: Duration,
) -> std::io::Result<WriteHalf>
where
    S: Stream<Item = AppendEntriesRequest<TypeConfig>> + Send + Unpin + 'static,
{
    let mut id = 0;
    while let Some(request) = input.next().await {
        // The window: no more requests than replies can be waited for.
        let Ok(place) = sent.reserve().await else { break };
        id += 1;
        let last = request.entries.last().map(|entry| entry.log_id).or(request.prev_log_id);
        let body = encode_append(&request).map_err(std::io::Error::other)?;
        let frame = Frame::new(Kind::Append, id, body);
        let (term, at) = (request.vote.leader_id.term, Instant::now());
        place.send(Sent { id, term, at, last });
        let write = frame::write(&mut writer, &frame);
        timeout(deadline, write).await.map_err(|_| std::io::Error::from(timed_out()))??;
    }
    writer.flush().await?;
    Ok(writer)
}

struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// One run of pipelined appends.
struct Session<'s> {
    acked: &'s Acked,
    to: NodeId,
    home: &'s mut Option<Wire>,
    reader: BufReader<ReadHalf>,
    sent: mpsc::Receiver<Sent>,
    sender: AbortOnDrop<std::io::Result<WriteHalf>>,
    deadline: Duration,
}

type Step<'s> =
    Option<(Result<StreamAppendResult<TypeConfig>, RPCError<TypeConfig>>, Option<Session<'s>>)>;

impl<'s> Session<'s> {
    /// The next result. After an error, a conflict or a partial success the session ends and its
    /// connection with it: replies to later requests are still on the way.
    async fn next(session: Option<Self>) -> Step<'s> {
        let mut this = session?;
        let Some(sent) = this.sent.recv().await else {
            return this.end().await;
        };
        match this.reply(&sent).await {
            Ok(Ok(stored)) if stored == sent.last => Some((Ok(Ok(stored)), Some(this))),
            Ok(result) => Some((Ok(result), None)),
            Err(e) => Some((Err(unreachable(e).into()), None)),
        }
    }

    async fn reply(&mut self, sent: &Sent) -> std::io::Result<StreamAppendResult<TypeConfig>> {
        let read = frame::read(&mut self.reader, BODY_BYTES_MAX);
        let frame = timeout(self.deadline, read)
            .await
            .map_err(|_| std::io::Error::from(timed_out()))??
            .ok_or_else(|| std::io::Error::from(closed()))?;
        if frame.id != sent.id {
            return Err(std::io::Error::other("reply out of order"));
        }
        let result = result_of(body_of(&frame, Kind::AppendReply)?);
        if follows(&result) {
            self.acked.note(self.to, sent.term, sent.at);
        }
        Ok(result)
    }

    /// All requests are sent and answered: the connection is clean and goes home.
    async fn end(mut self) -> Step<'s> {
        match (&mut self.sender.0).await {
            Ok(Ok(writer)) => {
                *self.home = Some(Wire { reader: self.reader, writer, next_id: 1 });
                None
            }
            Ok(Err(e)) => Some((Err(unreachable(e).into()), None)),
            Err(e) => Some((Err(unreachable(e).into()), None)),
        }
    }
}
