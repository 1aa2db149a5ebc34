//! Edge cases of behaviour 3.10 that take upserts, groups or a stepping clock, over the real wire.

use mooncake_ha::model::ErrorCode;
use mooncake_ha::wire::calls as c;
use mooncake_ha::wire::requests as r;
use mooncake_ha::wire::types::{ObjectMeta, ReplicaType, ReplicateConfig, SoftPinAction};

use crate::support::node::{Caller, TestNode, pinned, plain, until};

const MIB: u64 = 1 << 20;
const TENANT: &[u8] = b"default";

async fn upsert(caller: &Caller, key: &str, slice_length: u64, config: &ReplicateConfig<&[u8]>) {
    let (client_id, key, config) = (caller.id, key.as_bytes(), config.clone());
    let request = r::PutStartRequest { client_id, key, slice_length, config, tenant_id: TENANT };
    caller.call::<c::UpsertStart>(&request).await.unwrap();
}

async fn upsert_end(caller: &Caller, key: &str) {
    let object_meta = ObjectMeta { key: key.as_bytes(), object_checksum: None };
    let (client_id, replica_type, tenant_id) = (caller.id, ReplicaType::ALL, TENANT);
    let request = r::PutEndRequest { client_id, object_meta, replica_type, tenant_id };
    caller.call::<c::UpsertEnd>(&request).await.unwrap();
}

fn disable() -> ReplicateConfig<&'static [u8]> {
    ReplicateConfig { soft_pin_action: SoftPinAction::DISABLE, ..plain() }
}

#[tokio::test]
async fn case_12_a_preempted_disable_leaves_the_old_deadline_in_force() {
    let node = TestNode::start(&[]).await;
    let (a, b) = (node.owner(1, MIB).await, node.caller(2).await);
    a.put("k", &pinned(Some(60_000))).await;
    let deadline = node.deadline("k");
    for size in [1024, 2048, 2048] {
        upsert(&a, "k", size, &disable()).await;
        assert_eq!(node.deadline("k"), deadline);
        upsert(&b, "k", size, &plain()).await;
        upsert_end(&b, "k").await;
        assert_eq!(node.deadline("k"), deadline);
        assert_eq!(a.end("k").await.unwrap_err(), ErrorCode::IllegalClient);
    }
    assert_eq!(node.pins(), 1);
}

#[tokio::test]
async fn case_14_of_a_chain_of_preempted_upserts_only_the_last_request_counts() {
    let node = TestNode::start(&[]).await;
    let (a, b) = (node.owner(1, MIB).await, node.caller(2).await);
    a.put("k", &pinned(Some(60_000))).await;
    let deadline = node.deadline("k");
    upsert(&a, "k", 1024, &pinned(Some(5_000))).await;
    upsert(&b, "k", 2048, &disable()).await;
    upsert(&a, "k", 2048, &pinned(Some(7_000))).await;
    upsert(&b, "k", 1024, &plain()).await;
    assert_eq!(node.deadline("k"), deadline);
    upsert_end(&b, "k").await;
    assert_eq!((node.deadline("k"), node.pins()), (deadline, 1));
}

#[tokio::test]
async fn case_15_an_upsert_over_a_put_that_never_ended_inherits_nothing() {
    let node = TestNode::start(&[]).await;
    let (a, b) = (node.owner(1, MIB).await, node.caller(2).await);
    let first = ReplicateConfig { group_ids: Some(vec![&b"one"[..]]), ..pinned(Some(60_000)) };
    a.start("k", 1024, &first).await.unwrap();
    upsert(&b, "k", 2048, &plain()).await;
    upsert_end(&b, "k").await;
    assert_eq!((node.deadline("k"), node.pins()), (None, 0));
    // It is in the group of the upsert, which is none: another group is refused now.
    let (client_id, tenant_id) = (b.id, TENANT);
    let config = ReplicateConfig { group_ids: Some(vec![&b"one"[..]]), ..plain() };
    let (key, slice_length) = (&b"k"[..], 2048);
    let request = r::PutStartRequest { client_id, key, slice_length, config, tenant_id };
    let again = b.call::<c::UpsertStart>(&request).await;
    assert_eq!(again.unwrap_err(), ErrorCode::InvalidParams);
}

#[tokio::test]
async fn case_21_a_key_put_again_outside_its_group_is_not_ended_by_its_pin_of_before() {
    let node = TestNode::start(&[]).await;
    let writer = node.owner(1, MIB).await;
    let grouped = ReplicateConfig { group_ids: Some(vec![&b"g"[..]]), ..pinned(Some(5_000)) };
    let longer = ReplicateConfig { soft_pin_ttl_ms: Some(9_000), ..grouped.clone() };
    writer.put("k", &grouped).await;
    writer.put("other", &longer).await;
    writer.remove("k", false).await.unwrap();
    writer.put("k", &pinned(Some(7_000))).await;
    assert_eq!(node.pins(), 2);
    node.pass(5_000);
    writer.put("mark", &pinned(Some(1))).await;
    node.pass(1);
    until("the sweep was here", async || node.pins() == 2).await;
    assert_eq!(node.deadline("k"), Some(node.now() + 1_999));
    node.pass(1_999);
    until("the pin of the ungrouped key ends", async || node.pins() == 1).await;
    node.pass(2_000);
    until("the pin of the member ends", async || node.pins() == 0).await;
}

#[tokio::test]
async fn case_24_pins_of_one_instant_on_members_of_one_group_end_with_one_sweep() {
    let node = TestNode::start(&[]).await;
    let writer = node.owner(1, MIB).await;
    let grouped = ReplicateConfig { group_ids: Some(vec![&b"g"[..]]), ..pinned(Some(5_000)) };
    for n in 0..20 {
        writer.put(&format!("k{n}"), &grouped).await;
    }
    let sweeps = || node.master().sweep_stats().sweeps.load(std::sync::atomic::Ordering::Relaxed);
    let before = sweeps();
    node.pass(5_000);
    until("all end", async || node.pins() == 0).await;
    assert_eq!(sweeps() - before, 1);
}

#[tokio::test]
async fn case_32_many_upserts_of_one_pin_leave_one_registration_at_the_last_deadline() {
    const UPSERTS: u64 = 300;
    let node = TestNode::start(&[]).await;
    let writer = node.owner(1, MIB).await;
    writer.put("k", &pinned(Some(10_000))).await;
    for n in 0..UPSERTS {
        upsert(&writer, "k", 1024, &pinned(Some(10_000 + n))).await;
        upsert_end(&writer, "k").await;
    }
    assert_eq!(node.pins(), 1);
    assert_eq!(node.deadline("k"), Some(node.now() + 10_000 + UPSERTS - 1));
    let stale =
        || node.master().sweep_stats().pins_expired.load(std::sync::atomic::Ordering::Relaxed);
    node.pass(10_000 + UPSERTS - 1);
    until("it ends", async || node.pins() == 0).await;
    assert_eq!(stale(), 1, "one pin ended once");
    node.assert_sound();
}
