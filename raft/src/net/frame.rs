//! Frames between nodes.
//!
//! Guards: the length is checked before anything is allocated; head and body are under one
//! checksum; a frame that is not ours ends its connection. Leaves to `message.rs` what bodies mean.
//!
//! Form, little-endian: `magic "RFN1" | kind u8 | zero u8 x 3 | body length u32 | correlation u64 |
//! crc32 u32 over all before it and the body | body`.

use bytes::{BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::config::ENTRY_BYTES_MAX;

const MAGIC: [u8; 4] = *b"RFN1";
/// Bytes before the body.
pub(crate) const HEAD_BYTES: usize = 24;
/// Largest body: the largest entry beside a full read of smaller ones, and their heads.
pub(crate) const BODY_BYTES_MAX: usize = ENTRY_BYTES_MAX + (4 << 20);
/// Largest body before a peer has proven who it is.
pub(crate) const HELLO_BYTES_MAX: usize = 4096;

/// What a body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Challenge = 1,
    Hello = 2,
    Welcome = 3,
    /// The peer will not talk to us; the body says why, for the operator.
    Refused = 4,
    Append = 10,
    AppendReply = 11,
    Vote = 12,
    PreVote = 13,
    VoteReply = 14,
    Transfer = 15,
    TransferReply = 16,
    SnapshotBegin = 20,
    SnapshotResume = 21,
    SnapshotChunk = 22,
    SnapshotEnd = 23,
    /// The receiver is at it: not a reply, only a sign of life.
    SnapshotAlive = 24,
    SnapshotReply = 25,
    /// The request was understood but could not be served; the body says why.
    Failed = 30,
}

impl Kind {
    fn parse(byte: u8) -> Option<Self> {
        const ALL: [Kind; 18] = [
            Kind::Challenge,
            Kind::Hello,
            Kind::Welcome,
            Kind::Refused,
            Kind::Append,
            Kind::AppendReply,
            Kind::Vote,
            Kind::PreVote,
            Kind::VoteReply,
            Kind::Transfer,
            Kind::TransferReply,
            Kind::SnapshotBegin,
            Kind::SnapshotResume,
            Kind::SnapshotChunk,
            Kind::SnapshotEnd,
            Kind::SnapshotAlive,
            Kind::SnapshotReply,
            Kind::Failed,
        ];
        ALL.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: Kind,
    /// Pairs a reply with its request.
    pub(crate) id: u64,
    pub(crate) body: Bytes,
}

impl Frame {
    pub(crate) fn new(kind: Kind, id: u64, body: impl Into<Bytes>) -> Self {
        Self { kind, id, body: body.into() }
    }

    /// The bytes before the body.
    pub(crate) fn head(&self) -> std::io::Result<[u8; HEAD_BYTES]> {
        if self.body.len() > BODY_BYTES_MAX {
            return Err(bad(format!("body of {} bytes is too large", self.body.len())));
        }
        let length = u32::try_from(self.body.len()).map_err(std::io::Error::other)?;
        let mut head = Vec::with_capacity(HEAD_BYTES);
        head.extend_from_slice(&MAGIC);
        head.put_u8(self.kind as u8);
        head.put_bytes(0, 3);
        head.put_u32_le(length);
        head.put_u64_le(self.id);
        head.put_u32_le(crc(&head, &self.body));
        head.try_into().map_err(|_| bad("head length"))
    }
}

fn bad(text: impl Into<String>) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidData, text.into())
}

fn crc(head: &[u8], body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(head);
    hasher.update(body);
    hasher.finalize()
}

/// Writes a frame and what the writer may have kept back of it, as TLS does.
pub(crate) async fn write<W>(to: &mut W, frame: &Frame) -> std::io::Result<()>
where
    W: AsyncWrite + Unpin,
{
    to.write_all(&frame.head()?).await?;
    to.write_all(&frame.body).await?;
    to.flush().await
}

/// Reads a frame with a body of at most `max` bytes. `None`: the peer closed between frames.
pub(crate) async fn read<R>(from: &mut R, max: usize) -> std::io::Result<Option<Frame>>
where
    R: AsyncRead + Unpin,
{
    let mut head = [0; HEAD_BYTES];
    let first = from.read(&mut head).await?;
    if first == 0 {
        return Ok(None);
    }
    from.read_exact(head.get_mut(first..).unwrap_or_default()).await?;
    let (covered, want) = head.split_at(HEAD_BYTES - 4);
    let (magic, rest) = covered.split_at(4);
    let (kind, rest) = rest.split_at(4);
    let (length, id) = rest.split_at(4);
    if magic != MAGIC {
        return Err(bad("not a frame of this protocol"));
    }
    let length = u32::from_le_bytes(length.try_into().unwrap_or_default()) as usize;
    if length > max {
        return Err(bad(format!("body of {length} bytes, {max} are allowed")));
    }
    let mut body = BytesMut::zeroed(length);
    from.read_exact(&mut body).await?;
    if crc(covered, &body) != u32::from_le_bytes(want.try_into().unwrap_or_default()) {
        return Err(bad("bad checksum"));
    }
    let byte = kind.first().copied().unwrap_or_default();
    let kind = Kind::parse(byte).ok_or_else(|| bad(format!("unknown kind {byte}")))?;
    let id = u64::from_le_bytes(id.try_into().unwrap_or_default());
    Ok(Some(Frame { kind, id, body: body.freeze() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn bytes(frame: &Frame) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut out, frame).await.unwrap();
        out
    }

    #[tokio::test]
    async fn a_frame_keeps_its_golden_bytes() {
        let frame = Frame::new(Kind::Vote, 7, Bytes::from_static(b"body"));
        let bytes = bytes(&frame).await;
        let golden = [
            82, 70, 78, 49, 12, 0, 0, 0, 4, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 77, 79, 52, 0, 98,
            111, 100, 121,
        ];
        assert_eq!(bytes, golden);
        assert_eq!(read(&mut bytes.as_slice(), 10).await.unwrap(), Some(frame));
    }

    #[tokio::test]
    async fn flipped_bits_cuts_and_overlong_bodies_are_noticed() {
        let good = bytes(&Frame::new(Kind::Append, 1, vec![5; 40])).await;
        for byte in 0..good.len() {
            let mut bad = good.clone();
            bad[byte] ^= 0x10;
            assert!(read(&mut bad.as_slice(), 64).await.is_err(), "byte {byte}");
        }
        for length in 1..good.len() {
            assert!(read(&mut &good[..length], 64).await.is_err(), "cut at {length}");
        }
        assert!(read(&mut good.as_slice(), 39).await.is_err());
        assert_eq!(read(&mut [].as_slice(), 39).await.unwrap(), None);
    }
}
