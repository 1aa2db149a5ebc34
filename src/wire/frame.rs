//! Frames: the fixed heads in front of every request and response (wire protocol 1).
//!
//! Guards: a frame is refused by its announced lengths before anything is allocated or waited for,
//! and by a wrong magic as soon as its first byte is there. What is in a body is left to `pack`.

/// First byte of every frame.
pub const MAGIC: u8 = 0x15;
/// The only protocol version.
const VERSION: u8 = 0;
/// The only serialisation.
const SERIALIZE_TYPE: u8 = 0;
/// Bytes of a request's head.
pub const REQUEST_HEAD_BYTES: usize = 20;
/// Bytes of a response's head.
pub const RESPONSE_HEAD_BYTES: usize = 16;
/// Greatest request, head and attachment included. A larger one closes its connection.
pub const FRAME_BYTES_MAX: usize = 64 << 20;
/// Greatest response body. A larger one is replaced by RPC error 10, and our client refuses it.
pub const REPLY_BYTES_MAX: usize = 1 << 30;

/// Why a connection's bytes are not a frame. None of these is answered: the connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The first byte is not the protocol's.
    #[error("frame starts with {0:#04x}, not with {MAGIC:#04x}: not this protocol")]
    Magic(u8),
    /// A version other than 0.
    #[error("frame has protocol version {0}, only 0 is known")]
    Version(u8),
    /// A serialisation other than 0.
    #[error("frame has serialize type {0}, only 0 is known")]
    SerializeType(u8),
    /// More bytes than allowed.
    #[error("frame of {bytes} bytes is over the limit of {limit}")]
    TooLong {
        /// Bytes announced.
        bytes: u64,
        /// The limit.
        limit: usize,
    },
}

/// The head of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHead {
    /// Copied into the response; opaque.
    pub sequence: u32,
    /// Which function; see [`super::Function::from_id`].
    pub function_id: u32,
    /// Bytes of the body.
    pub body_len: usize,
    /// Bytes behind the body; to be read and ignored.
    pub attachment_len: usize,
}

impl RequestHead {
    /// Looks at the start of `bytes`. `None`: not enough bytes for a head yet. Else the head and
    /// the length of the whole frame, of which `bytes` may hold only a part.
    ///
    /// Errors: by cause, see [`FrameError`].
    pub fn parse(bytes: &[u8]) -> Result<Option<(RequestHead, usize)>, FrameError> {
        if let Some(&magic) = bytes.first()
            && magic != MAGIC
        {
            return Err(FrameError::Magic(magic));
        }
        let Some(head) = bytes.first_chunk::<REQUEST_HEAD_BYTES>() else {
            return Ok(None);
        };
        // The message type is ignored, as at the peer.
        let [_, version, serialize_type, _message_type, numbers @ ..] = head;
        if *version != VERSION {
            return Err(FrameError::Version(*version));
        }
        if *serialize_type != SERIALIZE_TYPE {
            return Err(FrameError::SerializeType(*serialize_type));
        }
        let [sequence, function_id, body, attachment] = words(numbers);
        let total = REQUEST_HEAD_BYTES as u64 + u64::from(body) + u64::from(attachment);
        let total_len = within(total, FRAME_BYTES_MAX)?;
        let head = RequestHead {
            sequence,
            function_id,
            body_len: body as usize,
            attachment_len: attachment as usize,
        };
        Ok(Some((head, total_len)))
    }

    /// The body of the frame that this head was parsed from; empty if `frame` is not that whole
    /// frame.
    pub fn body<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        frame.get(REQUEST_HEAD_BYTES..REQUEST_HEAD_BYTES + self.body_len).unwrap_or_default()
    }

    /// Appends a request; `body` appends its body. Bodies over [`FRAME_BYTES_MAX`] are refused by
    /// the receiver, so nobody needs to send one.
    pub fn write(
        sequence: u32,
        function_id: u32,
        out: &mut Vec<u8>,
        body: impl FnOnce(&mut Vec<u8>),
    ) {
        let start = out.len();
        out.extend_from_slice(&[MAGIC, VERSION, SERIALIZE_TYPE, 0]);
        out.extend_from_slice(&sequence.to_le_bytes());
        out.extend_from_slice(&function_id.to_le_bytes());
        out.extend_from_slice(&[0; 8]);
        body(out);
        let body_len = out.len() - start - REQUEST_HEAD_BYTES;
        patch(out, start + 12, body_len);
    }
}

/// The head of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseHead {
    /// 0, or the code of an RPC-layer error, whose text is the body.
    pub rpc_error: u8,
    /// The request's number.
    pub sequence: u32,
    /// Bytes of the body.
    pub body_len: usize,
    /// Bytes behind the body; always 0 from the peer.
    pub attachment_len: usize,
}

impl ResponseHead {
    /// As [`RequestHead::parse`], for the client's side; the limit is [`REPLY_BYTES_MAX`].
    pub fn parse(bytes: &[u8]) -> Result<Option<(ResponseHead, usize)>, FrameError> {
        if let Some(&magic) = bytes.first()
            && magic != MAGIC
        {
            return Err(FrameError::Magic(magic));
        }
        let Some(head) = bytes.first_chunk::<RESPONSE_HEAD_BYTES>() else {
            return Ok(None);
        };
        let [_, version, rpc_error, _message_type, numbers @ ..] = head;
        if *version != VERSION {
            return Err(FrameError::Version(*version));
        }
        let [sequence, body, attachment] = words(numbers);
        let total = RESPONSE_HEAD_BYTES as u64 + u64::from(body) + u64::from(attachment);
        let total_len = within(total, REPLY_BYTES_MAX + RESPONSE_HEAD_BYTES)?;
        let head = ResponseHead {
            rpc_error: *rpc_error,
            sequence,
            body_len: body as usize,
            attachment_len: attachment as usize,
        };
        Ok(Some((head, total_len)))
    }

