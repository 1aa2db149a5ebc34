//! ZMTP 3, the wire of ZeroMQ, as far as a publisher over TCP without security speaks it.
//!
//! A greeting of 64 bytes each way, a READY command each way, then frames. Lengths are checked before anything is
//! kept: a subscriber has nothing long to say.

/// Bytes of a greeting.
pub const GREETING_BYTES: usize = 64;

/// Bytes of a frame that a subscriber may send.
pub const FRAME_BYTES_MAX: usize = 4_096;

const FLAG_MORE: u8 = 1;
const FLAG_LONG: u8 = 2;
const FLAG_COMMAND: u8 = 4;

/// Why a connection's bytes are not those of a subscriber.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ZmtpError {
    /// Another protocol, or ZeroMQ older than version 4.
    #[error("no greeting of ZMTP 3")]
    Greeting,
    /// Security that is not offered.
    #[error("the mechanism is not NULL")]
    Mechanism,
    /// Reserved flags.
    #[error("frame with flags {0:#04x}")]
    Flags(u8),
    /// More bytes than allowed.
    #[error("frame of {0} bytes, {FRAME_BYTES_MAX} are the most")]
    TooLong(u64),
    /// A command that does not parse or may not come now.
    #[error("command out of place")]
    Command,
    /// Another kind of socket.
    #[error("socket of type {0:?}, which cannot subscribe")]
    Socket(String),
}

/// What a publisher sends first.
pub fn greeting() -> [u8; GREETING_BYTES] {
    let mut bytes = [0; GREETING_BYTES];
    let parts: [(usize, &[u8]); 3] = [(0, &[0xff]), (9, &[0x7f, 3, 0]), (12, b"NULL")];
    for (at, part) in parts {
        let places = bytes.iter_mut().skip(at);
        places.zip(part).for_each(|(place, byte)| *place = *byte);
    }
    bytes
}

/// Checks what a subscriber sent first.
///
/// Errors: `Greeting`, `Mechanism`.
pub fn check_greeting(bytes: &[u8; GREETING_BYTES]) -> Result<(), ZmtpError> {
    let [first, _, _, _, _, _, _, _, _, last, major, _, mechanism @ ..] = bytes;
    if (*first, *last) != (0xff, 0x7f) || *major < 3 {
        return Err(ZmtpError::Greeting);
    }
    let is_null = mechanism.starts_with(b"NULL\0");
    if is_null { Ok(()) } else { Err(ZmtpError::Mechanism) }
}

/// Appends a frame.
pub fn write_frame(out: &mut Vec<u8>, body: &[u8], has_more: bool) {
    write_flagged(out, body, if has_more { FLAG_MORE } else { 0 });
}

