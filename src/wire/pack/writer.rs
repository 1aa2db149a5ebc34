//! Writes payload: numbers, lengths and byte strings.
//!
//! The size width of a body depends on its largest length, which is known only at the end. The
//! writer guesses: the first length of a body decides, since the outermost container tends to be
//! the largest. If a later length is larger, [`Writer::largest`] tells, and [`super::Body`] writes
//! the payload again.

use super::reader::Width;

/// A body being written.
#[derive(Debug)]
pub struct Writer<'o> {
    out: &'o mut Vec<u8>,
    /// `None` until the first length, unless it was given.
    width: Option<Width>,
    largest: usize,
}

impl<'o> Writer<'o> {
    /// A writer that appends to `out` with lengths `width` wide; `None` lets the first length
    /// choose.
    pub fn new(out: &'o mut Vec<u8>, width: Option<Width>) -> Self {
        Writer { out, width, largest: 0 }
    }

    /// The width in use; one byte if no length has been written.
    pub fn width(&self) -> Width {
        self.width.unwrap_or(Width::One)
    }

    /// The largest length written. If it needs more than [`Writer::width`], the bytes are not
    /// valid.
    pub fn largest(&self) -> usize {
        self.largest
    }

    /// Appends bytes as they are.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Appends one byte.
    #[inline]
    pub fn byte(&mut self, byte: u8) {
        self.out.push(byte);
    }

    /// Appends a length field.
    #[inline]
    pub fn length(&mut self, length: usize) {
        self.largest = self.largest.max(length);
        let [a, b, c, d, e, f, g, h] = (length as u64).to_le_bytes();
        match *self.width.get_or_insert_with(|| Width::of(length)) {
            Width::One => self.out.push(a),
            Width::Two => self.out.extend_from_slice(&[a, b]),
            Width::Four => self.out.extend_from_slice(&[a, b, c, d]),
            Width::Eight => self.out.extend_from_slice(&[a, b, c, d, e, f, g, h]),
        }
    }

    /// Appends a byte string.
    #[inline]
    pub fn text(&mut self, bytes: &[u8]) {
        self.length(bytes.len());
        self.out.extend_from_slice(bytes);
    }
}