    /// The body of the frame that this head was parsed from; empty if `frame` is not that whole
    /// frame.
    pub fn body<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        frame.get(RESPONSE_HEAD_BYTES..RESPONSE_HEAD_BYTES + self.body_len).unwrap_or_default()
    }

    /// Appends a response; `body` appends its body. Returns whether the body was within
    /// [`REPLY_BYTES_MAX`]; if not, nothing is left appended.
    pub fn write(
        sequence: u32,
        rpc_error: u8,
        out: &mut Vec<u8>,
        body: impl FnOnce(&mut Vec<u8>),
    ) -> bool {
        let start = out.len();
        out.extend_from_slice(&[MAGIC, VERSION, rpc_error, 0]);
        out.extend_from_slice(&sequence.to_le_bytes());
        out.extend_from_slice(&[0; 8]);
        body(out);
        let body_len = out.len() - start - RESPONSE_HEAD_BYTES;
        if body_len > REPLY_BYTES_MAX {
            out.truncate(start);
            return false;
        }
        patch(out, start + 8, body_len);
        true
    }
}

/// An error of the RPC layer itself, as opposed to an operation that failed (wire protocol 1.5).
/// The connection stays open after each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RpcError {
    /// The arguments do not decode.
    InvalidArguments,
    /// The handler broke down, or its answer is over [`REPLY_BYTES_MAX`].
    Exception(&'static str),
    /// No function has this id.
    NotRegistered,
}

impl RpcError {
    /// Byte 2 of the response head.
    pub fn code(self) -> u8 {
        match self {
            RpcError::InvalidArguments => 4,
            RpcError::Exception(_) => 10,
            RpcError::NotRegistered => 11,
        }
    }

    /// The body's text; the peer's words where the peer has any.
    pub fn text(self) -> &'static str {
        match self {
            RpcError::InvalidArguments => "invalid rpc arg",
            RpcError::Exception(text) => text,
            RpcError::NotRegistered => "the rpc function not registered",
        }
    }
}

/// `bytes` as little-endian words.
fn words<const BYTES: usize, const WORDS: usize>(bytes: &[u8; BYTES]) -> [u32; WORDS] {
    const { assert!(BYTES == WORDS * 4) };
    let mut words = [0; WORDS];
    for (word, chunk) in words.iter_mut().zip(bytes.as_chunks::<4>().0) {
        *word = u32::from_le_bytes(*chunk);
    }
    words
}

/// `bytes`, if `limit` allows it.
fn within(bytes: u64, limit: usize) -> Result<usize, FrameError> {
    match usize::try_from(bytes) {
        Ok(len) if len <= limit => Ok(len),
        _ => Err(FrameError::TooLong { bytes, limit }),
    }
}

/// Writes `body_len` into the four bytes at `at`.
fn patch(out: &mut [u8], at: usize, body_len: usize) {
    let length = u32::try_from(body_len).unwrap_or(u32::MAX);
    if let Some(field) = out.get_mut(at..at + 4) {
        field.copy_from_slice(&length.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(body_len: u32, attachment_len: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        RequestHead::write(7, 9, &mut bytes, |_| {});
        bytes[12..16].copy_from_slice(&body_len.to_le_bytes());
        bytes[16..20].copy_from_slice(&attachment_len.to_le_bytes());
        bytes
    }

    #[test]
    fn a_head_is_awaited_until_its_last_byte() {
        let bytes = request(5, 6);
        for length in 0..REQUEST_HEAD_BYTES {
            assert_eq!(RequestHead::parse(&bytes[..length]), Ok(None));
        }
        let (head, total) = RequestHead::parse(&bytes).unwrap().unwrap();
        assert_eq!((head.sequence, head.function_id), (7, 9));
        assert_eq!((head.body_len, head.attachment_len, total), (5, 6, 31));
        assert_eq!(head.body(&bytes), b"", "the body is not there yet");
    }

    #[test]
    fn protocol_violations_are_named() {
        let with = |at: usize, byte: u8| {
            let mut bytes = request(0, 0);
            bytes[at] = byte;
            RequestHead::parse(&bytes)
        };
        assert_eq!(RequestHead::parse(b"G"), Err(FrameError::Magic(b'G')));
        assert_eq!(with(1, 1), Err(FrameError::Version(1)));
        assert_eq!(with(2, 3), Err(FrameError::SerializeType(3)));
        assert!(with(3, 9).is_ok(), "the message type is ignored");
        assert_eq!(ResponseHead::parse(b"H"), Err(FrameError::Magic(b'H')));
    }

    #[test]
    fn a_frame_over_the_limit_is_refused_by_its_head_alone() {
        let limit = (FRAME_BYTES_MAX - REQUEST_HEAD_BYTES) as u32;
        assert!(RequestHead::parse(&request(limit, 0)).is_ok());
        for (body, attachment) in [(limit, 1), (limit + 1, 0), (u32::MAX, u32::MAX)] {
            assert!(matches!(
                RequestHead::parse(&request(body, attachment)),
                Err(FrameError::TooLong { .. })
            ));
        }
    }
}
