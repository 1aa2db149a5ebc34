//! `serve` from start to stop: what it says, where it says it, how it ends.

use std::net::TcpListener;
use std::path::{Path, PathBuf};

use crate::support::{Process, eventually};

/// A node in `dir` on ports that the system chooses, with further flags.
fn node(dir: &Path, flags: &[&str]) -> Process {
    let data = format!("--data_dir={}", dir.join("data").display());
    let mut args = vec!["serve".to_owned(), data];
    args.extend(["--port=0", "--metrics_port=0", "--rpc_address=127.0.0.1"].map(str::to_owned));
    args.extend(flags.iter().map(|flag| (*flag).to_owned()));
    let program = PathBuf::from(env!("CARGO_BIN_EXE_mooncake-ha"));
    Process::new("node", program, args, dir.join("log"))
}

/// Starts a node that cannot open; its last line.
fn last_word_of_one_that_gives_up(process: &mut Process) -> String {
    process.start();
    let mut status = None;
    eventually("the node gives up", || {
        status = process.ended();
        status.is_some()
    });
    let log = process.log();
    assert_eq!(status.unwrap().code(), Some(1), "{log}");
    log.lines().last().unwrap().to_owned()
}

fn until_it_says(process: &mut Process, words: &str) {
    eventually(&format!("the node says {words:?}"), || {
        assert!(process.ended().is_none(), "{}", process.log());
        process.log().contains(words)
    });
}

#[test]
fn a_node_says_that_it_is_ready_and_stops_with_0_when_asked() {
    let dir = tempfile::tempdir().unwrap();
    let mut node = node(
        dir.path(),
        &["--enable_ha", "--dynamic_replication_mode=off", "--snapshot_backup_dir=d"],
    );
    node.start();
    until_it_says(&mut node, " ready: ");
    assert_eq!(node.terminate().code(), Some(0), "{}", node.log());
    let log = node.log();
    let lines = |words: &str| log.lines().filter(|line| line.contains(words)).count();
    assert_eq!(lines(" ready: "), 1, "{log}");
    assert_eq!(
        lines("WARN accepted without effect: enable_ha (replication is built in"),
        1,
        "{log}"
    );
    assert!(dir.path().join("data").is_dir());
}

#[test]
fn a_configuration_file_is_honoured_and_flags_win_over_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("node.yaml");
    std::fs::write(&path, "rpc_address: 127.0.0.2\nmetrics_host: 127.0.0.1\nlogtostderr: true\n")
        .unwrap();
    let mut node = node(dir.path(), &[&format!("--config_path={}", path.display())]);
    node.start();
    until_it_says(&mut node, " ready: ");
    node.terminate();
    let log = node.log();
    assert!(log.contains("settings from file: rpc_address, metrics_host, logtostderr"), "{log}");
    let ready = log.lines().find(|line| line.contains(" ready: ")).unwrap();
    assert!(ready.contains("127.0.0.1:"), "{ready}");
}

#[test]
fn with_log_dir_the_file_has_everything_and_stderr_the_warnings() {
    let dir = tempfile::tempdir().unwrap();
    let logs = dir.path().join("logs");
    let log_dir = format!("--log_dir={}", logs.display());
    let mut node = node(dir.path(), &[&log_dir, "--enable_ha"]);
    node.start();
    let file = || -> String {
        let files = std::fs::read_dir(&logs).into_iter().flatten();
        files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap()).collect()
    };
    eventually("the file says that the node is ready", || file().contains(" ready: "));
    assert_eq!(node.terminate().code(), Some(0));
    assert!(file().contains("stopped") && file().contains("enable_ha"), "{}", file());
    let stderr = node.log();
    assert!(stderr.contains("enable_ha") && !stderr.contains(" INFO "), "{stderr}");
}

#[test]
fn a_port_in_use_is_a_sentence_and_exit_code_1_and_leaves_no_data() {
    let dir = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let mut node = node(dir.path(), &[&format!("--rpc_port={port}")]);
    let last = last_word_of_one_that_gives_up(&mut node);
    assert!(last.contains(&format!("127.0.0.1:{port}")) && last.contains("rpc_port"), "{last}");
    assert!(!dir.path().join("data").exists());
}

#[test]
fn a_raft_port_in_use_is_said_once_and_the_data_directory_is_not_blamed() {
    let dir = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let peers = format!("--peers=1={address}");
    let mut node = node(dir.path(), &["--raft_address=127.0.0.1", &peers]);
    let last = last_word_of_one_that_gives_up(&mut node);
    assert!(last.contains(&format!("peers on {address}")) && last.contains("--peers"), "{last}");
    assert_eq!(last.matches("in use").count(), 1, "{last}");
    assert!(!last.contains("directory"), "{last}");
}
