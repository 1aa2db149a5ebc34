//! The raft snapshot on disk: one file, written aside and renamed when complete.
//!
//! Guards: `current` never names a half-written or unverified file; header and content have their
//! own checksums; content is verified before the machine sees a byte of it.
//! Leaves to the machine what the content means, to `compact.rs` when to write.
//!
//! Form: `magic 8 | sealed MetaRecord | content | trailer`, trailer = `content length u64 LE |
//! crc32 of the content u32 LE | magic 8`. Name: `<index, 20 digits>-<term>.raftsnap`.

use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::BufMut;
use mooncake_ha_crash::{Point, reach};

use crate::error::OpenError;
use crate::files::{Appending, Disk, DiskFile, How};
use crate::machine::{ErasedMachine, MachineError, SaveFn};
use crate::record::{self, MetaRecord, RECORD_BYTES_MAX, RecordError, SEAL_BYTES};
use crate::types::{SnapshotMeta, term_of};
use crate::world::World;

const MAGIC: &[u8; 8] = b"RAFTSNP1";
const TRAILER_BYTES: u64 = 20;
const SUFFIX: &str = "raftsnap";
/// Buffer between the machine and the file.
const BUFFER_BYTES: usize = 1 << 20;

/// Why a raft snapshot could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SnapshotError {
    /// The file system refused.
    #[error("raft snapshot {0}: {1}")]
    Io(PathBuf, std::io::Error),
    /// Not what was written.
    #[error("raft snapshot {0}: damaged: {1}")]
    Damaged(PathBuf, String),
    /// The machine does not understand it.
    #[error("raft snapshot {0}: {1}")]
    Machine(PathBuf, MachineError),
}

impl SnapshotError {
    fn io(path: &Path) -> impl Fn(std::io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |e| Self::Io(path.clone(), e)
    }

    fn damaged<T>(path: &Path, detail: impl ToString) -> Result<T, Self> {
        Err(Self::Damaged(path.to_owned(), detail.to_string()))
    }

    pub(crate) fn into_open_error(self) -> OpenError {
        match self {
            Self::Io(path, source) => {
                OpenError::Io { what: "read raft snapshot", path, why: source }
            }
            Self::Damaged(path, detail) => OpenError::damaged("raft snapshot", path, detail),
            Self::Machine(path, e) => OpenError::damaged("raft snapshot", path, e),
        }
    }
}

/// A complete raft snapshot file. The open handle keeps it readable after it was replaced.
#[derive(Debug, Clone)]
pub(crate) struct SnapshotFile {
    pub(crate) path: PathBuf,
    pub(crate) meta: SnapshotMeta,
    /// Bytes of the whole file.
    pub(crate) bytes: u64,
    pub(crate) file: Arc<dyn DiskFile>,
    content_at: u64,
}

impl SnapshotFile {
    /// Opens a file and checks head and trailer, not the content.
    pub(crate) fn open(disk: &dyn Disk, path: &Path) -> Result<Self, SnapshotError> {
        let io = SnapshotError::io(path);
        let file = disk.open(path, How::Read).map_err(&io)?;
        let bytes = file.size().map_err(&io)?;
        let limit = (MAGIC.len() + SEAL_BYTES + RECORD_BYTES_MAX) as u64;
        let start = file.read_start(limit).map_err(&io)?;
        let Some(head) = start.strip_prefix(MAGIC) else {
            return SnapshotError::damaged(path, "it does not begin as one");
        };
        let (meta, rest) = match record::open_prefix::<MetaRecord>(head) {
            Ok((meta, rest)) => (meta, rest.len()),
            Err(e) => return SnapshotError::damaged(path, format!("head: {e}")),
        };
        let content_at = (MAGIC.len() as u64).saturating_add((head.len() - rest) as u64);
        let meta = match SnapshotMeta::try_from(meta) {
            Ok(meta) => meta,
            Err(e) => return SnapshotError::damaged(path, format!("head: {e}")),
        };
        let this = Self { path: path.to_owned(), meta, bytes, file, content_at };
        this.trailer()?;
        Ok(this)
    }

