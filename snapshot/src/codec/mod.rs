//! Bytes to values and back: the peer's three payload files and our extension.
//!
//! Works shard by shard; [`Decoder`] and [`SnapshotEncoder`] never hold more than one shard beside
//! their caller's data (and the packed frames). What a whole image must fulfil across shards is
//! `settle`'s concern. Every size found in a file is compared with [`Limits`] before memory is
//! asked for.

mod alloc;
mod compress;
pub mod container;
mod extension;
mod ids;
pub mod manifest;
mod metadata;
mod msgpack;
mod object;
#[doc(hidden)]
pub mod probes;
mod segments;
mod tasks;

use std::borrow::Borrow;

pub use alloc::NODE_ENTRIES_MAX;
pub use compress::LEVEL_DEFAULT;
pub use extension::{EXTENSION_VERSION, SECTION_BYTES_MAX, SECTION_NAME_MAX, SECTIONS_MAX};
pub use metadata::{EncodedShard, RAW_SHARD_BYTES_MAX, ShardEncoder};
pub use object::INSTANT_MS_MAX;
pub use segments::{AllocatorOf, SEGMENTS_BYTES_MAX};
pub use tasks::TASKS_BYTES_MAX;

use crate::error::{SnapshotError, SnapshotFile};
use crate::finding::{Effect, Findings};
use crate::halves::in_halves;
use crate::image::{Globals, Image, ObjectImage};
use compress::{Opener, Packer};
use metadata::{MetadataFile, ShardReader};
use segments::SegmentsReader;

/// What a reader accepts at most. A snapshot beyond it is refused with [`SnapshotError::TooLarge`].
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// One file as stored.
    pub file_bytes_max: u64,
    /// One shard after decompression.
    pub shard_bytes_max: u64,
    /// Everything of one snapshot after decompression, together.
    pub total_bytes_max: u64,
    /// Entries of one node table.
    pub node_entries_max: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            file_bytes_max: 16 << 30,
            shard_bytes_max: RAW_SHARD_BYTES_MAX,
            total_bytes_max: 64 << 30,
            node_entries_max: NODE_ENTRIES_MAX,
        }
    }
}

/// The payload files of one snapshot as bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Payloads {
    /// The file `metadata`.
    pub metadata: Vec<u8>,
    /// The file `segments`.
    pub segments: Vec<u8>,
    /// The file `task_manager`.
    pub task_manager: Vec<u8>,
    /// Our own file; the peer's snapshots have none.
    pub extension: Option<Vec<u8>>,
}

impl Payloads {
    /// The peer's three files in the order in which they are written.
    pub fn files(&self) -> [(SnapshotFile, &[u8]); 3] {
        [
            (SnapshotFile::Metadata, &self.metadata),
            (SnapshotFile::Segments, &self.segments),
            (SnapshotFile::TaskManager, &self.task_manager),
        ]
    }

    /// Checks what was written against what a reader accepts.
    ///
    /// Errors: [`SnapshotError::TooLarge`].
    pub fn require_size(&self, limits: &Limits) -> Result<(), SnapshotError> {
        let files = self.files();
        files.iter().try_for_each(|(file, bytes)| {
            require_size(*file, bytes.len() as u64, limits.file_bytes_max)
        })
    }

    /// About as many bytes as [`crate::write_container`] makes of them, and no fewer.
    pub fn container_bytes(&self) -> usize {
        /// The start of the stream, and the heads and sums of its sections.
        const FRAMING_BYTES: usize = 128;
        usize::try_from(self.total_bytes()).map_or(0, |bytes| bytes.saturating_add(FRAMING_BYTES))
    }

    /// Bytes of all files together.
    pub fn total_bytes(&self) -> u64 {
        let files: usize = self.files().iter().map(|(_, bytes)| bytes.len()).sum();
        (files + self.extension.as_ref().map_or(0, Vec::len)) as u64
    }
}

/// Builds the payloads of a snapshot shard by shard.
///
/// ```
/// use mooncake_ha_snapshot::{Globals, ObjectImage, SnapshotEncoder};
/// let mut encoder = SnapshotEncoder::new()?;
/// encoder.shard(7, std::iter::empty::<&ObjectImage>())?;
/// let payloads = encoder.finish(&Globals::default())?;
/// assert!(payloads.extension.is_none());
/// # Ok::<(), mooncake_ha_snapshot::SnapshotError>(())
/// ```
pub struct SnapshotEncoder {
    level: i32,
    encoder: ShardEncoder,
    shards: Vec<EncodedShard>,
}

impl SnapshotEncoder {
    /// An encoder at [`LEVEL_DEFAULT`].
    ///
    /// Errors: the compression library has no memory.
    pub fn new() -> Result<Self, SnapshotError> {
        Self::with_level(LEVEL_DEFAULT)
    }

