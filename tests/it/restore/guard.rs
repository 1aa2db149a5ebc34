//! No wrong bytes after a restore, with the stock client: the sequence by which the release that lets pins
//! survive serves foreign bytes (snapshot format 12).

use std::fs;

use serde_json::Value as Json;

use crate::support::{Got, Master, StockClient, Value, WriteConfig, eventually, venv};

const HOUR_MS: u64 = 3_600_000;

fn take(master: &Master) -> Json {
    let (status, _, body) = master.http().send("POST", "/api/v1/snapshots", b"");
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).unwrap()
}

/// Removes values as soon as no read lease protects them.
fn remove_all(client: &mut StockClient, values: &[Value]) {
    const GONE: i64 = -704;
    eventually("the leases are over", || {
        client.batch_remove(values, false).iter().all(|code| matches!(*code, 0 | GONE))
    });
}

/// The cluster is lost with its log; a new one starts from the catalog at the same address.
fn lose_and_restore(master: &mut Master, dir: &std::path::Path) {
    master.kill();
    fs::remove_dir_all(dir.join("data")).unwrap();
    master.start_again();
}

#[test]
fn a_pinned_object_removed_after_the_snapshot_reads_right_or_not_at_all_after_a_restore() {
    let Some(venv) = venv::find() else { return };
    let (dir, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = format!("--snapshot_local_path={}", root.path().display());
    let flags = [
        "--enable_snapshot",
        "--enable_snapshot_restore",
        "--snapshot_interval_seconds=100000",
        "--default_kv_lease_ttl=3000",
        &path,
    ];
    let mut master = Master::ours(dir.path(), &flags);
    let mut client = StockClient::spawn(&venv, "c", dir.path());
    assert_eq!(client.setup(&master.address(), 32 << 20), 0);
    let saved = Value::several("saved/", 8, 1 << 20);
    assert_eq!(client.put_batch(&saved, &WriteConfig::soft_pin_for(HOUR_MS)), 0);
    let keys: Vec<String> = saved.iter().map(|value| value.key.clone()).collect();
    let places = client.batch_replicas(&keys);
    take(&master);
    // Removed after the snapshot; then others come and would take the memory.
    remove_all(&mut client, &saved);
    let others = Value::several("other/", 12, 1 << 20);
    assert_eq!(client.put_batch(&others, &WriteConfig::soft_pin_for(HOUR_MS)), 0);
    let names: Vec<String> = others.iter().map(|value| value.key.clone()).collect();
    let taken: Vec<u64> = places.iter().flat_map(|(_, all)| all).map(|at| at.address).collect();
    for (key, all) in client.batch_replicas(&names) {
        let is_reused = all.iter().any(|at| taken.contains(&at.address));
        assert!(!is_reused, "{key} lies where a saved object lay");
    }
    let guarded = master.http().json("/api/v1/restore")["guarded_bytes"].as_u64();
    assert_eq!(guarded, Some(8 << 20));

    lose_and_restore(&mut master, dir.path());
    let page = master.http().json("/api/v1/restore");
    assert_eq!(
        (&page["outcome"], &page["report"]["candidates"][0]["pins_kept"]),
        (&"restored".into(), &8.into())
    );
    eventually("the client is back with its segment", || {
        let page = master.http().json("/api/v1/restore");
        page["unclaimed_segments"].as_array().unwrap().is_empty()
    });
    for value in &saved {
        assert_eq!(client.get(value), Got::Right, "{value:?}");
    }
    // New objects take the memory of those that the snapshot did not know, and of nobody else.
    let fresh = Value::several("new/", 16, 1 << 20);
    assert_eq!(client.put_batch(&fresh, &WriteConfig::default()), 0);
    for value in saved.iter().chain(&fresh) {
        assert_eq!(client.get(value), Got::Right, "{value:?}");
    }
    assert!(client.get(&others[0]) != Got::Right, "it was never saved");
}

#[test]
fn guarded_memory_is_used_again_after_the_next_snapshot() {
    let Some(venv) = venv::find() else { return };
    let (dir, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = format!("--snapshot_local_path={}", root.path().display());
    let flags = [
        "--enable_snapshot",
        "--snapshot_interval_seconds=100000",
        "--default_kv_lease_ttl=3000",
        &path,
    ];
    let master = Master::ours(dir.path(), &flags);
    let mut client = StockClient::spawn(&venv, "c", dir.path());
    assert_eq!(client.setup(&master.address(), 16 << 20), 0);
    let saved = Value::several("saved/", 12, 1 << 20);
    assert_eq!(client.put_batch(&saved, &WriteConfig::soft_pin_for(HOUR_MS)), 0);
    take(&master);
    remove_all(&mut client, &saved);
    assert_eq!(master.count("master_allocated_bytes"), 12 << 20);
    take(&master);
    eventually("the memory is free", || master.count("master_allocated_bytes") == 0);
    let others = Value::several("other/", 12, 1 << 20);
    assert_eq!(client.put_batch(&others, &WriteConfig::default()), 0);
}
