//! I1, I3, I4 and L5: which name space a call is about.

use mooncake_ha::model::ErrorCode as E;
use mooncake_ha::wire::calls as c;
use mooncake_ha::wire::requests as r;

use super::{charged, node, of, refused};
use crate::support::node::{Caller, TestNode, place, plain};

async fn by_regex(caller: &Caller, regex: &str) -> Vec<String> {
    let request = r::RegexRequest { regex: regex.as_bytes(), tenant_id: caller.tenant };
    let found = caller.call::<c::GetReplicaListByRegex>(&request).await.unwrap();
    let text = |(key, _): &(Box<[u8]>, _)| String::from_utf8(key.to_vec()).unwrap();
    found.0.iter().map(text).collect()
}

async fn remove_all(caller: &Caller, tenant_id: &[u8]) -> i64 {
    caller.call::<c::RemoveAll>(&r::RemoveAllRequest { force: true, tenant_id }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn i1_without_tenants_every_name_means_one_key_space() {
    let node = TestNode::start(&[]).await;
    let owner = node.owner(1, 1 << 20).await;
    let a = of(&node, 1, "tenant-a").await;
    let b = of(&node, 1, "_!bad tenant!\n").await;
    a.put("k", &plain()).await;
    assert!(b.exists("k").await && owner.exists("k").await);
    assert_eq!(b.start("k", 1024, &plain()).await, refused(E::ObjectAlreadyExists));
    assert_eq!(node.look(|state| state.accounts().len()), 1, "the default tenant alone");
    assert_eq!(b.remove("k", true).await, Ok(()));
    assert!(!owner.exists("k").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn i3_a_name_that_no_tenant_can_have_is_refused_call_by_call_and_item_by_item() {
    let node = node(&[("t", 1 << 20)], &[]).await;
    let owner = node.owner(1, 1 << 20).await;
    let bad = of(&node, 1, "_bad").await;
    assert_eq!(bad.replicas("k").await, refused(E::InvalidParams));
    assert_eq!(
        bad.batch_exists(&["a", "b"]).await,
        [refused(E::InvalidParams), refused(E::InvalidParams)]
    );
    assert_eq!(
        bad.batch_remove(&["a", "b"], true).await,
        [refused(E::InvalidParams), refused(E::InvalidParams)]
    );
    assert_eq!(bad.batch_end(&["a"]).await, [refused(E::InvalidParams)]);
    assert_eq!(
        bad.revoke("a", mooncake_ha::wire::types::ReplicaType::ALL).await,
        refused(E::InvalidParams)
    );
    assert_eq!(bad.remove("a", true).await, refused(E::InvalidParams));
    assert_eq!(remove_all(&bad, b"_bad").await, 0);
    let starts = bad.batch_start(&["a", "b"], &[10, 10], &plain()).await;
    assert_eq!(starts, [refused(E::TenantNotRegistered), refused(E::TenantNotRegistered)]);
    let nameless = of(&node, 1, "").await;
    assert_eq!(nameless.start("k", 10, &plain()).await, refused(E::TenantNotRegistered));
    assert_eq!(nameless.replicas("k").await, refused(E::ObjectNotFound), "the default tenant");
    assert_eq!(owner.start("k", 10, &plain()).await, refused(E::TenantNotRegistered));
}

#[tokio::test(flavor = "multi_thread")]
async fn i4_l5_two_tenants_with_one_key_do_not_meet() {
    let node = node(&[("a", 1 << 20), ("b", 1 << 20)], &[]).await;
    node.owner(1, 1 << 20).await;
    let (a, b) = (of(&node, 1, "a").await, of(&node, 1, "b").await);
    for caller in [&a, &b] {
        caller.put("same", &plain()).await;
        caller.put("other", &plain()).await;
    }
    let of_a = a.replicas("same").await.unwrap();
    let of_b = b.replicas("same").await.unwrap();
    assert_ne!(place(&of_a.replicas[0]), place(&of_b.replicas[0]));
    assert_eq!(by_regex(&a, "^same$").await, ["same"]);
    assert_eq!(a.remove("same", true).await, Ok(()));
    assert!(!a.exists("same").await && b.exists("same").await);
    assert_eq!(by_regex(&a, ".").await, ["other"]);
    assert_eq!(by_regex(&b, ".").await.len(), 2);
    assert_eq!(
        a.batch_remove(&["same", "other"], true).await,
        [refused(E::ObjectNotFound), Ok(())]
    );
    let request = r::RemoveByRegexRequest { regex: &b"^o"[..], force: true, tenant_id: b"a" };
    assert_eq!(a.call::<c::RemoveByRegex>(&request).await, Ok(0));
    a.put("third", &plain()).await;
    assert_eq!(remove_all(&a, b"a").await, 1);
    assert_eq!(charged(&node, "b"), 2048);
    a.put("fourth", &plain()).await;
    assert_eq!(remove_all(&a, b"").await, 3, "no tenant named: all of them");
    assert_eq!(node.keys(), 0);
    node.assert_sound();
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_and_what_they_are_charged_survive_a_restart() {
    let mut node = node(&[("a", 1 << 19), ("b", 1 << 19)], &[]).await;
    node.owner(1, 1 << 20).await;
    let (a, b) = (of(&node, 1, "a").await, of(&node, 1, "b").await);
    a.put("k", &plain()).await;
    b.start("k", 100, &plain()).await.unwrap();
    node.restart().await;
    assert_eq!((charged(&node, "a"), charged(&node, "b")), (1024, 100));
    let b = of(&node, 1, "b").await;
    assert_eq!(b.end("k").await, Ok(()));
    assert!(of(&node, 1, "a").await.exists("k").await);
}
