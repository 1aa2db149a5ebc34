//! Arguments: what does not decode is error 4, what decodes and makes no sense is a refusal.

use mooncake_ha::model::ErrorCode;
use mooncake_ha::model::{ClientId, SegmentId, Uuid};
use mooncake_ha::rpc::client::{ClientError, RawConnection};
use mooncake_ha::wire::frame::REQUEST_HEAD_BYTES;
use mooncake_ha::wire::requests as r;
use mooncake_ha::wire::types::{ObjectDataType, ReplicaType, ReplicateConfig};
use mooncake_ha::wire::{Call, Function, calls, decode_response, encode_request};

use crate::support::node::{TestNode, copies, plain, segment};

const MIB: u64 = 1 << 20;

fn exists(sequence: u32) -> Vec<u8> {
    let mut frame = Vec::new();
    let request = r::KeyRequest { key: b"k".as_slice(), tenant_id: b"default".as_slice() };
    encode_request::<calls::ExistKey>(sequence, &request, &mut frame);
    frame
}

/// The frame with another body.
fn with_body(frame: &[u8], body: &[u8]) -> Vec<u8> {
    let mut frame = frame[..REQUEST_HEAD_BYTES].to_vec();
    frame[12..16].copy_from_slice(&u32::try_from(body.len()).unwrap().to_le_bytes());
    frame.extend_from_slice(body);
    frame
}

/// Code and number of the answer to a frame.
async fn outcome(connection: &mut RawConnection, frame: &[u8]) -> u8 {
    connection.send(frame).await.unwrap();
    let answer = connection.receive().await.unwrap().expect("an answer");
    if answer.head.rpc_error == 4 {
        let text = mooncake_ha::wire::call::decode_rpc_error(answer.body()).unwrap();
        assert_eq!(text, b"invalid rpc arg");
    } else if answer.head.rpc_error == 0 {
        assert_eq!(decode_response::<calls::ExistKey>(answer.body()).unwrap(), Ok(false));
    }
    answer.head.rpc_error
}

#[tokio::test]
async fn a_body_that_does_not_decode_is_error_4_and_the_connection_goes_on() {
    let node = TestNode::start(&[]).await;
    let mut connection = node.raw().await;
    let good = exists(1);
    let body = good[REQUEST_HEAD_BYTES..].to_vec();
    assert_eq!(outcome(&mut connection, &with_body(&good, b"")).await, 4, "empty");
    for length in 1..body.len() {
        let cut = with_body(&good, &body[..length]);
        assert_eq!(outcome(&mut connection, &cut).await, 4, "cut at {length}");
    }
    let mut wrong_hash = body.clone();
    wrong_hash[1] ^= 0x40;
    assert_eq!(outcome(&mut connection, &with_body(&good, &wrong_hash)).await, 4);
    assert_eq!(outcome(&mut connection, &good).await, 0);
}

#[tokio::test]
async fn a_container_that_announces_more_than_there_is_is_error_4() {
    let node = TestNode::start(&[]).await;
    let mut connection = node.raw().await;
    let good = exists(1);
    let body = good[REQUEST_HEAD_BYTES..].to_vec();
    // Wherever the lengths are: every byte in turn is made as large as it can be.
    for at in 4..body.len() {
        let mut grown = body.clone();
        grown[at] = 0xff;
        let code = outcome(&mut connection, &with_body(&good, &grown)).await;
        assert!(code == 0 || code == 4, "byte {at}: {code}");
    }
    assert_eq!(outcome(&mut connection, &good).await, 0);
}

#[tokio::test]
async fn bytes_behind_the_arguments_are_ignored() {
    let node = TestNode::start(&[]).await;
    let mut connection = node.raw().await;
    let good = exists(1);
    let mut body = good[REQUEST_HEAD_BYTES..].to_vec();
    body.extend_from_slice(b"more");
    assert_eq!(outcome(&mut connection, &with_body(&good, &body)).await, 0);
}

#[tokio::test]
async fn any_body_is_fine_for_a_call_without_arguments() {
    let node = TestNode::start(&[]).await;
    let mut connection = node.raw().await;
    let mut frame = Vec::new();
    encode_request::<calls::ServiceReady>(1, &mooncake_ha::wire::pack::NoArguments, &mut frame);
    for body in [&b""[..], b"x", &[0xff; 300]] {
        connection.send(&with_body(&frame, body)).await.unwrap();
        let answer = connection.receive().await.unwrap().unwrap();
        assert_eq!(answer.head.rpc_error, 0);
    }
}

#[tokio::test]
async fn calls_about_nvme_of_are_refused_in_their_own_form_with_the_peers_codes() {
    let node = TestNode::start(&[]).await;
    let caller = node.caller(1).await;
    let (segment_id, client_id) = (mooncake_ha::model::SegmentId::default(), caller.id);
    let unmount = mooncake_ha::wire::requests::UnmountSegmentRequest { segment_id, client_id };
    let refused = caller.call::<calls::UnmountNoFSegment>(&unmount).await;
    assert_eq!(refused.unwrap_err(), ErrorCode::UnavailableInCurrentMode);
    assert_eq!(calls::UnmountNoFSegment::FUNCTION, Function::UnmountNoFSegment);
    let named = caller.call::<calls::GetNoFSegmentsByName>(&b"n".as_slice()).await;
    assert_eq!(named.unwrap_err(), ErrorCode::SegmentNotFound);
    let all = &mooncake_ha::wire::pack::NoArguments;
    assert_eq!(caller.call::<calls::GetAllNoFSegments>(all).await.unwrap(), []);
    assert!(!caller.exists("k").await, "the connection goes on");
}

