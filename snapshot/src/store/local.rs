//! A directory as an object store.
//!
//! Every file is written beside its final name, fsynced, renamed, and its directory fsynced, so a
//! crash leaves the old file, the new one, or a leftover that no listing shows. Keys cannot lead
//! out of the root, not even through symbolic links.

use std::fs::{self, DirEntry, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::UNIX_EPOCH;

use mooncake_ha_crash::{Point, reach, tear};

use super::{LISTED_KEYS_MAX, ObjectStore, StoreError, parts};

/// What the name of an unfinished file starts with.
const UNFINISHED_PREFIX: &str = ".unfinished-";
/// Bytes that are written before they are synced. Who syncs another file of the device, as the raft log does with
/// every entry, waits for all that is under way there, so that must be little.
const SYNC_STEP_BYTES: usize = 1 << 20;
/// Greatest depth of directories below the root that a listing follows.
const DEPTH_MAX: usize = 16;

/// Files below one directory.
#[derive(Debug)]
pub struct LocalStore {
    root: PathBuf,
    next_unfinished: AtomicU64,
}

impl LocalStore {
    /// A store in this directory, which is made if it is not there.
    ///
    /// Errors: the directory cannot be made or read.
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        fs::create_dir_all(root).map_err(io_at(root))?;
        Self::open_existing(root)
    }

    /// A store in this directory, which must exist.
    ///
    /// Errors: there is no such directory.
    pub fn open_existing(root: &Path) -> Result<Self, StoreError> {
        let root = root.canonicalize().map_err(io_at(root))?;
        if !root.is_dir() {
            let source = io::Error::from(io::ErrorKind::NotADirectory);
            return Err(StoreError::Io { path: root, source });
        }
        Ok(LocalStore { root, next_unfinished: AtomicU64::new(0) })
    }

    /// The directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The path of a key.
    fn path(&self, key: &str) -> Result<PathBuf, StoreError> {
        Ok(parts(key)?.iter().fold(self.root.clone(), |path, name| path.join(name)))
    }

    /// The path, resolved, if it exists and lies below the root.
    fn resolved(&self, key: &str) -> Result<PathBuf, StoreError> {
        let path = self.path(key)?;
        let resolved = path.canonicalize().map_err(|source| missing_or_io(key, &path, source))?;
        if resolved.starts_with(&self.root) && resolved != self.root {
            Ok(resolved)
        } else {
            Err(StoreError::BadKey { key: key.to_string() })
        }
    }

    /// Makes the directories above a key, durably, and returns the lowest.
    fn prepare(&self, key: &str) -> Result<PathBuf, StoreError> {
        let names = parts(key)?;
        let above = names.split_last().map(|(_, above)| above).unwrap_or_default();
        let mut path = self.root.clone();
        for name in above {
            let parent = path.clone();
            path.push(name);
            match fs::create_dir(&path) {
                Ok(()) => sync_directory(&parent)?,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(source) => return Err(StoreError::Io { path, source }),
            }
        }
        let resolved = path.canonicalize().map_err(io_at(&path))?;
        if resolved.starts_with(&self.root) {
            Ok(resolved)
        } else {
            Err(StoreError::BadKey { key: key.to_string() })
        }
    }

    fn write_unfinished(&self, directory: &Path, bytes: &[u8]) -> Result<PathBuf, StoreError> {
        let number = self.next_unfinished.fetch_add(1, Ordering::Relaxed);
        let name = format!("{UNFINISHED_PREFIX}{}-{number}", std::process::id());
        let path = directory.join(name);
        let write = || -> io::Result<()> {
            let mut file =
                OpenOptions::new().write(true).create(true).truncate(true).open(&path)?;
            reach(Point::CatalogBegins);
            tear(Point::CatalogTorn, bytes, |half| file.write_all(half));
            for step in bytes.chunks(SYNC_STEP_BYTES) {
                file.write_all(step)?;
                file.sync_data()?;
            }
            reach(Point::CatalogWritten);
            file.sync_all()
        };
        match write() {
            Ok(()) => Ok(path),
            Err(source) => {
                // Best effort: a listing does not show the leftover either way.
                let _ = fs::remove_file(&path);
                Err(StoreError::Io { path, source })
            }
        }
    }

    /// The key of a path below the root; `None` for leftovers and names that are no keys.
    fn key_of(&self, path: &Path) -> Option<String> {
        let key = path.strip_prefix(&self.root).ok()?.to_str()?;
        let name = path.file_name()?.to_str()?;
        (!name.starts_with(UNFINISHED_PREFIX)).then(|| key.to_string())
    }
}

