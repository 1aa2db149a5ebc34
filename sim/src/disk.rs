//! A file system in memory that knows what a power cut would leave.
//!
//! Guards: synced bytes survive; of later writes to a file a part without holes does, the last of
//! it torn; names survive in the order in which they were given. Leaves to `node.rs` when.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mooncake_ha_raft::{Disk, DiskFile, How};
use parking_lot::Mutex;
use rand::Rng;
use rand::rngs::SmallRng;

/// A write that is not on the disk yet.
#[derive(Debug, Clone)]
struct Unsynced {
    at: usize,
    bytes: Vec<u8>,
}

#[derive(Debug, Default)]
struct Content {
    now: Vec<u8>,
    safe: Vec<u8>,
    unsynced: Vec<Unsynced>,
}

#[derive(Debug)]
struct File {
    content: Mutex<Content>,
    shared: Arc<Faults>,
}

/// What goes wrong.
#[derive(Debug, Default)]
struct Faults(Mutex<(bool, bool)>);

impl Faults {
    fn writing(&self) -> io::Result<()> {
        match self.0.lock().0 {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => Ok(()),
        }
    }

    fn reading(&self) -> io::Result<()> {
        match self.0.lock().1 {
            true => Err(io::Error::other("the disk answers with an error")),
            false => Ok(()),
        }
    }
}

fn put(bytes: &mut Vec<u8>, at: usize, written: &[u8]) {
    let end = at.saturating_add(written.len());
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    if let Some(place) = bytes.get_mut(at..end) {
        place.copy_from_slice(written);
    }
}

impl DiskFile for File {
    fn size(&self) -> io::Result<u64> {
        Ok(self.content.lock().now.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        self.shared.reading()?;
        let content = self.content.lock();
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        let rest = content.now.get(at..).unwrap_or_default();
        let read = rest.len().min(buffer.len());
        buffer.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        Ok(read)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.shared.writing()?;
        let at = usize::try_from(at).map_err(io::Error::other)?;
        let mut content = self.content.lock();
        put(&mut content.now, at, bytes);
        content.unsynced.push(Unsynced { at, bytes: bytes.to_vec() });
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.shared.writing()?;
        let mut content = self.content.lock();
        let unsynced = std::mem::take(&mut content.unsynced);
        unsynced.iter().for_each(|write| put(&mut content.safe, write.at, &write.bytes));
        Ok(())
    }
}

impl File {
    /// What a power cut leaves of it.
    fn lose(&self, dice: &mut SmallRng) {
        let mut content = self.content.lock();
        let unsynced = std::mem::take(&mut content.unsynced);
        let kept = dice.random_range(0..=unsynced.len());
        for (number, write) in unsynced.iter().take(kept).enumerate() {
            let is_last = number + 1 == kept;
            let most = write.bytes.len();
            let length = if is_last { dice.random_range(0..=most) } else { most };
            let bytes = write.bytes.get(..length).unwrap_or_default();
            put(&mut content.safe, write.at, bytes);
        }
        content.now = content.safe.clone();
    }
}

type Names = BTreeMap<PathBuf, Arc<File>>;

#[derive(Default)]
struct Tree {
    names: Names,
    safe: Names,
    /// What the names were after each change that is not on the disk yet.
    unsynced: Vec<Names>,
}

/// A node's files. Clones are the same disk; it outlives the node.
#[derive(Clone, Default)]
pub struct MemoryDisk {
    tree: Arc<Mutex<Tree>>,
    faults: Arc<Faults>,
}

impl MemoryDisk {
    /// The power is cut.
    pub fn cut(&self, dice: &mut SmallRng) {
        let mut tree = self.tree.lock();
        let unsynced = std::mem::take(&mut tree.unsynced);
        let kept = dice.random_range(0..=unsynced.len());
        if let Some(names) = kept.checked_sub(1).and_then(|last| unsynced.into_iter().nth(last)) {
            tree.safe = names;
        }
        tree.names = tree.safe.clone();
        tree.names.values().for_each(|file| file.lose(dice));
    }

    /// Whether writes fail.
    pub fn set_full(&self, is_full: bool) {
        self.faults.0.lock().0 = is_full;
    }

    /// Whether reads fail.
    pub fn set_unreadable(&self, is_unreadable: bool) {
        self.faults.0.lock().1 = is_unreadable;
    }

