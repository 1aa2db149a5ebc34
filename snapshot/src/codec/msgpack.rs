//! Bounded MessagePack reader and shortest-form writer (snapshot format 3).
//!
//! The reader walks a slice and allocates nothing: a length found in the bytes is only ever
//! compared with what is left of the slice. Depth costs no stack, because skipping counts instead
//! of recursing. Which values are expected where is the other codec files' business.

use std::fmt;

use rmp::Marker;

/// What is wrong with a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The bytes end inside a value.
    Truncated,
    /// A value of another type than expected.
    WrongType {
        /// What the format says.
        expected: &'static str,
        /// What is there.
        found: &'static str,
    },
    /// A number outside its range.
    OutOfRange(&'static str),
    /// Any other rule of the format.
    Rule(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Truncated => f.write_str("the data end inside a value"),
            Fault::WrongType { expected, found } => write!(f, "expected {expected}, found {found}"),
            Fault::OutOfRange(what) => write!(f, "{what} is out of range"),
            Fault::Rule(what) => f.write_str(what),
        }
    }
}

impl Fault {
    /// A broken rule in words.
    pub fn rule(what: impl Into<String>) -> Self {
        Fault::Rule(what.into())
    }
}

/// Result of reading a value.
pub(crate) type Read<T> = Result<T, Fault>;

/// The type of the next value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Nil,
    Bool,
    /// An integer that is not negative.
    Uint,
    Negative,
    Float,
    Str,
    Bin,
    Array,
    Map,
    Other,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Nil => "nil",
            Kind::Bool => "a boolean",
            Kind::Uint => "an integer",
            Kind::Negative => "a negative integer",
            Kind::Float => "a float",
            Kind::Str => "a string",
            Kind::Bin => "binary data",
            Kind::Array => "an array",
            Kind::Map => "a map",
            Kind::Other => "an extension or reserved value",
        }
    }
}

/// One value: scalars whole, containers as their header.
enum Token<'a> {
    Nil,
    Bool(bool),
    Uint(u64),
    Negative(i64),
    Float,
    Str(&'a [u8]),
    Bin(&'a [u8]),
    Array(u32),
    Map(u32),
    Other,
}

impl Token<'_> {
    fn kind(&self) -> Kind {
        match self {
            Token::Nil => Kind::Nil,
            Token::Bool(_) => Kind::Bool,
            Token::Uint(_) => Kind::Uint,
            Token::Negative(_) => Kind::Negative,
            Token::Float => Kind::Float,
            Token::Str(_) => Kind::Str,
            Token::Bin(_) => Kind::Bin,
            Token::Array(_) => Kind::Array,
            Token::Map(_) => Kind::Map,
            Token::Other => Kind::Other,
        }
    }

    fn is_not(&self, expected: &'static str) -> Fault {
        Fault::WrongType { expected, found: self.kind().name() }
    }
}

