//! Reads payload: numbers, lengths and byte strings, borrowed from the frame.
//!
//! Guards: no read past the end, no count that the remaining bytes cannot hold, no more than
//! [`ITEMS_MAX`] items in a container. What the bytes mean is left to the types.

/// Most items in one vector or map. A vector of empty strings takes one byte an item on the wire
/// and sixteen in memory, so without a bound a frame could claim many times its own size.
pub const ITEMS_MAX: usize = 1 << 20;

/// Why bytes are not a value of the expected type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnpackError {
    /// The payload ends before the value does, or announces more than it holds.
    #[error("the body ends before its value does")]
    Truncated,
    /// The head's hash is another type's.
    #[error("the body's type hash is {found:#010x}, expected {expected:#010x}")]
    Hash {
        /// Hash in the body.
        found: u32,
        /// Hash of the type.
        expected: u32,
    },
    /// The literal is another type's.
    #[error("the body's type literal differs from the expected one")]
    Literal,
    /// A variant's index has no alternative.
    #[error("variant index {0} has no alternative")]
    Variant(u8),
    /// A container has more than [`ITEMS_MAX`] items.
    #[error("a container of {0} items is over the limit of {ITEMS_MAX}")]
    TooManyItems(u64),
}

/// Bytes of each length field of a body (wire protocol 2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Width {
    /// Every length is below 2^8.
    One,
    /// Every length is below 2^16.
    Two,
    /// Every length is below 2^32.
    Four,
    /// Any length.
    Eight,
}

impl Width {
    /// The width that a sender must use if `largest` is its largest length.
    pub fn of(largest: usize) -> Self {
        match largest {
            0..0x100 => Width::One,
            0x100..0x1_0000 => Width::Two,
            0x1_0000..0x1_0000_0000 => Width::Four,
            _ => Width::Eight,
        }
    }

    /// The width in bits 3 and 4 of the meta byte; the other bits are ignored.
    pub fn from_meta(meta: u8) -> Self {
        match (meta >> 3) & 3 {
            0 => Width::One,
            1 => Width::Two,
            2 => Width::Four,
            _ => Width::Eight,
        }
    }

    /// Bits 3 and 4 of the meta byte.
    pub fn meta_bits(self) -> u8 {
        (self as u8) << 3
    }
}

/// A place in a payload.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    width: Width,
}

impl<'a> Reader<'a> {
    /// A reader of `payload` whose lengths are `width` wide.
    pub fn new(payload: &'a [u8], width: Width) -> Self {
        Reader { rest: payload, width }
    }

    /// What has not been read.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next `N` bytes. Errors: [`UnpackError::Truncated`].
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], UnpackError> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or(UnpackError::Truncated)?;
        self.rest = rest;
        Ok(*head)
    }

    /// The next byte. Errors: [`UnpackError::Truncated`].
    pub fn byte(&mut self) -> Result<u8, UnpackError> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// The next length field. Errors: [`UnpackError::Truncated`].
    fn length(&mut self) -> Result<u64, UnpackError> {
        Ok(match self.width {
            Width::One => u64::from(self.byte()?),
            Width::Two => u64::from(u16::from_le_bytes(self.array()?)),
            Width::Four => u64::from(u32::from_le_bytes(self.array()?)),
            Width::Eight => u64::from_le_bytes(self.array()?),
        })
    }

    /// The next byte string. Errors: [`UnpackError::Truncated`].
    pub fn text(&mut self) -> Result<&'a [u8], UnpackError> {
        let length = usize::try_from(self.length()?).map_err(|_| UnpackError::Truncated)?;
        let (head, rest) = self.rest.split_at_checked(length).ok_or(UnpackError::Truncated)?;
        self.rest = rest;
        Ok(head)
    }

    /// The next count of items that take at least `item_len_min` bytes each; safe to allocate for.
    ///
    /// Errors: [`UnpackError::Truncated`] if the rest cannot hold that many,
    /// [`UnpackError::TooManyItems`] above [`ITEMS_MAX`].
    pub fn count(&mut self, item_len_min: usize) -> Result<usize, UnpackError> {
        let announced = self.length()?;
        let count = usize::try_from(announced).map_err(|_| UnpackError::Truncated)?;
        if count > self.rest.len() / item_len_min.max(1) {
            return Err(UnpackError::Truncated);
        }
        if count > ITEMS_MAX {
            return Err(UnpackError::TooManyItems(announced));
        }
        Ok(count)
    }
}
