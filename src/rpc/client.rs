//! Our own client on the same codec, for tests, benches and drills.
//!
//! [`RpcClient`] numbers its requests, writes them as they come and matches answers by number, so
//! any number of tasks can share one connection. [`RawConnection`] sends whatever bytes it is
//! given, for tests with hostile ones. Finding the leader and trying again are left to the caller.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpStream, ToSocketAddrs};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use crate::wire::call::decode_rpc_error;
use crate::wire::frame::{FrameError, ResponseHead};
use crate::wire::pack::UnpackError;
use crate::wire::{Call, decode_response, encode_request};

/// How long a call waits for its answer unless told otherwise.
pub const CALL_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);
/// Most calls that wait for answers on one connection; more are refused.
pub const CALLS_IN_FLIGHT_MAX: usize = 1 << 16;
/// Bytes to make room for before each read.
const READ_BYTES: usize = 64 << 10;

/// Why a call has no result. After all but [`ClientError::Rpc`] and [`ClientError::TooManyCalls`]
/// the outcome of the operation is unknown.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The connection failed or was closed.
    #[error("connection: {0}")]
    Io(#[from] io::Error),
    /// No answer within the client's time limit.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    /// The server's RPC layer refused the request; the operation has not run, but for code 10.
    #[error("rpc error {code}: {text}")]
    Rpc {
        /// As in wire protocol 1.5.
        code: u8,
        /// The server's words.
        text: String,
    },
    /// The answer does not decode.
    #[error("answer: {0}")]
    Unpack(#[from] UnpackError),
    /// Nothing was sent: [`CALLS_IN_FLIGHT_MAX`] calls wait.
    #[error("{CALLS_IN_FLIGHT_MAX} calls wait for answers already")]
    TooManyCalls,
}

/// A whole response.
#[derive(Clone, Debug)]
pub struct ResponseFrame {
    /// Its head.
    pub head: ResponseHead,
    /// Head and body.
    pub bytes: Bytes,
}

impl ResponseFrame {
    /// The body.
    pub fn body(&self) -> &[u8] {
        self.head.body(&self.bytes)
    }
}

/// Who waits for which number. `None` once the connection is gone.
type Waiting = Mutex<Option<HashMap<u32, oneshot::Sender<ResponseFrame>>>>;

/// A connection to a master. Dropping it closes the connection; calls under way then fail.
#[derive(Debug)]
pub struct RpcClient {
    writer: tokio::sync::Mutex<OwnedWriteHalf>,
    waiting: Arc<Waiting>,
    next_sequence: AtomicU32,
    timeout: Duration,
    reader: AbortHandle,
}

impl RpcClient {
    /// Connects. Errors: [`ClientError::Io`].
    pub async fn connect(address: impl ToSocketAddrs) -> Result<Self, ClientError> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (read_half, write_half) = stream.into_split();
        let waiting = Arc::new(Mutex::new(Some(HashMap::new())));
        let reader = tokio::spawn(deliver(FrameReader::new(read_half), waiting.clone()));
        Ok(RpcClient {
            writer: tokio::sync::Mutex::new(write_half),
            waiting,
            next_sequence: AtomicU32::new(0),
            timeout: CALL_TIMEOUT_DEFAULT,
            reader: reader.abort_handle(),
        })
    }

    /// The same client with another time limit for each call.
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Whether the connection is known to be gone; a new client is then needed.
    pub fn is_closed(&self) -> bool {
        self.waiting.lock().is_none()
    }

    /// Calls `C` and waits for its result. An operation that failed is a result, not an error here.
    ///
    /// Errors: by cause, see [`ClientError`]. Dropping the future while it waits drops the answer;
    /// while it writes, it ends the connection, for half a request may be on it.
    pub async fn call<C: Call>(
        &self,
        request: &C::Request<'_>,
    ) -> Result<C::Response, ClientError> {
        let sequence = self.next_sequence.fetch_add(1, Ordering::Relaxed);
        let mut frame = Vec::new();
        encode_request::<C>(sequence, request, &mut frame);
        let response = self.exchange(sequence, &frame).await?;
        if response.head.rpc_error != 0 {
            let text = decode_rpc_error(response.body())?;
            return Err(ClientError::Rpc {
                code: response.head.rpc_error,
                text: String::from_utf8_lossy(text).into_owned(),
            });
        }
        Ok(decode_response::<C>(response.body())?)
    }

    /// Sends a frame numbered `sequence` and waits for the answer of that number.
    async fn exchange(&self, sequence: u32, frame: &[u8]) -> Result<ResponseFrame, ClientError> {
        let (sender, receiver) = oneshot::channel();
        // Before writing: the answer may be there before the write returns.
        self.expect_answer(sequence, sender)?;
        let _forget = Forget(&self.waiting, sequence);
        let exchange = async {
            self.write(frame).await?;
            receiver.await.map_err(|_| ClientError::from(closed()))
        };
        match tokio::time::timeout(self.timeout, exchange).await {
            Ok(outcome) => outcome,
            Err(_) => Err(ClientError::Timeout(self.timeout)),
        }
    }

    /// Sends a whole frame, or ends the connection.
    async fn write(&self, frame: &[u8]) -> io::Result<()> {
        let mut writer = self.writer.lock().await;
        let mut end_unless_whole = EndUnlessWhole(Some(&self.waiting));
        writer.write_all(frame).await?;
        end_unless_whole.0 = None;
        Ok(())
    }

    /// Registers who gets the answer numbered `sequence`.
    fn expect_answer(
        &self,
        sequence: u32,
        sender: oneshot::Sender<ResponseFrame>,
    ) -> Result<(), ClientError> {
        let mut waiting = self.waiting.lock();
        let Some(calls) = waiting.as_mut() else {
            return Err(closed().into());
        };
        if calls.len() >= CALLS_IN_FLIGHT_MAX {
            return Err(ClientError::TooManyCalls);
        }
        calls.insert(sequence, sender);
        Ok(())
    }
}

