//! Our own JSON and the metrics: what an operator sees of pins, replication and use.

use std::io::{Read, Write};
use std::net::{IpAddr, TcpStream, UdpSocket};

use super::seed::{BASE, SEGMENT, SIZE, Seeded};
use crate::support::venv::skip;
use crate::support::{eventually, wall_ms};

#[test]
fn an_object_is_shown_with_everything_that_is_known_of_it() {
    let seeded = Seeded::start(&[]);
    let before = wall_ms();
    seeded.put_start(b"k", 1_000, Some(600_000));
    let waiting = seeded.http().json("/api/v1/object?key=k");
    assert_eq!(waiting["is_readable"], false, "{waiting}");
    assert_eq!(waiting["replicas"][0]["status"], "PROCESSING");
    let pin = &waiting["soft_pin"];
    assert_eq!((&pin["state"], &pin["deadline_ms"]), (&"pending".into(), &().into()), "{pin}");
    assert_eq!(pin["pending"]["action"], "enable");
    assert_eq!(pin["pending"]["ttl_ms"], 600_000);
    assert_eq!(pin["pending"]["eligible"][0], waiting["replicas"][0]["id"]);

    seeded.put_end(b"k");
    let object = seeded.http().json("/api/v1/object?key=k&tenant=default");
    assert_eq!(object["size"], 1_000);
    assert_eq!(object["writer"], "7-9");
    assert_eq!(object["checksum"], 77);
    assert!(object["lease_ms"].as_u64().unwrap() <= wall_ms(), "{object}");
    assert!(object["put_start_ms"].as_u64().unwrap() >= before - 1_000);
    let replica = &object["replicas"][0];
    assert_eq!(replica["status"], "COMPLETE");
    assert_eq!((&replica["segment"], &replica["address"]), (&SEGMENT.into(), &BASE.into()));
    assert_eq!(object["soft_pin"]["state"], "active");
    let deadline = object["soft_pin"]["deadline_ms"].as_u64().unwrap();
    assert!(deadline >= before + 599_000 && deadline <= wall_ms() + 601_000);

    for (path, code) in
        [("?key=nope", 404), ("?key=k&tenant=other", 404), ("", 400), ("?key=k&tenant=_x", 400)]
    {
        let (status, body) = seeded.http().get(&format!("/api/v1/object{path}"));
        assert_eq!(status, code, "{path}: {body}");
        assert!(body.starts_with(r#"{"success":false,"error_code":-"#), "{body}");
    }
}

#[test]
fn soft_pins_are_listed_in_the_order_of_their_deadlines() {
    let seeded = Seeded::start(&[]);
    for (key, ttl) in [(&b"late"[..], 900_000), (b"\xffx", 300_000), (b"middle", 600_000)] {
        seeded.put(key, 10, Some(ttl));
    }
    seeded.put(b"plain", 10, None);
    let page = seeded.http().json("/api/v1/soft_pins");
    assert_eq!((&page["active"], &page["heap_len"]), (&3.into(), &3.into()), "{page}");
    let keys: Vec<_> = page["pins"].as_array().unwrap().iter().map(|pin| &pin["key"]).collect();
    assert_eq!(keys, ["\u{fffd}x", "middle", "late"]);
    assert_eq!(page["pins"][0]["key_encoded"], "%FFx");
    assert_eq!(page["pins"][0]["deadline_ms"], page["next_deadline_ms"]);
    let short = seeded.http().json("/api/v1/soft_pins?limit=1");
    assert_eq!(short["pins"].as_array().unwrap().len(), 1);
    assert_eq!(short["active"], 3);
    let none = seeded.http().json("/api/v1/soft_pins?limit=0");
    assert_eq!(none["pins"].as_array().unwrap().len(), 0);
    assert_eq!(none["next_deadline_ms"], page["next_deadline_ms"]);
    assert_eq!(seeded.http().get("/api/v1/soft_pins?limit=x").0, 400);
}

#[test]
fn metrics_follow_the_state_and_count_calls_under_the_peers_names() {
    let seeded = Seeded::start(&["--default_kv_soft_pin_ttl=1h"]);
    seeded.put(b"a", 1_000, None);
    seeded.put(b"b", 5_000, Some(50));
    let master = &seeded.master;
    for (name, value) in [
        ("master_key_count", 2),
        ("master_allocated_bytes", 6_000),
        ("master_total_capacity_bytes", SIZE),
        ("master_active_clients", 1),
        ("mem_cache_nums_", 2),
        ("master_put_start_requests_total", 2),
        ("master_put_end_requests_total", 2),
        ("master_mount_segment_requests_total", 1),
        ("master_value_size_bytes_sum", 6_000),
        ("master_value_size_bytes_count", 2),
        ("master_raft_is_serving", 1),
        ("master_rpc_connections", 1),
        ("master_snapshot_fail", 0),
    ] {
        assert_eq!(master.count(name), value, "{name}");
    }
    eventually("the pin of 50 ms has ended", || {
        master.count("master_soft_pin_key_count") == 0
            && master.count("master_soft_pins_expired_total") == 1
    });
    let (_, kind, page) = seeded.http().send("GET", "/metrics", b"");
    assert_eq!(kind, "text/plain; version=0.0.4");
    let labelled = format!("segment_allocated_bytes{{segment=\"{SEGMENT}\"}} 6000\n");
    assert!(page.contains(&labelled), "{page}");
    assert!(page.contains("master_value_size_bytes_bucket{le=\"4096.000000\"} 1\n"), "{page}");
}

#[test]
fn the_cluster_page_shows_log_and_members() {
    let seeded = Seeded::start(&["--durability=async"]);
    seeded.put(b"a", 1_000, None);
    let page = seeded.http().json("/api/v1/cluster");
    assert_eq!((&page["role"], &page["durability"]), (&"leader".into(), &"async".into()));
    assert_eq!(page["is_serving"], true, "{page}");
    let at = |name: &str| page["log"][name].as_u64().unwrap();
    assert!(at("applied") >= 4 && at("applied") <= at("committed"), "{page}");
    assert!(at("committed") <= at("last"), "{page}");
    assert_eq!(page["members"].as_array().unwrap().len(), 1);
    assert!(page["data_dir_bytes"].as_u64().unwrap() > 0, "{page}");
    assert_eq!(page["fatal"], serde_json::Value::Null);
}

#[test]
fn a_write_by_an_operator_needs_the_token_that_is_set() {
    let seeded = Seeded::start(&["--admin_token=t0k"]);
    seeded.put(b"a", 1_000, None);
    let (status, _, body) = seeded.http().send("POST", "/api/v1/remove_all?force=1", b"");
    assert_eq!(status, 401, "{body}");
    assert_eq!(seeded.master.count("master_key_count"), 1);
}

/// An address of this host that is not the loopback's; no packet is sent to find it.
fn address_of_this_host() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(|ip| !ip.is_loopback())
}

#[test]
fn a_stranger_changes_nothing_where_no_token_is_set() {
    let Some(address) = address_of_this_host() else { return skip("this host has no address") };
    let seeded = Seeded::start(&[]);
    seeded.put(b"a", 1_000, None);
    let url = seeded.http().url("");
    let port: u16 = url.trim_end_matches('/').rsplit_once(':').unwrap().1.parse().unwrap();
    let ask = |request: &str| {
        let mut socket = TcpStream::connect((address, port)).unwrap();
        let head = format!("{request} HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n");
        socket.write_all(format!("{head}Connection: close\r\n\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        answer
    };
    let refused = ask("POST /api/v1/remove_all?force=1");
    assert!(refused.starts_with("HTTP/1.1 403") && refused.contains("admin_token"), "{refused}");
    assert_eq!(seeded.master.count("master_key_count"), 1);
    let read = ask("GET /get_all_keys");
    assert!(read.starts_with("HTTP/1.1 200"), "{read}");
    let (status, _, body) = seeded.http().send("POST", "/api/v1/remove_all?force=1", b"");
    assert_eq!(status, 200, "{body}");
}