fn write_flagged(out: &mut Vec<u8>, body: &[u8], flags: u8) {
    match u8::try_from(body.len()) {
        Ok(length) => out.extend_from_slice(&[flags, length]),
        Err(_) => {
            out.push(flags | FLAG_LONG);
            out.extend_from_slice(&(body.len() as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(body);
}

/// Appends the command that ends the publisher's handshake.
pub fn write_ready(out: &mut Vec<u8>) {
    let mut body = b"\x05READY\x0bSocket-Type".to_vec();
    body.extend_from_slice(b"\0\0\0\x03PUB");
    write_flagged(out, &body, FLAG_COMMAND);
}

/// Appends the answer to a PING with that context.
pub fn write_pong(out: &mut Vec<u8>, context: &[u8]) {
    write_flagged(out, &[b"\x04PONG", context].concat(), FLAG_COMMAND);
}

/// A frame of a subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'b> {
    /// Whether it is a command.
    pub is_command: bool,
    /// What it holds.
    pub body: &'b [u8],
}

/// Looks at the start of `bytes`. `None`: not a whole frame yet. Else the frame and its length.
///
/// Errors: `Flags`, `TooLong`.
pub fn read_frame(bytes: &[u8]) -> Result<Option<(Frame<'_>, usize)>, ZmtpError> {
    let Some((&flags, rest)) = bytes.split_first() else { return Ok(None) };
    if flags & !(FLAG_MORE | FLAG_LONG | FLAG_COMMAND) != 0 {
        return Err(ZmtpError::Flags(flags));
    }
    let (length, head) = if flags & FLAG_LONG != 0 {
        let Some(length) = rest.first_chunk() else { return Ok(None) };
        (u64::from_be_bytes(*length), 9)
    } else {
        let Some(&length) = rest.first() else { return Ok(None) };
        (u64::from(length), 2)
    };
    let length = usize::try_from(length).ok().filter(|length| *length <= FRAME_BYTES_MAX);
    let Some(length) = length else {
        let told = rest.first_chunk().map_or(u64::MAX, |length| u64::from_be_bytes(*length));
        return Err(ZmtpError::TooLong(told));
    };
    let body = bytes.get(head..head + length);
    let is_command = flags & FLAG_COMMAND != 0;
    Ok(body.map(|body| (Frame { is_command, body }, head + length)))
}

/// What a subscriber says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said<'b> {
    /// It wants messages whose topic starts so.
    Subscribe(&'b [u8]),
    /// It wants them no more.
    Cancel(&'b [u8]),
    /// It wants a PONG with this context.
    Ping(&'b [u8]),
    /// Something that needs no answer.
    Other,
}

/// What a frame after the handshake says.
///
/// Errors: `Command`.
pub fn parse(frame: Frame<'_>) -> Result<Said<'_>, ZmtpError> {
    if !frame.is_command {
        return Ok(match frame.body {
            [1, topic @ ..] => Said::Subscribe(topic),
            [0, topic @ ..] => Said::Cancel(topic),
            _ => Said::Other,
        });
    }
    let (name, data) = command(frame.body)?;
    match name {
        b"SUBSCRIBE" => Ok(Said::Subscribe(data)),
        b"CANCEL" => Ok(Said::Cancel(data)),
        // Two bytes say how long the subscriber waits for the next one.
        b"PING" => data.get(2..).map(Said::Ping).ok_or(ZmtpError::Command),
        b"READY" => Err(ZmtpError::Command),
        _ => Ok(Said::Other),
    }
}

/// Checks the command that ends the subscriber's handshake.
///
/// Errors: `Command`, `Socket`.
pub fn check_ready(frame: Frame<'_>) -> Result<(), ZmtpError> {
    let (name, mut rest) = command(frame.body)?;
    if !frame.is_command || name != b"READY" {
        return Err(ZmtpError::Command);
    }
    while !rest.is_empty() {
        let (property, after) = command(rest)?;
        let (length, after) = after.split_first_chunk().ok_or(ZmtpError::Command)?;
        let length = u32::from_be_bytes(*length) as usize;
        let (value, after) = after.split_at_checked(length).ok_or(ZmtpError::Command)?;
        if property.eq_ignore_ascii_case(b"Socket-Type") {
            let is_subscriber = matches!(value, b"SUB" | b"XSUB");
            let name = || String::from_utf8_lossy(value).into_owned();
            return if is_subscriber { Ok(()) } else { Err(ZmtpError::Socket(name())) };
        }
        rest = after;
    }
    Err(ZmtpError::Command)
}

/// A name with its length in front, and what follows.
fn command(body: &[u8]) -> Result<(&[u8], &[u8]), ZmtpError> {
    let (&length, rest) = body.split_first().ok_or(ZmtpError::Command)?;
    rest.split_at_checked(usize::from(length)).ok_or(ZmtpError::Command)
}

/// Reads bytes as whatever a subscriber may send, for fuzzing.
pub(crate) fn probe(bytes: &[u8]) {
    let mut rest = bytes;
    if let Some((greeting, after)) = bytes.split_first_chunk() {
        let _ = check_greeting(greeting);
        rest = after;
    }
    while let Ok(Some((frame, length))) = read_frame(rest) {
        let _ = check_ready(frame);
        let _ = parse(frame);
        rest = rest.get(length..).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greeting_is_that_of_a_null_peer() {
        let greeting = greeting();
        assert_eq!(greeting[..16], *b"\xff\0\0\0\0\0\0\0\0\x7f\x03\0NULL");
        assert_eq!(check_greeting(&greeting), Ok(()));
        let with = |at: usize, byte: u8| {
            let mut bent = greeting;
            bent[at] = byte;
            check_greeting(&bent)
        };
        assert_eq!(with(0, 0), Err(ZmtpError::Greeting));
        assert_eq!(with(10, 1), Err(ZmtpError::Greeting));
        assert_eq!(with(12, b'P'), Err(ZmtpError::Mechanism));
        assert_eq!(with(11, 1), Ok(()));
    }

    #[test]
    fn frames_are_read_as_written_and_long_ones_refused() {
        let mut out = Vec::new();
        write_frame(&mut out, b"\x01", true);
        write_frame(&mut out, &[7; 300], false);
        let (first, length) = read_frame(&out).unwrap().unwrap();
        assert_eq!((parse(first), length), (Ok(Said::Subscribe(b"")), 3));
        for end in length..out.len() {
            assert_eq!(read_frame(&out[length..end]), Ok(None));
        }
        let (second, length) = read_frame(&out[length..]).unwrap().unwrap();
        assert_eq!((second.body.len(), length), (300, 309));
        assert_eq!(parse(second), Ok(Said::Other));
        assert_eq!(read_frame(&[8, 0]), Err(ZmtpError::Flags(8)));
        let huge = [2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(read_frame(&huge), Err(ZmtpError::TooLong(u64::MAX)));
    }

    fn ready(properties: &[u8]) -> Result<(), ZmtpError> {
        let body = [b"\x05READY", properties].concat();
        check_ready(Frame { is_command: true, body: &body })
    }

    #[test]
    fn only_subscribers_get_through_the_handshake() {
        assert_eq!(ready(b"\x08Identity\0\0\0\0\x0bSocket-Type\0\0\0\x03SUB"), Ok(()));
        assert_eq!(ready(b"\x0bsocket-type\0\0\0\x04XSUB"), Ok(()));
        let error = ready(b"\x0bSocket-Type\0\0\0\x04PULL");
        assert_eq!(error, Err(ZmtpError::Socket("PULL".into())));
        for bad in [b"".as_slice(), b"\x0bSocket-Type", b"\x0bSocket-Type\0\0\0\x09SUB", b"\xff"] {
            assert_eq!(ready(bad), Err(ZmtpError::Command));
        }
        let mut out = Vec::new();
        write_ready(&mut out);
        let (frame, _) = read_frame(&out).unwrap().unwrap();
        assert_eq!(check_ready(frame), Err(ZmtpError::Socket("PUB".into())));
    }

    #[test]
    fn commands_say_the_same_as_messages() {
        let said = |body: &'static [u8]| parse(Frame { is_command: true, body });
        assert_eq!(said(b"\x09SUBSCRIBEab"), Ok(Said::Subscribe(b"ab")));
        assert_eq!(said(b"\x06CANCEL"), Ok(Said::Cancel(b"")));
        assert_eq!(said(b"\x04PING\0\x64xy"), Ok(Said::Ping(b"xy")));
        assert_eq!(said(b"\x04PING\0"), Err(ZmtpError::Command));
        assert_eq!(said(b"\x05READY"), Err(ZmtpError::Command));
        assert_eq!(said(b"\x03FOO"), Ok(Said::Other));
        assert_eq!(said(b"\x09SHORT"), Err(ZmtpError::Command));
        let mut out = Vec::new();
        write_pong(&mut out, b"xy");
        assert_eq!(out, b"\x04\x07\x04PONGxy");
    }
}