    /// An encoder at this zstd level.
    ///
    /// Errors: the compression library refuses the level or has no memory.
    pub fn with_level(level: i32) -> Result<Self, SnapshotError> {
        Ok(SnapshotEncoder { level, encoder: ShardEncoder::new(level)?, shards: Vec::new() })
    }

    /// Adds a shard. Objects come ascending by name; a shard comes once; shards come in any order.
    ///
    /// Errors: see [`ShardEncoder::encode`].
    pub fn shard<O: Borrow<ObjectImage>>(
        &mut self,
        shard: u16,
        objects: impl IntoIterator<Item = O>,
    ) -> Result<(), SnapshotError> {
        let encoded = self.encoder.encode(shard, objects)?;
        self.push(encoded);
        Ok(())
    }

    /// Adds a shard that was encoded elsewhere, for instance on another thread.
    pub fn push(&mut self, shard: EncodedShard) {
        self.shards.push(shard);
    }

    /// Adds everything else and returns the files.
    ///
    /// Errors: a shard was given twice, a record of the extension is too large, or the compression
    /// library failed.
    pub fn finish(self, globals: &Globals) -> Result<Payloads, SnapshotError> {
        self.finish_with(globals, &|_| None)
    }

    /// As [`SnapshotEncoder::finish`]; the allocator of a segment that has none is made when its turn
    /// comes, so that they are not all in memory at once.
    ///
    /// Errors: as there.
    pub fn finish_with(
        self,
        globals: &Globals,
        allocator_of: AllocatorOf<'_>,
    ) -> Result<Payloads, SnapshotError> {
        let io = |file| move |source| SnapshotError::Io { file, source };
        let mut packer = Packer::new(self.level).map_err(io(SnapshotFile::Segments))?;
        let metadata =
            metadata::write_metadata(self.shards, &globals.discarded, globals.replica_next_id)?;
        let segments = segments::write_segments(&globals.segments, &mut packer, allocator_of)
            .map_err(io(SnapshotFile::Segments))?;
        let task_manager = tasks::write_tasks(&globals.tasks, &mut packer)
            .map_err(io(SnapshotFile::TaskManager))?;
        let mut payloads = Payloads { metadata, segments, task_manager, extension: None };
        if let Some(extension) = &globals.extension {
            let bytes = extension::write_extension(extension, &payloads.files())?;
            payloads.extension = Some(bytes);
        }
        Ok(payloads)
    }
}

/// The payloads of a whole image.
///
/// Errors: see [`SnapshotEncoder`].
pub fn encode_image(image: &Image) -> Result<Payloads, SnapshotError> {
    let mut encoder = SnapshotEncoder::new()?;
    for (shard, objects) in &image.shards {
        encoder.shard(*shard, objects)?;
    }
    encoder.finish(&image.globals)
}

/// The payloads of a whole image, its shards encoded on two threads.
///
/// Errors: see [`SnapshotEncoder`].
pub fn encode_image_on_two(image: &Image) -> Result<Payloads, SnapshotError> {
    let encode = |parity: u16| {
        let mut encoder = ShardEncoder::new(LEVEL_DEFAULT)?;
        let own = image.shards.iter().filter(move |(shard, _)| **shard % 2 == parity);
        own.map(|(shard, objects)| encoder.encode(*shard, objects)).collect::<Result<Vec<_>, _>>()
    };
    let (even, odd) = std::thread::scope(|scope| {
        let odd = scope.spawn(|| encode(1));
        (encode(0), odd.join())
    });
    let odd = odd.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    let mut encoder = SnapshotEncoder::new()?;
    even?.into_iter().chain(odd).for_each(|shard| encoder.push(shard));
    encoder.finish(&image.globals)
}

/// Reads payloads shard by shard. Object-level faults become findings; anything else is an error.
pub struct Decoder<'a> {
    shards: std::vec::IntoIter<(u16, &'a [u8])>,
    globals: Globals,
    reader: ShardReader,
    findings: Findings,
}

/// One shard as it was stored.
#[derive(Debug)]
pub struct DecodedShard {
    /// The number under which it was stored. Objects are placed by [`crate::placement`], not by
    /// this.
    pub stored: u16,
    /// Its objects, in file order.
    pub objects: Vec<ObjectImage>,
}

