//! `snapshot restore` and `snapshot import` from the command line.

use std::path::Path;
use std::process::Command;

use serde_json::Value as Json;

use super::fresh::{copy_of, fixture};
use crate::support::Master;

fn run(args: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mooncake-ha"));
    let output = command.arg("snapshot").args(args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn with_catalog(dir: &Path, root: &Path) -> Master {
    let path = format!("--snapshot_local_path={}", root.display());
    Master::ours(dir, &["--enable_snapshot", "--snapshot_interval_seconds=100000", &path])
}

#[test]
fn a_dry_run_says_what_would_survive_and_changes_nothing() {
    let root = fixture("keys_5k").display().to_string();
    let (code, out, err) = run(&["restore", "--dry-run", "--root", &root]);
    assert_eq!(code, 1, "nothing survives: {out}{err}");
    assert!(out.starts_with("dry run, nothing is changed: restored without objects"), "{out}");
    let complete = ["restore", "--dry-run", "--root", &root, "--survival", "complete", "--json"];
    let (code, out, _) = run(&complete);
    let report: Json = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &report["candidates"][0]["kept"]["objects"]), (0, &5_000.into()));
    assert_eq!(run(&["restore", "--root", &root]).0, 2, "without --dry-run a node is needed");
}

#[test]
fn an_empty_cluster_takes_a_snapshot_over_when_an_operator_asks() {
    let (dir, root) = (tempfile::tempdir().unwrap(), copy_of("keys_5k"));
    let master = with_catalog(dir.path(), root.path());
    let admin = master.http().url("");
    let restore = |rest: &[&str]| run(&[&["restore", "--admin", &admin], rest].concat());
    // The rule that nobody can check needs the operator's word.
    let (code, out, _) = restore(&["--survival", "complete"]);
    assert!(code == 1 && out.contains("yes=true"), "{code} {out}");
    let (code, out, _) = restore(&["--survival", "complete", "--dry-run"]);
    assert!(code == 0 && out.starts_with("dry run"), "{code} {out}");
    assert_eq!(master.count("master_key_count"), 0);
    let (code, out, _) = restore(&["--survival", "complete", "--yes"]);
    assert!(code == 0 && out.contains("5000 of 5000 objects kept"), "{code} {out}");
    assert_eq!(master.count("master_key_count"), 5_000);
    // In use, it is not replaced.
    let (code, out, _) = restore(&["--survival", "complete", "--yes"]);
    assert!(code == 1 && out.contains("not empty: it has 5000 objects"), "{code} {out}");
}

#[test]
fn a_node_without_a_catalog_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let master = Master::ours(dir.path(), &[]);
    let (code, out, _) = run(&["restore", "--admin", &master.http().url("")]);
    assert!(code == 1 && out.contains("there is no catalog"), "{code} {out}");
    assert_eq!(run(&["restore", "--admin", "http://127.0.0.1:1"]).0, 3);
}

#[test]
fn an_imported_snapshot_of_the_peer_is_the_newest_and_means_the_same() {
    let into = tempfile::tempdir().unwrap();
    let target = into.path().join("made").display().to_string();
    let source = fixture("tenants").display().to_string();
    let (code, out, err) = run(&["import", &source, &target, "--json"]);
    assert_eq!(code, 0, "{out}{err}");
    let imported: Json = serde_json::from_str(&out).unwrap();
    let id = imported["id"].as_str().unwrap().to_owned();
    assert!(id.as_str() > imported["source"].as_str().unwrap(), "{out}");
    let (code, out, _) = run(&["verify", &target]);
    assert_eq!(code, 0, "{out}");
    let first = imported["source"].as_str().unwrap();
    let (code, out, _) = run(&["diff", &source, first, &id, "--second-root", &target]);
    let only_ours = "~ image : extension\n1 differences\n";
    assert_eq!((code, out.as_str()), (1, only_ours), "our checksums are all that is new");
}

#[test]
fn an_import_of_a_damaged_snapshot_names_what_is_lost() {
    let into = tempfile::tempdir().unwrap();
    let target = into.path().display().to_string();
    let source = fixture("corrupted/object_unknown_segment").display().to_string();
    let (code, out, _) = run(&["import", &source, &target]);
    assert!(code == 1 && out.contains("19 objects") && out.contains("finding:"), "{code} {out}");
    let broken = fixture("corrupted/metadata_empty").display().to_string();
    let (code, out, err) = run(&["import", &broken, &target, "--id", "20261129_182740_639"]);
    assert_eq!((code, out.as_str()), (3, ""), "{err}");
    // What was imported is restorable, and a refused import left nothing.
    let (code, out, _) = run(&["list", &target]);
    assert_eq!((code, out.lines().count()), (0, 1), "{out}");
}
