//! The store beside itself: reads while rows are rewritten, stops while rows are deleted.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;

use super::*;
use crate::types::{EntryBytes, Payload, log_id};

const CACHE_BYTES: u64 = 8 << 20;

fn entries(from: u64, count: u64, size: usize) -> Vec<Entry> {
    let entry = |index| {
        let content = Bytes::from(vec![index as u8; size]);
        Entry { log_id: log_id(1, index), payload: Payload::Normal(EntryBytes(content)) }
    };
    (from..from + count).map(entry).collect()
}

fn indices(store: &SledLog) -> Vec<u64> {
    let mut found = Vec::new();
    store.scan(&mut |entry| found.push(entry.log_id.index)).unwrap();
    found
}

#[test]
fn a_read_of_a_group_whose_end_is_just_taken_back_finds_its_begin() {
    let dir = tempfile::tempdir().unwrap();
    let store = SledLog::open(dir.path(), CACHE_BYTES).unwrap();
    store.append(&entries(0, 28, 8_000)).unwrap();
    let (base, done) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let from = base.load(Ordering::SeqCst);
                let found = store.read(from, from + 5, usize::MAX).unwrap();
                assert_eq!(found, entries(from, 5, 8_000), "entries from {from} on");
            }
        });
        for round in 0..300 {
            store.truncate_from(round * 100 + 14).unwrap();
            let next = (round + 1) * 100;
            store.append(&entries(next, 28, 8_000)).unwrap();
            base.store(next, Ordering::SeqCst);
            if reader.is_finished() {
                break;
            }
        }
        done.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
}

#[test]
fn a_stop_in_the_midst_of_a_purge_leaves_a_log_that_opens() {
    let dir = tempfile::tempdir().unwrap();
    // One entry of more rows than are deleted at once.
    let large = PURGE_ROWS_MAX * row::ROW_BYTES_MAX * 2;
    let store = SledLog::open(dir.path(), CACHE_BYTES).unwrap();
    store.append(&entries(0, 1, large)).unwrap();
    store.append(&entries(1, 3, 10)).unwrap();
    store.put_purged(&log_id(1, 0)).unwrap();
    assert!(store.purge_some(0).unwrap(), "some rows are left");
    store.sync(true).unwrap();
    drop(store);
    wait_until_free(dir.path()).unwrap();

    let store = SledLog::open(dir.path(), CACHE_BYTES).unwrap();
    assert_eq!(indices(&store), [1, 2, 3]);
    while store.purge_some(0).unwrap() {}
    assert_eq!(indices(&store), [1, 2, 3]);
}

#[test]
fn entries_are_taken_back_down_to_a_half_purged_group() {
    let dir = tempfile::tempdir().unwrap();
    let large = PURGE_ROWS_MAX * row::ROW_BYTES_MAX * 2;
    let store = SledLog::open(dir.path(), CACHE_BYTES).unwrap();
    store.append(&entries(0, 1, large)).unwrap();
    store.append(&entries(1, 3, 10)).unwrap();
    store.put_purged(&log_id(1, 0)).unwrap();
    assert!(store.purge_some(0).unwrap(), "some rows are left");
    store.truncate_from(1).unwrap();
    assert_eq!(indices(&store), [0; 0]);
    store.append(&entries(1, 2, 10)).unwrap();
    assert_eq!(indices(&store), [1, 2]);
}

#[test]
fn a_group_without_its_last_row_is_damage_and_not_an_empty_read() {
    let dir = tempfile::tempdir().unwrap();
    let store = SledLog::open(dir.path(), CACHE_BYTES).unwrap();
    store.append(&entries(0, 4, 8_000)).unwrap();
    let (last, _) = store.log.iter().next_back().unwrap().unwrap();
    store.log.remove(last).unwrap();
    assert!(matches!(store.read(0, 4, usize::MAX), Err(StoreError::Damaged { .. })));
}

#[test]
fn a_directory_is_free_as_soon_as_the_wait_for_it_ends() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..40 {
        let store = SledLog::open(dir.path(), CACHE_BYTES).unwrap();
        store.append(&entries(round * 30, 30, 8_000)).unwrap();
        drop(store);
        wait_until_free(dir.path()).unwrap();
        assert!(open_once(dir.path(), CACHE_BYTES).is_ok(), "round {round}");
        wait_until_free(dir.path()).unwrap();
    }
}
