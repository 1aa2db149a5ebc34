//! The answering side: accepts peers and passes what they say to raft.
//!
//! Guards: nobody who has not proven to belong here is listened to; a node that just restarted
//! votes for nobody until every lease that it may have confirmed before is over (openraft forgets
//! those at a restart); a bad frame closes only its own connection.
//! Leaves to `client.rs` the asking side, to `transfer.rs` the receiving of raft snapshots.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use openraft::Raft;
use openraft::raft::{AppendEntriesResponse, StreamAppendError, StreamAppendResult};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;
use tokio_rustls::rustls::pki_types::CertificateDer;

use crate::adapter::Adapter;
use crate::clock::Nanos;
use crate::net::client::{Wire, body_of};
use crate::net::frame::{self, BODY_BYTES_MAX, Frame, HELLO_BYTES_MAX, Kind};
use crate::net::message::{
    AppendReply, Challenge, Channel, Hello, PROTOCOL, TransferAsk, TransferSay, VoteAsk, VoteSay,
    decode_append,
};
use crate::net::peers::Peers;
use crate::net::tls::{self, Stream};
use crate::net::transfer::{self, Inbox};
use crate::record::{self, VoteRecord, log_id_record};
use crate::types::{NodeId, TypeConfig};
use crate::world::{Incoming, Listener};

/// Connections at once of peers; a cluster needs a few for each. More are closed unheard.
const CONNECTIONS_MAX: usize = 256;
/// Connections at once that have not said who they are. One makes room for the next, the oldest of the host that
/// has the most: a peer is known after two round trips, and strangers only stay in each other's way.
const STRANGERS_MAX: usize = 64;
/// How long a new connection may take to say who it is.
const HELLO_MAX: Duration = Duration::from_secs(5);
/// In whose name it is complained about peers that have not said who they are.
const NOBODY: NodeId = 0;
/// Appends of one connection inside raft at once.
const IN_FLIGHT_MAX: usize = 32;

/// What a connection needs.
pub(crate) struct Server {
    pub(crate) peers: Arc<Peers>,
    pub(crate) raft: Raft<TypeConfig, Adapter>,
    pub(crate) inbox: Inbox,
    /// Until then no vote is given; 0: at once.
    pub(crate) gate_until: Nanos,
}

