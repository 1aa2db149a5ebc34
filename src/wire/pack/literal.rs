//! Type literals: the byte strings by which sender and receiver agree on a type.
//!
//! Everything here runs at compile time, so that a type's literal is a constant and costs nothing
//! per call. Rules: wire protocol 2.4. The hash of a literal is kept in the function table
//! (`wire/function.rs`), where a test recomputes it.

/// Longest literal, with the six bytes of a body's head, that this protocol needs; a longer one
/// does not compile.
pub const LITERAL_BYTES_MAX: usize = 192;

/// The codes of wire protocol 2.4.
pub mod code {
    /// `i32`, and every enum over it.
    pub const I32: u8 = 0x01;
    /// `u32`.
    pub const U32: u8 = 0x02;
    /// `i64`.
    pub const I64: u8 = 0x03;
    /// `u64`.
    pub const U64: u8 = 0x04;
    /// `u8`, and every enum over it.
    pub const U8: u8 = 0x06;
    /// `bool`.
    pub const BOOL: u8 = 0x0b;
    /// A character of a string.
    pub const CHAR: u8 = 0x0c;
    /// Opens a string; [`CHAR`] follows.
    pub const STRING: u8 = 0x80;
    /// Opens a map; key and value follow.
    pub const MAP: u8 = 0x82;
    /// Opens a vector; the item follows.
    pub const VECTOR: u8 = 0x84;
    /// Opens an optional; the item follows.
    pub const OPTIONAL: u8 = 0x85;
    /// Opens a variant; the alternatives and [`END`] follow.
    pub const VARIANT: u8 = 0x86;
    /// Opens an expected; value and error follow.
    pub const EXPECTED: u8 = 0x87;
    /// Nothing.
    pub const VOID: u8 = 0xfa;
    /// Opens a struct or an argument list; the members and [`END`] follow.
    pub const STRUCT: u8 = 0xfd;
    /// Closes a struct or a variant.
    pub const END: u8 = 0xff;
    /// Size and alignment of 8, as a pair of two plain numbers carries them.
    pub const EIGHT: u8 = 0x89;
}

/// A byte string of at most [`LITERAL_BYTES_MAX`] bytes, built by constant evaluation.
#[derive(Clone, Copy, Debug)]
pub struct Literal {
    /// The first `len` are used, the others are 0.
    bytes: [u8; LITERAL_BYTES_MAX],
    len: usize,
}

impl Literal {
    /// No bytes.
    pub const EMPTY: Literal = Literal { bytes: [0; LITERAL_BYTES_MAX], len: 0 };

    /// The literal of one code.
    pub const fn of(code: u8) -> Literal {
        Literal::EMPTY.push(code)
    }

    /// This and one more byte. Beyond [`LITERAL_BYTES_MAX`] compilation fails.
    #[expect(
        clippy::indexing_slicing,
        reason = "constant evaluation: an index out of bounds is a build error"
    )]
    pub const fn push(mut self, byte: u8) -> Literal {
        self.bytes[self.len] = byte;
        self.len += 1;
        self
    }

    /// This and the bytes of `other`.
    pub const fn then(self, other: &Literal) -> Literal {
        self.then_bytes(other.as_bytes())
    }

    /// This and `bytes`.
    pub const fn then_bytes(mut self, mut bytes: &[u8]) -> Literal {
        while let [first, rest @ ..] = bytes {
            self = self.push(*first);
            bytes = rest;
        }
        self
    }

    /// The bytes.
    pub const fn as_bytes(&self) -> &[u8] {
        self.bytes.split_at(self.len).0
    }

    /// Whether there are no bytes; true only of the absent argument list.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether both are the same bytes, and so both types the same on the wire.
    pub const fn is_same(&self, other: &Literal) -> bool {
        let (mut left, mut right) = (self.as_bytes(), other.as_bytes());
        while let ([a, left_rest @ ..], [b, right_rest @ ..]) = (left, right) {
            if *a != *b {
                return false;
            }
            (left, right) = (left_rest, right_rest);
        }
        left.is_empty() && right.is_empty()
    }
}