impl Drop for RpcClient {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// Forgets a call that nobody waits for any more; a late answer to it is dropped.
struct Forget<'w>(&'w Waiting, u32);

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        if let Some(calls) = self.0.lock().as_mut() {
            calls.remove(&self.1);
        }
    }
}

/// Ends the connection for all calls if dropped before a request was written as a whole.
struct EndUnlessWhole<'w>(Option<&'w Waiting>);

impl Drop for EndUnlessWhole<'_> {
    fn drop(&mut self) {
        if let Some(waiting) = self.0 {
            waiting.lock().take();
        }
    }
}

/// Hands answers to those who wait until the connection ends, then lets all of them know.
async fn deliver(mut frames: FrameReader<OwnedReadHalf>, waiting: Arc<Waiting>) {
    while let Ok(Some(frame)) = frames.next().await {
        let receiver = waiting.lock().as_mut().and_then(|calls| calls.remove(&frame.head.sequence));
        if let Some(receiver) = receiver {
            // The caller may have given up meanwhile.
            let _ = receiver.send(frame);
        }
    }
    waiting.lock().take();
}

/// Cuts a stream into responses.
#[derive(Debug)]
struct FrameReader<R> {
    stream: R,
    buffer: BytesMut,
}

impl<R: tokio::io::AsyncRead + Unpin> FrameReader<R> {
    fn new(stream: R) -> Self {
        FrameReader { stream, buffer: BytesMut::new() }
    }

    /// The next response; `None` if the server closed the connection between two.
    ///
    /// Cancel safe: what was read stays in the buffer.
    async fn next(&mut self) -> io::Result<Option<ResponseFrame>> {
        loop {
            let parsed = ResponseHead::parse(&self.buffer).map_err(invalid)?;
            if let Some((head, length)) = parsed
                && length <= self.buffer.len()
            {
                let bytes = self.buffer.split_to(length).freeze();
                return Ok(Some(ResponseFrame { head, bytes }));
            }
            self.buffer.reserve(READ_BYTES);
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return match self.buffer.is_empty() {
                    true => Ok(None),
                    false => Err(io::ErrorKind::UnexpectedEof.into()),
                };
            }
        }
    }
}

/// A connection that sends any bytes, for tests of what a server does with them.
#[derive(Debug)]
pub struct RawConnection {
    frames: FrameReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
}

impl RawConnection {
    /// Connects. Errors: those of the socket.
    pub async fn connect(address: impl ToSocketAddrs) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (read_half, writer) = stream.into_split();
        Ok(RawConnection { frames: FrameReader::new(read_half), writer })
    }

    /// Sends bytes as they are. Errors: those of the socket.
    pub async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.writer.write_all(bytes).await
    }

    /// Whether a connection on which nothing is expected can carry another request: it was not closed, and
    /// nothing came unasked.
    pub fn is_idle(&self) -> bool {
        let mut byte = [0; 1];
        let read = self.frames.stream.try_read(&mut byte);
        let is_quiet = read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
        is_quiet && self.frames.buffer.is_empty()
    }

    /// Ends the sending direction. Errors: those of the socket.
    pub async fn finish(&mut self) -> io::Result<()> {
        self.writer.shutdown().await
    }

    /// The next response; `None` if the server closed the connection.
    ///
    /// Errors: those of the socket; `InvalidData` for bytes that are no response; `UnexpectedEof`
    /// for half of one. Cancel safe.
    pub async fn receive(&mut self) -> io::Result<Option<ResponseFrame>> {
        self.frames.next().await
    }
}

fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "the connection was closed")
}

fn invalid(error: FrameError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests;
