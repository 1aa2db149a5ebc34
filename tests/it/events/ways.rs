//! Every way in which an object comes or goes, and the form in which it is told.

use mooncake_ha::wire::calls as c;
use mooncake_ha::wire::requests as r;
use serde_json::{Value as Json, json};

use super::store::{Client, Store, id, segment_id};
use super::subscriber::Subscriber;
use crate::support::eventually;

const TENANT: &[u8] = b"";

/// Waits until exactly these events were told since the beginning of `told`, and notes them.
#[track_caller]
fn hear(subscriber: &Subscriber, told: &mut usize, expected: &[&str]) {
    let mut heard = Vec::new();
    eventually(&format!("{expected:?} is told"), || {
        heard = subscriber.events().split_off(*told);
        heard.len() >= expected.len()
    });
    assert_eq!(heard, expected);
    *told += expected.len();
}

fn put_all(client: &Client, keys: &[&str]) {
    keys.iter().for_each(|key| client.put(key));
}

#[test]
fn whatever_removes_an_object_tells_it() {
    let store = Store::start(&["--default_kv_lease_ttl=1"]);
    let Some(subscriber) = Subscriber::start(&[store.port]) else { return };
    let (client, mut told) = (&store.client, 0);
    let mut hear = |expected: &[&str]| hear(&subscriber, &mut told, expected);

    client.start_on(1, "a");
    client.end("a");
    hear(&["+a"]);
    client.remove("a");
    hear(&["-a"]);

    put_all(client, &["b1", "b2", "c1", "d1"]);
    hear(&["+b1", "+b2", "+c1", "+d1"]);
    let keys = vec![b"b2".as_slice(), b"b1"];
    let removed = client.call::<c::BatchRemove>(&r::BatchRemoveRequest {
        keys,
        force: true,
        tenant_id: TENANT,
    });
    assert_eq!(removed, [Ok(()), Ok(())]);
    hear(&["-b2", "-b1"]);
    let regex = r::RemoveByRegexRequest { regex: b"^c".as_slice(), force: true, tenant_id: TENANT };
    assert_eq!(client.call::<c::RemoveByRegex>(&regex), Ok(1));
    hear(&["-c1"]);
    let all = r::RemoveAllRequest { force: true, tenant_id: TENANT };
    assert_eq!(client.call::<c::RemoveAll>(&all), 1);
    hear(&["-d1"]);
    assert_numbers_have_no_gap(&subscriber);
}

#[test]
fn replaced_and_lost_objects_are_told_and_revoked_ones_are_not() {
    let store = Store::start(&["--default_kv_lease_ttl=1"]);
    let Some(subscriber) = Subscriber::start(&[store.port]) else { return };
    let (client, mut told) = (&store.client, 0);
    let mut hear = |expected: &[&str]| hear(&subscriber, &mut told, expected);

    // Replaced in place: not there while it is written.
    client.put("u");
    hear(&["+u"]);
    client.upsert_start("u", 1000);
    hear(&["-u"]);
    client.end("u");
    hear(&["+u"]);
    client.upsert_start("u", 2000);
    hear(&["-u"]);
    client.end("u");
    hear(&["+u"]);
    client.remove("u");
    hear(&["-u"]);

    // A revoked write and an unfinished one were never there.
    client.start_on(1, "r");
    let revoke = r::PutRevokeRequest {
        client_id: id(1),
        key: b"r".as_slice(),
        replica_type: mooncake_ha::wire::types::ReplicaType::ALL,
        tenant_id: TENANT,
    };
    client.call::<c::PutRevoke>(&revoke).unwrap();
    client.start_on(1, "open");

    client.put("clear");
    hear(&["+clear"]);
    let clear = r::BatchReplicaClearRequest {
        object_keys: vec![b"clear".as_slice()],
        client_id: id(1),
        segment_name: b"".as_slice(),
    };
    assert_eq!(client.call::<c::BatchReplicaClear>(&clear).unwrap().len(), 1);
    hear(&["-clear"]);

    client.start_on(2, "far");
    client.end("far");
    hear(&["+far"]);
    let unmount = r::UnmountSegmentRequest { segment_id: segment_id(2), client_id: id(2) };
    client.call::<c::UnmountSegment>(&unmount).unwrap();
    hear(&["-far"]);
    assert_numbers_have_no_gap(&subscriber);
}

/// Messages and events are numbered from 1 on.
fn assert_numbers_have_no_gap(subscriber: &Subscriber) {
    let known = subscriber.known();
    let numbers: Vec<u64> = known.keys().copied().collect();
    assert_eq!(numbers, (1..=known.len() as u64).collect::<Vec<_>>());
    let ids = known.values().flat_map(|message| &message.events);
    let ids: Vec<u64> = ids.map(|event| event.field("event_id").as_u64().unwrap()).collect();
    assert_eq!(ids, (1..=ids.len() as u64).collect::<Vec<_>>());
}

