//! Unmodified clients of two tenants on one master: the same keys, each its own bytes and its own quota.

use crate::support::{Bench, Feature, Got, StockClient, Value, WriteConfig, eventually};

const TENANT_NOT_REGISTERED: i64 = -1701;

fn policies(dir: &std::path::Path, text: &str) -> String {
    let path = dir.join("policies.yaml");
    std::fs::write(&path, format!("version: 1\ntenants:\n{text}")).unwrap();
    format!("--tenant_quota_connector_uri={}", path.display())
}

fn client(bench: &Bench, tenant: &str) -> StockClient {
    let mut client = bench.bare_client(tenant);
    assert_eq!(client.setup_as(tenant, &bench.master.address(), 32 << 20), 0);
    client
}

#[test]
fn two_tenants_share_keys_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let rows = "  - name: a\n    quota: 16MB\n  - name: b\n    quota: 16MB\n";
    let uri = policies(dir.path(), rows);
    let flags = ["--enable_multi_tenants=true", &uri, "--default_kv_lease_ttl=100ms"];
    let Some(bench) = Bench::start(&flags) else { return };
    let (mut a, mut b) = (client(&bench, "a"), client(&bench, "b"));
    let value = Value::new("k", 1 << 20);
    let theirs = value.changed(2 << 20);
    assert_eq!((a.put(&value), b.put(&theirs)), (0, 0));
    assert_eq!((a.get(&value), b.get(&theirs)), (Got::Right, Got::Right));
    eventually("the lease is over", || a.remove("k", false) == 0);
    assert_ne!(a.get(&value), Got::Right);
    assert_eq!(b.get(&theirs), Got::Right);
    // More than the quota holds: what is oldest goes, and nothing of the other tenant.
    for value in Value::several("many/", 40, 1 << 20) {
        eventually("there is room in the quota", || a.put(&value) == 0);
    }
    assert_eq!(b.get(&theirs), Got::Right);
    let mut stranger = client(&bench, "stranger");
    assert_eq!(stranger.put(&value), TENANT_NOT_REGISTERED);
}

#[test]
fn tenants_keep_their_objects_and_quotas_over_a_killed_master() {
    let dir = tempfile::tempdir().unwrap();
    let uri = policies(dir.path(), "  - name: a\n    quota: 16MB\n");
    let flags = ["--enable_multi_tenants=true", &uri];
    let Some(mut bench) = Bench::needing(&[Feature::Durable], &flags) else { return };
    let mut a = client(&bench, "a");
    let values = Value::several("k/", 10, 500_000);
    for value in &values {
        assert_eq!(a.put_with(value, &WriteConfig::soft_pin_for(3_600_000)), 0);
    }
    let charged = |bench: &Bench| {
        let page = bench.master.http().json("/api/v1/tenant_quotas?tenant_id=a");
        page["data"]["charged_bytes"].as_u64().unwrap()
    };
    assert_eq!(charged(&bench), 5_000_000);
    bench.master.kill();
    bench.master.start_again();
    assert_eq!(charged(&bench), 5_000_000);
    for value in &values {
        eventually("the client has found its master again", || a.get(value) == Got::Right);
    }
    assert_eq!(bench.master.soft_pins().len(), values.len());
}
