//! A bucket keeps the promises of a store, and a node and the tools use it under the peer's names.

use mooncake_ha::backup::{Place, open_store_with};
use mooncake_ha_snapshot::store::StoreError;

use super::{fixture, json, servers, snapshot};
use crate::support::{Master, eventually};

fn lookup(env: &[(String, String)]) -> impl Fn(&str) -> Option<String> {
    move |name| env.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
}

#[test]
fn a_bucket_keeps_what_is_put_with_and_without_a_prefix() {
    let Some((_server, env)) = servers::s3() else { return };
    for root in ["s3://bucket", "s3://bucket/a/prefix"] {
        let place = Place::parse(root).unwrap();
        let store = open_store_with(&place, false, &lookup(&env)).unwrap();
        store.put("a/b/one", b"1").unwrap();
        store.put("a/b/two", b"2").unwrap();
        store.put("a/c", b"3").unwrap();
        store.put("a/b/one", b"11").unwrap();
        assert_eq!(store.get("a/b/one", 10).unwrap(), b"11", "{root}");
        assert_eq!(store.list("a/b").unwrap(), ["a/b/one", "a/b/two"], "{root}");
        assert!(store.list("nowhere").unwrap().is_empty(), "{root}");
        assert!(matches!(store.get("a/b/one", 1), Err(StoreError::TooLarge { bytes: 2, .. })));
        assert!(matches!(store.get("../x", 1), Err(StoreError::BadKey { .. })));
        store.delete("a/b/two").unwrap();
        store.delete("a/b/two").unwrap();
        assert!(store.get("a/b/two", 10).unwrap_err().is_not_found(), "{root}");
        store.delete_prefix("a/b").unwrap();
        assert_eq!(store.list("a").unwrap(), ["a/c"], "{root}");
    }
}

#[test]
fn a_file_larger_than_one_request_arrives_whole() {
    let Some((_server, env)) = servers::s3() else { return };
    let store =
        open_store_with(&Place::parse("s3://bucket").unwrap(), false, &lookup(&env)).unwrap();
    let bytes: Vec<u8> = (0..40_u32 << 20).map(|at| (at % 251) as u8).collect();
    store.put("large", &bytes).unwrap();
    assert!(store.get("large", 1 << 40).unwrap() == bytes);
}

#[test]
fn a_server_that_is_gone_is_an_error_that_names_the_bucket() {
    let Some((mut server, env)) = servers::s3() else { return };
    let store =
        open_store_with(&Place::parse("s3://bucket/p").unwrap(), false, &lookup(&env)).unwrap();
    server.kill();
    let error = store.get("a", 10).unwrap_err();
    assert!(!error.is_not_found());
    let text = error.to_string();
    assert!(text.contains("s3://bucket/p/a") && text.contains("MOONCAKE_AWS"), "{text}");
    let (code, _, err) = snapshot(&["list", "s3://bucket"], &env);
    assert!(code == 3 && err.contains("s3://bucket"), "{code} {err}");
}

#[test]
fn the_tools_look_at_a_bucket_as_at_a_directory() {
    let Some((_server, env)) = servers::s3() else { return };
    let from = fixture("keys_5k");
    let moved = json(&["export", "s3://bucket/moved", "--from", &from.display().to_string()], &env);
    assert_eq!(moved["objects"], 5000);
    let listed = json(&["list", "s3://bucket/moved"], &env);
    assert_eq!(listed["latest"], moved["id"]);
    let shown = json(&["inspect", "s3://bucket/moved"], &env);
    assert_eq!(shown["summary"]["objects"]["objects"], 5000);
    let (code, out, err) = snapshot(&["verify", "s3://bucket/moved"], &env);
    assert_eq!((code, out.trim_end().lines().last()), (0, Some("good")), "{out}{err}");
    assert_eq!(snapshot(&["list", "s3://nowhere"], &env).0, 3);
}

#[test]
fn a_node_publishes_in_the_bucket_that_the_peers_variable_names_and_retires_there() {
    let Some((_server, env)) = servers::s3() else { return };
    let dir = tempfile::tempdir().unwrap();
    let flags = [
        "--enable_snapshot",
        "--snapshot_object_store_type=s3",
        "--snapshot_interval_seconds=1",
        "--snapshot_retention_count=2",
    ];
    let master = Master::ours_with(dir.path(), &flags, &env);
    eventually("three were taken", || master.count("master_snapshot_success") >= 3);
    drop(master);
    let listed = json(&["list", "s3://bucket"], &env);
    let ids = listed["snapshots"].as_array().unwrap();
    assert!(ids.len() == 2 || ids.len() == 3, "{listed}");
    assert_eq!(listed["latest"], ids[0]["id"]);
    assert_eq!(snapshot(&["verify", "s3://bucket"], &env).0, 0);
}
