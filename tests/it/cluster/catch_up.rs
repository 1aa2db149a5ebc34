//! Nodes for which the log is gone: a new one and one that stood still get the state as a raft snapshot, while
//! clients are served all along.

use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value as Json;

use super::busy::Busy;
use super::trio::{ELECTED, Trio};
use crate::support::eventually_within;

/// No log is kept behind a raft snapshot.
const NO_LOG: [&str; 1] = ["--raft_log_keep_bytes=0"];

/// The log is purged in steps of about so many bytes.
const PURGE_STEP_BYTES: u64 = 128 << 10;

/// What a node says when its leader sends it the state.
const RECEIVES: &str = "receiving a raft snapshot";

/// Longer than some hundred kilobytes of log take to be written and purged on a busy machine.
const PURGED: Duration = Duration::from_secs(120);

/// A number on a node's page about the cluster.
fn number(trio: &Trio, at: usize, path: &str) -> Option<u64> {
    let (status, body) = trio.http(at).try_get("/api/v1/cluster")?;
    let page: Json = serde_json::from_str(&body).ok()?;
    (status == 200).then(|| page.pointer(path)?.as_u64())?
}

/// A position in a node's log.
fn log(trio: &Trio, at: usize, position: &str) -> Option<u64> {
    number(trio, at, &format!("/log/{position}"))
}

/// Has the leader make raft snapshots until it has no entry any more up to `entry`.
fn until_purged(trio: &Trio, leader: usize, entry: u64) {
    eventually_within(PURGED, "the log is purged", || {
        if number(trio, leader, "/log_bytes").is_some_and(|bytes| bytes > PURGE_STEP_BYTES) {
            let (code, said, error) = trio.operate(leader, &["snapshot"], "");
            assert_eq!(code, Some(0), "{said}{error}");
        }
        log(trio, leader, "purged").is_some_and(|purged| purged > entry)
    });
}

#[test]
fn a_node_that_is_added_when_the_log_is_gone_gets_a_snapshot_and_then_votes_under_load() {
    let mut trio = Trio::start(&NO_LOG);
    let busy = Busy::start(&trio);
    let leader = trio.leader();
    until_purged(&trio, leader, 100);

    let new = trio.start_joining();
    assert_eq!(log(&trio, new, "last"), None, "it has nothing yet");
    let address = trio.joining.clone();
    for args in [&["add", "4", &address][..], &["promote", "4"]] {
        let (code, said, error) = trio.operate(leader, args, "");
        assert_eq!(code, Some(0), "{args:?}: {said}{error}");
        busy.until_written(20);
    }
    trio.caught_up(new);
    assert!(log(&trio, new, "snapshot").is_some_and(|entry| entry > 100), "by a snapshot");
    assert!(trio.log(new).contains(RECEIVES));

    // Three of four are needed, so nothing is acknowledged without the new one.
    let gone = trio.follower();
    trio.kill(gone);
    busy.send_to(gone, trio.plain(new));
    busy.until_written(100);
    let looked = busy.judge();
    assert!(looked.acknowledged > 200 && looked.reads > 200, "{looked:?}");
}

#[test]
fn a_node_that_stood_still_until_its_log_was_gone_catches_up_by_a_snapshot_under_load() {
    let trio = Trio::start(&NO_LOG);
    let busy = Busy::start(&trio);
    busy.until_written(50);
    let (leader, late) = (trio.leader(), trio.follower());
    let had = log(&trio, late, "last").unwrap();
    trio.signal(late, Signal::SIGSTOP);
    // What was on its way when it stopped may arrive yet.
    until_purged(&trio, leader, had + 200);
    let gone = log(&trio, leader, "purged").unwrap();
    trio.signal(late, Signal::SIGCONT);
    eventually_within(ELECTED, "it has a snapshot", || {
        log(&trio, late, "snapshot").is_some_and(|entry| entry >= gone)
    });
    trio.caught_up(late);
    assert!(trio.log(late).contains(RECEIVES));
    assert_eq!(trio.leader(), leader, "one that is late disturbs nobody");
    busy.until_written(50);
    let looked = busy.judge();
    assert!(looked.acknowledged > 200 && looked.reads > 200, "{looked:?}");
}
