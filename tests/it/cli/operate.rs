//! `mooncake-ha object`, `segment`, `client`, `tenant` and `pin` against running nodes: results, refusals, exit codes.

use std::process::Command;

use serde_json::Value as Json;

use crate::admin::seed::{SEGMENT, Seeded};
use crate::cluster::trio::Trio;
use crate::support::Http;

/// Exit code, stdout and stderr of a command line against an admin port.
fn run(http: &Http, token: &str, line: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_mooncake-ha"))
        .args(line)
        .arg(format!("--admin={}", http.url("")))
        .env("MOONCAKE_HA_ADMIN_TOKEN", token)
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// The JSON of a command that goes well.
fn json(http: &Http, line: &[&str]) -> Json {
    let (code, out, err) = run(http, "", &[line, &["--json"]].concat());
    assert_eq!(code, 0, "{line:?}: {err}");
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{line:?}: {error}: {out}"))
}

/// The lines of a command that goes well.
fn lines(http: &Http, line: &[&str]) -> Vec<String> {
    let (code, out, err) = run(http, "", line);
    assert_eq!((code, err.as_str()), (0, ""), "{line:?}");
    out.lines().map(str::to_owned).collect()
}

#[test]
fn objects_are_looked_at_listed_and_removed() {
    let seeded = Seeded::start(&["--default_kv_lease_ttl=1h"]);
    let http = seeded.http();
    for n in 0..25 {
        seeded.put(format!("many/{n:02}").as_bytes(), 10, None);
    }
    seeded.put(b"pinned &+%", 2_048, Some(3_600_000));
    seeded.put(b"\xff", 10, None);
    let object = lines(http, &["object", "get", "pinned &+%"]);
    assert_eq!(object[..3], ["key: pinned &+%", "tenant: default", "size: 2.0 KiB"]);
    assert!(object.last().unwrap().ends_with(SEGMENT), "{object:?}");
    let page = json(http, &["object", "get", "pinned &+%"]);
    assert_eq!((&page["size"], &page["soft_pin"]["state"]), (&2_048.into(), &"active".into()));

    // Pages of seven, put together.
    let listed = json(http, &["object", "list", "--prefix", "many/", "--limit", "20"]);
    let keys = |page: &Json| -> Vec<String> {
        let rows = page["objects"].as_array().unwrap().iter();
        rows.map(|row| row["key"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(keys(&listed).len(), 20);
    let next = listed["next"].as_str().unwrap();
    let rest = http.json(&format!("/api/v1/objects?prefix=many%2F&limit=100&after={next}"));
    let mut all = [keys(&listed), keys(&rest)].concat();
    all.sort();
    let expected: Vec<String> = (0..25).map(|n| format!("many/{n:02}")).collect();
    assert_eq!((all, &rest["next"]), (expected, &Json::Null));
    assert_eq!(lines(http, &["object", "list"]).len(), 28, "27 objects and a head");
    let first = http.json("/api/v1/objects?limit=0");
    assert_eq!(first["objects"].as_array().unwrap().len(), 0);
    for bad in ["limit=x", "after=x", "tenant=_x"] {
        assert_eq!(http.get(&format!("/api/v1/objects?{bad}")).0, 400, "{bad}");
    }

    assert_eq!(http.get("/query_key?key=many/00").0, 200, "grants a read lease");
    let (code, out, err) = run(http, "", &["object", "remove", "many/00", "many/01"]);
    assert_eq!((code, out.as_str()), (1, "removed many/01\n"));
    assert!(err.contains("many/00: ") && err.contains("OBJECT_HAS_LEASE"), "{err}");
    assert_eq!(lines(http, &["object", "remove", "many/00", "--force"]), ["removed many/00"]);
    let encoded = lines(http, &["object", "remove", "%FF", "--encoded"]);
    assert_eq!(encoded, ["removed \u{fffd}"]);
    let (code, _, err) = run(http, "", &["object", "get", "many/00"]);
    assert!(code == 1 && err.contains("OBJECT_NOT_FOUND") && err.lines().count() == 1, "{err}");
    assert_eq!(seeded.master.count("master_key_count"), 24);
}

#[test]
fn a_removal_takes_the_key_as_it_is_written() {
    let seeded = Seeded::start(&[]);
    seeded.put(b"a%2Bb", 10, None);
    seeded.put(b"a b", 10, None);
    let http = seeded.http();
    let (code, _, err) = run(http, "", &["object", "remove", "a+b"]);
    assert!(code == 1 && err.contains("OBJECT_NOT_FOUND"), "{err}");
    assert_eq!(seeded.master.count("master_key_count"), 2);
    assert_eq!(lines(http, &["object", "remove", "a%2Bb"]), ["removed a%2Bb"]);
}

#[test]
fn segments_and_clients_are_listed_and_a_segment_is_taken_away() {
    let seeded = Seeded::start(&["--admin_token=t0k"]);
    seeded.put(b"k", 1_024, None);
    let http = seeded.http();
    let segments = lines(http, &["segment", "list"]);
    let row = format!("{SEGMENT}  OK      1.0 KiB  32.0 MiB  7-9     3-4");
    assert_eq!(segments[1..], [row]);
    let clients = json(http, &["client", "list"]);
    let client = &clients["clients"][0];
    assert_eq!((&client["client_id"], &client["is_alive"]), (&"7-9".into(), &true.into()));
    assert_eq!((&client["segments"], &client["used_bytes"]), (&1.into(), &1_024.into()));
    assert!(client["silent_ms"].as_u64().unwrap() < 60_000, "{client}");
    assert!(lines(http, &["client", "list"])[1].starts_with("7-9     yes    "));

    let (code, _, err) = run(http, "", &["segment", "unmount", SEGMENT]);
    assert!(code == 1 && err.contains("MOONCAKE_HA_ADMIN_TOKEN"), "{err}");
    let (code, _, err) = run(http, "t0k", &["segment", "unmount", "nowhere"]);
    assert!(code == 1 && err.contains("SEGMENT_NOT_FOUND"), "{err}");
    let (code, out, _) = run(http, "t0k", &["segment", "unmount", "3-4", "--grace", "1h"]);
    assert_eq!((code, out), (0, format!("{SEGMENT} of client 7-9 is on its way out\n")));
    assert!(lines(http, &["segment", "list"])[1].contains("GRACEFULLY_UNMOUNTING"));
    assert_eq!(run(http, "t0k", &["segment", "unmount", SEGMENT]).0, 0);
    crate::support::eventually("the segment is gone", || {
        lines(http, &["segment", "list"]).len() == 1 && seeded.master.count("master_key_count") == 0
    });
}

#[test]
fn pins_are_listed_by_when_they_end() {
    let seeded = Seeded::start(&[]);
    for (key, ttl) in [(&b"late"[..], 3_600_000), (b"soon", 60_000)] {
        seeded.put(key, 10, Some(ttl));
    }
    let http = seeded.http();
    let all = lines(http, &["pin", "list"]);
    assert!(all[1].ends_with("default  soon") && all[2].ends_with("default  late"), "{all:?}");
    assert_eq!(all[3], "2 of 2 active pins");
    let due = json(http, &["pin", "list", "--due", "5m"]);
    let pins = due["pins"].as_array().unwrap();
    assert_eq!((pins.len(), &pins[0]["key"], &due["active"]), (1, &"soon".into(), &2.into()));
    let none = lines(http, &["pin", "list", "--due", "1s"]);
    assert_eq!(none, ["ends in  deadline ms  tenant  key", "0 of 2 active pins"]);
}

#[test]
fn quotas_are_set_shown_and_taken_away() {
    let seeded = Seeded::start(&["--enable_multi_tenants"]);
    let http = seeded.http();
    let set = lines(http, &["tenant", "set", "team/a", "512KB"]);
    assert_eq!(set[1], "team/a  512.0 KiB  512.0 KiB  0 B      ok");
    assert_eq!(lines(http, &["tenant", "get", "team/a"]), set);
    let page = json(http, &["tenant", "list"]);
    assert_eq!(page["data"][0]["requested_quota_bytes"], 512 << 10);
    assert_eq!(
        lines(http, &["tenant", "delete", "team/a"]),
        ["tenant team/a has no quota any more"]
    );
    let (code, _, err) = run(http, "", &["tenant", "get", "team/a"]);
    assert!(code == 1 && err.contains("OBJECT_NOT_FOUND"), "{err}");
    assert_eq!(run(http, "", &["tenant", "set", "t", "5 MB"]).0, 2, "no such unit");
}

#[test]
fn every_node_of_a_cluster_can_be_asked() {
    let trio = Trio::start(&["--enable_multi_tenants"]);
    let follower = trio.http(trio.follower());
    assert_eq!(lines(follower, &["tenant", "set", "t", "8MB"]).len(), 2);
    for at in 0..3 {
        let page = json(trio.http(at), &["tenant", "get", "t"]);
        assert_eq!(page["data"]["requested_quota_bytes"], 8 << 20, "node {at}");
        assert_eq!(lines(trio.http(at), &["client", "list"]).len(), 1);
    }
    let (code, _, err) = run(follower, "", &["object", "get", "nope"]);
    assert!(code == 1 && err.contains("OBJECT_NOT_FOUND"), "{err}");
}

#[test]
fn no_answer_is_exit_code_3_and_wrong_usage_2() {
    let nobody = Http::new(1);
    let (code, out, err) = run(&nobody, "", &["client", "list"]);
    assert_eq!((code, out.as_str(), err.lines().count()), (3, "", 1), "{err}");
    for line in [&["object", "remove"][..], &["pin", "list", "--due", "soon"], &["segment", "frob"]]
    {
        assert_eq!(run(&nobody, "", line).0, 2, "{line:?}");
    }
    for name in ["object", "segment", "client", "tenant", "pin"] {
        let (code, out, _) = run(&nobody, "", &[name, "--help"]);
        assert!(code == 0 && out.contains("Examples:") && out.contains("Exit codes:"), "{out}");
    }
}
