//! I5, I7, I8 and I9: what is charged, refused, and evicted to make room.

use mooncake_ha::model::ErrorCode as E;
use mooncake_ha::wire::Answer;
use mooncake_ha::wire::calls as c;
use mooncake_ha::wire::requests as r;
use mooncake_ha::wire::types::ReplicateConfig;

use super::{charged, node, of, refused};
use crate::support::node::{Caller, pinned, place, plain};

const MIB: u64 = 1 << 20;

async fn upsert(caller: &Caller, key: &str, size: u64) -> Answer<()> {
    let request = r::PutStartRequest {
        client_id: caller.id,
        key: key.as_bytes(),
        slice_length: size,
        config: plain(),
        tenant_id: caller.tenant,
    };
    caller.call::<c::UpsertStart>(&request).await.map(|_| ())
}

async fn write(caller: &Caller, key: &str, size: u64) {
    caller.start(key, size, &plain()).await.unwrap();
    caller.end(key).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn i5_a_write_beyond_the_quota_is_refused_and_charges_nothing() {
    let node = node(&[("t", 100)], &[]).await;
    node.owner(1, MIB).await;
    let t = of(&node, 1, "t").await;
    let hard = ReplicateConfig { with_hard_pin: true, ..plain() };
    t.start("hard", 80, &hard).await.unwrap();
    t.end("hard").await.unwrap();
    assert_eq!(t.start("k", 30, &plain()).await, refused(E::TenantQuotaExceeded));
    assert_eq!(charged(&node, "t"), 80);
    let counts = node.master().quota_counts();
    assert_eq!(counts.values().map(|counts| counts.rejected).sum::<u64>(), 1);
    assert!(t.start("k", 20, &plain()).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn i7_a_write_of_another_size_is_charged_beside_the_old_content() {
    let node = node(&[("t", 1_000)], &[]).await;
    node.owner(1, MIB).await;
    let t = of(&node, 1, "t").await;
    for (ends_by_revoke, after) in [(false, 200), (true, 0)] {
        t.remove("k", true).await.ok();
        write(&t, "k", 100).await;
        upsert(&t, "k", 200).await.unwrap();
        assert_eq!(charged(&node, "t"), 300);
        match ends_by_revoke {
            false => t.end("k").await.unwrap(),
            true => t.revoke("k", mooncake_ha::wire::types::ReplicaType::ALL).await.unwrap(),
        }
        assert_eq!(charged(&node, "t"), after);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn i8_copies_and_moves_are_charged_while_they_run() {
    let node = node(&[("t", 150)], &[]).await;
    node.owner(1, MIB).await;
    node.owner(2, MIB).await;
    let t = of(&node, 1, "t").await;
    let of_key = || r::ClientKeyRequest { client_id: t.id, key: &b"k"[..], tenant_id: t.tenant };
    write(&t, "k", 100).await;
    let source = place(&t.replicas("k").await.unwrap().replicas[0]).0;
    let target = if source == "s1" { "s2" } else { "s1" };
    let copy = || r::CopyStartRequest {
        client_id: t.id,
        key: &b"k"[..],
        tenant_id: t.tenant,
        src_segment: source.as_bytes(),
        tgt_segments: vec![target.as_bytes()],
    };
    let relocate = || r::MoveStartRequest {
        client_id: t.id,
        key: &b"k"[..],
        tenant_id: t.tenant,
        src_segment: source.as_bytes(),
        tgt_segment: target.as_bytes(),
    };
    assert_eq!(t.call::<c::CopyStart>(&copy()).await, refused(E::TenantQuotaExceeded));
    assert_eq!(t.call::<c::MoveStart>(&relocate()).await, refused(E::TenantQuotaExceeded));
    assert_eq!(charged(&node, "t"), 100);
    node.master().set_policy(&super::tenant("t"), 300).await.unwrap();
    t.call::<c::CopyStart>(&copy()).await.unwrap();
    assert_eq!(charged(&node, "t"), 200);
    t.call::<c::CopyRevoke>(&of_key()).await.unwrap();
    assert_eq!(charged(&node, "t"), 100);
    t.call::<c::MoveStart>(&relocate()).await.unwrap();
    assert_eq!(charged(&node, "t"), 200);
    t.call::<c::MoveRevoke>(&of_key()).await.unwrap();
    assert_eq!(charged(&node, "t"), 100);
    t.call::<c::CopyStart>(&copy()).await.unwrap();
    t.call::<c::CopyEnd>(&of_key()).await.unwrap();
    assert_eq!(charged(&node, "t"), 200);
    // The target holds a replica already, so the move leaves the source and nothing else.
    t.call::<c::MoveStart>(&relocate()).await.unwrap();
    t.call::<c::MoveEnd>(&of_key()).await.unwrap();
    assert_eq!(charged(&node, "t"), 100);
    node.assert_sound();
}

#[tokio::test(flavor = "multi_thread")]
async fn i9_a_full_quota_evicts_the_tenants_own_oldest_and_nobody_elses() {
    let node = node(&[("t", 4096), ("u", 1 << 19)], &["--default_kv_lease_ttl=1s"]).await;
    node.owner(1, MIB).await;
    let (t, u) = (of(&node, 1, "t").await, of(&node, 1, "u").await);
    u.put("theirs", &plain()).await;
    // What was there when this node began to lead counts as promised to readers for the time of a lease.
    node.pass(2_000);
    for key in ["a", "b", "c", "d"] {
        write(&t, key, 1024).await;
        node.pass(200);
    }
    t.exists("a").await;
    node.pass(200);
    assert_eq!(charged(&node, "t"), 4096);
    write(&t, "e", 1024).await;
    let left = |key: &'static str| {
        let t = &t;
        async move { t.exists(key).await }
    };
    assert!(left("a").await, "it was read last");
    assert!(!left("b").await, "the oldest that nobody reads");
    assert!(left("c").await && left("d").await && left("e").await);
    assert!(u.exists("theirs").await);
    assert_eq!(charged(&node, "t"), 4096);
    // All of them are being read now.
    assert_eq!(t.start("f", 1024, &plain()).await, refused(E::TenantQuotaExceeded));
    node.pass(2_000);
    assert!(t.start("f", 2048, &plain()).await.is_ok(), "two have to go");
    assert_eq!(t.start("g", 8192, &plain()).await, refused(E::TenantQuotaExceeded));
    assert!(u.exists("theirs").await);
    let counts = node.master().quota_counts();
    assert_eq!(counts[&super::tenant("t")].evicted_bytes, 3 * 1024);
    node.assert_sound();
}

#[tokio::test(flavor = "multi_thread")]
async fn soft_pinned_objects_go_last_and_only_if_they_may() {
    for (flag, may_go) in [
        ("--allow_evict_soft_pinned_objects=true", true),
        ("--allow_evict_soft_pinned_objects=false", false),
    ] {
        let node = node(&[("t", 2048)], &["--default_kv_lease_ttl=1s", flag]).await;
        node.owner(1, MIB).await;
        node.pass(2_000);
        let t = of(&node, 1, "t").await;
        t.put("pinned", &pinned(Some(3_600_000))).await;
        node.pass(200);
        t.put("plain", &plain()).await;
        node.pass(200);
        write(&t, "first", 1024).await;
        assert_eq!((node.pins(), charged(&node, "t")), (1, 2048), "the plain one went");
        // The new one is written and never read, so only its pin keeps the other.
        let hard = ReplicateConfig { with_hard_pin: true, ..plain() };
        let started = t.start("second", 2048, &hard).await;
        assert_eq!(started.is_ok(), may_go, "{flag}");
        assert_eq!(node.pins(), usize::from(!may_go));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_batch_as_much_is_written_as_the_quota_can_hold() {
    let node = node(&[("t", 3 * 1024)], &["--default_kv_lease_ttl=1s"]).await;
    node.owner(1, MIB).await;
    node.pass(2_000);
    let t = of(&node, 1, "t").await;
    for key in ["a", "b"] {
        write(&t, key, 1024).await;
        node.pass(200);
    }
    let keys = ["n1", "n2", "n3", "n4"];
    let started = t.batch_start(&keys, &[1024; 4], &plain()).await;
    let outcomes: Vec<bool> = started.iter().map(Result::is_ok).collect();
    assert_eq!(outcomes, [true, true, true, false], "the old ones made room for two");
    assert_eq!(started[3], refused(E::TenantQuotaExceeded));
    assert_eq!((charged(&node, "t"), node.keys()), (3 * 1024, 3));
    node.assert_sound();
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_and_moves_without_quota_were_not_counted_as_refused() {
    let flags = ["--enable_offload", "--promotion_on_hit", "--dynamic_replication_mode=enforce"];
    let node = node(&[("t", 150)], &flags).await;
    node.owner(1, MIB).await;
    node.owner(2, MIB).await;
    let t = of(&node, 1, "t").await;
    write(&t, "k", 100).await;
    let source = place(&t.replicas("k").await.unwrap().replicas[0]).0;
    let target = if source == "s1" { "s2" } else { "s1" };
    let rejected =
        || node.master().quota_counts().get(&super::tenant("t")).map_or(0, |c| c.rejected);
    let copy = r::CopyStartRequest {
        client_id: t.id,
        key: &b"k"[..],
        tenant_id: t.tenant,
        src_segment: source.as_bytes(),
        tgt_segments: vec![target.as_bytes()],
    };
    assert_eq!(t.call::<c::CopyStart>(&copy).await, refused(E::TenantQuotaExceeded));
    assert_eq!(rejected(), 1);
    let relocate = r::MoveStartRequest {
        client_id: t.id,
        key: &b"k"[..],
        tenant_id: t.tenant,
        src_segment: source.as_bytes(),
        tgt_segment: target.as_bytes(),
    };
    assert_eq!(t.call::<c::MoveStart>(&relocate).await, refused(E::TenantQuotaExceeded));
    assert_eq!(rejected(), 2);
    assert_eq!(charged(&node, "t"), 100, "and nothing was evicted to make room");
    // Other refusals are none of the quota's.
    let absent = r::CopyStartRequest { key: &b"absent"[..], ..copy };
    assert_eq!(t.call::<c::CopyStart>(&absent).await, refused(E::ObjectNotFound));
    let stranger = of(&node, 1, "stranger").await;
    let theirs = r::CopyStartRequest { tenant_id: stranger.tenant, ..absent };
    assert_eq!(stranger.call::<c::CopyStart>(&theirs).await, refused(E::TenantNotRegistered));
    assert_eq!(node.master().quota_counts().len(), 1);
    assert_eq!(rejected(), 2);
}
