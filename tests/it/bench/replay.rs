//! `bench replay`, of a small trace made here.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::json as value;
use tempfile::TempDir;

use super::{bench, json, node};
use crate::support::NodeProcess;

/// Requests of one-off blocks between those with the shared prefix.
const FLOOD: u64 = 120;

/// When the prefix is asked for again, in steps of 20 ms: a slow machine has put it by then.
const AGAIN: u64 = 100;

/// Blocks of a request.
const BLOCKS: u64 = 10;

/// Requests that share a prefix, a flood of blocks that nobody asks for again, and the prefix once more.
fn trace(directory: &Path) -> String {
    let mut text = String::new();
    let mut line = |at: u64, blocks: Vec<u64>| {
        writeln!(text, "{}", value!({"timestamp": at * 20, "hash_ids": blocks})).unwrap();
    };
    let prefix = || (0..BLOCKS).collect::<Vec<u64>>();
    line(0, prefix());
    line(AGAIN, prefix());
    for at in AGAIN + 1..=AGAIN + FLOOD {
        line(at, (0..BLOCKS).map(|block| at * 1_000 + block).collect());
    }
    line(AGAIN + 1 + FLOOD, prefix());
    let path = directory.join("trace.jsonl");
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn pins_keep_a_shared_prefix_through_a_flood_that_else_evicts_it() {
    let dir = TempDir::new().unwrap();
    let (path, start) = (trace(dir.path()), node("--default_kv_lease_ttl=1"));
    let args = ["replay", &path, "--start", &start, "--blocks", "400", "--connections", "2"];
    let (code, result) = json(&args);
    assert_eq!(code, Some(0), "{result}");
    let trace = &result["trace"];
    assert_eq!(
        (&trace["requests"], &trace["shared_blocks"]),
        (&(FLOOD + 3).into(), &BLOCKS.into())
    );
    let rows = result["rows"].as_array().unwrap();
    let [off, on] = &rows[..] else { panic!("{result}") };
    assert_eq!((&off["pins"], &on["pins"]), (&false.into(), &true.into()));
    for one in rows {
        assert_eq!(one["blocks"], value!((FLOOD + 3) * BLOCKS), "{one}");
        assert_eq!(one["failures"], value!({}), "{one}");
        for call in ["exist", "get", "put", "request"] {
            assert!(one["latency_us"][call]["p50"].as_f64().unwrap() > 0.0, "{call}: {one}");
        }
    }
    assert_eq!(off["hit_blocks"], value!(BLOCKS), "the second request only: {off}");
    assert_eq!(on["hit_blocks"], value!(2 * BLOCKS), "the last one, too: {on}");
    assert_eq!((&off["pinned_puts"], &on["pinned_puts"]), (&0.into(), &BLOCKS.into()));
}

#[test]
fn two_replays_on_one_running_master_find_the_same_because_each_leaves_nothing() {
    let dir = TempDir::new().unwrap();
    let mut running =
        NodeProcess::start(dir.path(), &dir.path().join("data"), &["--durability=async"]);
    let (path, address) = (trace(dir.path()), running.address().to_string());
    let args = ["replay", &path, "--address", &address, "--speed", "0", "--blocks", "4k"];
    let fast = ["--requests", "20", "--connections", "1"];
    let (code, result) = json(&[&args[..], &fast].concat());
    assert_eq!(code, Some(0), "{result}");
    let hits = |at: usize| result["rows"][at]["hit_blocks"].as_u64().unwrap();
    assert_eq!((hits(0), hits(1)), (BLOCKS, BLOCKS), "{result}");
    running.kill();
}

#[test]
fn a_trace_that_cannot_be_read_is_refused_with_its_line() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("bad.jsonl");
    std::fs::write(&path, "{\"timestamp\": 0, \"hash_ids\": [1]}\n{\"timestamp\": 1}\n").unwrap();
    let output = bench(&["replay", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("line 2") && said.contains("hash_ids"), "{said}");
}
