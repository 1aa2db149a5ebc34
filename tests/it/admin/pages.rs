//! Pages in the peer's forms: text for text where the peer prints it.

use super::seed::{BASE, SEGMENT, SIZE, Seeded};

const JSON: &str = "application/json; charset=utf-8";
const TEXT: &str = "text/plain; version=0.0.4";
const NOT_FOUND: &str = r#"{"success":false,"error_code":-704,"error_message":"OBJECT_NOT_FOUND"}"#;

fn page(seeded: &Seeded, path: &str) -> (u16, String, String) {
    seeded.http().send("GET", path, b"")
}

fn is(status: u16, kind: &str, body: &str) -> (u16, String, String) {
    (status, kind.to_owned(), body.to_owned())
}

#[test]
fn a_node_says_what_it_is_in_the_peers_words() {
    let seeded = Seeded::start(&[]);
    let health = concat!(
        r#"{"status":"ok","role":"leader","ha_state":"serving","service_ready":true,"#,
        r#""leader_address":null,"view_version":null}"#
    );
    assert_eq!(page(&seeded, "/health"), is(200, JSON, health));
    assert_eq!(page(&seeded, "/role"), is(200, "text/plain; charset=utf-8", "leader"));
    assert_eq!(page(&seeded, "/ha_status"), is(200, "text/plain; charset=utf-8", "serving"));
    let leader = r#"{"present":false,"leader_address":null,"view_version":null}"#;
    assert_eq!(page(&seeded, "/leader"), is(200, JSON, leader));
    assert_eq!(page(&seeded, "/ready").0, 200);
    let summary = page(&seeded, "/metrics/summary");
    assert_eq!((summary.0, summary.1.as_str()), (200, TEXT));
    let start =
        "role=leader, state=serving, service_ready=true, master={Mem Storage: 0 B / 32.00 MB";
    assert!(summary.2.starts_with(start), "{}", summary.2);
    for (method, path) in [("GET", "/"), ("GET", "/nope"), ("POST", "/health")] {
        let answer = seeded.http().send(method, path, b"");
        assert_eq!((answer.0, answer.2.as_str()), (404, "404 Not Found"), "{method} {path}");
    }
}

#[test]
fn segments_are_shown_as_the_peer_shows_them() {
    let seeded = Seeded::start(&[]);
    seeded.put(b"k", 76_100, None);
    assert_eq!(page(&seeded, "/get_all_segments"), is(200, TEXT, &format!("{SEGMENT}\n")));
    let usage = format!("{SEGMENT}\nUsed(bytes): 76100\nCapacity(bytes) : {SIZE}\n");
    let encoded = SEGMENT.replace(':', "%3A");
    for name in [SEGMENT, &encoded] {
        assert_eq!(page(&seeded, &format!("/query_segment?segment={name}")), is(200, TEXT, &usage));
        let status = format!(
            concat!(
                r#"{{"success":true,"segment":"{SEGMENT}","status":1,"status_name":"OK","#,
                r#""error_code":0,"error_message":""}}"#
            ),
            SEGMENT = SEGMENT
        );
        let path = format!("/api/v1/segments/status?segment={name}");
        assert_eq!(page(&seeded, &path), is(200, JSON, &status));
    }
    let failed = is(500, TEXT, "Failed to query segment");
    assert_eq!(page(&seeded, "/query_segment"), failed);
    assert_eq!(page(&seeded, "/query_segment?segment=nope"), failed);
    let missing =
        r#"{"success":false,"error_code":-600,"error_message":"Missing segment query parameter"}"#;
    assert_eq!(page(&seeded, "/api/v1/segments/status"), is(400, JSON, missing));
    let unknown = r#"{"success":false,"error_code":-101,"error_message":"SEGMENT_NOT_FOUND"}"#;
    assert_eq!(page(&seeded, "/api/v1/segments/status?segment=nope"), is(404, JSON, unknown));
    let detail = format!(
        concat!(
            r#"{{"total_segments":1,"segments":[{{"segment_name":"{SEGMENT}","#,
            r#""segment_id":"3-4","client_id":"7-9","base_address":"{BASE:#x}","#,
            r#""size_bytes":{SIZE},"size_human":"0.03125 GiB","#,
            r#""te_endpoint":"10.0.0.1:15000","protocol":"tcp","status":"OK","#,
            r#""allocator_used_bytes":76100,"allocator_capacity_bytes":{SIZE},"#,
            r#""allocator_usage_percent":2.2679567337036133E-1}}]}}"#
        ),
        SEGMENT = SEGMENT,
        BASE = BASE,
        SIZE = SIZE
    );
    assert_eq!(page(&seeded, "/get_segments_detail"), is(200, JSON, &detail));
}

