//! Error codes on the wire: an `i32` (wire protocol 5).
//!
//! A server answers with [`ErrorCode`]; a client reads [`WireError`], because a newer server may
//! send a number that has no name here.

use std::fmt;

use crate::model::error_code::ErrorCode;
use crate::wire::pack::{Literal, Pack, Reader, Unpack, UnpackError, Wire, Writer};

/// A failed operation as a number, known or not.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct WireError(pub i32);

impl WireError {
    /// The code, if the number has one.
    pub fn code(self) -> Option<ErrorCode> {
        ErrorCode::from_number(self.0)
    }
}

impl From<ErrorCode> for WireError {
    fn from(code: ErrorCode) -> Self {
        WireError(code.number())
    }
}

impl PartialEq<ErrorCode> for WireError {
    fn eq(&self, code: &ErrorCode) -> bool {
        self.0 == code.number()
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code() {
            Some(code) => write!(f, "{code} ({})", self.0),
            None => write!(f, "UNKNOWN_ERROR ({})", self.0),
        }
    }
}

impl fmt::Debug for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for WireError {}

impl Wire for WireError {
    const LITERAL: &'static Literal = i32::LITERAL;
    const LEN_MIN: usize = i32::LEN_MIN;
}

impl Pack for WireError {
    fn pack(&self, out: &mut Writer<'_>) {
        self.0.pack(out);
    }

    #[cfg(test)]
    fn to_json(&self) -> serde_json::Value {
        self.code().map_or_else(|| self.0.into(), |code| code.name().into())
    }
}

impl Unpack<'_> for WireError {
    fn unpack(reader: &mut Reader<'_>) -> Result<Self, UnpackError> {
        i32::unpack(reader).map(WireError)
    }

    #[cfg(test)]
    fn sample(dice: &mut crate::wire::pack::Dice) -> Self {
        WireError(i32::sample(dice))
    }
}

impl Wire for ErrorCode {
    const LITERAL: &'static Literal = i32::LITERAL;
    const LEN_MIN: usize = i32::LEN_MIN;
}

impl Pack for ErrorCode {
    fn pack(&self, out: &mut Writer<'_>) {
        self.number().pack(out);
    }

    #[cfg(test)]
    fn to_json(&self) -> serde_json::Value {
        self.name().into()
    }
}
