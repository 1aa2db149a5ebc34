//! Tenants over a failover: names, quotas, and what is charged.

use super::trio::{ELECTED, Trio};
use crate::support::{Got, Value, eventually_within};

fn quotas(trio: &Trio, at: usize) -> serde_json::Value {
    trio.http(at).json("/api/v1/tenant_quotas")["data"].clone()
}

#[test]
fn quotas_and_charges_are_the_same_behind_a_killed_leader() {
    let mut trio = Trio::start(&["--enable_multi_tenants"]);
    let leader = trio.leader();
    for tenant in ["a", "b"] {
        let path = format!("/api/v1/tenant_quotas?tenant_id={tenant}");
        let body = b"{\"requested_quota_bytes\":8388608}";
        eventually_within(ELECTED, "the quota is set", || {
            trio.http(leader).send("PUT", &path, body).0 == 200
        });
    }
    let address = trio.etcd();
    let Some(mut a) = trio.client_of("a", &address, 32) else { return };
    let Some(mut b) = trio.client_of("b", &address, 32) else { return };
    let (ours, theirs) = (Value::new("k", 1 << 20), Value::new("k", 2 << 20));
    assert_eq!((a.put(&ours), b.put(&theirs)), (0, 0));
    let before = quotas(&trio, leader);
    assert_eq!(before[1]["charged_bytes"], 2 << 20, "{before}");
    trio.kill(leader);
    eventually_within(ELECTED, "another node serves", || trio.leader() != leader);
    let next = trio.leader();
    assert_eq!(quotas(&trio, next), before);
    eventually_within(std::time::Duration::from_secs(40), "both read on", || {
        a.get(&ours) == Got::Right && b.get(&theirs) == Got::Right
    });
    // Eight more do not fit beside what is there; what is oldest makes room.
    for value in Value::several("more/", 8, 1 << 20) {
        eventually_within(ELECTED, "there is room in the quota", || a.put(&value) == 0);
    }
    assert_eq!(b.get(&theirs), Got::Right);
    let page = quotas(&trio, next);
    assert!(page[0]["charged_bytes"].as_u64().unwrap() <= 8 << 20, "{page}");
    assert_eq!(page[1]["charged_bytes"], 2 << 20, "{page}");
}
