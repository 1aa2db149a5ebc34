//! Clients of release 0.3.12 by their own bytes, beside those of 0.3.13, without their wheel.

use mooncake_ha::model::ErrorCode;
use mooncake_ha::rpc::client::RpcClient;
use mooncake_ha::wire::older::calls as old;
use mooncake_ha::wire::older::{BatchPutStartRequest, PutStartRequest, ReplicateConfig};
use mooncake_ha::wire::requests as r;
use mooncake_ha::wire::types::{ObjectDataType, ReplicaStatus, ReplicaType};

use crate::support::node::{TestNode, plain, until};

const MIB: u64 = 1 << 20;
const TENANT: &[u8] = b"default";

fn config(with_soft_pin: bool) -> ReplicateConfig<&'static [u8]> {
    ReplicateConfig {
        replica_num: 1,
        nof_replica_num: 0,
        with_soft_pin,
        with_hard_pin: false,
        preferred_segments: Vec::new(),
        preferred_segment: b"",
        preferred_nof_segments: Vec::new(),
        prefer_alloc_in_same_node: false,
        data_type: ObjectDataType::UNKNOWN,
        host_id: b"",
        group_ids: None,
    }
}

fn read(key: &[u8]) -> r::KeyRequest<&[u8]> {
    r::KeyRequest { key, tenant_id: TENANT }
}

#[tokio::test]
async fn an_older_writer_is_answered_in_its_form_and_others_in_theirs() {
    let node = TestNode::start(&["--default_kv_soft_pin_ttl=10m"]).await;
    let today = node.owner(1, MIB).await;
    let client_id = today.id;
    // Its connection shows what it is.
    today.put("mine", &plain()).await;
    let older = RpcClient::connect(node.address()).await.unwrap();

    let key = b"k".as_slice();
    let start = PutStartRequest {
        client_id,
        key,
        slice_length: 100,
        config: config(true),
        tenant_id: TENANT,
    };
    let started = older.call::<old::PutStart>(&start).await.unwrap().unwrap();
    assert_eq!(started[0].0.status, ReplicaStatus::PROCESSING);
    let end =
        r::PutRevokeRequest { client_id, key, replica_type: ReplicaType::ALL, tenant_id: TENANT };
    assert_eq!(older.call::<old::PutEnd>(&end).await.unwrap(), Ok(()));
    assert_eq!(node.deadline("k"), Some(node.now() + 600_000));

    let found = older.call::<old::GetReplicaList>(&read(key)).await.unwrap().unwrap();
    assert_eq!(found.lease_ttl_ms, 10_000);
    let theirs = today.replicas("k").await.unwrap();
    assert_eq!((&found.replicas[0].0, theirs.object_checksum), (&theirs.replicas[0], None));

    // false keeps the pin over an upsert.
    let upsert = PutStartRequest { config: config(false), ..start.clone() };
    older.call::<old::UpsertStart>(&upsert).await.unwrap().unwrap();
    assert_eq!(older.call::<old::UpsertEnd>(&end).await.unwrap(), Ok(()));
    assert_eq!((node.pins(), node.deadline("k")), (1, Some(node.now() + 600_000)));
    assert!(today.replicas("mine").await.is_ok());
    node.assert_sound();
}

#[tokio::test]
async fn batches_patterns_and_copies_of_an_older_client_are_answered_in_its_form() {
    let node = TestNode::start(&[]).await;
    let today = node.owner(1, MIB).await;
    let client_id = today.id;
    let older = RpcClient::connect(node.address()).await.unwrap();
    let keys = vec![b"a".as_slice(), b"", b"b"];
    let batch = BatchPutStartRequest {
        client_id,
        keys: keys.clone(),
        slice_lengths: vec![1, 2, 3],
        config: config(false),
        tenant_id: TENANT,
    };
    let started = older.call::<old::BatchPutStart>(&batch).await.unwrap();
    assert_eq!(started[1].as_ref().unwrap_err(), &ErrorCode::InvalidParams);
    let ends = r::BatchPutRevokeRequest {
        client_id,
        keys: keys.clone(),
        replica_type: ReplicaType::ALL,
        tenant_id: TENANT,
    };
    let ended = older.call::<old::BatchPutEnd>(&ends).await.unwrap();
    assert_eq!((&ended[0], &ended[2]), (&Ok(()), &Ok(())));
    assert_eq!(ended[1].unwrap_err(), ErrorCode::ObjectNotFound);
    let request = r::KeysRequest { keys, tenant_id: TENANT };
    let found = older.call::<old::BatchGetReplicaList>(&request).await.unwrap();
    assert_eq!(found.iter().filter(|found| found.is_ok()).count(), 2);
    let regex = r::RegexRequest { regex: b"^[ab]$".as_slice(), tenant_id: TENANT };
    let found = older.call::<old::GetReplicaListByRegex>(&regex).await.unwrap().unwrap();
    assert_eq!(found.0.len(), 2);
    let copy = r::CopyStartRequest {
        client_id,
        key: b"none".as_slice(),
        tenant_id: TENANT,
        src_segment: b"s1".as_slice(),
        tgt_segments: vec![b"s1".as_slice()],
    };
    let refused = older.call::<old::CopyStart>(&copy).await.unwrap();
    assert_eq!(refused.unwrap_err(), ErrorCode::ObjectNotFound);
    node.assert_sound();
}

/// Reads alone, where clients of both releases write: the first is answered in today's form, and the client closes
/// its connection.
#[tokio::test]
async fn an_older_reader_that_names_itself_is_known_after_one_answer() {
    let node = TestNode::start(&[]).await;
    let today = node.owner(1, MIB).await;
    let older = RpcClient::connect(node.address()).await.unwrap();
    let end = r::PutRevokeRequest {
        client_id: today.id,
        key: b"none".as_slice(),
        replica_type: ReplicaType::ALL,
        tenant_id: TENANT,
    };
    let ended = older.call::<old::PutEnd>(&end).await.unwrap();
    assert_eq!(ended.unwrap_err(), ErrorCode::ObjectNotFound);
    today.put("mine", &plain()).await;
    let reader = node.caller(5).await.id;
    let mut lost = 0;
    until("the reader is known", async || {
        let connection = RpcClient::connect(node.address()).await.unwrap();
        connection.call::<mooncake_ha::wire::calls::Ping>(&reader).await.unwrap().unwrap();
        match connection.call::<old::GetReplicaList>(&read(b"k")).await {
            Ok(answer) => {
                assert_eq!(answer.unwrap_err(), ErrorCode::ObjectNotFound);
                true
            }
            // Not readable: dropping the connection closes it.
            Err(_) => {
                lost += 1;
                false
            }
        }
    })
    .await;
    // The end of the first connection may be seen after the second was made.
    assert!((1..=3).contains(&lost), "{lost} answers were lost");
    for _ in 0..5 {
        let connection = RpcClient::connect(node.address()).await.unwrap();
        let answer = connection.call::<old::GetReplicaList>(&read(b"k")).await.unwrap();
        assert_eq!(answer.unwrap_err(), ErrorCode::ObjectNotFound);
    }
}
