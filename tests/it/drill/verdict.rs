//! A drill on a running cluster: good news about a good one, bad news about one that forgets.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value as Json;
use tempfile::TempDir;

use super::{STARTED, play};
use crate::support::{Http, Process, eventually_within, free_port};

/// A cluster of one, somebody else's.
struct Victim {
    process: Process,
    http: Http,
    dir: TempDir,
}

impl Victim {
    fn start() -> Self {
        let dir = TempDir::new().unwrap();
        let (rpc, admin) = (free_port(), free_port());
        let args = vec![
            "serve".to_owned(),
            format!("--data_dir={}", dir.path().join("data").display()),
            "--rpc_address=127.0.0.1".to_owned(),
            format!("--rpc_port={rpc}"),
            format!("--metrics_port={admin}"),
        ];
        let program = PathBuf::from(env!("CARGO_BIN_EXE_mooncake-ha"));
        let log = dir.path().join("node.log");
        let process = Process::new("victim", program, args, log);
        let mut victim = Victim { process, http: Http::new(admin), dir };
        victim.start_again();
        victim
    }

    fn start_again(&mut self) {
        self.process.start();
        let http = &self.http;
        eventually_within(STARTED, "the node serves", || {
            http.try_get("/ready").is_some_and(|(status, _)| status == 200)
        });
    }

    /// Clients that are known: by the protocol each is told by its first ping to mount again.
    fn known_clients(&self) -> u64 {
        let page = self.http.try_get("/metrics").map(|(_, page)| page).unwrap_or_default();
        let name = "master_remount_segment_requests_total ";
        let value = page.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        value.unwrap_or(0)
    }

    fn keys(&self) -> usize {
        self.http.try_get("/get_all_keys").map_or(0, |(_, keys)| keys.lines().count())
    }
}

#[test]
fn a_running_cluster_that_keeps_everything_is_drilled_and_left_as_it_was() {
    let victim = Victim::start();
    let (code, report) = play(&["steady", "--clients", "2", "--target", &victim.http.url("")]);
    let one = &report["scenarios"][0];
    assert_eq!(one["findings"].as_array().unwrap(), &Vec::<Json>::new());
    assert!(one["checked"]["acknowledged"].as_u64().unwrap() > 50, "{}", one["checked"]);
    assert_eq!(code, Some(0));
    assert_eq!(victim.keys(), 0, "the drill has removed its keys");
    assert_eq!(victim.http.get("/get_all_segments").1, "", "and its segments");
}

#[test]
fn a_cluster_that_forgets_what_it_acknowledged_is_found_out() {
    let mut victim = Victim::start();
    let child = Command::new(env!("CARGO_BIN_EXE_mooncake-ha"))
        .args(["drill", "run", "steady", "--rounds", "4", "--quiet", "--json", "-"])
        .args(["--target", &victim.http.url("")])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    eventually_within(STARTED, "the drill has written", || victim.keys() > 120);
    // Who is not known yet cannot be forgotten.
    eventually_within(STARTED, "its clients are known", || victim.known_clients() >= 4);
    victim.process.kill();
    std::fs::remove_dir_all(victim.dir.path().join("data")).unwrap();
    victim.start_again();
    let output = child.wait_with_output().unwrap();
    let report: Json = serde_json::from_slice(&output.stdout).unwrap();
    let found = |kind: &str| report["scenarios"][0]["found"][kind].as_u64().unwrap();
    assert!(found("lost_write") > 50, "{}", report["scenarios"][0]["found"]);
    assert!(found("pin_lost") > 5, "{}", report["scenarios"][0]["found"]);
    assert!(found("forgotten_client") > 0, "{}", report["scenarios"][0]["found"]);
    assert_eq!((output.status.code(), &report["is_good"]), (Some(1), &Json::Bool(false)));
}
