//! `bench compare`, of two nodes of this build, and of one with the real peer.

use serde_json::Value as Json;

use super::{bench, json, node, row};
use crate::support::venv;

/// Sizes at which a row takes a second.
const SMALL: [&str; 14] = [
    "compare",
    "--quick",
    "--rounds",
    "1",
    "--keys",
    "2k",
    "--objects",
    "4k",
    "--seconds",
    "0.1",
    "--clients",
    "8",
    "--large-segments",
    "2",
];

fn compare(against: &str, rows: &str) -> (Option<i32>, Json) {
    json(&[&SMALL[..], &["--against", against, "--rows", rows]].concat())
}

fn number(row: &Json, field: &str) -> f64 {
    row[field].as_f64().unwrap_or_else(|| panic!("{field} of {row}"))
}

/// Both values are there and above zero, the ratio is theirs, and the verdict is that of the ratio.
fn assert_sound(row: &Json) {
    let (ours, peer) = (number(row, "ours"), number(row, "peer"));
    assert!(ours > 0.0 && peer > 0.0, "{row}");
    assert!((number(row, "ratio") - ours / peer).abs() < 1e-6, "{row}");
    if let Some(target) = row["target"].as_f64() {
        let is_met = match row["target_of"].as_str().unwrap() {
            "ratio at most" => ours / peer <= target,
            "ours at most" => ours <= target,
            _ => ours >= target,
        };
        assert_eq!(row["met"].as_bool(), Some(is_met), "{row}");
    }
    assert_eq!(row["why"], Json::Null, "{row}");
}

#[test]
fn two_nodes_are_compared_call_by_call() {
    let names = [
        "exist-cpu",
        "get-cpu",
        "exist-p50",
        "batch-get-cpu",
        "put-cpu",
        "put-rate",
        "put-cpu-sync",
        "batch-put-cpu",
        "remove-cpu",
        "batch-remove-cpu",
        "put-many-clients",
        "read-p99-writing",
        "mount-time",
    ];
    let (code, result) = compare(&node(""), &names.join(","));
    assert_eq!(code, Some(0), "{result}");
    assert_eq!(result["rows"].as_array().unwrap().len(), names.len());
    names.iter().for_each(|name| assert_sound(row(&result, "name", name)));
    // Two runs of one program: whatever the machine does meanwhile, not tenfold.
    let ratio = number(row(&result, "name", "batch-put-cpu"), "ratio");
    assert!((0.1..10.0).contains(&ratio), "{result}");
    assert_eq!((&result["keys"], &result["objects"]), (&2_000.into(), &4_000.into()));
}

#[test]
fn two_nodes_are_compared_by_what_happens_to_many_objects() {
    let names =
        ["rss-21", "batch-get-cpu-1m", "evict-whole", "pins-stall", "snapshot-large", "cold-start"];
    let (code, result) = compare(&node(""), &names.join(","));
    assert_eq!(code, Some(0), "{result}");
    for name in ["batch-get-cpu-1m", "evict-whole", "pins-stall", "snapshot-large", "cold-start"] {
        assert_sound(row(&result, "name", name));
    }
    let snapshot = row(&result, "name", "snapshot-large");
    assert_eq!((number(snapshot, "ours"), &snapshot["met"]), (1.0, &Json::Bool(true)));
    assert!(row(&result, "name", "rss-21")["ours"].is_number(), "{result}");
}

#[test]
fn a_client_that_leaves_and_the_removal_of_all_are_seen_to_have_happened() {
    let (code, result) = compare(&node(""), "idle-leaves-cpu,rss-given-back,owner-dies-whole");
    assert_eq!(code, Some(0), "{result}");
    for name in ["idle-leaves-cpu", "rss-given-back", "owner-dies-whole"] {
        let row = row(&result, "name", name);
        assert!(row["ours"].is_number() && row["peer"].is_number(), "{row}");
    }
}

#[test]
fn a_master_that_does_not_start_leaves_its_values_empty_and_says_why() {
    let (code, result) = compare("sh -c 'echo out of order; exit 7'", "get-cpu,evict-stall");
    assert_eq!(code, Some(0), "this master has been measured: {result}");
    for name in ["get-cpu", "evict-stall"] {
        let row = row(&result, "name", name);
        assert!(row["ours"].is_number() && row["peer"].is_null() && row["ratio"].is_null());
        let why = row["why"].as_str().unwrap();
        assert!(why.starts_with("peer: ") && why.contains("out of order"), "{why}");
    }
    assert_eq!(row(&result, "name", "get-cpu")["met"], Json::Null, "{result}");
    let other = node("");
    let args = ["--ours", "false", "--against", &other, "--rows", "mount-time"];
    let (code, result) = json(&[&SMALL[..], &args].concat());
    assert_eq!((code, &result["rows"][0]["ours"]), (Some(1), &Json::Null), "{result}");
}

#[test]
fn an_unknown_row_is_refused_before_anything_is_started() {
    let output = bench(&["compare", "--against", "false", "--rows", "get-cpu,speed"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("\"speed\"") && said.contains("put-cpu-sync"), "{said}");
}

#[test]
fn the_real_peer_is_measured_by_the_same_scenes() {
    let Some(found) = venv::find() else { return };
    let peer = found.peer_master.display();
    let against = format!(
        "{peer} --rpc_port={{port}} --metrics_port={{http_port}} --enable_metric_reporting=false"
    );
    let names = [
        "get-cpu",
        "batch-exist-cpu",
        "put-cpu",
        "remove-cpu",
        "put-many-clients",
        "mount-reserved",
        "rss-21",
        "cold-start",
    ];
    let (code, result) = compare(&against, &names.join(","));
    assert_eq!(code, Some(0), "{result}");
    names.iter().for_each(|name| {
        let row = row(&result, "name", name);
        assert!(row["ours"].is_number() && row["peer"].is_number(), "{row}");
    });
    assert_sound(row(&result, "name", "get-cpu"));
}