    fn rename_in(names: &mut Names, from: &Path, to: &Path) -> io::Result<()> {
        let file = names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        names.insert(to.to_owned(), file);
        Ok(())
    }

    fn changed(tree: &mut Tree) {
        let names = tree.names.clone();
        tree.unsynced.push(names);
    }
}

impl Disk for MemoryDisk {
    fn create_dir_all(&self, _dir: &Path) -> io::Result<()> {
        self.faults.writing()
    }

    fn exists(&self, path: &Path) -> bool {
        self.tree.lock().names.keys().any(|name| name.starts_with(path))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        self.faults.reading()?;
        let tree = self.tree.lock();
        Ok(tree.names.keys().filter(|name| name.parent() == Some(dir)).cloned().collect())
    }

    fn open(&self, path: &Path, how: How) -> io::Result<Arc<dyn DiskFile>> {
        let mut tree = self.tree.lock();
        let found = tree.names.get(path).cloned();
        match (found, how) {
            (Some(file), How::Read | How::Update) => Ok(file),
            (None, How::Read) => Err(io::ErrorKind::NotFound.into()),
            _ => {
                self.faults.writing()?;
                let shared = Arc::clone(&self.faults);
                let file = Arc::new(File { content: Mutex::default(), shared });
                tree.names.insert(path.to_owned(), Arc::clone(&file));
                Self::changed(&mut tree);
                Ok(file)
            }
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.faults.writing()?;
        let mut tree = self.tree.lock();
        Self::rename_in(&mut tree.names, from, to)?;
        Self::changed(&mut tree);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut tree = self.tree.lock();
        tree.names.remove(path).ok_or(io::ErrorKind::NotFound)?;
        Self::changed(&mut tree);
        Ok(())
    }

    fn sync_parent(&self, _path: &Path) -> io::Result<()> {
        self.faults.writing()?;
        let mut tree = self.tree.lock();
        tree.safe = tree.names.clone();
        tree.unsynced.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn read(disk: &MemoryDisk, path: &str) -> Option<Vec<u8>> {
        let file = disk.open(Path::new(path), How::Read).ok()?;
        let mut bytes = vec![0; 64];
        let read = file.read_at(&mut bytes, 0).unwrap();
        bytes.truncate(read);
        Some(bytes)
    }

    #[test]
    fn a_power_cut_keeps_what_was_synced_and_tears_what_was_not() {
        let (mut whole, mut torn, mut lost) = (0, 0, 0);
        for seed in 0..200 {
            let disk = MemoryDisk::default();
            let file = disk.open(Path::new("d/a"), How::Create).unwrap();
            file.write_at(b"synced", 0).unwrap();
            file.sync().unwrap();
            disk.sync_parent(Path::new("d/a")).unwrap();
            file.write_at(b"LATER!", 6).unwrap();
            disk.cut(&mut SmallRng::seed_from_u64(seed));
            let bytes = read(&disk, "d/a").unwrap();
            assert!(bytes.starts_with(b"synced") && b"syncedLATER!".starts_with(&bytes));
            match bytes.len() {
                6 => lost += 1,
                12 => whole += 1,
                _ => torn += 1,
            }
        }
        assert!(whole > 0 && torn > 0 && lost > 0, "{whole} {torn} {lost}");
    }

    #[test]
    fn a_name_that_was_not_synced_may_be_lost_and_a_synced_one_is_not() {
        let mut seen = [0, 0];
        for seed in 0..50 {
            let disk = MemoryDisk::default();
            let file = disk.open(Path::new("d/a.tmp"), How::Create).unwrap();
            file.sync().unwrap();
            disk.sync_parent(Path::new("d/a.tmp")).unwrap();
            disk.rename(Path::new("d/a.tmp"), Path::new("d/a")).unwrap();
            disk.cut(&mut SmallRng::seed_from_u64(seed));
            assert_ne!(read(&disk, "d/a").is_some(), read(&disk, "d/a.tmp").is_some());
            seen[usize::from(read(&disk, "d/a").is_some())] += 1;
        }
        assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
    }

    #[test]
    fn a_full_disk_refuses_writes_and_still_answers_reads() {
        let disk = MemoryDisk::default();
        let file = disk.open(Path::new("d/a"), How::Create).unwrap();
        disk.set_full(true);
        assert!(file.write_at(b"x", 0).is_err());
        assert!(disk.open(Path::new("d/b"), How::Create).is_err());
        assert_eq!(read(&disk, "d/a"), Some(Vec::new()));
    }
}