    /// Content length and checksum that the trailer promises; the length is checked.
    fn trailer(&self) -> Result<(u64, u32), SnapshotError> {
        let torn = || SnapshotError::damaged(&self.path, "it ends too early");
        let at = self.bytes.checked_sub(TRAILER_BYTES).filter(|at| *at >= self.content_at);
        let Some(at) = at else { return torn() };
        let mut trailer = [0; TRAILER_BYTES as usize];
        self.file.read_exact_at(&mut trailer, at).map_err(SnapshotError::io(&self.path))?;
        let (length, rest) = trailer.split_at(8);
        let (crc, magic) = rest.split_at(4);
        if magic != MAGIC {
            return torn();
        }
        let length = u64::from_le_bytes(length.try_into().unwrap_or_default());
        let crc = u32::from_le_bytes(crc.try_into().unwrap_or_default());
        if length != at - self.content_at {
            return torn();
        }
        Ok((length, crc))
    }

    /// Checksum of the content, as the trailer promises it.
    pub(crate) fn content_crc(&self) -> Result<u32, SnapshotError> {
        Ok(self.trailer()?.1)
    }

    /// Reads the whole content once and compares its checksum; blocking.
    pub(crate) fn verify(&self) -> Result<(), SnapshotError> {
        let (length, want) = self.trailer()?;
        let mut content = self.content(length);
        let mut hasher = crc32fast::Hasher::new();
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            let read = content.read(&mut buffer).map_err(SnapshotError::io(&self.path))?;
            if read == 0 {
                break;
            }
            hasher.update(buffer.get(..read).unwrap_or_default());
        }
        if hasher.finalize() != want {
            return SnapshotError::damaged(&self.path, "bad checksum of the content");
        }
        Ok(())
    }

    /// Verifies the content, then hands it to the machine; blocking.
    pub(crate) fn load_into(&self, machine: &dyn ErasedMachine) -> Result<(), SnapshotError> {
        self.verify()?;
        let (length, _) = self.trailer()?;
        let mut content = self.content(length);
        machine.load(&mut content).map_err(|e| SnapshotError::Machine(self.path.clone(), e))
    }

    fn content(&self, length: u64) -> impl Read + use<> {
        let file = Arc::clone(&self.file);
        let part = Part { file, at: self.content_at, left: length };
        BufReader::with_capacity(BUFFER_BYTES, part)
    }
}

/// Reads a part of a file without moving the position that all users of the handle share.
struct Part {
    file: Arc<dyn DiskFile>,
    at: u64,
    left: u64,
}

impl Read for Part {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let buffer = buffer.get_mut(..most).unwrap_or_default();
        let read = self.file.read_at(buffer, self.at)?;
        self.at = self.at.saturating_add(read as u64);
        self.left = self.left.saturating_sub(read as u64);
        Ok(read)
    }
}

/// The directory of raft snapshots.
#[derive(Debug, Clone)]
pub(crate) struct SnapshotDir {
    dir: PathBuf,
    pub(crate) world: World,
}

impl SnapshotDir {
    /// Creates the directory and removes what a crash left half-written; blocking.
    pub(crate) fn open(world: World, dir: PathBuf) -> Result<Self, OpenError> {
        let disk = world.disk();
        disk.create_dir_all(&dir).map_err(OpenError::io("create directory", &dir))?;
        for path in disk.list(&dir).map_err(OpenError::io("read directory", &dir))? {
            if path.extension().is_some_and(|e| e == "tmp") {
                disk.remove(&path).map_err(OpenError::io("remove", &path))?;
            }
        }
        Ok(Self { dir, world })
    }

