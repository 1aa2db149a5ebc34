//! Both ways between us and the real master, under a stock client that keeps running and keeps its memory.

use std::fs;

use crate::support::{
    Got, Master, Placed, StockClient, Value, WriteConfig, eventually, peer_at_root, venv,
};

const LEASE: &str = "--default_kv_lease_ttl=600000";

fn assert_disjoint(mut all: Vec<Placed>) {
    all.sort_by_key(|at| (at.endpoint.clone(), at.address));
    for pair in all.windows(2) {
        let is_same = pair[0].endpoint == pair[1].endpoint;
        assert!(!is_same || pair[0].address + pair[0].size <= pair[1].address, "{pair:?}");
    }
}

fn names(values: &[Value]) -> Vec<String> {
    values.iter().map(|value| value.key.clone()).collect()
}

fn places(client: &mut StockClient, values: &[Value]) -> Vec<Placed> {
    client.batch_replicas(&names(values)).into_iter().flat_map(|(_, all)| all).collect()
}

/// Old values read right, new ones can be put, and nothing overlaps.
fn assert_goes_on(client: &mut StockClient, old: &[Value]) {
    eventually("the client has found the new master", || client.get(&old[0]) == Got::Right);
    for value in old {
        assert_eq!(client.get(value), Got::Right, "{value:?}");
    }
    let new = Value::several("new/", 100, 20_000);
    assert_eq!(client.put_batch(&new, &WriteConfig::default()), 0);
    for value in old.iter().chain(&new) {
        assert_eq!(client.get(value), Got::Right, "{value:?}");
    }
    let mut all = places(client, old);
    all.extend(places(client, &new));
    assert_eq!(all.len(), old.len() + new.len());
    assert_disjoint(all);
}

#[test]
fn the_real_master_restores_ours_and_its_client_reads_and_writes_on() {
    let Some(venv) = venv::find() else { return };
    if !venv.peer_master.exists() {
        return venv::skip("the real master is not beside the client");
    }
    let (dir, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = format!("--snapshot_local_path={}", root.path().display());
    let master = Master::ours(dir.path(), &["--enable_snapshot", &path, LEASE]);
    let mut client = StockClient::spawn(&venv, "c", dir.path());
    assert_eq!(client.setup(&master.address(), 32 << 20), 0);
    let values = Value::several("k/", 60, 30_000);
    assert_eq!(client.put_batch(&values, &WriteConfig::default()), 0);
    assert_eq!(client.batch_remove(&values[40..], false), [0; 20]);
    let values = &values[..40];
    assert_eq!(client.batch_is_exist(values), [1; 40]);
    let (status, _, body) = master.http().send("POST", "/api/v1/snapshots", b"");
    assert_eq!(status, 200, "{body}");
    let program = peer_at_root(&venv.peer_master, root.path(), dir.path());
    let store = "--snapshot_object_store_type=local";
    let peer =
        master.replaced_by_peer(&program, dir.path(), &["--enable_snapshot_restore", store, LEASE]);
    eventually("the peer has the keys", || peer.count("master_key_count") == 40);
    assert_goes_on(&mut client, values);
}

#[test]
fn we_restore_the_real_masters_snapshot_and_its_client_reads_and_writes_on() {
    let Some(venv) = venv::find() else { return };
    if !venv.peer_master.exists() {
        return venv::skip("the real master is not beside the client");
    }
    let (dir, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let program = peer_at_root(&venv.peer_master, root.path(), dir.path());
    let store = "--snapshot_object_store_type=local";
    let flags = ["--enable_snapshot", "--snapshot_interval_seconds=1", store, LEASE];
    let peer = Master::peer(&program, dir.path(), &flags);
    let mut client = StockClient::spawn(&venv, "c", dir.path());
    assert_eq!(client.setup(&peer.address(), 32 << 20), 0);
    let values = Value::several("k/", 40, 30_000);
    assert_eq!(client.put_batch(&values, &WriteConfig::default()), 0);
    assert_eq!(client.batch_is_exist(&values), [1; 40]);
    let cluster = super::fresh::cluster_in(root.path());
    let count = || fs::read_dir(&cluster).map_or(0, Iterator::count);
    // Two that began after the keys were leased: the directory grows to its bound and changes on.
    eventually("it has taken some", || count() > 2);
    let newest = fs::read_to_string(cluster.join("latest.txt")).unwrap();
    eventually("it has taken one more", || {
        fs::read_to_string(cluster.join("latest.txt")).is_ok_and(|now| now > newest)
    });
    let path = format!("--snapshot_local_path={}", root.path().display());
    let ours = peer.replaced_by_ours(dir.path(), &["--enable_snapshot_restore", &path, LEASE]);
    let page = ours.http().json("/api/v1/restore");
    assert_eq!(
        (&page["outcome"], ours.count("master_key_count")),
        (&"restored".into(), 40),
        "{page}"
    );
    // The peer's snapshots lack the protocol, and there a client is refused for ever; here it is adopted.
    eventually("its segment is claimed", || {
        let page = ours.http().json("/api/v1/restore");
        page["unclaimed_segments"].as_array().unwrap().is_empty()
    });
    assert_eq!(ours.count("master_active_clients"), 1);
    assert_goes_on(&mut client, &values);
}
