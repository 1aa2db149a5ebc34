//! `mooncake-ha drill`: that its verdicts can be believed, good ones and bad ones, and that it leaves nothing behind.

mod verdict;

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use mooncake_ha::drill::scenarios::find;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value as Json;
use tempfile::TempDir;

use crate::support::eventually_within;
use crate::support::venv::skip;

/// Longer than three small nodes need to serve on a busy machine.
const STARTED: Duration = Duration::from_secs(60);

fn drill(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mooncake-ha"));
    command.arg("drill").args(args).stdin(Stdio::null()).output().unwrap()
}

/// Plays scenarios: exit code and the report.
fn play(args: &[&str]) -> (Option<i32>, Json) {
    let output = drill(&[&["run", "--quiet", "--json", "-"], args].concat());
    let text = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    let report = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}{error}"));
    (output.status.code(), report)
}

/// A report without findings that has looked at something.
fn assert_nothing_lost(code: Option<i32>, report: &Json) {
    for one in report["scenarios"].as_array().unwrap() {
        assert_eq!(one["findings"].as_array().unwrap(), &Vec::<Json>::new(), "{}", one["name"]);
        let checked = |what: &str| one["checked"][what].as_u64().unwrap();
        for what in ["acknowledged", "reads", "places", "pins", "pin_looks", "images"] {
            assert!(checked(what) > 0, "{}: {what}: {}", one["name"], one["checked"]);
        }
    }
    assert_eq!((code, &report["is_good"]), (Some(0), &Json::Bool(true)));
}

#[test]
fn a_leader_that_is_killed_loses_nothing_and_the_page_shows_it() {
    let dir = TempDir::new().unwrap();
    let page = dir.path().join("out.html");
    let (code, report) = play(&["leader-kill", "--report", page.to_str().unwrap()]);
    assert_nothing_lost(code, &report);
    let one = &report["scenarios"][0];
    assert!(one["leaders"].as_array().unwrap().len() >= 2, "{}", one["leaders"]);
    assert!(one["faults"][0]["write_after_ms"].is_u64(), "{}", one["faults"]);
    assert!(one["outage"]["longest_ms"].as_u64().unwrap() > 0);
    assert_eq!(one["clients"].as_array().unwrap().len(), 4 + 3);
    let page = std::fs::read_to_string(page).unwrap();
    for part in ["Nothing was lost.", "<svg", "leads in term", "the leader, node", "soft pins"] {
        assert!(page.contains(part), "the page has no {part:?}");
    }
    for outside in ["http://", "https://", "<script", "<link", "src="] {
        assert!(!page.contains(outside), "the page needs {outside:?}");
    }
}

#[test]
fn a_leader_that_wakes_up_late_serves_no_stale_read() {
    let (code, report) = play(&["leader-pause"]);
    assert_nothing_lost(code, &report);
}

#[test]
fn three_nodes_killed_at_once_under_load_lose_nothing_that_was_acknowledged() {
    let (code, report) = play(&["cold-restart", "--rounds", "2", "--flag=--durability=sync"]);
    assert_nothing_lost(code, &report);
}

#[test]
fn five_nodes_that_lose_two_at_once_lose_nothing_that_was_acknowledged() {
    let (code, report) = play(&["minority", "--nodes", "5"]);
    assert_nothing_lost(code, &report);
    let fault = report["scenarios"][0]["faults"][0]["what"].to_string();
    assert!(fault.contains("of 5 nodes") && fault.contains(" and "), "{fault}");
}

#[test]
fn an_upgrade_node_by_node_under_load_loses_nothing() {
    // Another version's program, if there is one here; else the upgrade is to the same one.
    let from = std::env::var("MOONCAKE_HA_PREVIOUS_BIN").ok().filter(|path| !path.is_empty());
    let mut args = vec!["rolling-upgrade"];
    args.extend(from.iter().flat_map(|from| ["--from", from]));
    let (code, report) = play(&args);
    assert_nothing_lost(code, &report);
    let faults = report["scenarios"][0]["faults"].as_array().unwrap();
    assert_eq!(faults.len(), 6, "three nodes, each stopped and started: {faults:?}");
}

