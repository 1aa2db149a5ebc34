//! A directory for snapshots that is full or cannot be written: what an operator reads, what is left of the attempt.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use mooncake_ha_snapshot::catalog::CLUSTER_ID_DEFAULT;
use nix::unistd::Uid;
use serde_json::Value as Json;
use tempfile::TempDir;

use super::{json, snapshot};
use crate::support::{Master, venv};

/// Bytes of the file system; a snapshot of an empty store needs a few pages.
const STORE_BYTES: u64 = 1 << 20;
const PAGE_BYTES: usize = 4096;

/// A small file system of its own; unmounted when dropped.
struct Mount {
    dir: TempDir,
}

impl Mount {
    /// `None` after saying that there can be none here.
    fn new() -> Option<Self> {
        if !Uid::effective().is_root() {
            venv::skip("file systems of a test's own need root");
            return None;
        }
        let mount = Mount { dir: TempDir::new().unwrap() };
        let size = format!("size={STORE_BYTES}");
        mount.mount(&["-t", "tmpfs", "-o", &size, "none"]);
        Some(mount)
    }

    fn mount(&self, args: &[&str]) {
        let done = Command::new("mount").args(args).arg(self.dir.path()).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    fn root(&self) -> &Path {
        self.dir.path()
    }

    fn ballast(&self) -> PathBuf {
        self.root().join("ballast")
    }

    /// Leaves so many pages free.
    fn fill_but(&self, pages: usize) {
        let mut ballast = File::create(self.ballast()).unwrap();
        while ballast.write_all(&[0xaa; PAGE_BYTES]).is_ok() {}
        let full = ballast.metadata().unwrap().len();
        ballast.set_len(full.saturating_sub((pages * PAGE_BYTES) as u64)).unwrap();
    }

    fn free(&self) {
        fs::remove_file(self.ballast()).unwrap();
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.dir.path()).output();
    }
}

/// A node that takes snapshots there when it is asked.
fn node(dir: &Path, root: &Path) -> Master {
    let path = format!("--snapshot_local_path={}", root.display());
    Master::ours(dir, &["--enable_snapshot", "--snapshot_interval_seconds=100000", &path])
}

/// Exit code and words of `snapshot take`.
fn take(master: &Master) -> (i32, String) {
    let (code, out, err) = snapshot(&["take", "--admin", &master.http().url("")], &[]);
    (code, format!("{out}{err}"))
}

/// Ids that a restore would try, and the one that is pointed to.
fn listed(root: &Path) -> (Vec<String>, Json) {
    let page = json(&["list", &root.display().to_string()], &[]);
    let ids = page["snapshots"].as_array().unwrap().iter();
    (ids.map(|one| one["id"].as_str().unwrap().to_owned()).collect(), page["latest"].clone())
}

/// Names below the cluster's directory.
fn names(root: &Path) -> Vec<String> {
    let cluster = root.join("mooncake_master_snapshot").join(CLUSTER_ID_DEFAULT);
    let entries = fs::read_dir(cluster).unwrap();
    let name =
        |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    let mut names: Vec<String> = entries.map(name).collect();
    names.sort();
    names
}

fn assert_told(root: &Path, (code, words): (i32, String), cause: &str) {
    assert_eq!(code, 1, "{words}");
    for part in [&root.display().to_string(), cause, "is writable and has space"] {
        assert!(words.contains(part), "no {part:?} in {words}");
    }
}

#[test]
fn a_full_store_is_told_keeps_the_last_good_snapshot_and_takes_the_next_when_there_is_room() {
    let Some(store) = Mount::new() else { return };
    let dir = TempDir::new().unwrap();
    let master = node(dir.path(), store.root());
    assert_eq!(take(&master).0, 0);
    let (mut good, _) = listed(store.root());
    // From not a page to all but one that it needs: each file in turn is the one that does not fit.
    let mut refused = 0;
    for pages in 0..16 {
        store.fill_but(pages);
        let before = names(store.root());
        let taken = take(&master);
        if taken.0 == 0 {
            store.free();
            break;
        }
        assert_told(store.root(), taken, "No space left on device");
        refused += 1;
        let (ids, latest) = listed(store.root());
        // If only the pointer did not fit, the snapshot is whole and may stay; else nothing is left of it.
        if ids == good {
            assert_eq!(names(store.root()), before, "with {pages} pages");
        } else {
            assert_eq!(ids[1..], good, "with {pages} pages");
        }
        assert!(good.iter().any(|id| latest == id.as_str()), "{latest} with {pages} pages");
        good = ids;
        store.free();
    }
    println!("{refused} attempts had no room");
    assert!(refused >= 3, "the file system was never full");
    assert_eq!(take(&master).0, 0);
    let (ids, latest) = listed(store.root());
    assert_eq!(latest, ids[0].as_str());
    let root = store.root().display().to_string();
    assert_eq!(snapshot(&["verify", &root], &[]).0, 0);
    assert_eq!(master.count("master_snapshot_fail"), refused);
}

#[test]
fn a_store_that_cannot_be_written_is_told_and_used_again_when_it_can() {
    let Some(store) = Mount::new() else { return };
    let dir = TempDir::new().unwrap();
    let master = node(dir.path(), store.root());
    assert_eq!(take(&master).0, 0);
    let (before, all) = (listed(store.root()), names(store.root()));
    store.mount(&["-o", "remount,ro"]);
    assert_told(store.root(), take(&master), "Read-only file system");
    assert_eq!((listed(store.root()), names(store.root())), (before, all));
    store.mount(&["-o", "remount,rw"]);
    assert_eq!(take(&master).0, 0);
    assert_eq!(listed(store.root()).0.len(), 2);
}
