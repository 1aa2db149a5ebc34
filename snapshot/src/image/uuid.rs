//! The peer's ids: two 64-bit numbers, written in decimal and joined by a dash.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// An id of a client, segment or task. Orders by its numeric halves, as the peer's files do.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Uuid {
    /// The first half.
    pub first: u64,
    /// The second half.
    pub second: u64,
}

impl Uuid {
    /// An id of these halves.
    pub const fn new(first: u64, second: u64) -> Self {
        Uuid { first, second }
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.second)
    }
}

/// A text that is not two decimal numbers joined by a dash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an id of the form <decimal>-<decimal>")]
pub struct BadUuid;

impl FromStr for Uuid {
    type Err = BadUuid;

    fn from_str(text: &str) -> Result<Self, BadUuid> {
        Self::parse_bytes(text.as_bytes()).ok_or(BadUuid)
    }
}

impl Uuid {
    /// The id written in `text`, or `None` if it is not one.
    pub(crate) fn parse_bytes(text: &[u8]) -> Option<Self> {
        let dash = text.iter().position(|&byte| byte == b'-')?;
        let (first, rest) = text.split_at_checked(dash)?;
        let (_, second) = rest.split_first()?;
        Some(Uuid { first: decimal(first)?, second: decimal(second)? })
    }
}

/// The value of a non-empty run of decimal digits, if it fits.
fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |value, &byte| {
        let digit = byte.checked_sub(b'0').filter(|&digit| digit < 10)?;
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_in_the_form_in_which_they_are_written() {
        let id = Uuid::new(7, u64::MAX);
        assert_eq!(id.to_string().parse(), Ok(id));
        for bad in ["", "7", "-7", "7-", "7-x", "+7-7", "7-7-7", "7-18446744073709551616"] {
            assert_eq!(bad.parse::<Uuid>(), Err(BadUuid), "{bad}");
        }
    }
}