/// Accepts until it is aborted.
pub(crate) async fn serve(listener: Listener, server: Arc<Server>) {
    let mut connections = JoinSet::new();
    let mut strangers = Strangers::default();
    loop {
        tokio::select! {
            biased;
            accepted = listener.accept() => match accepted {
                Ok((stream, from)) => {
                    // Else a flood of new ones would leave no turn for those that have ended.
                    while connections.try_join_next().is_some() {}
                    if connections.len() >= CONNECTIONS_MAX + STRANGERS_MAX {
                        tracing::warn!(%from, "too many connections from peers, one is closed");
                        continue;
                    }
                    let host = from.rsplit_once(':').map_or(&*from, |(host, _)| host).to_owned();
                    let server = Arc::clone(&server);
                    let is_known = Arc::new(AtomicBool::new(false));
                    let known = Arc::clone(&is_known);
                    let task = connections.spawn(async move {
                        if let Err(e) = server.talk(stream, &known).await {
                            tracing::debug!(%from, "connection from a peer ended: {e}");
                        }
                    });
                    strangers.add(Stranger { host, task, is_known });
                }
                Err(e) => {
                    // Most likely out of file descriptors: let some close.
                    tracing::warn!("accept a peer: {e}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

struct Stranger {
    host: String,
    task: AbortHandle,
    is_known: Arc<AtomicBool>,
}

/// Connections that have not said who they are, in the order in which they came.
#[derive(Default)]
struct Strangers(VecDeque<Stranger>);

impl Strangers {
    fn add(&mut self, new: Stranger) {
        self.0.retain(|one| !one.task.is_finished() && !one.is_known.load(Ordering::Relaxed));
        if self.0.len() >= STRANGERS_MAX {
            let of_host = |host: &str| self.0.iter().filter(|one| one.host == host).count();
            let most = self.0.iter().map(|one| of_host(&one.host)).max();
            let oldest = self.0.iter().position(|one| Some(of_host(&one.host)) == most);
            if let Some(one) = oldest.and_then(|at| self.0.remove(at)) {
                one.task.abort();
            }
        }
        self.0.push_back(new);
    }
}

impl Server {
    async fn talk(&self, stream: Incoming, is_known: &AtomicBool) -> std::io::Result<()> {
        let met = async {
            let stream = self.secure(stream).await?;
            let certificate = stream.certificate.clone();
            let mut wire = Wire::new(stream);
            let hello = self.meet(&mut wire, certificate.as_ref()).await?;
            Ok::<_, std::io::Error>((wire, hello))
        };
        let (wire, hello) = timeout(HELLO_MAX, met)
            .await
            .map_err(|_| std::io::Error::from(std::io::ErrorKind::TimedOut))??;
        is_known.store(true, Ordering::Relaxed);
        match hello.channel {
            Channel::Append => self.appends(wire).await,
            Channel::Control => self.control(wire).await,
            Channel::Snapshot => transfer::receive(self, wire, hello.from).await,
        }
    }

    async fn secure(&self, stream: Incoming) -> std::io::Result<Stream> {
        let stream = match stream {
            Incoming::Tcp(stream) => stream,
            Incoming::Halves(reader, writer) => {
                return Ok(Stream { reader, writer, certificate: None });
            }
        };
        // Small messages must not wait for an acknowledgement of the ones before.
        stream.set_nodelay(true)?;
        let Some(tls) = &self.peers.tls else { return Ok(tls::plain(stream)) };
        let from = stream.peer_addr()?;
        tls.accept(stream).await.inspect_err(|e| {
            // Who merely looks whether the port is open says nothing.
            if e.kind() == std::io::ErrorKind::InvalidData {
                self.peers
                    .complain(NOBODY, &format!("a peer at {from} was refused here: TLS: {e}"));
            }
        })
    }

    async fn meet(
        &self,
        wire: &mut Wire,
        certificate: Option<&CertificateDer<'static>>,
    ) -> std::io::Result<Hello> {
        let nonce: [u8; 16] = rand::random();
        let challenge = pack(&Challenge { protocol: PROTOCOL, nonce })?;
        wire.send(&Frame::new(Kind::Challenge, 0, challenge)).await?;
        let hello: Hello = body_of(&wire.receive(HELLO_BYTES_MAX).await?, Kind::Hello)?;
        let named = tls::speaks_for(certificate, hello.from).map_err(|e| format!("TLS: {e}"));
        match named.and_then(|()| self.peers.accept(&hello, &nonce)) {
            Ok(welcome) => {
                wire.send(&Frame::new(Kind::Welcome, 0, pack(&welcome)?)).await?;
                Ok(hello)
            }
            Err(reason) => {
                let text = format!("node {} was refused here: {reason}", hello.from);
                self.peers.complain(hello.from, &text);
                wire.send(&Frame::new(Kind::Refused, 0, reason.clone().into_bytes())).await?;
                Err(std::io::Error::other(reason))
            }
        }
    }

    /// Pipelined appends: requests go into raft as they come, replies go back in their order.
    async fn appends(&self, wire: Wire) -> std::io::Result<()> {
        let Wire { mut reader, mut writer, .. } = wire;
        let (requests, requests_rx) = mpsc::channel(IN_FLIGHT_MAX);
        let (ids, mut ids_rx) = mpsc::channel(IN_FLIGHT_MAX);
        let input = futures_util::stream::unfold(requests_rx, |mut requests| async {
            requests.recv().await.map(|request| (request, requests))
        });
        let mut results = Box::pin(self.raft.stream_append(input));
        let reading = async {
            while let Some(frame) = frame::read(&mut reader, BODY_BYTES_MAX).await? {
                if frame.kind != Kind::Append {
                    return Err(std::io::Error::other(format!("{:?} among appends", frame.kind)));
                }
                let request = decode_append(frame.body).map_err(std::io::Error::other)?;
                if ids.send(frame.id).await.is_err() || requests.send(request).await.is_err() {
                    break;
                }
            }
            Ok(())
        };
        let writing = async {
            while let Some(result) = futures_util::StreamExt::next(&mut results).await {
                let result = result.map_err(std::io::Error::other)?;
                let Some(id) = ids_rx.recv().await else { break };
                // raft ends the stream after a refusal; so does the asking side.
                let last = result.is_err();
                let body = pack(&reply_of(result))?;
                frame::write(&mut writer, &Frame::new(Kind::AppendReply, id, body)).await?;
                if last {
                    break;
                }
            }
            Ok(())
        };
        tokio::select! {
            biased;
            read = reading => read,
            written = writing => written,
        }
    }

    /// Heartbeats, votes and transfers, one after the other.
    async fn control(&self, mut wire: Wire) -> std::io::Result<()> {
        while let Some(frame) = frame::read(&mut wire.reader, BODY_BYTES_MAX).await? {
            let id = frame.id;
            let reply = match self.answer(frame).await {
                Ok((kind, body)) => Frame::new(kind, id, body),
                Err(reason) => Frame::new(Kind::Failed, id, reason.into_bytes()),
            };
            wire.send(&reply).await?;
        }
        Ok(())
    }

    async fn answer(&self, frame: Frame) -> Result<(Kind, Vec<u8>), String> {
        let text = |e: &dyn std::fmt::Display| e.to_string();
        match frame.kind {
            Kind::Append => {
                let request = decode_append(frame.body).map_err(|e| text(&e))?;
                let prev = request.prev_log_id;
                let last = request.entries.last().map(|entry| entry.log_id).or(prev);
                let response = self.raft.append_entries(request).await.map_err(|e| text(&e))?;
                // `into_stream_result` would panic on a conflict with nothing.
                if prev.is_none() && matches!(response, AppendEntriesResponse::Conflict) {
                    return Err("conflict before the first entry".to_owned());
                }
                let reply = reply_of(response.into_stream_result(prev, last));
                Ok((Kind::AppendReply, record::pack(&reply).map_err(|e| text(&e))?))
            }
            Kind::Vote | Kind::PreVote => {
                let ask: VoteAsk = record::unpack(&frame.body).map_err(|e| text(&e))?;
                // A transfer is the old leader's own wish: it has given up its lease.
                if !ask.transfer && self.peers.config.world.boot_ns() < self.gate_until {
                    return Err("restarted a moment ago, no votes yet".to_owned());
                }
                let request = ask.into();
                let response = if frame.kind == Kind::Vote {
                    self.raft.vote(request).await
                } else {
                    self.raft.pre_vote(request).await
                };
                let say = VoteSay::from(&response.map_err(|e| text(&e))?);
                Ok((Kind::VoteReply, record::pack(&say).map_err(|e| text(&e))?))
            }
            Kind::Transfer => {
                let ask: TransferAsk = record::unpack(&frame.body).map_err(|e| text(&e))?;
                let response = self.raft.handle_transfer_leader(ask.into()).await;
                let say: TransferSay = response.map_err(|e| text(&e))?.map_err(|e| text(&e));
                Ok((Kind::TransferReply, record::pack(&say).map_err(|e| text(&e))?))
            }
            other => Err(format!("{other:?} on a control connection")),
        }
    }
}

/// Encodes a message of ours.
pub(crate) fn pack<T: serde::Serialize>(value: &T) -> std::io::Result<Vec<u8>> {
    record::pack(value).map_err(std::io::Error::other)
}

fn reply_of(result: StreamAppendResult<TypeConfig>) -> AppendReply {
    match result {
        Ok(stored) => AppendReply::Stored(log_id_record(stored.as_ref())),
        Err(StreamAppendError::Conflict(at)) => AppendReply::Conflict((&at).into()),
        Err(StreamAppendError::HigherVote(vote)) => {
            AppendReply::HigherVote(VoteRecord::from(&vote))
        }
    }
}
