//! A low-water mark beside the log: how far it must reach at least.
//!
//! Guards: damage at the end of the log. sled cannot tell a damaged last record from one that was
//! never finished, and drops either; entries that were acknowledged would vanish silently. The
//! mark is written after each disk sync of the log, without one of its own, so whatever survives
//! of it is never ahead of the log. Before a truncation it is lowered and synced.
//! Leaves to `mod.rs` the comparison.
//!
//! Form: a sealed record of `next index u64 | term of the vote u64` at the start of the file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use mooncake_ha_crash::syncing;
use serde::{Deserialize, Serialize};

use crate::error::OpenError;
use crate::files::{Disk, DiskFile, How};
use crate::record::{self, SEAL_BYTES};

/// What the log must hold at least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Least {
    /// Index after the newest entry.
    pub(crate) next: u64,
    /// Term of the newest vote.
    pub(crate) term: u64,
}

/// Bytes of the sealed record.
const MARK_BYTES: usize = SEAL_BYTES + 16;

/// The open file.
pub(crate) struct Mark {
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    least: Least,
}

impl Mark {
    /// Opens or creates the file. A mark that cannot be read is no mark: it says nothing, and a
    /// crash may leave it so.
    pub(crate) fn open(disk: &dyn Disk, path: &Path) -> Result<Self, OpenError> {
        let fresh = !disk.exists(path);
        let file = disk.open(path, How::Update).map_err(OpenError::io("open", path))?;
        if fresh {
            disk.sync_parent(path).map_err(OpenError::io("sync directory of", path))?;
        }
        let mut bytes = [0; MARK_BYTES];
        let least = match file.read_exact_at(&mut bytes, 0) {
            Ok(()) => record::open(&bytes).unwrap_or_default(),
            Err(_) => Least::default(),
        };
        Ok(Self { path: path.to_owned(), file, least })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn least(&self) -> Least {
        self.least
    }

    /// Raises the mark to what was just synced.
    pub(crate) fn raise(&mut self, to: Least) -> std::io::Result<()> {
        if to == self.least {
            return Ok(());
        }
        self.write(to)
    }

    /// Lowers the mark durably, before entries from `next` on are taken back.
    pub(crate) fn lower(&mut self, next: u64) -> std::io::Result<()> {
        if self.least.next <= next {
            return Ok(());
        }
        self.write(Least { next, ..self.least })?;
        syncing(&self.path, || self.file.sync())
    }

    fn write(&mut self, to: Least) -> std::io::Result<()> {
        let bytes = record::seal(&to).map_err(|e| std::io::Error::other(e.to_string()))?;
        self.file.write_at(&bytes, 0)?;
        self.least = to;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Machine;

    #[test]
    fn a_mark_is_found_again_and_a_damaged_one_says_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mark");
        let mut mark = Mark::open(&Machine, &path).unwrap();
        assert_eq!(mark.least(), Least::default());
        mark.raise(Least { next: 9, term: 3 }).unwrap();
        mark.lower(7).unwrap();
        mark.lower(8).unwrap();
        assert_eq!(Mark::open(&Machine, &path).unwrap().least(), Least { next: 7, term: 3 });
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[12] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(Mark::open(&Machine, &path).unwrap().least(), Least::default());
    }
}
