//! The data directory: who may use it, and whose it is.
//!
//! Guards: one process a directory (`LOCK`), one cluster and one node a directory (`identity`);
//! whoever does not fit is refused before a byte is changed. Leaves to `log` and `snapshot_file`
//! what is inside.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::error::OpenError;
use crate::files::{Disk, How, write_file};
use crate::record::{self, RecordError};
use crate::types::NodeId;

/// Format of the directory that this program writes, and the newest it reads.
pub(crate) const FORMAT: u32 = 1;
/// Largest identity file read; the real one is about 300 bytes at most.
const IDENTITY_BYTES_MAX: u64 = 4096;

/// Whose directory it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub(crate) format: u32,
    pub(crate) cluster_id: String,
    pub(crate) node_id: NodeId,
    /// Drawn when the directory was made: a node that lost its disk comes back with another one,
    /// and peers refuse it, for it forgot its votes.
    pub(crate) incarnation: u64,
}

/// A directory that this process may use until it is dropped.
pub(crate) struct DataDir {
    root: PathBuf,
    pub(crate) identity: Identity,
    /// The lock lives as long as this file is open. A simulated directory has one user.
    _lock: Option<File>,
}

impl DataDir {
    /// Locks the directory and checks or writes its identity.
    pub(crate) fn open(config: &Config) -> Result<Self, OpenError> {
        let root = config.data_dir.clone();
        let disk = config.world.disk();
        disk.create_dir_all(&root).map_err(OpenError::io("create data directory", &root))?;
        // Before locking: a directory that is not ours is not even touched by a lock.
        check(read_identity(&*disk, &root)?, config)?;
        let is_machine = config.world.simulation().is_none();
        let lock = if is_machine { Some(lock(&root)?) } else { None };
        let identity = match check(read_identity(&*disk, &root)?, config)? {
            Some(identity) => identity,
            None => create_identity(&*disk, &root, config)?,
        };
        Ok(Self { root, identity, _lock: lock })
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.root.join("log")
    }

    pub(crate) fn mark(&self) -> PathBuf {
        self.root.join("mark")
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.root.join("journal")
    }

    pub(crate) fn snapshot(&self) -> PathBuf {
        self.root.join("snapshot")
    }

    pub(crate) fn peers_file(&self) -> PathBuf {
        self.root.join("peers")
    }
}

fn lock(root: &Path) -> Result<File, OpenError> {
    let path = root.join("LOCK");
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(OpenError::io("open for writing", &path))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut pid = String::new();
            let known = (&file).take(20).read_to_string(&mut pid).is_ok() && !pid.is_empty();
            let pid = pid.trim();
            let holder =
                if known { format!("process {pid}") } else { "another process".to_owned() };
            return Err(OpenError::InUse { dir: root.to_owned(), holder });
        }
        Err(TryLockError::Error(source)) => {
            return Err(OpenError::Io { what: "lock", path, why: source });
        }
    }
    // The number only serves the message above, so failing to write it is worth no refusal
    // unless the disk cannot be written at all, which the next write would tell as well.
    file.set_len(0)
        .and_then(|()| file.write_all(format!("{}\n", std::process::id()).as_bytes()))
        .map_err(OpenError::io("write", &path))?;
    Ok(file)
}

fn read_identity(disk: &dyn Disk, root: &Path) -> Result<Option<Identity>, OpenError> {
    let path = root.join("identity");
    let file = match disk.open(&path, How::Read) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            for part in ["log", "snapshot"] {
                if disk.exists(&root.join(part)) {
                    let detail = format!("the file is missing although {part}/ exists");
                    return Err(OpenError::damaged("identity", path, detail));
                }
            }
            return Ok(None);
        }
        Err(source) => return Err(OpenError::Io { what: "open", path, why: source }),
    };
    let bytes = file.read_start(IDENTITY_BYTES_MAX).map_err(OpenError::io("read", &path))?;
    match record::open::<Identity>(&bytes) {
        Ok(identity) if identity.format > FORMAT => Err(OpenError::NewerFormat {
            dir: root.to_owned(),
            found: identity.format,
            known: FORMAT,
        }),
        Ok(identity) => Ok(Some(identity)),
        Err(RecordError::Version(version)) => Err(OpenError::NewerFormat {
            dir: root.to_owned(),
            found: u32::from(version),
            known: FORMAT,
        }),
        Err(e) => Err(OpenError::damaged("identity", path, e)),
    }
}