#[test]
fn wall_clocks_that_step_by_an_hour_move_no_pin_and_break_no_lease() {
    let (code, report) = play(&["clock-step"]);
    assert_nothing_lost(code, &report);
}

#[test]
fn a_lost_disk_is_replaced_by_a_new_node_under_load() {
    let (code, report) = play(&["lost-node-replace"]);
    assert_nothing_lost(code, &report);
}

#[test]
fn the_worst_day_brings_back_all_that_the_newest_sound_snapshot_holds() {
    let (code, report) = play(&["restore-from-catalog", "corrupt-snapshot-fallback"]);
    assert_nothing_lost(code, &report);
}

#[test]
fn a_damaged_log_is_noticed_and_its_node_is_replaced() {
    let (code, report) = play(&["corrupt-log"]);
    assert_nothing_lost(code, &report);
}

#[test]
fn a_disk_that_runs_full_or_stalls_loses_nothing() {
    for scenario in ["disk-full", "slow-disk"] {
        if let Err(why) = find(scenario).unwrap().disk.possible() {
            skip(&format!("{scenario}: {why}"));
            continue;
        }
        let (code, report) = play(&[scenario]);
        assert_nothing_lost(code, &report);
    }
}

#[test]
fn clients_that_are_gone_together_take_only_their_own_memory_with_them() {
    let (code, report) = play(&["client-mass-expiry"]);
    assert_nothing_lost(code, &report);
}

#[test]
fn a_wrong_command_line_starts_nothing_and_says_why() {
    for (args, part) in [
        (&["run", "nosuch"][..], "drill list"),
        (&["run"], "NAMES"),
        (&["run", "steady", "--nodes", "2"], "odd"),
        (&["run", "steady", "--rounds", "0"], "rounds"),
        (&["run", "leader-kill", "--target", "127.0.0.1:1"], "leave out --target"),
        (&["run", "leader-transfer", "--target", "127.0.0.1:1"], "--yes"),
        (&["run", "steady", "--yes"], "--target"),
        (&["run", "steady", "--from", "/bin/true"], "rolling-upgrade"),
        (&["run", "rolling-upgrade", "--from", "/nosuch"], "no such program"),
    ] {
        let output = drill(args);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert!(error.contains(part), "{args:?}: {error}");
    }
    let output = drill(&["run", "steady", "--target", "127.0.0.1:1"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("127.0.0.1:1") && error.contains("--metrics_port"), "{error}");
}

#[test]
fn the_list_names_every_scenario_of_the_docs() {
    let output = drill(&["list"]);
    let listed = String::from_utf8(output.stdout).unwrap();
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/drills.md");
    let docs = std::fs::read_to_string(docs).unwrap();
    for line in listed.lines() {
        let name = line.split_whitespace().next().unwrap();
        assert!(docs.contains(&format!("| `{name}` |")), "{name} is not in docs/drills.md");
    }
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_drill_that_is_interrupted_leaves_no_node_behind() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_mooncake-ha"))
        .args(["drill", "run", "steady", "--rounds", "1000", "--quiet"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut nodes = Vec::new();
    eventually_within(STARTED, "the drill has three nodes", || {
        nodes = children(child.id());
        nodes.len() == 3
    });
    kill(Pid::from_raw(child.id().try_into().unwrap()), Signal::SIGINT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    for node in nodes {
        assert!(!Path::new(&format!("/proc/{node}")).exists(), "process {node} is still there");
    }
}

/// Child processes of a process, started by any of its threads.
fn children(process: u32) -> Vec<u32> {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{process}/task")) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for thread in threads.filter_map(Result::ok) {
        let text = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        found.extend(text.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
    }
    found
}

#[test]
fn a_follower_that_was_cut_off_serves_nothing_stale_and_deposes_nobody() {
    let (code, report) = play(&["follower-partition", "--rounds", "2"]);
    assert_nothing_lost(code, &report);
}
