//! What a reader finds in a journal that was torn, turned, or forgotten.

use super::*;
use crate::files::Machine;
use crate::types::{EntryBytes, Payload, log_id};

fn entries(from: u64, count: u64, size: usize) -> Vec<Entry> {
    let entry = |index| {
        let payload = Payload::Normal(EntryBytes(Bytes::from(vec![index as u8; size])));
        Entry { log_id: log_id(3, index), payload }
    };
    (from..from + count).map(entry).collect()
}

fn indices(path: &Path) -> Vec<u64> {
    let noted = Journal::read(&Machine, path).unwrap();
    noted.entries.iter().map(|entry| entry.log_id.index).collect()
}

struct Bench {
    _dir: tempfile::TempDir,
    path: PathBuf,
    journal: Journal,
}

fn bench() -> Bench {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    assert!(Journal::read(&Machine, &path).unwrap().entries.is_empty(), "there is no file");
    let journal = Journal::create(&Machine, &path).unwrap();
    Bench { _dir: dir, path, journal }
}

#[test]
fn what_was_noted_is_read_again_with_the_newest_committed_id() {
    let Bench { _dir, path, mut journal } = bench();
    journal.note(&entries(5, 3, 100), Some(log_id(3, 4))).unwrap();
    journal.note(&[], Some(log_id(3, 6))).unwrap();
    journal.note(&entries(8, 1, 0), None).unwrap();
    let noted = Journal::read(&Machine, &path).unwrap();
    let all: Vec<Entry> = entries(5, 3, 100).into_iter().chain(entries(8, 1, 0)).collect();
    assert_eq!(noted.entries, all);
    assert_eq!(noted.committed, Some(log_id(3, 6)));
}

/// Golden: an older program reads what this one has written, and the other way round.
#[test]
fn the_form_of_a_record_stays() {
    let Bench { _dir, path, mut journal } = bench();
    journal.note(&entries(7, 1, 2), Some(log_id(3, 6))).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let sum = hex.get(24..32).unwrap();
    let head = format!("0100000000000000{:08x}{sum}", (9 + 17 + 21 + 2_u32).swap_bytes());
    let committed = "01" /* version */
        .to_owned()
        + "11000000";
    let entry = "0300000000000000070000000000000001020000000707";
    assert!(hex.starts_with(&(head + &committed)), "{hex}");
    assert!(hex.ends_with(&format!("0103000000000000000600000000000000{entry}")), "{hex}");
    assert_eq!(bytes.len(), 16 + 9 + 17 + 21 + 2);
}

#[test]
fn a_record_that_ends_too_soon_or_has_changed_is_dropped_with_all_after_it() {
    let Bench { _dir, path, mut journal } = bench();
    journal.note(&entries(0, 2, 50), None).unwrap();
    let first = std::fs::metadata(&path).unwrap().len();
    journal.note(&entries(2, 2, 50), None).unwrap();
    journal.note(&entries(4, 2, 50), None).unwrap();
    let whole = std::fs::read(&path).unwrap();
    let second = whole.len() as u64 - first;
    for length in first as usize..second as usize {
        std::fs::write(&path, &whole[..length]).unwrap();
        assert_eq!(indices(&path), [0, 1], "{length} bytes");
    }
    for at in first as usize..second as usize {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        std::fs::write(&path, changed).unwrap();
        assert_eq!(indices(&path), [0, 1], "byte {at}");
    }
    std::fs::write(&path, &whole).unwrap();
    assert_eq!(indices(&path), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn records_of_an_earlier_round_are_not_read_behind_newer_ones() {
    let Bench { _dir, path, mut journal } = bench();
    for index in 0..5 {
        journal.note(&entries(index, 1, 50), None).unwrap();
    }
    journal.turn();
    assert_eq!(indices(&path), [0, 1, 2, 3, 4], "what the store has as well");
    journal.note(&entries(5, 1, 50), None).unwrap();
    assert_eq!(indices(&path), [5]);
    journal.note(&entries(6, 1, 50), None).unwrap();
    assert_eq!(indices(&path), [5, 6]);
}

#[test]
fn what_was_forgotten_is_not_found() {
    let Bench { _dir, path, mut journal } = bench();
    journal.note(&entries(0, 5, 50), Some(log_id(3, 3))).unwrap();
    journal.forget().unwrap();
    assert_eq!(indices(&path), [0; 0]);
    assert_eq!(Journal::read(&Machine, &path).unwrap().committed, None);
    journal.note(&entries(3, 1, 5), None).unwrap();
    assert_eq!(indices(&path), [3]);
}

#[test]
fn the_file_does_not_grow_beyond_its_bound() {
    let Bench { _dir, path, mut journal } = bench();
    for index in 0..3_000 {
        if !journal.has_room_for(21 + 1_000) {
            journal.turn();
        }
        journal.note(&entries(index, 1, 1_000), None).unwrap();
    }
    assert!(std::fs::metadata(&path).unwrap().len() <= JOURNAL_BYTES_MAX);
    assert!(!journal.has_room_for(JOURNAL_BYTES_MAX as usize));
}

#[test]
fn the_seed_of_the_fuzzer_is_a_journal() {
    let seed = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus/raft_journal/file");
    let noted = Noted::parse(Bytes::from(std::fs::read(seed).unwrap()));
    assert_eq!(noted.entries, [entries(7, 1, 2), entries(7, 1, 2)].concat());
    assert_eq!(noted.committed, Some(log_id(3, 6)));
}
