//! Calls over the simulated network: the clients' side, the road by which nodes forward, and the
//! loop that answers on a node as `rpc` answers on a socket.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use mooncake_ha::rpc::Service;
use mooncake_ha::rpc::client::ResponseFrame;
use mooncake_ha::rpc::road::{Line, Road, Travel};
use mooncake_ha::wire::{Call, ResponseHead, decode_response, encode_request};
use mooncake_ha_raft::{ReadHalf, WriteHalf};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::net::{Halves, Host, Net, RPC, address};

/// How long connecting may take.
const CONNECT_MAX: Duration = Duration::from_millis(1_000);

/// An open connection to a door.
pub struct Wire {
    reader: ReadHalf,
    writer: WriteHalf,
    buffer: BytesMut,
}

impl Wire {
    fn new((reader, writer): Halves) -> Self {
        Wire { reader, writer, buffer: BytesMut::new() }
    }

    async fn ask(&mut self, frame: &[u8]) -> io::Result<ResponseFrame> {
        self.writer.write_all(frame).await?;
        loop {
            let parsed = ResponseHead::parse(&self.buffer).map_err(io::Error::other)?;
            if let Some((head, length)) = parsed
                && length <= self.buffer.len()
            {
                let bytes = self.buffer.split_to(length).freeze();
                return Ok(ResponseFrame { head, bytes });
            }
            if self.reader.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

impl Line for Wire {
    fn exchange<'l>(&'l mut self, frame: &'l [u8]) -> Travel<'l, Option<ResponseFrame>> {
        Box::pin(async move { self.ask(frame).await.ok() })
    }

    fn is_idle(&self) -> bool {
        // The end of an idle connection is noticed when it is used: the worse case of the two.
        self.buffer.is_empty()
    }
}

/// How nodes reach each other's doors.
pub struct NetRoad {
    /// The network.
    pub net: Net,
    /// Who travels.
    pub from: Host,
}

impl Road for NetRoad {
    fn connect<'r>(&'r self, address: &'r str) -> Travel<'r, io::Result<Box<dyn Line>>> {
        let connected = self.net.clone().connect(self.from, address.to_owned());
        Box::pin(async move { Ok(Box::new(Wire::new(connected.await?)) as Box<dyn Line>) })
    }
}

/// Answers the calls of one connection until it ends.
pub async fn serve((mut reader, mut writer): Halves, service: Arc<Service>) {
    let mut input = BytesMut::new();
    loop {
        match service.answer(&input).await {
            Ok(Some((length, answer))) => {
                let _ = input.split_to(length);
                if writer.write_all(&answer).await.is_err() {
                    return;
                }
            }
            Ok(None) => match reader.read_buf(&mut input).await {
                Ok(read) if read > 0 => {}
                _ => return,
            },
            // As on a socket: the connection is closed, and the client calls again elsewhere.
            Err(_) => return,
        }
    }
}

/// Why a call has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// It never left.
    NotSent,
    /// It may be done, now or later.
    Unknown,
}

/// A caller of one node at a time.
pub struct Caller {
    net: Net,
    from: Host,
    /// The node it talks to.
    pub node: Host,
    wire: Option<Wire>,
    /// How long it waits for an answer.
    patience: Duration,
}

impl Caller {
    /// A caller that has no connection yet.
    pub fn new(net: Net, from: Host, node: Host, patience: Duration) -> Self {
        Caller { net, from, node, wire: None, patience }
    }

    /// Talks to another node from now on.
    pub fn turn_to(&mut self, node: Host) {
        if self.node != node {
            (self.node, self.wire) = (node, None);
        }
    }

    /// Calls.
    pub async fn call<C: Call>(&mut self, request: &C::Request<'_>) -> Result<C::Response, Lost> {
        let mut frame = Vec::new();
        encode_request::<C>(1, request, &mut frame);
        let mut wire = match self.wire.take() {
            Some(wire) => wire,
            None => {
                let connected = self.net.clone().connect(self.from, address(self.node, RPC));
                let halves = timeout(CONNECT_MAX, connected).await.map_err(|_| Lost::NotSent)?;
                Wire::new(halves.map_err(|_| Lost::NotSent)?)
            }
        };
        let asked = timeout(self.patience, wire.ask(&frame)).await;
        let answer = asked.map_err(|_| Lost::Unknown)?.map_err(|_| Lost::Unknown)?;
        if answer.head.rpc_error != 0 {
            return Err(Lost::Unknown);
        }
        let decoded = decode_response::<C>(answer.body()).map_err(|_| Lost::Unknown)?;
        self.wire = Some(wire);
        Ok(decoded)
    }
}