/// Walks a slice value by value. Copying it remembers a place to come back to.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    /// Bytes not read yet.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    fn take(&mut self, count: usize) -> Read<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(count).ok_or(Fault::Truncated)?;
        self.rest = rest;
        Ok(head)
    }

    fn fixed<const N: usize>(&mut self) -> Read<[u8; N]> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or(Fault::Truncated)?;
        self.rest = rest;
        Ok(*head)
    }

    fn len8(&mut self) -> Read<usize> {
        Ok(usize::from(u8::from_be_bytes(self.fixed()?)))
    }

    fn len16(&mut self) -> Read<u32> {
        Ok(u32::from(u16::from_be_bytes(self.fixed()?)))
    }

    fn len32(&mut self) -> Read<u32> {
        Ok(u32::from_be_bytes(self.fixed()?))
    }

    fn token(&mut self) -> Read<Token<'a>> {
        let [first] = self.fixed()?;
        Ok(match Marker::from_u8(first) {
            Marker::FixPos(value) => Token::Uint(u64::from(value)),
            Marker::FixNeg(value) => Token::Negative(i64::from(value)),
            Marker::U8 => Token::Uint(u64::from(u8::from_be_bytes(self.fixed()?))),
            Marker::U16 => Token::Uint(u64::from(u16::from_be_bytes(self.fixed()?))),
            Marker::U32 => Token::Uint(u64::from(u32::from_be_bytes(self.fixed()?))),
            Marker::U64 => Token::Uint(u64::from_be_bytes(self.fixed()?)),
            Marker::I8 => signed(i64::from(i8::from_be_bytes(self.fixed()?))),
            Marker::I16 => signed(i64::from(i16::from_be_bytes(self.fixed()?))),
            Marker::I32 => signed(i64::from(i32::from_be_bytes(self.fixed()?))),
            Marker::I64 => signed(i64::from_be_bytes(self.fixed()?)),
            Marker::Null => Token::Nil,
            Marker::True => Token::Bool(true),
            Marker::False => Token::Bool(false),
            Marker::FixStr(len) => Token::Str(self.take(usize::from(len))?),
            Marker::Str8 => Token::Str(self.sized8()?),
            Marker::Str16 => Token::Str(self.sized16()?),
            Marker::Str32 => Token::Str(self.sized32()?),
            Marker::Bin8 => Token::Bin(self.sized8()?),
            Marker::Bin16 => Token::Bin(self.sized16()?),
            Marker::Bin32 => Token::Bin(self.sized32()?),
            Marker::FixArray(len) => Token::Array(u32::from(len)),
            Marker::Array16 => Token::Array(self.len16()?),
            Marker::Array32 => Token::Array(self.len32()?),
            Marker::FixMap(len) => Token::Map(u32::from(len)),
            Marker::Map16 => Token::Map(self.len16()?),
            Marker::Map32 => Token::Map(self.len32()?),
            other => self.unwanted(other)?,
        })
    }

    /// Floats and extensions: never used by the format, but skippable.
    fn unwanted(&mut self, marker: Marker) -> Read<Token<'a>> {
        let (payload, token) = match marker {
            Marker::F32 => (4, Token::Float),
            Marker::F64 => (8, Token::Float),
            Marker::FixExt1 => (2, Token::Other),
            Marker::FixExt2 => (3, Token::Other),
            Marker::FixExt4 => (5, Token::Other),
            Marker::FixExt8 => (9, Token::Other),
            Marker::FixExt16 => (17, Token::Other),
            Marker::Ext8 => (self.len8()?.saturating_add(1), Token::Other),
            Marker::Ext16 => ((self.len16()? as usize).saturating_add(1), Token::Other),
            Marker::Ext32 => ((self.len32()? as usize).saturating_add(1), Token::Other),
            _ => return Err(Fault::rule("a reserved byte")),
        };
        self.take(payload)?;
        Ok(token)
    }

    fn sized8(&mut self) -> Read<&'a [u8]> {
        let len = self.len8()?;
        self.take(len)
    }

    fn sized16(&mut self) -> Read<&'a [u8]> {
        let len = self.len16()?;
        self.take(len as usize)
    }

    fn sized32(&mut self) -> Read<&'a [u8]> {
        let len = self.len32()?;
        self.take(len as usize)
    }

    /// The type of the next value, without reading it.
    pub fn peek(&self) -> Read<Kind> {
        let mut ahead = *self;
        Ok(ahead.token()?.kind())
    }

    /// An integer that is not negative.
    pub fn uint(&mut self) -> Read<u64> {
        match self.token()? {
            Token::Uint(value) => Ok(value),
            other => Err(other.is_not("an integer that is not negative")),
        }
    }

    /// An integer that is not negative and fits 32 bits; `what` names it.
    pub fn uint32(&mut self, what: &'static str) -> Read<u32> {
        u32::try_from(self.uint()?).map_err(|_| Fault::OutOfRange(what))
    }

    /// An integer.
    pub fn int(&mut self) -> Read<i64> {
        match self.token()? {
            Token::Uint(value) => i64::try_from(value).map_err(|_| Fault::OutOfRange("integer")),
            Token::Negative(value) => Ok(value),
            other => Err(other.is_not("an integer")),
        }
    }

    /// A boolean.
    pub fn boolean(&mut self) -> Read<bool> {
        match self.token()? {
            Token::Bool(value) => Ok(value),
            other => Err(other.is_not("a boolean")),
        }
    }

    /// A string's bytes.
    pub fn str_bytes(&mut self) -> Read<&'a [u8]> {
        match self.token()? {
            Token::Str(bytes) => Ok(bytes),
            other => Err(other.is_not("a string")),
        }
    }

    /// A string that must be UTF-8; `what` names it.
    pub fn text(&mut self, what: &'static str) -> Read<&'a str> {
        std::str::from_utf8(self.str_bytes()?)
            .map_err(|_| Fault::rule(format!("{what} is not UTF-8")))
    }

    /// Binary data.
    pub fn bin(&mut self) -> Read<&'a [u8]> {
        match self.token()? {
            Token::Bin(bytes) => Ok(bytes),
            other => Err(other.is_not("binary data")),
        }
    }

    /// The length of an array whose elements follow.
    pub fn array(&mut self) -> Read<u32> {
        match self.token()? {
            Token::Array(len) => Ok(len),
            other => Err(other.is_not("an array")),
        }
    }

    /// The start of an array of exactly `len`; `what` names it.
    pub fn array_of(&mut self, len: u32, what: &'static str) -> Read<()> {
        let found = self.array()?;
        if found == len {
            Ok(())
        } else {
            Err(Fault::rule(format!("{what} has {found} fields, expected {len}")))
        }
    }

    /// The number of pairs of a map whose keys and values follow.
    pub fn map(&mut self) -> Read<u32> {
        match self.token()? {
            Token::Map(len) => Ok(len),
            other => Err(other.is_not("a map")),
        }
    }

    /// Passes over the next value with all that it holds. Every step consumes a byte, so this ends.
    pub fn skip(&mut self) -> Read<()> {
        let mut open: u64 = 1;
        while open > 0 {
            open -= 1;
            open = open.saturating_add(match self.token()? {
                Token::Array(len) => u64::from(len),
                Token::Map(len) => 2 * u64::from(len),
                _ => 0,
            });
        }
        Ok(())
    }
}

