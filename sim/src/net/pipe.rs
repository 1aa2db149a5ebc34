//! The two ends of a connection, and what is on its way between them in one direction.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{Halves, Host, Net};

/// Bytes that one write takes at most: larger messages travel in several packets.
const PACKET_BYTES: usize = 16 << 10;

/// What travels.
pub enum Item {
    /// Bytes.
    Bytes(Bytes),
    /// The sender will send no more.
    End,
    /// The connection is no more.
    Reset,
}

impl Item {
    /// Something that tells it from others, for the trace.
    pub fn digest(&self) -> u64 {
        match self {
            Item::Bytes(bytes) => u64::from(crc32fast::hash(bytes)) << 32 | bytes.len() as u64,
            Item::End => 1,
            Item::Reset => 2,
        }
    }
}

/// One direction of a connection.
pub struct Pipe {
    /// Who sends.
    pub from: Host,
    /// Who receives.
    pub to: Host,
    /// The other direction.
    pub twin: usize,
    /// On the way, in order. For each there is an arrival scheduled or held.
    pub in_flight: VecDeque<Item>,
    /// Arrivals that wait for a link.
    pub held: usize,
    /// Nothing arrives earlier than this any more.
    pub last_due: u64,
    /// Who waits to read.
    pub waker: Option<Waker>,
    /// Nobody reads any more.
    pub is_reader_gone: bool,
    /// Nothing can be sent any more.
    pub is_broken: bool,
    /// Answers of a node's door to clients travel here.
    pub is_answering: bool,
    is_writer_gone: bool,
    arrived: VecDeque<Bytes>,
    has_ended: bool,
    is_reset: bool,
}

impl Pipe {
    /// A pipe on which nothing has been sent.
    pub fn new(from: Host, to: Host, twin: usize) -> Self {
        Pipe {
            from,
            to,
            twin,
            in_flight: VecDeque::new(),
            held: 0,
            last_due: 0,
            waker: None,
            is_reader_gone: false,
            is_broken: false,
            is_answering: false,
            is_writer_gone: false,
            arrived: VecDeque::new(),
            has_ended: false,
            is_reset: false,
        }
    }

    /// Whether both ends are there.
    pub fn is_open(&self) -> bool {
        !(self.is_reader_gone || self.is_writer_gone || self.is_broken || self.is_reset)
    }

    /// Something has arrived.
    pub fn take(&mut self, item: Item) {
        match item {
            Item::Bytes(bytes) => self.arrived.push_back(bytes),
            Item::End => self.has_ended = true,
            Item::Reset => self.is_reset = true,
        }
    }
}

/// The ends of one side: it reads one pipe and writes the other.
pub fn halves(net: &Net, reads: usize, writes: usize) -> Halves {
    let reader = Reader { net: net.clone(), pipe: reads };
    let writer = Writer { net: net.clone(), pipe: writes };
    (Box::new(reader), Box::new(writer))
}

struct Reader {
    net: Net,
    pipe: usize,
}

impl AsyncRead for Reader {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut state = self.net.0.lock();
        let Some(pipe) = state.pipes.get_mut(self.pipe) else {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        };
        if pipe.is_reset {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        while let Some(front) = pipe.arrived.front_mut() {
            let length = front.len().min(buffer.remaining());
            buffer.put_slice(front.get(..length).unwrap_or_default());
            front.advance(length);
            if front.is_empty() {
                pipe.arrived.pop_front();
            }
            if length > 0 {
                return Poll::Ready(Ok(()));
            }
        }
        if pipe.has_ended {
            return Poll::Ready(Ok(()));
        }
        pipe.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = self.net.0.lock();
        if let Some(pipe) = state.pipes.get_mut(self.pipe) {
            pipe.is_reader_gone = true;
            pipe.arrived.clear();
            pipe.waker = None;
        }
    }
}

struct Writer {
    net: Net,
    pipe: usize,
}

impl AsyncWrite for Writer {
    fn poll_write(
        self: Pin<&mut Self>,
        _context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut state = self.net.0.lock();
        if state.pipes.get(self.pipe).is_none_or(|pipe| pipe.is_broken) {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let length = bytes.len().min(PACKET_BYTES);
        let packet = Bytes::copy_from_slice(bytes.get(..length).unwrap_or_default());
        state.send(self.pipe, Item::Bytes(packet));
        Poll::Ready(Ok(length))
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.net.end(self.pipe);
        Poll::Ready(Ok(()))
    }
}

impl Net {
    fn end(&self, number: usize) {
        let mut state = self.0.lock();
        let Some(pipe) = state.pipes.get_mut(number) else { return };
        let is_first = !std::mem::replace(&mut pipe.is_writer_gone, true);
        let from = pipe.from;
        // A host that is gone without a word does not say that it ends either.
        if is_first && !state.is_host_silent(from) {
            state.send(number, Item::End);
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.net.end(self.pipe);
    }
}