#[tokio::test]
async fn the_empty_key_is_refused_by_writes_and_unknown_to_reads() {
    let node = TestNode::start(&[]).await;
    let caller = node.owner(1, MIB).await;
    let started = caller.start("", 10, &plain()).await;
    assert_eq!(started.unwrap_err(), ErrorCode::InvalidParams);
    assert!(!caller.exists("").await);
    assert_eq!(caller.replicas("").await.unwrap_err(), ErrorCode::ObjectNotFound);
    assert_eq!(caller.remove("", true).await.unwrap_err(), ErrorCode::ObjectNotFound);
    assert_eq!(caller.end("").await.unwrap_err(), ErrorCode::ObjectNotFound);
}

#[tokio::test]
async fn a_key_of_a_megabyte_is_a_key_and_survives_a_restart() {
    let mut node = TestNode::start(&[]).await;
    let caller = node.owner(1, MIB).await;
    let long = "k".repeat(1_000_000);
    caller.put(&long, &plain()).await;
    assert!(caller.exists(&long).await);
    node.restart().await;
    let caller = node.caller(1).await;
    assert_eq!(caller.replicas(&long).await.unwrap().replicas.len(), 1);
    assert_eq!(caller.remove(&long, true).await, Ok(()));
}

#[tokio::test]
async fn sizes_that_no_segment_has_are_refused() {
    let node = TestNode::start(&[]).await;
    let caller = node.owner(1, MIB).await;
    let zero = caller.start("k", 0, &plain()).await;
    assert_eq!(zero.unwrap_err(), ErrorCode::InvalidParams);
    for size in [MIB + 1, 1 << 63, (1 << 63) + 1, u64::MAX] {
        let started = caller.start("k", size, &plain()).await;
        assert_eq!(started.unwrap_err(), ErrorCode::NoAvailableHandle, "{size}");
    }
    let endless = caller.start("many", 10, &copies(u64::MAX)).await.unwrap();
    assert_eq!(endless.len(), 1, "as many copies as there are segments");
    node.assert_sound();
}

#[tokio::test]
async fn enum_numbers_without_a_name_are_refused_or_kept() {
    let node = TestNode::start(&[]).await;
    let caller = node.owner(1, MIB).await;
    caller.start("k", 10, &plain()).await.unwrap();
    for number in [5, 99, -1, i32::MAX] {
        let unknown = ReplicaType(number);
        let ended = caller.end_with("k", unknown, None).await;
        assert_eq!(ended.unwrap_err(), ErrorCode::InvalidParams, "{number}");
        assert_eq!(caller.revoke("k", unknown).await.unwrap_err(), ErrorCode::InvalidParams);
    }
    assert_eq!(caller.end("k").await, Ok(()));
    let odd = ReplicateConfig { data_type: ObjectDataType(200), ..plain() };
    caller.put("odd", &odd).await;
}

#[tokio::test]
async fn names_that_are_no_text_are_refused() {
    let node = TestNode::start(&[]).await;
    let caller = node.caller(1).await;
    let bad =
        mooncake_ha::wire::types::Segment { name: [0xff, 0xfe].as_slice(), ..segment(1, "s", MIB) };
    assert_eq!(caller.mount(&bad).await.unwrap_err(), ErrorCode::InvalidParams);
    let config = ReplicateConfig { preferred_segment: [0xff].as_slice(), ..plain() };
    let started = caller.start("k", 10, &config).await;
    assert_eq!(started.unwrap_err(), ErrorCode::InvalidParams);
}

#[tokio::test]
async fn nil_ids_are_ids_like_any_other() {
    let node = TestNode::start(&[]).await;
    let mut caller = node.caller(1).await;
    caller.id = ClientId(Uuid::NIL);
    let nil =
        mooncake_ha::wire::types::Segment { id: SegmentId(Uuid::NIL), ..segment(1, "s1", MIB) };
    assert_eq!(caller.mount(&nil).await, Ok(()));
    caller.put("k", &plain()).await;
    assert!(caller.exists("k").await);
    node.assert_sound();
}

#[tokio::test]
async fn an_entry_larger_than_the_log_takes_ends_the_call_and_not_the_node() {
    let node = TestNode::start(&[]).await;
    let caller = node.owner(1, MIB).await;
    let huge = "k".repeat(20 << 20);
    let refused = {
        let request = r::PutRevokeRequest {
            client_id: caller.id,
            key: huge.as_bytes(),
            replica_type: ReplicaType::ALL,
            tenant_id: b"default".as_slice(),
        };
        caller.try_call::<calls::PutRevoke>(&request).await
    };
    assert!(matches!(refused, Err(ClientError::Io(_)) | Ok(Err(_))), "{refused:?}");
    let caller = node.caller(1).await;
    caller.put("k", &plain()).await;
    node.assert_sound();
}
