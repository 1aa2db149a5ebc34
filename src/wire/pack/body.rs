//! Whole bodies: head, meta byte, literal, payload (wire protocol 2, 2.1, 2.2).
//!
//! Sending is byte-identical to the peer: the literal always goes along and the size width is the
//! smallest that fits. Receiving accepts what the peer accepts: no literal, a wider width, unknown
//! meta bits, bytes left over.

use super::literal::{Literal, code};
use super::reader::{Reader, UnpackError, Width};
use super::writer::Writer;
use super::{Pack, Unpack, Wire};

/// Bit of the meta byte: the literal and a zero byte follow.
const META_LITERAL: u8 = 1 << 2;
/// Where in a body the meta byte is: behind the head.
const META_OFFSET: usize = 4;

/// A root type with its hash: all that is needed to send or check a body, computed when compiling.
#[derive(Debug)]
pub struct Body {
    hash: u32,
    literal: &'static Literal,
    /// Head with bit 0 set, meta byte for width 1, literal, zero byte. Empty if there is no body.
    prefix: Literal,
}

impl Body {
    /// The body of type `T`, whose hash is `hash` (even; not used if `T` has no body).
    pub const fn of<T: Wire>(hash: u32) -> Body {
        let literal = T::LITERAL;
        let prefix = if literal.is_empty() {
            Literal::EMPTY
        } else {
            Literal::EMPTY
                .then_bytes(&(hash | 1).to_le_bytes())
                .push(META_LITERAL)
                .then(literal)
                .push(0)
        };
        Body { hash, literal, prefix }
    }

    /// The type hash, bit 0 clear.
    pub const fn hash(&self) -> u32 {
        self.hash
    }

    /// The type literal.
    pub fn literal(&self) -> &'static [u8] {
        self.literal.as_bytes()
    }

    /// Appends the body of `value`, whose type must have this body's literal.
    pub fn encode<T: Pack>(&self, value: &T, out: &mut Vec<u8>) {
        if self.literal.is_empty() {
            return;
        }
        let meta_at = out.len() + META_OFFSET;
        out.extend_from_slice(self.prefix.as_bytes());
        let payload_at = out.len();
        let mut writer = Writer::new(out, None);
        value.pack(&mut writer);
        let (guessed, needed) = (writer.width(), Width::of(writer.largest()));
        if guessed < needed {
            out.truncate(payload_at);
            value.pack(&mut Writer::new(out, Some(needed)));
        }
        if let Some(meta) = out.get_mut(meta_at) {
            *meta |= needed.meta_bits();
        }
    }

    /// Reads a body of type `T`, whose literal must be this body's.
    ///
    /// Errors: by cause, see [`UnpackError`].
    pub fn decode<'a, T: Unpack<'a>>(&self, body: &'a [u8]) -> Result<T, UnpackError> {
        T::unpack(&mut self.open(body)?)
    }

    /// Reads only the first member of a body, which must be of type `T`.
    ///
    /// Errors: by cause, see [`UnpackError`].
    pub fn decode_first<'a, T: Unpack<'a>>(&self, body: &'a [u8]) -> Result<T, UnpackError> {
        let is_first = match self.literal.as_bytes() {
            [code::STRUCT, members @ ..] => members.starts_with(T::LITERAL.as_bytes()),
            _ => false,
        };
        if is_first { T::unpack(&mut self.open(body)?) } else { Err(UnpackError::Literal) }
    }

    /// Checks head, meta byte and literal; the reader returned stands at the payload.
    fn open<'a>(&self, body: &'a [u8]) -> Result<Reader<'a>, UnpackError> {
        if self.literal.is_empty() {
            return Ok(Reader::new(body, Width::One));
        }
        let mut reader = Reader::new(body, Width::One);
        let head = u32::from_le_bytes(reader.array()?);
        if head & !1 != self.hash {
            return Err(UnpackError::Hash { found: head & !1, expected: self.hash });
        }
        if head & 1 == 0 {
            return Ok(reader);
        }
        let meta = reader.byte()?;
        let mut rest = reader.rest();
        if meta & META_LITERAL != 0 {
            rest = match rest.strip_prefix(self.literal.as_bytes()) {
                Some([0, payload @ ..]) => payload,
                _ => return Err(UnpackError::Literal),
            };
        }
        Ok(Reader::new(rest, Width::from_meta(meta)))
    }
}
