//! `serve --enable_snapshot_restore` as a process: what it restores, when it stops, that it does so once.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value as Json;

use super::fresh::{cluster_in, copy_of};
use crate::support::{Master, free_port};

fn flags(root: &Path, survival: &str) -> [String; 3] {
    let path = format!("--snapshot_local_path={}", root.display());
    let survival = format!("--restore_survival={survival}");
    ["--enable_snapshot_restore".to_owned(), path, survival]
}

fn start(dir: &Path, flags: &[String]) -> Master {
    Master::ours(dir, &flags.iter().map(String::as_str).collect::<Vec<_>>())
}

fn recorded(master: &Master) -> Json {
    master.http().json("/api/v1/restore")
}

#[test]
fn a_new_cluster_starts_with_what_the_snapshot_holds_and_later_starts_restore_nothing() {
    let (dir, root) = (tempfile::tempdir().unwrap(), copy_of("keys_5k"));
    let mut master = start(dir.path(), &flags(root.path(), "complete"));
    assert_eq!(master.count("master_key_count"), 5_000);
    let page = recorded(&master);
    assert_eq!(
        (&page["outcome"], &page["snapshot"]),
        (&"restored".into(), &"20261129_182140_751".into())
    );
    assert_eq!(page["report"]["candidates"][0]["kept"]["objects"], 5_000);
    assert_eq!(page["unclaimed_segments"].as_array().unwrap().len(), 1);
    let at = page["at_ms"].clone();
    // Nobody of its clients is there, so they are given up; a second restore would bring the objects back.
    crate::support::eventually_within(
        std::time::Duration::from_secs(40),
        "they are given up",
        || master.count("master_key_count") == 0,
    );
    master.kill();
    master.start_again();
    assert_eq!(master.count("master_key_count"), 0);
    assert_eq!(recorded(&master)["at_ms"], at);
}

#[test]
fn a_cluster_without_any_snapshot_starts_empty_and_remembers_that() {
    let (dir, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut master = start(dir.path(), &flags(root.path(), "rfc"));
    assert_eq!(recorded(&master)["outcome"], "no_snapshot");
    assert_eq!(master.count("master_key_count"), 0);
    // A snapshot that turns up later is not restored by a restart.
    let filled = copy_of("keys_5k");
    let name = "mooncake_master_snapshot";
    fs::rename(filled.path().join(name), root.path().join(name)).unwrap();
    master.kill();
    master.start_again();
    assert_eq!(recorded(&master)["outcome"], "no_snapshot");
}

#[test]
fn with_every_candidate_broken_the_process_ends_with_code_3_and_a_sentence() {
    let (dir, root) = (tempfile::tempdir().unwrap(), copy_of("corrupted/segments_truncated"));
    fs::remove_dir_all(cluster_in(root.path()).join("20261129_182736_634")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_mooncake-ha"));
    command.arg("serve").arg(format!("--data_dir={}", dir.path().join("data").display()));
    for port in ["rpc_port", "metrics_port", "http_metadata_server_port"] {
        command.arg(format!("--{port}={}", free_port()));
    }
    let output = command.args(flags(root.path(), "rfc")).output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{words}");
    assert!(words.contains("no snapshot could be restored"), "{words}");
    assert!(words.contains("--restore_or_empty"), "{words}");
}
