//! zstd frames: one whole frame each, with content size and content checksum (snapshot format 3).
//!
//! Guards memory: nothing is decompressed before the frame's own size has been compared with the
//! limit and with what is left of the snapshot's budget.

use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe;

/// Level at which frames are written: nearly as small as the peer's level 3, twice as fast.
pub const LEVEL_DEFAULT: i32 = 1;

/// Why a frame cannot be opened.
#[derive(Debug)]
pub(crate) enum FrameFault {
    /// The frame or its content is larger than allowed.
    TooLarge {
        /// The size that the frame announces.
        bytes: u64,
        /// What is allowed.
        limit: u64,
    },
    /// It is not one sound frame.
    Damaged(String),
}

/// Opens frames; keeps the library's state and the memory of the content between them.
pub(crate) struct Opener {
    decompressor: Decompressor<'static>,
    /// Bytes that may still be decompressed from this snapshot.
    budget: u64,
    /// Of the frame that was opened last.
    content: Vec<u8>,
}

impl Opener {
    /// An opener that will produce at most `budget` bytes in all.
    pub fn new(budget: u64) -> std::io::Result<Self> {
        Ok(Opener { decompressor: Decompressor::new()?, budget, content: Vec::new() })
    }

    /// Bytes that may still be decompressed.
    pub fn budget(&self) -> u64 {
        self.budget
    }

    /// Whether these frames together announce no more than may still be decompressed. False, too,
    /// if one of them announces nothing.
    pub fn has_budget_for<'f>(&self, frames: impl IntoIterator<Item = &'f [u8]>) -> bool {
        let bytes = frames.into_iter().try_fold(0_u64, |sum, frame| {
            sum.checked_add(zstd_safe::get_frame_content_size(frame).ok()??)
        });
        bytes.is_some_and(|bytes| bytes <= self.budget)
    }

    /// The content of the frame, at most `limit` bytes.
    pub fn open(&mut self, frame: &[u8], limit: u64) -> Result<Vec<u8>, FrameFault> {
        self.open_briefly(frame, limit)?;
        Ok(std::mem::take(&mut self.content))
    }

    /// As [`Opener::open`]; the content lies in memory that the next frame takes.
    pub fn open_briefly(&mut self, frame: &[u8], limit: u64) -> Result<&[u8], FrameFault> {
        let damaged = |what: &str| FrameFault::Damaged(what.to_string());
        let bytes = zstd_safe::get_frame_content_size(frame)
            .map_err(|_| damaged("not a zstd frame"))?
            .ok_or_else(|| damaged("a zstd frame without content size"))?;
        let limit = limit.min(self.budget);
        let size = usize::try_from(bytes).unwrap_or(usize::MAX);
        if bytes > limit || size == usize::MAX {
            return Err(FrameFault::TooLarge { bytes, limit });
        }
        let length = zstd_safe::find_frame_compressed_size(frame)
            .map_err(|_| damaged("a broken zstd frame"))?;
        if length != frame.len() {
            return Err(damaged("bytes after the zstd frame"));
        }
        self.content.clear();
        self.content.reserve_exact(size);
        self.decompressor
            .decompress_to_buffer(frame, &mut self.content)
            .map_err(|error| FrameFault::Damaged(format!("zstd: {error}")))?;
        if self.content.len() != size {
            return Err(damaged("a zstd frame whose content has another size than announced"));
        }
        self.budget -= bytes;
        Ok(&self.content)
    }
}

/// Makes frames; keeps the library's state and the room for a frame between them.
pub(crate) struct Packer {
    compressor: Compressor<'static>,
    /// As large as the largest frame could have become, which is far more than a frame is.
    room: Vec<u8>,
}

impl Packer {
    /// A packer at this level.
    pub fn new(level: i32) -> std::io::Result<Self> {
        let mut compressor = Compressor::new(level)?;
        compressor.include_checksum(true)?;
        compressor.include_contentsize(true)?;
        Ok(Packer { compressor, room: Vec::new() })
    }

    /// One frame with this content, in as much memory as it needs.
    pub fn pack(&mut self, content: &[u8]) -> std::io::Result<Vec<u8>> {
        self.pack_briefly(content).map(<[u8]>::to_vec)
    }

    /// As [`Packer::pack`]; the frame lies in memory that the next one takes.
    pub fn pack_briefly(&mut self, content: &[u8]) -> std::io::Result<&[u8]> {
        self.room.clear();
        self.room.reserve_exact(zstd_safe::compress_bound(content.len()));
        self.compressor.compress_to_buffer(content, &mut self.room)?;
        Ok(&self.room)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_larger_than_its_limit_is_refused_before_it_is_opened() {
        let frame = Packer::new(1).unwrap().pack(&vec![0; 1 << 20]).unwrap();
        let mut opener = Opener::new(u64::MAX).unwrap();
        assert!(matches!(
            opener.open(&frame, 1000),
            Err(FrameFault::TooLarge { bytes: 1_048_576, limit: 1000 })
        ));
        assert_eq!(opener.open(&frame, 1 << 20).unwrap().len(), 1 << 20);
    }

    #[test]
    fn the_budget_counts_all_frames_together() {
        let frame = Packer::new(1).unwrap().pack(&[7; 600]).unwrap();
        let mut opener = Opener::new(1000).unwrap();
        assert!(opener.open(&frame, 1000).is_ok());
        assert!(matches!(opener.open(&frame, 1000), Err(FrameFault::TooLarge { .. })));
    }

    #[test]
    fn a_second_frame_a_missing_byte_and_a_flipped_bit_are_faults() {
        let frame = Packer::new(1).unwrap().pack(b"some content of a shard").unwrap();
        let mut opener = Opener::new(1000).unwrap();
        let twice = [frame.clone(), frame.clone()].concat();
        assert!(opener.open(&twice, 1000).is_err());
        assert!(opener.open(&frame[..frame.len() - 1], 1000).is_err());
        let mut flipped = frame.clone();
        flipped[frame.len() - 8] ^= 1;
        assert!(opener.open(&flipped, 1000).is_err());
    }
}