fn signed(value: i64) -> Token<'static> {
    match u64::try_from(value) {
        Ok(value) => Token::Uint(value),
        Err(_) => Token::Negative(value),
    }
}

/// Appends values to a buffer, each in its shortest form, as the peer does.
#[derive(Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// A writer that has room for this many bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        Writer { bytes: Vec::with_capacity(bytes) }
    }

    /// The bytes written.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Forgets what was written, and leaves `room` bytes for [`Writer::behind_head`].
    pub fn begin_behind(&mut self, room: usize) {
        self.bytes.clear();
        self.bytes.resize(room, 0);
    }

    /// What was written behind `room` bytes, after a head that fits into them; empty if it does not.
    pub fn behind_head(&mut self, room: usize, head: &[u8]) -> &[u8] {
        let Some(start) = room.checked_sub(head.len()) else { return &[] };
        if let Some(place) = self.bytes.get_mut(start..room) {
            place.copy_from_slice(head);
        }
        self.bytes.get(start..).unwrap_or_default()
    }

    /// Appends bytes that are whole values already.
    pub fn raw(&mut self, values: &[u8]) {
        self.bytes.extend_from_slice(values);
    }

    fn marker(&mut self, marker: Marker) {
        self.bytes.push(marker.to_u8());
    }

    /// Bytes written so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// An integer that is not negative.
    pub fn uint(&mut self, value: u64) {
        if let Ok(value) = u8::try_from(value) {
            if value >= 0x80 {
                self.marker(Marker::U8);
            }
            self.bytes.push(value);
        } else if let Ok(value) = u16::try_from(value) {
            self.marker(Marker::U16);
            self.raw(&value.to_be_bytes());
        } else if let Ok(value) = u32::try_from(value) {
            self.marker(Marker::U32);
            self.raw(&value.to_be_bytes());
        } else {
            self.marker(Marker::U64);
            self.raw(&value.to_be_bytes());
        }
    }

    /// An integer.
    pub fn int(&mut self, value: i64) {
        if let Ok(value) = u64::try_from(value) {
            return self.uint(value);
        }
        if let Ok(small) = i8::try_from(value) {
            if small < -32 {
                self.marker(Marker::I8);
            }
            self.raw(&small.to_be_bytes());
        } else if let Ok(value) = i16::try_from(value) {
            self.marker(Marker::I16);
            self.raw(&value.to_be_bytes());
        } else if let Ok(value) = i32::try_from(value) {
            self.marker(Marker::I32);
            self.raw(&value.to_be_bytes());
        } else {
            self.marker(Marker::I64);
            self.raw(&value.to_be_bytes());
        }
    }

    /// A boolean.
    pub fn boolean(&mut self, value: bool) {
        self.marker(if value { Marker::True } else { Marker::False });
    }

    /// Nil.
    pub fn nil(&mut self) {
        self.marker(Marker::Null);
    }

    /// A string.
    pub fn str(&mut self, value: &[u8]) {
        match (u8::try_from(value.len()), u16::try_from(value.len())) {
            (Ok(len), _) if len < 32 => self.marker(Marker::FixStr(len)),
            (Ok(len), _) => {
                self.marker(Marker::Str8);
                self.bytes.push(len);
            }
            (_, Ok(len)) => {
                self.marker(Marker::Str16);
                self.raw(&len.to_be_bytes());
            }
            _ => {
                self.marker(Marker::Str32);
                self.len32(value.len());
            }
        }
        self.raw(value);
    }

    /// Binary data.
    pub fn bin(&mut self, value: &[u8]) {
        match (u8::try_from(value.len()), u16::try_from(value.len())) {
            (Ok(len), _) => {
                self.marker(Marker::Bin8);
                self.bytes.push(len);
            }
            (_, Ok(len)) => {
                self.marker(Marker::Bin16);
                self.raw(&len.to_be_bytes());
            }
            _ => {
                self.marker(Marker::Bin32);
                self.len32(value.len());
            }
        }
        self.raw(value);
    }

    /// The start of an array of `len` values.
    pub fn array(&mut self, len: usize) {
        self.container(len, Marker::FixArray, Marker::Array16, Marker::Array32);
    }

    /// The start of a map of `len` pairs.
    pub fn map(&mut self, len: usize) {
        self.container(len, Marker::FixMap, Marker::Map16, Marker::Map32);
    }

    fn container(&mut self, len: usize, fix: fn(u8) -> Marker, wide: Marker, widest: Marker) {
        match (u8::try_from(len), u16::try_from(len)) {
            (Ok(len), _) if len < 16 => self.marker(fix(len)),
            (_, Ok(len)) => {
                self.marker(wide);
                self.raw(&len.to_be_bytes());
            }
            _ => {
                self.marker(widest);
                self.len32(len);
            }
        }
    }

    /// A 32-bit length. The callers' payloads are limited far below 4 GiB before they come here
    /// (`RAW_SHARD_BYTES_MAX`, `SECTION_BYTES_MAX`), so that saturation cannot be seen.
    fn len32(&mut self, len: usize) {
        self.raw(&u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes());
    }
}

#[cfg(test)]
mod tests;
