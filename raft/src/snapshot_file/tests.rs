//! One file, golden bytes, failed writes.

use super::*;
use crate::types::{StoredMembership, log_id};

fn meta(index: u64) -> SnapshotMeta {
    SnapshotMeta {
        last_log_id: Some(log_id(2, index)),
        last_membership: StoredMembership::default(),
    }
}

fn content(bytes: &'static [u8]) -> SaveFn {
    Box::new(move |to| to.write_all(bytes))
}

#[test]
fn a_raft_snapshot_keeps_its_golden_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let snapshots = SnapshotDir::open(World::default(), dir.path().join("s")).unwrap();
    let file = snapshots.write(&meta(5), content(b"state")).unwrap();
    assert!(file.path.ends_with("00000000000000000005-2.raftsnap"));
    let bytes = std::fs::read(&file.path).unwrap();
    let mut golden = b"RAFTSNP1".to_vec();
    golden.extend_from_slice(&record::seal(&MetaRecord::from(&meta(5))).unwrap());
    golden.extend_from_slice(b"state");
    golden.extend_from_slice(&5_u64.to_le_bytes());
    golden.extend_from_slice(&crc32fast::hash(b"state").to_le_bytes());
    golden.extend_from_slice(b"RAFTSNP1");
    assert_eq!(bytes, golden);
    assert_eq!(file.bytes, golden.len() as u64);
    file.verify().unwrap();
}

#[test]
fn a_newer_raft_snapshot_replaces_the_old_one_which_stays_readable_where_it_is_open() {
    let dir = tempfile::tempdir().unwrap();
    let snapshots = SnapshotDir::open(World::default(), dir.path().to_owned()).unwrap();
    let old = snapshots.write(&meta(5), content(b"old")).unwrap();
    let new = snapshots.write(&meta(9), content(b"new")).unwrap();
    assert!(!old.path.exists());
    old.verify().unwrap();
    assert_eq!(snapshots.newest().unwrap().unwrap().path, new.path);
}

#[test]
fn a_failed_write_leaves_the_old_raft_snapshot_and_no_rubbish() {
    let dir = tempfile::tempdir().unwrap();
    let snapshots = SnapshotDir::open(World::default(), dir.path().to_owned()).unwrap();
    let old = snapshots.write(&meta(5), content(b"old")).unwrap();
    let fails: SaveFn = Box::new(|to| {
        to.write_all(b"half")?;
        Err(std::io::Error::other("enough"))
    });
    assert!(snapshots.write(&meta(9), fails).is_err());
    assert_eq!(snapshots.newest().unwrap().unwrap().path, old.path);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn what_a_crash_left_half_written_is_removed_at_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("writing.tmp"), b"half").unwrap();
    let snapshots = SnapshotDir::open(World::default(), dir.path().to_owned()).unwrap();
    assert!(snapshots.newest().unwrap().is_none());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}
