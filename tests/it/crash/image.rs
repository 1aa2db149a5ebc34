//! What a power cut leaves of a node's directory.
//!
//! The process has kept what each file held when its last sync began; that is on the disk. Of everything
//! written since, a disk keeps nothing at worst, or any of the sectors.

use std::fs;
use std::path::Path;

/// A disk writes a sector whole or not at all.
const SECTOR_BYTES: usize = 512;

/// How a disk treats what was not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// All of it is lost.
    Lost,
    /// Some sectors of it are there.
    Torn,
}

/// Copies a whole directory.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        match path.is_dir() {
            true => copy(&path, &target),
            false => drop(fs::copy(path, target).unwrap()),
        }
    }
}

/// Takes from the log in `data`, and from its mark and journal, what the power cut takes.
pub fn cut_power(data: &Path, synced: &Path, cut: Cut, seed: u64) {
    let mark = data.join("mark");
    let mut dice = Dice(seed | 1);
    for (path, name) in [(data.join("log/db"), "db"), (data.join("journal"), "journal")] {
        // Who syncs every append has no journal.
        let Ok(now) = fs::read(&path) else { continue };
        let safe = fs::read(synced.join(name)).unwrap();
        let left = match cut {
            Cut::Lost => safe,
            Cut::Torn => torn(&safe, &now, &mut dice),
        };
        fs::write(path, left).unwrap();
    }
    if cut == Cut::Lost {
        // Of the mark nothing was ever synced but what a truncation has lowered it to.
        fs::write(mark, fs::read(synced.join("mark")).unwrap_or_default()).unwrap();
    }
    // The store's index files are written without a sync.
    for entry in fs::read_dir(data.join("log")).unwrap().map(Result::unwrap) {
        if entry.file_name().to_string_lossy().starts_with("snap.") {
            let bytes = fs::read(entry.path()).unwrap();
            let length = match cut {
                Cut::Lost => 0,
                Cut::Torn => dice.roll() as usize % (bytes.len() + 1),
            };
            fs::write(entry.path(), &bytes[..length]).unwrap();
        }
    }
}

fn torn(safe: &[u8], now: &[u8], dice: &mut Dice) -> Vec<u8> {
    // The length is metadata, which may be ahead of the content.
    let length = if dice.roll().is_multiple_of(2) { now.len() } else { safe.len() };
    let mut left = safe.to_vec();
    left.resize(length, 0);
    for at in (0..length.min(now.len())).step_by(SECTOR_BYTES) {
        if dice.roll().is_multiple_of(2) {
            let end = (at + SECTOR_BYTES).min(length).min(now.len());
            left[at..end].copy_from_slice(&now[at..end]);
        }
    }
    left
}

/// A small generator, seeded: a failure can be played again.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

#[test]
fn a_torn_image_has_old_and_new_sectors_and_a_lost_one_only_old_ones() {
    let dir = tempfile::tempdir().unwrap();
    let (data, synced) = (dir.path().join("data"), dir.path().join("synced"));
    fs::create_dir_all(data.join("log")).unwrap();
    fs::create_dir_all(&synced).unwrap();
    let whole = |byte| vec![byte; SECTOR_BYTES * 16];
    fs::write(synced.join("db"), whole(1)).unwrap();
    for (cut, wanted) in [(Cut::Torn, [true, true]), (Cut::Lost, [true, false])] {
        fs::write(data.join("log/db"), whole(2)).unwrap();
        fs::write(data.join("log/snap.1"), b"index").unwrap();
        cut_power(&data, &synced, cut, 7);
        let left = fs::read(data.join("log/db")).unwrap();
        assert_eq!([left.contains(&1), left.contains(&2)], wanted, "{cut:?}");
        assert!(left.chunks(SECTOR_BYTES).all(|sector| sector.iter().all(|b| *b == sector[0])));
    }
}
