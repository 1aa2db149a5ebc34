//! Three nodes that share a directory: a follower writes the snapshot, the leader publishes it.

use std::process::Command;

use serde_json::Value as Json;

use super::{json, snapshot};
use crate::cluster::trio::Trio;
use crate::support::eventually;

fn take(trio: &Trio, at: usize) -> Json {
    let admin = trio.http(at).url("");
    let mut command = Command::new(env!("CARGO_BIN_EXE_mooncake-ha"));
    let args = ["snapshot", "take", "--json", "--admin", &admin];
    let output = command.args(args).env("MOONCAKE_HA_ADMIN_TOKEN", "t0k").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_follower_writes_what_the_leader_publishes_and_the_leader_does_without_one() {
    let root = tempfile::tempdir().unwrap();
    let path = format!("--snapshot_local_path={}", root.path().display());
    let flags = ["--enable_snapshot", "--snapshot_taken_by=follower", "--admin_token=t0k", &path];
    let mut trio = Trio::start(&flags);
    let leader = trio.leader();
    let number = |at: usize| at as u64 + 1;

    // Asked at a follower: the tool goes on to the leader.
    let mut taken = Json::Null;
    eventually("a follower has written one", || {
        taken = take(&trio, trio.follower());
        taken["written_by"] != number(leader)
    });
    let root = root.path().display().to_string();
    let listed = json(&["list", &root], &[]);
    assert_eq!(listed["latest"], taken["id"], "{listed}");
    assert!(taken["applied_index"].as_u64().unwrap() > 0, "{taken}");
    assert_eq!(snapshot(&["verify", &root], &[]).0, 0);

    // It may still count as there when it is asked; then the leader does without it.
    let gone = trio.follower();
    trio.kill(gone);
    assert_ne!(take(&trio, leader)["written_by"], number(gone));
    let (status, _, body) = trio.http(leader).send("POST", "/api/v1/snapshots/work?node_id=9", b"");
    assert_eq!(status, 401, "{body}");
}
