//! `snapshot export`: from a running cluster, and from a root, to where the real master restores.

use std::path::Path;

use super::{fixture, json, snapshot};
use crate::support::{Got, Master, StockClient, Value, WriteConfig, eventually, venv};

#[test]
fn a_running_cluster_moves_to_the_real_master_with_every_value_readable() {
    let Some(venv) = venv::find() else { return };
    let (dir, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let master = Master::ours(dir.path(), &[]);
    let mut client = StockClient::spawn(&venv, "c", dir.path());
    assert_eq!(client.setup(&master.address(), 32 << 20), 0);
    let values = Value::several("k/", 40, 1000);
    assert_eq!(client.put_batch(&values, &WriteConfig::default()), 0);
    let (admin, root) = (master.http().url(""), to.path().display().to_string());

    // Nobody has read anything, so no lease runs and the real master would drop it all.
    let plain = json(&["export", &root, "--admin", &admin], &[]);
    assert_eq!((&plain["objects"], &plain["dropped_by_peer"]), (&40.into(), &40.into()));
    let leased = json(&["export", &root, "--admin", &admin, "--lease", "10m"], &[]);
    assert_eq!((&leased["leased"], &leased["dropped_by_peer"]), (&40.into(), &0.into()));
    assert!(leased["id"].as_str() > plain["id"].as_str());
    assert_eq!(snapshot(&["verify", &root], &[]).0, 0);

    if !venv.peer_master.exists() {
        return venv::skip("the real master is not beside the client, so it restored nothing");
    }
    let other = tempfile::tempdir().unwrap();
    let peer = Master::peer_restoring(&venv.peer_master, to.path(), other.path());
    eventually("the peer has the keys", || peer.count("master_key_count") == 40);
    // The client that wrote them still runs, so its memory still holds the values.
    let mut reader = StockClient::spawn(&venv, "reader", other.path());
    assert_eq!(reader.setup(&peer.address(), 32 << 20), 0);
    for value in &values {
        assert_eq!(reader.get(value), Got::Right, "{value:?}");
    }
}

#[test]
fn a_snapshot_that_lost_objects_to_damage_is_not_exported() {
    let to = tempfile::tempdir().unwrap();
    let from = fixture("corrupted/object_wrong_type");
    let (to, from) = (to.path().display().to_string(), from.display().to_string());
    let (code, _, err) = snapshot(&["export", &to, "--from", &from], &[]);
    assert!(code == 1 && err.contains("see verify"), "{code} {err}");
    assert!(!Path::new(&to).join("mooncake_master_snapshot").exists());
}

#[test]
fn export_needs_one_source() {
    assert_eq!(snapshot(&["export", "x"], &[]).0, 2);
    assert_eq!(snapshot(&["export", "x", "--from", "a", "--admin", "b"], &[]).0, 2);
    let (code, _, err) = snapshot(&["export", "x", "--admin", "127.0.0.1:1"], &[]);
    assert!(code == 3 && err.contains("gives no answer"), "{code} {err}");
}
