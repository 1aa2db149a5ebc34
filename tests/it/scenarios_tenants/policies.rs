//! I11 to I14: policies, where they come from, and the operator's page.

use std::path::Path;

use serde_json::{Value as Json, json};
use tempfile::TempDir;

use mooncake_ha::model::ErrorCode as E;

use super::{account, charged, node, of, refused};
use crate::support::node::{TestNode, plain, until};
use crate::support::{Master, eventually, last_words};

const PAGE: &str = "/api/v1/tenant_quotas";

fn write_policies(path: &Path, tenants: &[(&str, &str)]) {
    let rows =
        tenants.iter().map(|(name, quota)| format!("  - name: {name}\n    quota: {quota}\n"));
    let rows = match tenants.is_empty() {
        true => "tenants: []\n".to_owned(),
        false => format!("tenants:\n{}", rows.collect::<String>()),
    };
    std::fs::write(path, format!("version: 1\n{rows}")).unwrap();
}

fn row(name: &str, requested: u64) -> Json {
    json!({
        "tenant_id": name, "requested_quota_bytes": requested, "effective_quota_bytes": 0,
        "charged_bytes": 0, "admission_closed": false, "over_quota": false,
        "has_explicit_policy": true,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn i11_quotas_are_scaled_to_the_memory_that_there_is() {
    let node = node(&[("a", 200), ("b", 400)], &[]).await;
    node.owner(1, 300).await;
    let effective = |name| account(&node, name).unwrap().effective;
    assert_eq!((effective("a"), effective("b")), (100, 200));
}

#[tokio::test(flavor = "multi_thread")]
async fn i14_a_tenant_dropped_from_the_file_keeps_its_keys_and_may_not_write() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("policies.yaml");
    write_policies(&path, &[("t", "1MB"), ("u", "1MB")]);
    let uri = format!("--tenant_quota_connector_uri={}", path.display());
    let node = TestNode::start(&["--enable_multi_tenants", &uri]).await;
    until("the file is taken in", async || account(&node, "t").is_some()).await;
    node.owner(1, 1 << 20).await;
    let t = of(&node, 1, "t").await;
    t.put("k", &plain()).await;
    write_policies(&path, &[("u", "1MB")]);
    until("the file is taken in again", async || !account(&node, "t").unwrap().has_policy).await;
    let orphan = account(&node, "t").unwrap();
    assert!(orphan.is_over_quota(), "{orphan:?}");
    assert!(t.exists("k").await);
    assert_eq!(t.start("l", 10, &plain()).await, refused(E::TenantNotRegistered));
    assert_eq!(t.remove("k", true).await, Ok(()));
    assert_eq!(account(&node, "t"), None);
    std::fs::write(&path, "version: 1\ntenants:\n  - name: x\n    quota: a lot\n").unwrap();
    let u = of(&node, 1, "u").await;
    u.put("k", &plain()).await;
    assert_eq!(charged(&node, "u"), 1024, "a damaged file changes nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_operator_changes_is_in_the_file_and_a_restart_undoes_nothing() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("policies.yaml");
    write_policies(&path, &[("t", "1KB")]);
    let uri = format!("--tenant_quota_connector_uri={}", path.display());
    let mut node = TestNode::start(&["--enable_multi_tenants", &uri]).await;
    until("the file is taken in", async || account(&node, "t").is_some()).await;
    let new = super::tenant("new");
    node.master().set_policy(&new, 5).await.unwrap();
    node.master().delete_policy(&super::tenant("t")).await.unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text, "version: 1\n\ntenants:\n  - name: \"new\"\n    quota: 5\n");
    node.restart().await;
    until("the log knows of tenants", async || node.look(|state| state.quotas().is_enforced()))
        .await;
    assert_eq!((account(&node, "t"), account(&node, "new").unwrap().requested), (None, 5));
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    let refused = node.master().set_policy(&new, 6).await.unwrap_err().to_string();
    assert!(refused.contains("cannot be written"), "{refused}");
    assert_eq!(account(&node, "new").unwrap().requested, 5, "nothing was changed");
}

#[test]
fn i12_the_quota_page_answers_as_the_peers() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("policies.yaml");
    write_policies(&path, &[("t1", "8MB"), ("t2", "1GB")]);
    let uri = format!("--tenant_quota_connector_uri={}", path.display());
    let master = Master::ours(dir.path(), &["--enable_multi_tenants", &uri]);
    let http = master.http();
    eventually("the file is taken in", || http.json(PAGE)["data"].as_array().unwrap().len() == 2);
    let both = json!([row("t1", 8 << 20), row("t2", 1 << 30)]);
    assert_eq!(http.json(PAGE), json!({"success": true, "data": both}));
    assert_eq!(http.json(&format!("{PAGE}?tenant_id=")), json!({"success": true, "data": both}));
    let one = http.json(&format!("{PAGE}?tenant_id=t1"));
    assert_eq!(one, json!({"success": true, "data": row("t1", 8 << 20)}));
    let send = |method: &str, query: &str, body: &str| {
        let (status, _, text) = http.send(method, &format!("{PAGE}{query}"), body.as_bytes());
        (status, text)
    };
    let not_found =
        "{\"success\":false,\"error_code\":-704,\"error_message\":\"OBJECT_NOT_FOUND\"}";
    let bad = |why: &str| {
        let body = format!("{{\"success\":false,\"error_code\":-600,\"error_message\":\"{why}\"}}");
        (400, body)
    };
    for name in ["zz", "default"] {
        assert_eq!(send("GET", &format!("?tenant_id={name}"), ""), (404, not_found.into()));
        assert_eq!(send("DELETE", &format!("?tenant_id={name}"), ""), (404, not_found.into()));
    }
    assert_eq!(send("GET", "?tenant_id=_zz", ""), bad("Invalid tenant_id"));
    let (status, text) =
        send("PUT", "?tenant_id=t%2F4", "{\"requested_quota_bytes\":1000,\"x\":1}");
    assert_eq!(status, 200);
    let put: Json = serde_json::from_str(&text).unwrap();
    assert_eq!(put, json!({"success": true, "data": row("t/4", 1000)}));
    let range = bad("Tenant quota must be in [1, 2^63 - 1] bytes");
    for number in ["0", "9223372036854775808"] {
        let body = format!("{{\"requested_quota_bytes\":{number}}}");
        assert_eq!(send("PUT", "?tenant_id=t5", &body), range);
    }
    assert_eq!(send("PUT", "?tenant_id=t5", "{}"), range);
    for body in ["{", "{\"requested_quota_bytes\":-1}"] {
        let (status, text) = send("PUT", "?tenant_id=t5", body);
        assert!(status == 400 && text.contains("\"Invalid JSON body: "), "{text}");
    }
    let unnamed = bad("Missing or invalid tenant_id");
    for query in ["", "?tenant_id=_t"] {
        assert_eq!(send("PUT", query, "{\"requested_quota_bytes\":1}"), unnamed);
        assert_eq!(send("DELETE", query, ""), unnamed);
    }
    let gone = send("DELETE", "?tenant_id=t%2F4", "");
    assert_eq!(gone, (200, "{\"success\":true,\"data\":null}".into()));
    let (_, page) = http.get("/metrics");
    for line in [
        "mooncake_tenant_quota_requested_bytes{tenant_id=\"t1\"} 8388608\n",
        "mooncake_tenant_quota_explicit_policy{tenant_id=\"t2\"} 1\n",
        "mooncake_tenant_quota_allocatable_capacity_bytes 0\n",
        "mooncake_tenant_quota_requested_bytes_sum 1082130432\n",
    ] {
        assert!(page.contains(line), "{line} is not in {page}");
    }
}

#[test]
fn i13_without_tenants_the_quota_page_is_a_conflict() {
    let dir = TempDir::new().unwrap();
    let master = Master::ours(dir.path(), &[]);
    for method in ["GET", "PUT", "DELETE"] {
        let path = format!("{PAGE}?tenant_id=t");
        let (status, _, body) = master.http().send(method, &path, b"{\"requested_quota_bytes\":1}");
        assert_eq!(status, 409, "{body}");
        assert!(body.contains("-1011"), "{body}");
    }
    assert!(!master.http().get("/metrics").1.contains("tenant"));
}

#[test]
fn a_policy_file_that_cannot_be_used_keeps_the_node_from_starting() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("policies.yaml");
    let uri = format!("--tenant_quota_connector_uri={}", path.display());
    let data = dir.path().join("data");
    for text in [None, Some("version: 2\ntenants: []\n"), Some("")] {
        if let Some(text) = text {
            std::fs::write(&path, text).unwrap();
        }
        let flags = ["--enable_multi_tenants", uri.as_str()];
        let (code, words) = last_words(dir.path(), &data, &flags);
        assert_eq!(code, Some(2), "{words}");
        assert!(words.contains("policies.yaml") && !data.exists(), "{words}");
    }
}