impl<'a> Decoder<'a> {
    /// Reads everything but the objects, and checks the payloads against the extension if there is
    /// one.
    ///
    /// Errors: any fault outside of a single object or task.
    pub fn open(payloads: &'a Payloads, limits: &Limits) -> Result<Self, SnapshotError> {
        let files = payloads.files();
        for (file, bytes) in files {
            require_size(file, bytes.len() as u64, limits.file_bytes_max)?;
        }
        let extension = match &payloads.extension {
            Some(bytes) => Some(extension::read_extension(bytes, &files)?),
            None => None,
        };
        let mut findings = Findings::default();
        let mut opener = Opener::new(limits.total_bytes_max)
            .map_err(|source| SnapshotError::Io { file: SnapshotFile::Segments, source })?;
        let node_entries_max = limits.node_entries_max;
        let segments =
            SegmentsReader { opener: &mut opener, node_entries_max }.read(&payloads.segments)?;
        let metadata = MetadataFile::open(&payloads.metadata)?;
        if metadata.trailing_bytes > 0 {
            let what = format!("{} bytes after the end of the data", metadata.trailing_bytes);
            findings.note(SnapshotFile::Metadata, Effect::Accepted, what);
        }
        let tasks = tasks::read_tasks(&payloads.task_manager, &mut opener, &mut findings)?;
        let globals = Globals {
            segments,
            tasks,
            discarded: metadata.discarded,
            replica_next_id: metadata.replica_next_id,
            extension,
        };
        Ok(Decoder {
            shards: metadata.shards.into_iter(),
            globals,
            reader: ShardReader::new(opener, limits.shard_bytes_max),
            findings,
        })
    }

    /// Everything but the objects.
    pub fn globals(&self) -> &Globals {
        &self.globals
    }

    /// Everything but the objects, to look at while these are read; to be put back.
    pub(crate) fn take_globals(&mut self) -> Globals {
        std::mem::take(&mut self.globals)
    }

    /// Puts back what was taken.
    pub(crate) fn put_globals(&mut self, globals: Globals) {
        self.globals = globals;
    }

    /// What was found so far.
    pub fn findings(&self) -> &Findings {
        &self.findings
    }

    /// The next shard, or `None` after the last.
    ///
    /// Errors: the shard as a whole cannot be read.
    pub fn next_shard(&mut self) -> Result<Option<DecodedShard>, SnapshotError> {
        let Some((stored, frame)) = self.shards.next() else { return Ok(None) };
        let objects = self.reader.read(stored, frame, &mut self.findings)?;
        Ok(Some(DecodedShard { stored, objects }))
    }

    /// Reads all shards that are left, on two threads: each makes its own result with `new` and adds
    /// its shards with `add`. Answers the results in file order.
    ///
    /// Errors: as [`Decoder::next_shard`], of the first shard that cannot be read.
    pub(crate) fn fold_shards<W: Send>(
        &mut self,
        new: impl Fn() -> W + Sync,
        add: impl Fn(&mut W, DecodedShard) + Sync,
    ) -> Result<Vec<W>, SnapshotError> {
        let shards: Vec<_> = self.shards.by_ref().collect();
        // Without that, which shard exceeds the budget would depend on the threads.
        if !self.reader.has_budget_for(&shards) {
            self.shards = shards.into_iter();
            let mut all = new();
            while let Some(shard) = self.next_shard()? {
                add(&mut all, shard);
            }
            return Ok(vec![all]);
        }
        let twin = self.reader.twin();
        let read = |shards: Vec<(u16, &[u8])>| {
            let (mut reader, mut findings) = (twin()?, Findings::default());
            let mut own = new();
            for (stored, frame) in shards {
                let objects = reader.read(stored, frame, &mut findings)?;
                add(&mut own, DecodedShard { stored, objects });
            }
            Ok::<_, SnapshotError>((own, findings))
        };
        let mut results = Vec::new();
        for half in in_halves(shards, |(_, frame)| frame.len() as u64, read) {
            let (own, findings) = half?;
            self.findings.append(findings);
            results.push(own);
        }
        Ok(results)
    }

    /// Everything but the objects, and what was found.
    pub fn finish(self) -> (Globals, Findings) {
        (self.globals, self.findings)
    }
}

/// Reads payloads of which nothing may be left out, as a node's own state must be; hands on shard
/// by shard.
///
/// Errors: anything that [`Decoder`] finds, findings that cost an object or task included, and what
/// `on_shard` returns.
pub fn decode_exact<E: From<SnapshotError>>(
    payloads: &Payloads,
    limits: &Limits,
    mut on_shard: impl FnMut(DecodedShard) -> Result<(), E>,
) -> Result<Globals, E> {
    let mut decoder = Decoder::open(payloads, limits)?;
    while let Some(shard) = decoder.next_shard()? {
        refuse_losses(&decoder.findings)?;
        on_shard(shard)?;
    }
    refuse_losses(&decoder.findings)?;
    Ok(decoder.globals)
}

fn refuse_losses(findings: &Findings) -> Result<(), SnapshotError> {
    match findings.list.iter().find(|finding| finding.effect > Effect::Repaired) {
        Some(finding) => Err(SnapshotError::damaged(finding.file, "the file", finding)),
        None => Ok(()),
    }
}

pub(crate) fn require_size(
    file: SnapshotFile,
    bytes: u64,
    limit: u64,
) -> Result<(), SnapshotError> {
    if bytes <= limit {
        return Ok(());
    }
    let place = "the file".to_string();
    Err(SnapshotError::TooLarge { file, place, bytes, limit })
}
