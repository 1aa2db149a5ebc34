//! Damaged files, read-only and full disks, foreign directories.

use std::path::{Path, PathBuf};
use std::process::Command;

use mooncake_ha_raft::{Config, OpenError, ProposeError};

use crate::child;
use crate::support::{Member, add, ballast, eventually, single};

fn no_snapshots(dir: &Path) -> Config {
    let mut config = single(dir);
    config.snapshot_log_bytes = 1 << 40;
    config
}

/// A stopped node with `count` entries.
async fn filled(dir: &Path, count: u64) {
    let member = Member::open(no_snapshots(dir)).await;
    for number in 0..count {
        member.node.propose(add(number, 500)).await.unwrap();
    }
    member.node.shutdown().await;
}

fn copy_tree(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Every file below `dir` but the lock, with its bytes.
fn tree(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            files.extend(tree(&entry.path()));
        } else if entry.file_name() != "LOCK" {
            files.push((entry.path(), std::fs::read(entry.path()).unwrap()));
        }
    }
    files.sort();
    files
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flipped_byte_anywhere_in_the_log_is_refused_or_harmless_but_never_loses_an_entry() {
    let dir = tempfile::tempdir().unwrap();
    let good = dir.path().join("good");
    filled(&good, 300).await;
    let size = std::fs::metadata(good.join("log/db")).unwrap().len();
    let (mut refused, mut harmless) = (0, 0);
    for step in 0..40_u64 {
        let bad = dir.path().join("bad");
        copy_tree(&good, &bad);
        for entry in std::fs::read_dir(bad.join("log")).unwrap().flatten() {
            if entry.file_name().to_string_lossy().starts_with("snap.") && step % 2 == 0 {
                std::fs::remove_file(entry.path()).unwrap();
            }
        }
        let path = bad.join("log/db");
        let mut bytes = std::fs::read(&path).unwrap();
        let at = (step * size / 40 + step * 131) as usize % bytes.len();
        // The first two, with and without index files, are left whole: they must open.
        if step >= 2 {
            bytes[at] ^= 0x20;
        }
        std::fs::write(&path, bytes).unwrap();
        match Member::try_open(no_snapshots(&bad)).await {
            Ok(member) => {
                harmless += 1;
                let have = member.machine.len();
                assert_eq!(have, 300, "byte {at} of {size}: {have} entries of 300 are left");
                member.node.shutdown().await;
            }
            Err(error) => {
                assert!(step >= 2, "an undamaged copy is refused: {error}");
                refused += 1;
                let text = error.to_string();
                assert!(text.contains(&bad.display().to_string()), "{text}");
                assert!(text.contains("restore"), "{text}");
            }
        }
        std::fs::remove_dir_all(&bad).unwrap();
    }
    println!("{refused} refused, {harmless} harmless");
    assert!(refused > 0, "no flip hit anything");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_lost_its_end_is_refused_and_not_touched() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    filled(&data, 100).await;
    let early = dir.path().join("early");
    copy_tree(&data.join("log"), &early);
    let member = Member::open(no_snapshots(&data)).await;
    for number in 100..200 {
        member.add(number).await;
    }
    member.node.shutdown().await;
    std::fs::remove_dir_all(data.join("log")).unwrap();
    copy_tree(&early, &data.join("log"));
    let before = std::fs::read(data.join("log/db")).unwrap();
    let error = Member::try_open(no_snapshots(&data)).await.err().unwrap();
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
    assert!(error.to_string().contains("it was on disk up to index"), "{error}");
    let after = std::fs::read(data.join("log/db")).unwrap();
    assert!(after.starts_with(&before) || before == after, "the log was rewritten");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_index_files_of_the_store_are_rebuilt_once() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    filled(&data, 200).await;
    let log = data.join("log");
    let is_index = |name: &str| name.starts_with("snap.");
    let mut any = false;
    for entry in std::fs::read_dir(&log).unwrap().flatten() {
        if is_index(&entry.file_name().to_string_lossy()) {
            any = true;
            let bytes = std::fs::read(entry.path()).unwrap();
            std::fs::write(entry.path(), &bytes[..bytes.len() / 2]).unwrap();
        }
    }
    if !any {
        std::fs::write(log.join("snap.00000000000000FF"), b"half").unwrap();
    }
    let member = Member::open(no_snapshots(&data)).await;
    assert_eq!(member.machine.len(), 200);
    member.node.shutdown().await;
    let aside = std::fs::read_dir(&log)
        .unwrap()
        .flatten()
        .any(|entry| entry.file_name().to_string_lossy().starts_with("aside-snap."));
    assert!(aside, "the damaged file is kept for a look");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_raft_snapshot_is_refused_and_not_touched() {
    let dir = tempfile::tempdir().unwrap();
    let good = dir.path().join("good");
    filled(&good, 50).await;
    let member = Member::open(no_snapshots(&good)).await;
    member.node.trigger_snapshot().await.unwrap();
    member.node.shutdown().await;
    let name = std::fs::read_dir(good.join("snapshot")).unwrap().next().unwrap().unwrap();
    let size = std::fs::metadata(name.path()).unwrap().len() as usize;
    for at in [0, 9, 20, size / 2, size - 21, size - 10, size - 1] {
        let bad = dir.path().join("bad");
        copy_tree(&good, &bad);
        let path = bad.join("snapshot").join(name.file_name());
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[at] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        let before = tree(&bad);
        let error = Member::try_open(no_snapshots(&bad)).await.err().unwrap();
        assert!(matches!(error, OpenError::Damaged { .. }), "byte {at}: {error}");
        assert!(error.to_string().contains("raftsnap"), "{error}");
        assert_eq!(tree(&bad), before, "byte {at}: something was changed");
        bytes.truncate(at);
        std::fs::write(&path, &bytes).unwrap();
        assert!(Member::try_open(no_snapshots(&bad)).await.is_err(), "cut at {at}");
        std::fs::remove_dir_all(&bad).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_raft_snapshot_behind_a_purged_log_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = child::config(dir.path());
    config.log_keep_bytes = 1;
    let member = Member::open(config.clone()).await;
    for number in 0..2000 {
        member.node.propose(add(number, 200)).await.unwrap();
    }
    let node = member.node.clone();
    eventually("the log is purged", || node.status().log.purged > Some(0)).await;
    drop(node);
    member.node.shutdown().await;
    let snapshot = std::fs::read_dir(dir.path().join("snapshot")).unwrap().next().unwrap();
    std::fs::remove_file(snapshot.unwrap().path()).unwrap();
    let error = Member::try_open(config).await.err().unwrap();
    assert!(error.to_string().contains("the log begins after index"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_cluster_or_node_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path(), 1).await;
    let before = tree(dir.path());
    let other = Config::new(1, "another", dir.path());
    let error = Member::try_open(other).await.err().unwrap();
    assert!(matches!(error, OpenError::WrongCluster { .. }), "{error}");
    let other = Config::new(2, "test", dir.path());
    let error = Member::try_open(other).await.err().unwrap();
    assert!(matches!(error, OpenError::WrongNode { .. }), "{error}");
    assert_eq!(tree(dir.path()), before);
}

/// A small file system of its own, if this process may mount one.
struct Mounted(PathBuf);

impl Mounted {
    fn new(dir: &Path, size: &str) -> Option<Self> {
        let made = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(dir)
            .output();
        let mounted = made.is_ok_and(|output| output.status.success());
        if !mounted {
            println!("skipped: this user may not mount a small file system");
        }
        mounted.then(|| Self(dir.to_owned()))
    }

    fn remount(&self, options: &str) {
        let options = format!("remount,{options}");
        let status = Command::new("mount").args(["-o", &options]).arg(&self.0).status();
        assert!(status.unwrap().success());
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_only_directory_is_refused_with_its_path() {
    let dir = tempfile::tempdir().unwrap();
    let Some(mounted) = Mounted::new(dir.path(), "16m") else { return };
    let data = dir.path().join("data");
    filled(&data, 5).await;
    mounted.remount("ro");
    let error = Member::try_open(no_snapshots(&data)).await.err().unwrap();
    assert!(matches!(error, OpenError::Io { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("LOCK") && text.contains("permissions"), "{text}");
    mounted.remount("rw");
    let member = Member::open(no_snapshots(&data)).await;
    assert_eq!(member.machine.len(), 5);
    member.node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_stops_the_node_and_loses_nothing_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let Some(mounted) = Mounted::new(dir.path(), "12m") else { return };
    let data = dir.path().join("data");
    let member = Member::open(no_snapshots(&data)).await;
    let mut acked = 0;
    let outcome = loop {
        match member.node.propose(add(acked, 20_000)).await {
            Ok(_) => acked += 1,
            Err(outcome) => break outcome,
        }
        assert!(acked < 10_000, "the disk never filled up");
    };
    assert!(matches!(outcome, ProposeError::OutcomeUnknown(_)), "{outcome}");
    let mut fatal = member.node.watch_fatal();
    let reason = fatal.wait_for(Option::is_some).await.unwrap().clone().unwrap();
    println!("after {acked} entries: {reason}");
    assert!(reason.contains("log"), "{reason}");
    assert_eq!(member.node.propose(add(1, 0)).await.unwrap_err(), ProposeError::Stopped);
    member.node.shutdown().await;
    mounted.remount("size=256m");
    let member = Member::open(no_snapshots(&data)).await;
    for number in 0..acked {
        assert!(member.machine.has(number), "{number} is lost");
    }
    member.add(1_000_000).await;
    member.node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_or_read_only_place_for_raft_snapshots_is_told_and_the_node_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("snapshot");
    Member::open(no_snapshots(dir.path())).await.node.shutdown().await;
    let Some(mounted) = Mounted::new(&place, "256k") else { return };
    let member = Member::open(no_snapshots(dir.path())).await;
    member.add(1).await;
    let first = member.node.trigger_snapshot().await.unwrap();
    let files = || std::fs::read_dir(&place).unwrap().count();
    assert!(first.is_some() && files() == 1);

    member.node.propose(ballast(1 << 20)).await.unwrap();
    let is_told = |error: &str| error.contains("snapshot/writing.tmp");
    let full = member.node.trigger_snapshot().await.unwrap_err().to_string();
    assert!(is_told(&full) && full.contains("No space left on device"), "{full}");
    assert_eq!(member.node.status().snapshot_error.as_deref(), Some(full.as_str()));
    assert_eq!((member.node.status().log.snapshot, files()), (first, 1), "the last one stays");
    member.add(2).await;

    mounted.remount("ro");
    let read_only = member.node.trigger_snapshot().await.unwrap_err().to_string();
    assert!(is_told(&read_only) && read_only.contains("Read-only"), "{read_only}");
    member.add(3).await;

    mounted.remount("rw,size=16m");
    let second = member.node.trigger_snapshot().await.unwrap();
    assert!(second > first && files() == 1);
    assert_eq!(member.node.status().snapshot_error, None);
    member.node.shutdown().await;
    let member = Member::open(no_snapshots(dir.path())).await;
    assert_eq!(member.machine.len(), 3);
    member.node.shutdown().await;
}
