//! One subscriber: handshake, what it wants, then every batch from where it began.
//!
//! It reads from the feed at its own pace. When its connection is slower than the events, the feed moves on and
//! it sees a gap in the numbers, as with ZeroMQ's own high-water mark.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::watch;
use tokio::time::timeout;

use super::zmtp::{self, GREETING_BYTES, Said, ZmtpError};
use super::{BATCHES_READ_MAX, Publisher, Term};

/// A handshake takes no longer.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// Sent bytes may stay unread this long.
const SEND_STALL_MAX: Duration = Duration::from_secs(60);

/// Room that a read asks for.
const READ_BYTES: usize = 4_096;

/// Subscriptions of one connection.
const SUBSCRIPTIONS_MAX: u32 = 1_024;

/// Why a connection was closed by this side.
#[derive(Debug, thiserror::Error)]
pub enum Closed {
    /// Not the protocol, or not a subscriber.
    #[error(transparent)]
    Zmtp(#[from] ZmtpError),
    /// The network.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// Nothing moved for too long.
    #[error("{0} in time")]
    Stalled(&'static str),
    /// It subscribed too often.
    #[error("more than {SUBSCRIPTIONS_MAX} subscriptions")]
    TooManySubscriptions,
}

/// How far a subscriber has come in one term of this node.
#[derive(Debug)]
struct Place {
    term: Term,
    next: u64,
    last_change: Option<u64>,
}

/// Serves one subscriber until it leaves; `leading` is the term in which this node leads.
///
/// Errors: by cause, see [`Closed`].
pub async fn serve(
    socket: TcpStream,
    publisher: &Publisher,
    mut leading: watch::Receiver<Option<Term>>,
) -> Result<(), Closed> {
    socket.set_nodelay(true)?;
    let (mut from, mut to) = socket.into_split();
    let mut input = BytesMut::new();
    let shaken = timeout(HANDSHAKE_MAX, handshake(&mut from, &mut to, &mut input)).await;
    if !shaken.map_err(|_| Closed::Stalled("the handshake was not done"))?? {
        return Ok(());
    }
    let mut newest = publisher.feed.watch();
    let (mut subscriptions, mut place) = (0_u32, None);
    loop {
        let mut out = Vec::new();
        subscriptions = heed(&mut input, subscriptions, &mut out)?;
        send(&mut to, &out).await?;
        let term = *leading.borrow_and_update();
        newest.borrow_and_update();
        if subscriptions == 0 || term.is_none() {
            // It begins anew when it wants events again and this node has them to tell.
            place = None;
        }
        let mut has_more = false;
        if let (Some(term), 1..) = (term, subscriptions) {
            has_more = tell(publisher, term, &mut place, &mut to).await?;
        }
        tokio::select! {
            received = receive(&mut from, &mut input) => if !received? { return Ok(()) },
            changed = leading.changed() => if changed.is_err() { return Ok(()) },
            changed = newest.changed(), if !has_more => if changed.is_err() { return Ok(()) },
            () = std::future::ready(()), if has_more => {}
        }
    }
}

/// Greets and is greeted. `false`: the other side has left.
async fn handshake(
    from: &mut OwnedReadHalf,
    to: &mut OwnedWriteHalf,
    input: &mut BytesMut,
) -> Result<bool, Closed> {
    to.write_all(&zmtp::greeting()).await?;
    while input.len() < GREETING_BYTES {
        if !receive(from, input).await? {
            return Ok(false);
        }
    }
    if let Some(greeting) = input.first_chunk() {
        zmtp::check_greeting(greeting)?;
    }
    input.advance(GREETING_BYTES);
    let mut ready = Vec::new();
    zmtp::write_ready(&mut ready);
    to.write_all(&ready).await?;
    loop {
        if let Some((frame, length)) = zmtp::read_frame(input)? {
            zmtp::check_ready(frame)?;
            input.advance(length);
            return Ok(true);
        }
        if !receive(from, input).await? {
            return Ok(false);
        }
    }
}

/// Waits for more bytes. `false`: the other side has left.
async fn receive(from: &mut OwnedReadHalf, input: &mut BytesMut) -> Result<bool, Closed> {
    input.reserve(READ_BYTES);
    Ok(from.read_buf(input).await? > 0)
}

async fn send(to: &mut OwnedWriteHalf, bytes: &[u8]) -> Result<(), Closed> {
    if bytes.is_empty() {
        return Ok(());
    }
    let sent = timeout(SEND_STALL_MAX, to.write_all(bytes)).await;
    Ok(sent.map_err(|_| Closed::Stalled("an event was not read"))??)
}

/// Does what the subscriber has said; answers how many subscriptions it has that cover our topic, which is empty.
fn heed(input: &mut BytesMut, mut wanted: u32, out: &mut Vec<u8>) -> Result<u32, Closed> {
    while let Some((frame, length)) = zmtp::read_frame(input)? {
        match zmtp::parse(frame)? {
            Said::Subscribe([]) if wanted >= SUBSCRIPTIONS_MAX => {
                return Err(Closed::TooManySubscriptions);
            }
            Said::Subscribe([]) => wanted += 1,
            Said::Cancel([]) => wanted = wanted.saturating_sub(1),
            Said::Ping(context) => zmtp::write_pong(out, context),
            // No message of ours has another topic.
            Said::Subscribe(_) | Said::Cancel(_) | Said::Other => {}
        }
        input.advance(length);
    }
    Ok(wanted)
}

/// Tells some of what the subscriber has not been told; answers whether there may be more.
async fn tell(
    publisher: &Publisher,
    term: Term,
    place: &mut Option<Place>,
    to: &mut OwnedWriteHalf,
) -> Result<bool, Closed> {
    if place.as_ref().is_none_or(|place| place.term != term) {
        *place = Some(Place { term, next: publisher.replay_from(), last_change: None });
    }
    let Some(place) = place else { return Ok(false) };
    let read = publisher.feed.read(place.next, place.last_change, BATCHES_READ_MAX);
    let dropped = &publisher.metrics.events.dropped_events;
    dropped.fetch_add(read.lost_changes, Ordering::Relaxed);
    let mut out = Vec::new();
    for batch in &read.batches {
        zmtp::write_frame(&mut out, b"", true);
        zmtp::write_frame(&mut out, &batch.sequence.to_be_bytes(), true);
        zmtp::write_frame(&mut out, &publisher.message(batch), false);
        place.next = batch.sequence + 1;
        place.last_change = Some(batch.first_change + batch.changes.len() as u64 - 1);
    }
    send(to, &out).await?;
    Ok(!read.batches.is_empty())
}