impl ObjectStore for LocalStore {
    fn put(&self, key: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let path = self.path(key)?;
        let directory = self.prepare(key)?;
        let unfinished = self.write_unfinished(&directory, bytes)?;
        reach(Point::CatalogSynced);
        if let Err(source) = fs::rename(&unfinished, &path) {
            // Best effort, as above.
            let _ = fs::remove_file(&unfinished);
            return Err(StoreError::Io { path, source });
        }
        reach(Point::CatalogRenamed);
        sync_directory(&directory)?;
        reach(Point::CatalogNamed);
        Ok(())
    }

    fn get(&self, key: &str, limit: u64) -> Result<Vec<u8>, StoreError> {
        let path = self.resolved(key)?;
        let file = File::open(&path).map_err(|source| missing_or_io(key, &path, source))?;
        let bytes = file.metadata().map_err(io_at(&path))?.len();
        let too_large = |bytes: u64| StoreError::TooLarge { key: key.to_string(), bytes, limit };
        if bytes > limit {
            return Err(too_large(bytes));
        }
        // With one byte to spare, so that the end is found without growing.
        let mut content = Vec::with_capacity(usize::try_from(bytes + 1).unwrap_or_default());
        // One byte more than allowed tells a file that grew meanwhile.
        let read = file.take(limit.saturating_add(1)).read_to_end(&mut content);
        read.map_err(io_at(&path))?;
        if content.len() as u64 > limit {
            return Err(too_large(content.len() as u64));
        }
        Ok(content)
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        let start = match prefix {
            "" => self.root.clone(),
            prefix => match self.resolved(prefix) {
                Ok(path) => path,
                Err(error) if error.is_not_found() => return Ok(Vec::new()),
                Err(error) => return Err(error),
            },
        };
        let mut keys = Vec::new();
        if start.is_dir() {
            each_file(&start, 0, &mut |file| {
                keys.extend(self.key_of(&file.path()));
                match keys.len() > LISTED_KEYS_MAX {
                    true => Err(StoreError::TooMany { prefix: prefix.to_string() }),
                    false => Ok(()),
                }
            })?;
        }
        keys.sort();
        Ok(keys)
    }

    fn delete(&self, key: &str) -> Result<(), StoreError> {
        let path = match self.resolved(key) {
            Ok(path) => path,
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) => return Err(error),
        };
        fs::remove_file(&path).map_err(io_at(&path))?;
        path.parent().map_or(Ok(()), sync_directory)
    }

    fn delete_prefix(&self, prefix: &str) -> Result<(), StoreError> {
        let path = match self.resolved(prefix) {
            Ok(path) => path,
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) => return Err(error),
        };
        fs::remove_dir_all(&path).map_err(io_at(&path))?;
        reach(Point::CatalogDeleted);
        path.parent().map_or(Ok(()), sync_directory)
    }

    fn sweep(&self, prefix: &str, before_ms: u64) -> Result<(), StoreError> {
        match self.resolved(prefix) {
            Ok(path) => each_file(&path, 0, &mut |file| remove_leftover(file, before_ms)),
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Visits every file below a directory; what is neither file nor directory is passed over.
fn each_file(
    at: &Path,
    depth: usize,
    visit: &mut dyn FnMut(&DirEntry) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    if depth > DEPTH_MAX {
        return Ok(());
    }
    for entry in fs::read_dir(at).map_err(io_at(at))? {
        let entry = entry.map_err(io_at(at))?;
        let kind = entry.file_type().map_err(io_at(at))?;
        if kind.is_dir() {
            each_file(&entry.path(), depth + 1, visit)?;
        } else if kind.is_file() {
            visit(&entry)?;
        }
    }
    Ok(())
}

/// Removes a file if it is what an interrupted write left, last written before the instant.
fn remove_leftover(file: &DirEntry, before_ms: u64) -> Result<(), StoreError> {
    if !file.file_name().to_string_lossy().starts_with(UNFINISHED_PREFIX) {
        return Ok(());
    }
    // One that is gone meanwhile was finished by its writer.
    let Ok(about) = file.metadata() else { return Ok(()) };
    let written = about.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    let path = file.path();
    match written.is_some_and(|at| at.as_millis() < u128::from(before_ms)) {
        true => fs::remove_file(&path).map_err(io_at(&path)),
        false => Ok(()),
    }
}

fn sync_directory(path: &Path) -> Result<(), StoreError> {
    File::open(path).and_then(|directory| directory.sync_all()).map_err(io_at(path))
}

fn io_at(path: &Path) -> impl FnOnce(io::Error) -> StoreError + use<'_> {
    move |source| StoreError::Io { path: path.to_path_buf(), source }
}

fn missing_or_io(key: &str, path: &Path, source: io::Error) -> StoreError {
    match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            StoreError::NotFound { key: key.to_string() }
        }
        _ => StoreError::Io { path: path.to_path_buf(), source },
    }
}