fn check(found: Option<Identity>, config: &Config) -> Result<Option<Identity>, OpenError> {
    let Some(identity) = found else { return Ok(None) };
    if identity.cluster_id != config.cluster_id {
        return Err(OpenError::WrongCluster {
            dir: config.data_dir.clone(),
            found: identity.cluster_id,
            wanted: config.cluster_id.clone(),
        });
    }
    if identity.node_id != config.node_id {
        return Err(OpenError::WrongNode {
            dir: config.data_dir.clone(),
            found: identity.node_id,
            wanted: config.node_id,
        });
    }
    Ok(Some(identity))
}

fn create_identity(disk: &dyn Disk, root: &Path, config: &Config) -> Result<Identity, OpenError> {
    let identity = Identity {
        format: FORMAT,
        cluster_id: config.cluster_id.clone(),
        node_id: config.node_id,
        incarnation: rand::random(),
    };
    let path = root.join("identity");
    let bytes = record::seal(&identity).map_err(|e| OpenError::damaged("identity", &path, e))?;
    write_file(disk, &path, &bytes).map_err(OpenError::io("write", &path))?;
    Ok(identity)
}

/// Makes a rename or a new file in the parent directory of `path` durable.
pub(crate) fn sync_parent(path: &Path) -> std::io::Result<()> {
    match path.parent() {
        Some(parent) => File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(dir: &Path) -> Config {
        Config::new(1, "one", dir)
    }

    #[test]
    fn a_directory_keeps_its_identity() {
        let dir = tempfile::tempdir().unwrap();
        let first = DataDir::open(&config(dir.path())).unwrap().identity.clone();
        let second = DataDir::open(&config(dir.path())).unwrap().identity.clone();
        assert_eq!(first, second);
    }

    #[test]
    fn a_second_user_is_refused_with_the_pid_of_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let _held = DataDir::open(&config(dir.path())).unwrap();
        let error = DataDir::open(&config(dir.path())).err().unwrap().to_string();
        assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
    }

    #[test]
    fn another_cluster_or_node_is_refused_and_nothing_is_touched() {
        let dir = tempfile::tempdir().unwrap();
        drop(DataDir::open(&config(dir.path())).unwrap());
        let before = std::fs::read(dir.path().join("identity")).unwrap();
        std::fs::remove_file(dir.path().join("LOCK")).unwrap();
        let other = Config::new(1, "two", dir.path());
        assert!(matches!(DataDir::open(&other), Err(OpenError::WrongCluster { .. })));
        let other = Config::new(2, "one", dir.path());
        assert!(matches!(DataDir::open(&other), Err(OpenError::WrongNode { .. })));
        assert_eq!(std::fs::read(dir.path().join("identity")).unwrap(), before);
        assert!(!dir.path().join("LOCK").exists());
    }

    #[test]
    fn a_newer_format_and_a_flipped_bit_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        drop(DataDir::open(&config(dir.path())).unwrap());
        let path = dir.path().join("identity");
        let good = std::fs::read(&path).unwrap();
        let newer =
            Identity { format: FORMAT + 1, cluster_id: "one".into(), node_id: 1, incarnation: 0 };
        std::fs::write(&path, record::seal(&newer).unwrap()).unwrap();
        assert!(matches!(DataDir::open(&config(dir.path())), Err(OpenError::NewerFormat { .. })));
        let mut bad = good.clone();
        *bad.last_mut().unwrap() ^= 1;
        std::fs::write(&path, &bad).unwrap();
        assert!(matches!(DataDir::open(&config(dir.path())), Err(OpenError::Damaged { .. })));
        assert_eq!(std::fs::read(&path).unwrap(), bad);
    }

    #[test]
    fn a_missing_identity_beside_data_is_damage() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("log")).unwrap();
        assert!(matches!(DataDir::open(&config(dir.path())), Err(OpenError::Damaged { .. })));
    }
}