#[test]
fn eviction_and_a_client_that_is_given_up_are_told() {
    let store = Store::start(&["--default_kv_lease_ttl=1", "--client_ttl=1"]);
    let Some(subscriber) = Subscriber::start(&[store.port]) else { return };
    // More than the memory of both holds: 64 MiB.
    for n in 0..70 {
        let key = format!("e{n}");
        let config = mooncake_ha::wire::types::ReplicateConfig::default();
        let start = r::PutStartRequest {
            client_id: id(1),
            key: key.as_bytes(),
            slice_length: 1 << 20,
            config,
            tenant_id: TENANT,
        };
        eventually("there is room", || {
            // Both are to be alive until now.
            let _ = (store.client.call::<c::Ping>(&id(1)), store.client.call::<c::Ping>(&id(2)));
            store.client.call::<c::PutStart>(&start).is_ok()
        });
        store.client.end(&key);
    }
    eventually("something is evicted and told", || {
        let evicted = store.master.count("master_evicted_key_count");
        evicted > 0 && subscriber.keys().len() as u64 == store.master.count("master_key_count")
    });
    // Nobody pings any more: their segments go, and all objects with them.
    eventually("everything is gone and told", || {
        subscriber.keys().is_empty() && store.master.count("master_key_count") == 0
    });
}

#[test]
fn an_event_has_the_peers_fields_and_the_operators_choices() {
    let store = Store::start(&[]);
    let Some(subscriber) = Subscriber::start(&[store.port]) else { return };
    store.client.put("0x80000000000000ff");
    store.client.remove("0x80000000000000ff");
    eventually("both are told", || subscriber.events().len() == 2);
    let messages = subscriber.heard();
    let stored = &messages[0].events[0];
    let head = [
        "event_id",
        "timestamp",
        "event_type",
        "type",
        "model_name",
        "block_size",
        "additional_salt",
        "lora_name",
        "tenant_id",
        "backend_id",
        "group_id",
        "medium",
        "dp_rank",
        "object_key",
        "seq_hashes",
        "block_hashes",
        "base_block_idx",
    ];
    let tail = ["parent_hash", "token_ids", "parent_block_hash"];
    assert_eq!(stored.names(), [head.as_slice(), &tail].concat());
    for (name, value) in [
        ("event_id", json!(1)),
        ("timestamp", json!(messages[0].timestamp)),
        ("event_type", json!("stored")),
        ("type", json!("BlockStored")),
        ("model_name", Json::Null),
        ("tenant_id", json!("default")),
        ("backend_id", json!("cache-a")),
        ("group_id", Json::Null),
        ("medium", json!("cpu")),
        ("object_key", json!("0x80000000000000ff")),
        ("seq_hashes", json!([0x8000_0000_0000_00ff_u64])),
        ("block_hashes", json!([0x8000_0000_0000_00ff_u64.cast_signed()])),
        ("base_block_idx", json!(0)),
    ] {
        assert_eq!(*stored.field(name), value, "{name}");
    }
    let removed = &messages[1].events[0];
    assert_eq!(removed.names(), head);
    assert_eq!(*removed.field("type"), json!("BlockRemoved"));
    assert_eq!(*removed.field("base_block_idx"), Json::Null);

    let status = store.master.http().json("/kv_events/status");
    assert_eq!(status["enabled"], true, "{status}");
    assert_eq!(
        (status["published_batches"].as_u64(), status["published_events"].as_u64()),
        (Some(2), Some(2))
    );
    assert_eq!(store.master.count("master_kv_event_subscribers"), 1);
    assert_eq!(store.master.count("master_kv_event_sequence"), 2);
}

#[test]
fn without_legacy_fields_and_keys_only_numbers_are_told_and_none_is_skipped_in_the_count() {
    let store = Store::start(&[
        "--kv_events_emit_legacy_compat=false",
        "--kv_events_emit_object_key=false",
    ]);
    let Some(subscriber) = Subscriber::start(&[store.port]) else { return };
    put_all(&store.client, &["name", "17"]);
    eventually("both messages come", || subscriber.known().len() == 2);
    let messages = subscriber.heard();
    assert!(messages[0].events.is_empty());
    let event = &messages[1].events[0];
    assert_eq!((event.field("event_id"), event.field("seq_hashes")), (&json!(2), &json!([17])));
    assert!(
        !event.names().iter().any(|name| ["type", "block_hashes", "object_key"].contains(name))
    );
    let status = store.master.http().json("/kv_events/status");
    assert_eq!(status["skipped_unparsed_keys"], 1, "{status}");
}
