//! One client connection: read all that is there, answer every complete frame, one write a wake-up.
//!
//! Requests are handled one after the other, because some clients lose answers that come out of order (wire
//! protocol 1.4). Bounds: a frame, the unsent answers, the time that half a frame or an unread answer may
//! stand still.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};

use super::Service;
use super::dispatch::dispatch;
use super::forward::{ForwardError, HOLD_MAX, HOLD_STEP, NOT_LEADER, forwarded};
use super::release::Caller;
use crate::node::error::NodeError;
use crate::wire::Function;
use crate::wire::call::encode_rpc_error;
use crate::wire::frame::{FrameError, REQUEST_HEAD_BYTES, RequestHead, RpcError};

/// Room that a read asks for. A larger frame grows the buffer as its bytes arrive.
const READ_BYTES: usize = 16 << 10;

/// A buffer larger than this is given back when it has been used.
const BUFFER_KEEP_BYTES: usize = 256 << 10;

/// Answers are sent once this much has gathered, even while more requests wait.
const SEND_BYTES: usize = 256 << 10;

/// A frame must be complete this long after its first byte: a client that sends a byte now and then does not
/// hold its connection for ever.
const FRAME_TIME_MAX: Duration = Duration::from_secs(60);

/// An answer may stay unread this long.
const SEND_STALL_MAX: Duration = Duration::from_secs(60);

/// Why a connection was closed by this side.
#[derive(Debug, thiserror::Error)]
pub enum Closed {
    /// Not the protocol.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The call could not be served here.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// The leader's answer is lost.
    #[error(transparent)]
    Forward(#[from] ForwardError),
    /// The network.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// Nothing moved for too long.
    #[error("{0} in time")]
    Stalled(&'static str),
}

/// Serves one connection until it ends.
///
/// Errors: by cause, see [`Closed`].
pub async fn serve(
    mut socket: TcpStream,
    address: IpAddr,
    service: &Service,
) -> Result<(), Closed> {
    socket.set_nodelay(service.is_no_delay)?;
    let mut caller = Caller::at(address, &service.releases);
    let mut input = BytesMut::new();
    let mut output = Vec::new();
    let mut frame_due = None;
    loop {
        let has_answered =
            answer_all(&mut socket, service, &mut caller, &mut input, &mut output).await?;
        send(&mut socket, &mut output).await?;
        caller.sent();
        if has_answered || input.is_empty() {
            frame_due = None;
        }
        if !input.is_empty() {
            frame_due.get_or_insert_with(|| Instant::now() + FRAME_TIME_MAX);
        }
        match receive(&mut socket, service, &mut input, frame_due).await {
            Ok(true) => {}
            Ok(false) => {
                caller.closed(&service.releases);
                return Ok(());
            }
            Err(error) => {
                if matches!(error, Closed::Io(_)) {
                    caller.closed(&service.releases);
                }
                return Err(error);
            }
        }
    }
}

/// Answers the first frame of `input`, if it is complete.
pub async fn answer_first(
    service: &Service,
    input: &[u8],
) -> Result<Option<(usize, Vec<u8>)>, Closed> {
    let Some((head, length)) = RequestHead::parse(input)? else { return Ok(None) };
    let Some(frame) = input.get(..length) else { return Ok(None) };
    let mut output = Vec::new();
    let mut caller = Caller::at(IpAddr::V4(Ipv4Addr::LOCALHOST), &service.releases);
    answer(service, &mut caller, &head, frame, &mut output).await?;
    Ok(Some((length, output)))
}

/// Handles every complete frame of `input`; returns whether there was one.
async fn answer_all(
    socket: &mut TcpStream,
    service: &Service,
    caller: &mut Caller,
    input: &mut BytesMut,
    output: &mut Vec<u8>,
) -> Result<bool, Closed> {
    let mut has_answered = false;
    while let Some((head, length)) = RequestHead::parse(input)? {
        // The buffer grows with what arrives, never by the length that a head announces.
        let Some(frame) = input.get(..length) else { return Ok(has_answered) };
        has_answered = true;
        answer(service, caller, &head, frame, output).await?;
        input.advance(length);
        if output.len() >= SEND_BYTES {
            send(socket, output).await?;
        }
    }
    if input.is_empty() && input.capacity() > BUFFER_KEEP_BYTES {
        *input = BytesMut::new();
    }
    Ok(has_answered)
}

/// Answers one request: here, through the leader, or not at all.
async fn answer(
    service: &Service,
    caller: &mut Caller,
    head: &RequestHead,
    frame: &[u8],
    output: &mut Vec<u8>,
) -> Result<(), Closed> {
    let body = head.body(frame);
    let attachment = frame.get(frame.len() - head.attachment_len..).unwrap_or_default();
    let forwarded = forwarded(attachment);
    let function = Function::from_id(head.function_id);
    let release =
        forwarded.unwrap_or_else(|| caller.release_for(&service.releases, function, body));
    let mut waited = Duration::ZERO;
    loop {
        let refused = match dispatch(service, head, release, body, output).await {
            Ok(()) => return Ok(()),
            Err(error) if !error.is_retryable() => return Err(error.into()),
            Err(error) => error,
        };
        if forwarded.is_some() {
            encode_rpc_error(head.sequence, RpcError::Exception(NOT_LEADER), output);
            return Ok(());
        }
        let call = frame.get(..REQUEST_HEAD_BYTES + head.body_len).unwrap_or_default();
        match service.forwarder.call(&service.node, call, function, release).await {
            Ok(answer) => {
                output.extend_from_slice(&answer.bytes);
                return Ok(());
            }
            Err(error @ ForwardError::OutcomeUnknown(_)) => return Err(error.into()),
            Err(_) if waited >= HOLD_MAX => return Err(refused.into()),
            Err(_) => {}
        }
        tokio::time::sleep(HOLD_STEP).await;
        waited += HOLD_STEP;
    }
}

async fn send(socket: &mut TcpStream, output: &mut Vec<u8>) -> Result<(), Closed> {
    if !output.is_empty() {
        timeout(SEND_STALL_MAX, socket.write_all(output))
            .await
            .map_err(|_| Closed::Stalled("an answer was not read"))??;
        output.clear();
        if output.capacity() > BUFFER_KEEP_BYTES {
            *output = Vec::new();
        }
    }
    Ok(())
}

/// Waits for more bytes. `false`: the client has closed the connection.
async fn receive(
    socket: &mut TcpStream,
    service: &Service,
    input: &mut BytesMut,
    frame_due: Option<Instant>,
) -> Result<bool, Closed> {
    if input.is_empty() {
        // An idle connection holds no buffer.
        match service.idle_timeout {
            Some(limit) => timeout(limit, socket.readable())
                .await
                .map_err(|_| Closed::Stalled("nothing was asked"))??,
            None => socket.readable().await?,
        }
    }
    input.reserve(READ_BYTES.max(input.len()));
    let due = frame_due.unwrap_or_else(|| Instant::now() + FRAME_TIME_MAX);
    let received = timeout_at(due, socket.read_buf(input))
        .await
        .map_err(|_| Closed::Stalled("a frame was not completed"))??;
    Ok(received > 0)
}