    /// Opens the newest raft snapshot. It was complete before it got its name, so a damaged one
    /// is not skipped for an older one: the log after that is gone. Blocking.
    pub(crate) fn newest(&self) -> Result<Option<SnapshotFile>, SnapshotError> {
        let disk = self.world.disk();
        let mut files = disk.list(&self.dir).map_err(SnapshotError::io(&self.dir))?;
        files.retain(|path| path.extension().is_some_and(|e| e == SUFFIX));
        files.sort();
        files.last().map(|path| SnapshotFile::open(&*disk, path)).transpose()
    }

    /// A path for a file in the making.
    pub(crate) fn temp(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.tmp"))
    }

    /// Writes a frozen state as the current raft snapshot; blocking.
    pub(crate) fn write(
        &self,
        meta: &SnapshotMeta,
        save: SaveFn,
    ) -> Result<SnapshotFile, SnapshotError> {
        let temp = self.temp("writing");
        let disk = self.world.disk();
        let written = write_temp(&*disk, &temp, meta, save).map_err(SnapshotError::io(&temp));
        if let Err(e) = written {
            // Half a file helps nobody and may be what filled the disk.
            let _ = disk.remove(&temp);
            return Err(e);
        }
        self.adopt(&temp)
    }

    /// Makes a complete, synced file the current one and removes older ones; blocking.
    pub(crate) fn adopt(&self, temp: &Path) -> Result<SnapshotFile, SnapshotError> {
        let disk = self.world.disk();
        let meta = SnapshotFile::open(&*disk, temp)?.meta;
        let (index, term) = meta.last_log_id.as_ref().map_or((0, 0), |id| (id.index, term_of(id)));
        let path = self.dir.join(format!("{index:020}-{term}.{SUFFIX}"));
        disk.rename(temp, &path).map_err(SnapshotError::io(temp))?;
        reach(Point::SnapshotRenamed);
        disk.sync_parent(&path).map_err(SnapshotError::io(&path))?;
        reach(Point::SnapshotNamed);
        for old in disk.list(&self.dir).map_err(SnapshotError::io(&self.dir))? {
            if old != path && old.extension().is_some_and(|e| e == SUFFIX) && old < path {
                disk.remove(&old).map_err(SnapshotError::io(&old))?;
                reach(Point::SnapshotOldRemoved);
            }
        }
        SnapshotFile::open(&*disk, &path)
    }

    /// Opens a file that has been received; blocking.
    pub(crate) fn open_file(&self, path: &Path) -> Result<SnapshotFile, SnapshotError> {
        SnapshotFile::open(&*self.world.disk(), path)
    }
}

fn write_temp(
    disk: &dyn Disk,
    temp: &Path,
    meta: &SnapshotMeta,
    save: SaveFn,
) -> std::io::Result<()> {
    let head = record::seal(&MetaRecord::from(meta))
        .map_err(|e: RecordError| std::io::Error::other(e.to_string()))?;
    let to = Appending::new(disk.open(temp, How::Create)?);
    reach(Point::SnapshotBegins);
    let mut file = BufWriter::with_capacity(BUFFER_BYTES, to);
    file.write_all(MAGIC)?;
    file.write_all(&head)?;
    let mut content = Counting { to: &mut file, bytes: 0, hasher: crc32fast::Hasher::new() };
    save(&mut content)?;
    let (length, crc) = (content.bytes, content.hasher.finalize());
    let mut trailer = Vec::new();
    trailer.put_u64_le(length);
    trailer.put_u32_le(crc);
    trailer.extend_from_slice(MAGIC);
    file.write_all(&trailer)?;
    let written = file.into_inner().map_err(std::io::IntoInnerError::into_error)?;
    reach(Point::SnapshotWritten);
    written.file.sync()?;
    reach(Point::SnapshotSynced);
    Ok(())
}

/// Counts and sums what passes through.
struct Counting<'a, W> {
    to: &'a mut W,
    bytes: u64,
    hasher: crc32fast::Hasher,
}

impl<W: Write> Write for Counting<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.hasher.update(bytes.get(..written).unwrap_or_default());
        self.bytes = self.bytes.saturating_add(written as u64);
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests;
