//! The few things that are done with files, as a trait: what is written, renamed and synced.
//!
//! Guards: every write that must survive goes through here, so a simulation can lose, tear or
//! refuse each of them. Leaves to the callers order and meaning; the log has files of its own.

use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mooncake_ha_crash::{Point, tear};

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// To be read; it must exist.
    Read,
    /// To be read and written; made if missing.
    Update,
    /// To be written from its start; what was there is gone.
    Create,
}

/// An open file; all positions are explicit.
pub trait DiskFile: Debug + Send + Sync {
    /// Bytes in it.
    ///
    /// # Errors
    /// Those of the file system, as for all methods here.
    fn size(&self) -> io::Result<u64>;
    /// Reads some bytes at a position; 0 at the end.
    ///
    /// # Errors
    /// See [`DiskFile::size`].
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize>;
    /// Writes all bytes at a position.
    ///
    /// # Errors
    /// See [`DiskFile::size`].
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()>;
    /// Makes everything written to it durable.
    ///
    /// # Errors
    /// See [`DiskFile::size`].
    fn sync(&self) -> io::Result<()>;
}

impl dyn DiskFile {
    /// Fills the buffer from a position on.
    pub(crate) fn read_exact_at(&self, mut buffer: &mut [u8], mut at: u64) -> io::Result<()> {
        while !buffer.is_empty() {
            let read = self.read_at(buffer, at)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            at = at.saturating_add(read as u64);
            buffer = buffer.get_mut(read..).unwrap_or_default();
        }
        Ok(())
    }

    /// Reads up to `max` bytes from the start.
    pub(crate) fn read_start(&self, max: u64) -> io::Result<Vec<u8>> {
        let size = usize::try_from(self.size()?.min(max)).unwrap_or(usize::MAX);
        let mut bytes = vec![0; size];
        self.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    }
}

/// A file system, as far as a node needs one.
pub trait Disk: Send + Sync {
    /// Makes a directory and those above it.
    ///
    /// # Errors
    /// Those of the file system, as for all methods here.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;
    /// Whether there is such a file or directory.
    fn exists(&self, path: &Path) -> bool;
    /// What is in a directory, in any order.
    ///
    /// # Errors
    /// See [`Disk::create_dir_all`].
    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>>;
    /// Opens a file.
    ///
    /// # Errors
    /// See [`Disk::create_dir_all`].
    fn open(&self, path: &Path, how: How) -> io::Result<Arc<dyn DiskFile>>;
    /// Gives a file another name, in the place of who has it.
    ///
    /// # Errors
    /// See [`Disk::create_dir_all`].
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    ///
    /// # Errors
    /// See [`Disk::create_dir_all`].
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in the directory of `path` durable.
    ///
    /// # Errors
    /// See [`Disk::create_dir_all`].
    fn sync_parent(&self, path: &Path) -> io::Result<()>;
}

/// The operating system's.
pub(crate) struct Machine;

impl DiskFile for File {
    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        FileExt::read_at(self, buffer, at)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.write_all_at(bytes, at)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_all()
    }
}

impl Disk for Machine {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        std::fs::create_dir_all(dir)
    }

    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        std::fs::read_dir(dir)?.map(|entry| entry.map(|entry| entry.path())).collect()
    }

    fn open(&self, path: &Path, how: How) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true);
        if how != How::Read {
            options.write(true).create(true).truncate(how == How::Create);
        }
        Ok(Arc::new(options.open(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn sync_parent(&self, path: &Path) -> io::Result<()> {
        crate::dir::sync_parent(path)
    }
}

/// Writes a small file so that a crash leaves the old one or the new one.
pub(crate) fn write_file(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temp = path.with_extension("tmp");
    let file = disk.open(&temp, How::Create)?;
    file.write_at(bytes, 0)?;
    file.sync()?;
    disk.rename(&temp, path)?;
    disk.sync_parent(path)
}

/// Bytes of a file that are written before they are synced. The log's sync waits for all that is
/// under way to the device, so that must be little.
const SYNC_STEP_BYTES: usize = 1 << 20;

/// Writes one file from its start to its end, and syncs it on the way, but for its end.
pub(crate) struct Appending {
    pub(crate) file: Arc<dyn DiskFile>,
    at: u64,
    unsynced: usize,
}

impl Appending {
    pub(crate) fn new(file: Arc<dyn DiskFile>) -> Self {
        Self { file, at: 0, unsynced: 0 }
    }
}

impl io::Write for Appending {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        tear(Point::SnapshotTorn, bytes, |half| self.file.write_at(half, self.at));
        let most = SYNC_STEP_BYTES.saturating_sub(self.unsynced).min(bytes.len());
        self.file.write_at(bytes.get(..most).unwrap_or_default(), self.at)?;
        self.at = self.at.saturating_add(most as u64);
        self.unsynced = self.unsynced.saturating_add(most);
        if self.unsynced >= SYNC_STEP_BYTES {
            self.file.sync()?;
            self.unsynced = 0;
        }
        Ok(most)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use parking_lot::Mutex;

    use super::*;

    /// Knows how much was written between two syncs at most.
    #[derive(Debug, Default)]
    struct Watched {
        bytes: Mutex<Vec<u8>>,
        unsynced: AtomicUsize,
        most: AtomicUsize,
    }

    impl DiskFile for Watched {
        fn size(&self) -> io::Result<u64> {
            Ok(self.bytes.lock().len() as u64)
        }

        fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
            Ok(0)
        }

        fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
            let mut content = self.bytes.lock();
            assert_eq!(content.len() as u64, at, "it has holes");
            content.extend_from_slice(bytes);
            let unsynced = self.unsynced.fetch_add(bytes.len(), Ordering::Relaxed) + bytes.len();
            self.most.fetch_max(unsynced, Ordering::Relaxed);
            Ok(())
        }

        fn sync(&self) -> io::Result<()> {
            self.unsynced.store(0, Ordering::Relaxed);
            Ok(())
        }
    }

    #[test]
    fn a_large_file_never_has_more_than_a_step_under_way_to_the_device() {
        let file = Arc::new(Watched::default());
        let mut to = Appending::new(Arc::clone(&file) as Arc<dyn DiskFile>);
        let content: Vec<u8> = (0..3 * SYNC_STEP_BYTES + 7).map(|at| at as u8).collect();
        let (small, large) = content.split_at(11);
        to.write_all(small).unwrap();
        to.write_all(large).unwrap();
        assert!(*file.bytes.lock() == content, "it differs");
        assert_eq!(file.most.load(Ordering::Relaxed), SYNC_STEP_BYTES);
        assert_eq!(file.unsynced.load(Ordering::Relaxed), 7, "the end is the caller's");
    }
}
