//! A store behind its journal: what survives the end of the process, and what a power cut leaves.

use bytes::Bytes;

use super::*;
use crate::files::Machine;
use crate::log::memory::MemoryLog;
use crate::types::{EntryBytes, Payload, log_id};

fn entries(term: u64, from: u64, count: u64) -> Vec<Entry> {
    let entry = |index| {
        let payload = Payload::Normal(EntryBytes(Bytes::from(vec![index as u8; 100])));
        Entry { log_id: log_id(term, index), payload }
    };
    (from..from + count).map(entry).collect()
}

struct Bench {
    dir: tempfile::TempDir,
    disk: MemoryLog,
    log: Arc<dyn LogBackend>,
}

impl Bench {
    fn new() -> Self {
        let (dir, disk) = (tempfile::tempdir().unwrap(), MemoryLog::default());
        let path = dir.path().join("journal");
        let log = open(Arc::new(disk.clone()), &Machine, &path, false).unwrap();
        Self { dir, disk, log }
    }

    fn append(&self, entries: &[Entry]) {
        self.log.append(entries).unwrap();
        self.log.sync(false).unwrap();
    }

    /// The process dies; of the store only what the operating system had is left.
    fn die(&mut self) {
        self.disk.crash(false, |least, _| least);
        self.reopen(false);
    }

    fn reopen(&mut self, is_synced: bool) {
        let path = self.dir.path().join("journal");
        self.log = open(Arc::new(self.disk.clone()), &Machine, &path, is_synced).unwrap();
    }

    fn found(&self) -> Vec<Entry> {
        let mut found = Vec::new();
        self.log.scan(&mut |entry| found.push(entry)).unwrap();
        found
    }

    /// Entries that the store itself has.
    fn stored(&self) -> usize {
        let mut count = 0;
        self.disk.scan(&mut |_| count += 1).unwrap();
        count
    }
}

#[test]
fn what_was_synced_survives_the_death_of_the_process_without_reaching_the_store() {
    let mut bench = Bench::new();
    bench.append(&entries(1, 0, 3));
    bench.log.put_committed(Some(&log_id(1, 1))).unwrap();
    bench.append(&entries(1, 3, 2));
    assert_eq!(bench.stored(), 0);
    // Not synced: nobody was told.
    bench.log.append(&entries(1, 5, 1)).unwrap();
    bench.die();
    assert_eq!(bench.found(), entries(1, 0, 5));
    assert_eq!(bench.log.kept().unwrap().committed, Some(log_id(1, 1)));
    bench.append(&entries(1, 5, 2));
    bench.die();
    assert_eq!(bench.found(), entries(1, 0, 7));
}

#[test]
fn entries_are_read_wherever_they_are() {
    let bench = Bench::new();
    bench.append(&entries(1, 0, 4));
    bench.log.settle().unwrap();
    assert!(!bench.log.has_backlog());
    bench.append(&entries(1, 4, 4));
    assert!(bench.log.has_backlog());
    assert_eq!(bench.log.read(1, 3, usize::MAX).unwrap(), entries(1, 1, 2));
    assert_eq!(bench.log.read(2, 8, usize::MAX).unwrap(), entries(1, 2, 2), "up to the journal");
    assert_eq!(bench.log.read(4, 8, usize::MAX).unwrap(), entries(1, 4, 4));
    assert_eq!(bench.log.read(5, 7, usize::MAX).unwrap(), entries(1, 5, 2));
    assert_eq!(bench.log.read(5, 8, 1).unwrap(), entries(1, 5, 1));
}

#[test]
fn a_full_journal_is_settled_and_a_large_entry_does_not_pass_through_it() {
    let mut bench = Bench::new();
    for index in 0..6_000 {
        bench.append(&entries(1, index, 1));
    }
    assert!(bench.stored() > 3_000, "{}", bench.stored());
    let large = Bytes::from(vec![7; 2 << 20]);
    let large = Entry { log_id: log_id(1, 6_000), payload: Payload::Normal(EntryBytes(large)) };
    bench.append(std::slice::from_ref(&large));
    assert_eq!(bench.stored(), 6_001);
    bench.die();
    assert_eq!(bench.found().len(), 6_001);
}

#[test]
fn entries_that_were_taken_back_do_not_come_back_with_the_journal() {
    let mut bench = Bench::new();
    bench.append(&entries(1, 0, 6));
    bench.log.truncate_from(3).unwrap();
    bench.log.sync(false).unwrap();
    bench.die();
    assert_eq!(bench.found(), entries(1, 0, 3));
    bench.append(&entries(1, 3, 3));
    bench.log.truncate_from(2).unwrap();
    bench.append(&entries(2, 2, 1));
    bench.die();
    let want: Vec<Entry> = entries(1, 0, 2).into_iter().chain(entries(2, 2, 1)).collect();
    assert_eq!(bench.found(), want);
}

#[test]
fn a_vote_takes_everything_to_the_disk() {
    let bench = Bench::new();
    bench.append(&entries(1, 0, 3));
    bench.log.put_vote(&Vote::new(4, 1)).unwrap();
    bench.log.sync(true).unwrap();
    bench.disk.crash(true, |least, _| least);
    assert_eq!(bench.stored(), 3);
    assert_eq!(bench.disk.kept().unwrap().vote, Some(Vote::new(4, 1)));
}

#[test]
fn a_raft_snapshot_that_overtakes_the_log_leaves_nothing_to_the_journal() {
    let mut bench = Bench::new();
    bench.append(&entries(1, 0, 3));
    bench.log.put_purged(&log_id(1, 9)).unwrap();
    bench.append(&entries(1, 10, 2));
    bench.die();
    assert_eq!(bench.found(), entries(1, 10, 2));
}

/// The disk may have the journal's newest records and not the store's newest entries.
#[test]
fn after_a_power_cut_what_does_not_follow_the_store_is_dropped() {
    let mut bench = Bench::new();
    bench.append(&entries(1, 0, 3));
    bench.log.settle().unwrap();
    bench.append(&entries(1, 3, 2));
    bench.disk.crash(true, |_, _| 0);
    bench.reopen(false);
    assert_eq!(bench.found(), []);
    bench.append(&entries(2, 0, 1));
    bench.die();
    assert_eq!(bench.found(), entries(2, 0, 1));
}

#[test]
fn a_node_that_syncs_from_now_on_takes_what_the_journal_has_and_removes_it() {
    let mut bench = Bench::new();
    bench.append(&entries(1, 0, 3));
    bench.disk.crash(false, |least, _| least);
    bench.reopen(true);
    assert_eq!(bench.found(), entries(1, 0, 3));
    assert!(!bench.dir.path().join("journal").exists());
    bench.disk.crash(true, |least, _| least);
    assert_eq!(bench.stored(), 3, "they are on disk");
}
