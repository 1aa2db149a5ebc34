//! Catalog snapshots of a running master with a stock client's data: our tool finds nothing, the peer restores.

use std::path::Path;
use std::process::Command;

use serde_json::Value as Json;

use crate::support::{Master, StockClient, Value, WriteConfig, eventually, peer_at_root, venv};

const LEASE: &str = "--default_kv_lease_ttl=10m";

/// Has a snapshot taken; answers its id.
fn take(master: &Master) -> String {
    let (status, _, body) = master.http().send("POST", "/api/v1/snapshots", b"");
    assert_eq!(status, 200, "{body}");
    let taken: Json = serde_json::from_str(&body).unwrap();
    taken["id"].as_str().unwrap().to_owned()
}

/// Exit code and JSON of `snapshot verify`.
fn verify(root: &Path) -> (i32, Json) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mooncake-ha"));
    let output = command.args(["snapshot", "verify", "--json"]).arg(root).output().unwrap();
    (output.status.code().unwrap(), serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
fn a_snapshot_verifies_clean_and_the_peer_restores_its_keys() {
    let Some(venv) = venv::find() else { return };
    let (dir, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = format!("--snapshot_local_path={}", root.path().display());
    let flags = ["--enable_snapshot", "--snapshot_retention_count=1", &path, LEASE];
    let master = Master::ours(dir.path(), &flags);
    let mut client = StockClient::spawn(&venv, "c", dir.path());
    assert_eq!(client.setup(&master.address(), 32 << 20), 0);
    let values = Value::several("k/", 40, 1000);
    assert_eq!(client.put_batch(&values, &WriteConfig::soft_pin_for(3_600_000)), 0);
    let program = env!("CARGO_BIN_EXE_mooncake-ha");
    let asked = Command::new(program)
        .args(["snapshot", "take", "--json", "--admin", &master.http().url("/")])
        .output()
        .unwrap();
    assert_eq!(asked.status.code(), Some(0), "{asked:?}");
    let first = serde_json::from_slice::<Json>(&asked.stdout).unwrap()["id"].clone();
    let first = first.as_str().unwrap().to_owned();
    // Exist grants the read lease by which the peer lets an object survive.
    assert_eq!(client.batch_is_exist(&values), [1; 40]);
    let second = take(&master);
    assert!(second > first, "{second} is not after {first}");

    let (code, verified) = verify(root.path());
    let report = &verified["snapshots"][0];
    assert_eq!((code, verified["snapshots"].as_array().unwrap().len()), (0, 1), "{verified}");
    assert_eq!((&report["id"], &report["kept"]["objects"]), (&second.into(), &40.into()));
    assert_eq!(report["pins_kept"], 40, "{report}");
    assert_eq!(master.count("master_snapshot_success"), 2);

    if !venv.peer_master.exists() {
        return venv::skip("the real master is not beside the client, so it restored nothing");
    }
    let other = tempfile::tempdir().unwrap();
    let program = peer_at_root(&venv.peer_master, root.path(), other.path());
    let store = "--snapshot_object_store_type=local";
    let peer = Master::peer(&program, other.path(), &["--enable_snapshot_restore", store, LEASE]);
    eventually("the peer has the keys", || peer.count("master_key_count") == 40);
}

#[test]
fn snapshots_come_at_the_interval_and_none_can_be_asked_for_where_they_are_off() {
    let (dir, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = format!("--snapshot_local_path={}", root.path().display());
    let flags = ["--enable_snapshot", "--snapshot_interval_seconds=1", &path];
    let master = Master::ours(dir.path(), &flags);
    eventually("two were taken", || master.count("master_snapshot_success") >= 2);
    drop(master);
    assert_eq!(verify(root.path()).0, 0);

    let master = Master::ours(dir.path(), &[]);
    let (status, _, body) = master.http().send("POST", "/api/v1/snapshots", b"");
    assert!(status == 400 && body.contains("--enable_snapshot"), "{status} {body}");
}
