//! The peer's payload encoding: values to bytes and back (wire protocol 2).
//!
//! [`Wire`] says what a type is called on the wire, [`Pack`] writes it, [`Unpack`] reads it,
//! borrowing strings from the frame. [`Body`] joins a type with its hash and does whole bodies:
//! head, meta byte, literal, payload. Every length is checked against the bytes that are really
//! there before anything is allocated for it.

pub mod body;
pub mod literal;
pub mod reader;
mod structs;
mod values;
pub mod writer;

pub use body::Body;
pub use literal::Literal;
pub use reader::{ITEMS_MAX, Reader, UnpackError};
pub(crate) use structs::{wire_enum, wire_struct};
pub use values::{Map, NoArguments, Text};
pub use writer::Writer;

/// A type of the protocol.
pub trait Wire {
    /// Its type literal (wire protocol 2.4).
    const LITERAL: &'static Literal;

    /// Fewest payload bytes that a value can take; bounds how many items a count may announce.
    const LEN_MIN: usize;
}

/// A value that can be written as payload.
pub trait Pack: Wire {
    /// Appends the payload.
    fn pack(&self, out: &mut Writer<'_>);

    /// The value in the conventions of the captured vectors.
    #[cfg(test)]
    fn to_json(&self) -> serde_json::Value;
}

/// A value that can be read from payload; it may borrow from the bytes, which live for `'a`.
pub trait Unpack<'a>: Wire + Sized {
    /// Reads one value.
    ///
    /// Errors: by cause, see [`UnpackError`]; the reader's place is then of no further use.
    fn unpack(reader: &mut Reader<'a>) -> Result<Self, UnpackError>;

    /// Some value, for round trips.
    #[cfg(test)]
    fn sample(dice: &mut Dice) -> Self;
}

/// The source of random values for round-trip tests.
#[cfg(test)]
pub type Dice = rand::rngs::SmallRng;
