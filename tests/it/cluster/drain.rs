//! A drain job that stock clients carry out, with the leader killed in the middle of it.

use std::time::Duration;

use super::trio::{ELECTED, Trio};
use crate::support::{Got, Value, WriteConfig, eventually_within};

/// Long enough for the moves of all values by a client that asks for work once a second.
const MOVED: Duration = Duration::from_secs(120);

fn job(trio: &Trio, id: &str) -> serde_json::Value {
    let path = format!("/api/v1/drain_jobs/query?job_id={id}");
    // Between two leaders nobody knows it.
    let answer = trio.http(trio.leader()).try_get(&path);
    answer.and_then(|(_, body)| serde_json::from_str(&body).ok()).unwrap_or_default()
}

#[test]
fn stock_clients_drain_a_segment_over_the_death_of_a_leader() {
    // A move that was handed out and never heard of again ends by this timeout, and is tried again.
    let mut trio = Trio::start(&["--client_ttl=600", "--processing_task_timeout_sec=15"]);
    let Some(mut source) = trio.client("source", &trio.etcd(), 64) else { return };
    let Some(mut target) = trio.client("target", &trio.etcd(), 64) else { return };
    let values = Value::several("v/", 60, 200_000);
    let config = WriteConfig::soft_pin_for(3_600_000).on(source.segment());
    for value in &values {
        assert_eq!(source.put_with(value, &config), 0);
    }
    let before = trio.told();
    let body = format!("{{\"segments\":[\"{}\"],\"max_concurrency\":8}}", source.segment());
    let http = trio.http(trio.leader());
    let (status, _, text) = http.send("POST", "/api/v1/drain_jobs", body.as_bytes());
    assert_eq!(status, 200, "{text}");
    let made: serde_json::Value = serde_json::from_str(&text).unwrap();
    let id = made["job_id"].as_str().unwrap().to_owned();
    eventually_within(MOVED, "some values are moved", || {
        job(&trio, &id)["succeeded_units"].as_u64().is_some_and(|moved| moved > 0)
    });
    let halfway = job(&trio, &id);
    assert_eq!(halfway["status_name"], "RUNNING", "{halfway}");
    let leader = trio.leader();
    trio.kill(leader);
    assert_ne!(trio.leader(), leader);
    eventually_within(MOVED, "the segment is empty", || {
        job(&trio, &id)["status_name"] == "SUCCEEDED"
    });
    trio.start_again(leader);
    trio.settled();
    let after = trio.told();
    assert_eq!((after.pins, after.keys), (before.pins, before.keys), "no key lost, no pin moved");
    assert_eq!(source.close(), 0);
    eventually_within(ELECTED, "its segment is gone", || trio.told().segments.len() == 1);
    for value in &values {
        assert_eq!(target.get(value), Got::Right, "{}", value.key);
    }
}
