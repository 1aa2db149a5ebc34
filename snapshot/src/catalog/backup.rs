//! The peer's backup directory (snapshot format 2.6): what could not be stored, and what was fetched.
//!
//! One set of files only; each failure and each candidate overwrites the one before, as at the peer.
//! Guards that a backup that fails is told and changes nothing else.

use std::path::PathBuf;

use crate::error::SnapshotFile;
use crate::store::{LocalStore, ObjectStore, StoreError};

/// Where files go that the store did not take.
pub const UNSAVED_DIRECTORY: &str = "mooncake_snapshot_save_backup";
/// Where files go that were fetched for a restore.
pub const FETCHED_DIRECTORY: &str = "mooncake_snapshot_restore_backup";

/// The directory.
#[derive(Debug)]
pub(super) struct Backup {
    dir: PathBuf,
}

impl Backup {
    pub fn new(dir: PathBuf) -> Self {
        Backup { dir }
    }

    /// Keeps a file that the store did not take.
    pub fn unsaved(&self, file: SnapshotFile, bytes: &[u8], error: &StoreError) {
        if self.keep(UNSAVED_DIRECTORY, file, bytes) {
            let at = self.dir.join(UNSAVED_DIRECTORY).join(file.file_name());
            tracing::warn!(%error, "{file} was not stored; it is kept as {}", at.display());
        }
    }

    /// Keeps a file that was fetched for a restore.
    pub fn fetched(&self, file: SnapshotFile, bytes: &[u8]) {
        self.keep(FETCHED_DIRECTORY, file, bytes);
    }

    fn keep(&self, directory: &str, file: SnapshotFile, bytes: &[u8]) -> bool {
        let key = format!("{directory}/{file}");
        let kept = LocalStore::open(&self.dir).and_then(|store| store.put(&key, bytes));
        if let Err(error) = &kept {
            tracing::warn!(%error, "{file} could not be kept in snapshot_backup_dir");
        }
        kept.is_ok()
    }
}