#[test]
fn a_queried_key_is_leased_and_counted_and_found_however_it_is_written() {
    let seeded = Seeded::start(&["--default_kv_lease_ttl=1h"]);
    let key = "b/c caf\u{e9}";
    seeded.put(key.as_bytes(), 5_000, None);
    let data = format!(
        concat!(
            r#"{{"success":true,"data":[{{"size_":5000,"buffer_address_":{BASE},"#,
            r#""protocol_":"tcp","transport_endpoint_":"10.0.0.1:15000"}}]}}"#
        ),
        BASE = BASE
    );
    for path in ["b/c%20caf%C3%A9", "b%2Fc+caf%C3%A9"] {
        let encoded = format!("/api/v1/object?key={path}");
        assert_eq!(seeded.http().json(&encoded)["key"], key);
        assert_eq!(page(&seeded, &format!("/query_key?key={path}")), is(200, JSON, &data));
    }
    for path in ["/query_key", "/query_key?key=", "/query_key?key=nope"] {
        assert_eq!(page(&seeded, path), is(404, JSON, NOT_FOUND), "{path}");
    }
    let counts = ["total_get_nums_", "valid_get_nums_", "mem_cache_hit_nums_"];
    assert_eq!(counts.map(|name| seeded.master.count(name)), [5, 2, 2]);
    assert_eq!(seeded.master.count("master_get_replica_list_failures_total"), 3);
    let refused = seeded.http().send("POST", "/api/v1/remove_all", b"");
    assert_eq!(refused, is(200, JSON, r#"{"success":true,"removed_count":0}"#));
    let forced = seeded.http().send("POST", "/api/v1/remove_all?force=true", b"");
    assert_eq!(forced, is(200, JSON, r#"{"success":true,"removed_count":1}"#));
}

#[test]
fn a_batch_of_keys_is_shown_sorted_and_grants_no_lease() {
    let seeded = Seeded::start(&[]);
    seeded.put(b"b/c d", 100, None);
    let item = format!(
        concat!(
            r#"{{"ok":true,"error":null,"values":[{{"size_":100,"buffer_address_":{BASE},"#,
            r#""protocol_":"tcp","transport_endpoint_":"10.0.0.1:15000"}}],"#,
            r#""disk_values":null,"local_disk_values":null,"nof_values":null}}"#
        ),
        BASE = BASE
    );
    let gone = concat!(
        r#"{"ok":false,"error":"OBJECT_NOT_FOUND","values":null,"disk_values":null,"#,
        r#""local_disk_values":null,"nof_values":null}"#
    );
    let body = format!(r#"{{"success":true,"data":{{"a":{gone},"b/c d":{item}}}}}"#);
    let path = "/batch_query_keys?keys=b%2Fc+d,a";
    let lease = || seeded.http().json("/api/v1/object?key=b/c+d")["lease_ms"].clone();
    let before = lease();
    assert_eq!(page(&seeded, path), is(200, JSON, &body));
    assert_eq!(lease(), before);
    let none = r#"{"success":false,"error":"No keys provided. Use ?keys=key1,key2,..."}"#;
    assert_eq!(page(&seeded, "/batch_query_keys?keys="), is(400, JSON, none));
}

#[test]
fn every_readable_key_is_listed_once_and_a_broken_one_encoded() {
    let seeded = Seeded::start(&[]);
    for n in 0..300 {
        seeded.put(format!("k{n}").as_bytes(), 10, None);
    }
    seeded.put(b"line\nfeed", 10, None);
    seeded.put(b"\xff", 10, None);
    seeded.put_start(b"unfinished", 10, None);
    let (status, kind, body) = page(&seeded, "/get_all_keys");
    assert_eq!((status, kind.as_str()), (200, TEXT));
    let mut keys: Vec<&str> = body.lines().collect();
    keys.sort_unstable();
    let mut expected: Vec<String> = (0..300).map(|n| format!("k{n}")).collect();
    expected.extend(["line%0Afeed".to_owned(), "%FF".to_owned()]);
    expected.sort_unstable();
    assert_eq!(keys, expected);
}
