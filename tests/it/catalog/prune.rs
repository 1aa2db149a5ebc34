//! `snapshot prune` and what keeps it from removing too much.

use std::fs;
use std::path::Path;

use super::{fixture, json, snapshot};

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to.join(entry.file_name())),
            false => drop(fs::copy(entry.path(), to.join(entry.file_name())).unwrap()),
        }
    }
}

#[test]
fn pruning_says_what_it_would_remove_and_removes_it_when_told() {
    let dir = tempfile::tempdir().unwrap();
    copy(&fixture("two_successive"), dir.path());
    let root = dir.path().display().to_string();
    let older = "20261129_182119_315";

    let (code, out, _) = snapshot(&["prune", &root, "--keep", "1"], &[]);
    assert!(code == 1 && out.contains(older) && out.contains("--yes"), "{code} {out}");
    let dry = json(&["prune", &root, "--keep", "1", "--dry-run"], &[]);
    assert_eq!((&dry["is_removed"], &dry["old"][0]), (&false.into(), &older.into()));
    assert_eq!(json(&["list", &root], &[])["snapshots"].as_array().unwrap().len(), 2);

    let done = json(&["prune", &root, "--keep", "1", "--yes"], &[]);
    assert_eq!((&done["is_removed"], &done["old"][0]), (&true.into(), &older.into()));
    assert_eq!(json(&["list", &root], &[])["snapshots"].as_array().unwrap().len(), 1);
    let (code, out, _) = snapshot(&["prune", &root, "--keep", "1"], &[]);
    assert_eq!((code, out.as_str()), (0, "nothing to remove\n"));
    assert_eq!(snapshot(&["prune", &root, "--keep", "0"], &[]).0, 2);
    assert_eq!(snapshot(&["prune", &root], &[]).0, 2);
}

#[test]
fn pruning_never_removes_the_last_good_snapshot() {
    let dir = tempfile::tempdir().unwrap();
    copy(&fixture("two_successive"), dir.path());
    let cluster = dir.path().join("mooncake_master_snapshot/mooncake_cluster");
    fs::write(cluster.join("20261129_182123_316/segments"), b"damaged").unwrap();
    let root = dir.path().display().to_string();
    let done = json(&["prune", &root, "--keep", "1", "--yes"], &[]);
    assert_eq!(done["old"].as_array().unwrap().len(), 0, "{done}");
    assert!(cluster.join("20261129_182119_315/descriptor.txt").exists());
}
