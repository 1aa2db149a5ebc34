//! Frames: cut, split, pipelined, oversized, foreign (wire protocol 1).

use mooncake_ha::rpc::client::RawConnection;
use mooncake_ha::wire::frame::{FRAME_BYTES_MAX, REQUEST_HEAD_BYTES};
use mooncake_ha::wire::pack::NoArguments;
use mooncake_ha::wire::requests::KeyRequest;
use mooncake_ha::wire::{Function, calls, decode_response, encode_request};

use crate::support::node::{TestNode, plain};

/// A request for ServiceReady.
fn ready(sequence: u32) -> Vec<u8> {
    let mut frame = Vec::new();
    encode_request::<calls::ServiceReady>(sequence, &NoArguments, &mut frame);
    frame
}

fn exists(sequence: u32, key: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    let request = KeyRequest { key, tenant_id: b"default".as_slice() };
    encode_request::<calls::ExistKey>(sequence, &request, &mut frame);
    frame
}

async fn expect_ready(connection: &mut RawConnection, sequence: u32) {
    let answer = connection.receive().await.unwrap().expect("an answer");
    assert_eq!((answer.head.sequence, answer.head.rpc_error), (sequence, 0));
    let version = decode_response::<calls::ServiceReady>(answer.body()).unwrap();
    assert_eq!(*version.unwrap(), *b"2.0.0");
}

/// The server closed the connection without an answer. An unread rest of input makes that a reset.
async fn expect_closed(connection: &mut RawConnection) {
    match connection.receive().await {
        Ok(None) => {}
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}"),
        Ok(Some(answer)) => panic!("an answer: {answer:?}"),
    }
}

/// The node serves new connections and the given old one.
async fn expect_served(node: &TestNode, old: &mut RawConnection) {
    old.send(&ready(900)).await.unwrap();
    expect_ready(old, 900).await;
    let mut new = node.raw().await;
    new.send(&ready(1)).await.unwrap();
    expect_ready(&mut new, 1).await;
}

#[tokio::test]
async fn a_frame_that_violates_the_protocol_closes_only_its_own_connection() {
    let node = TestNode::start(&[]).await;
    let mut bystander = node.raw().await;
    for (at, byte) in [(0, 0x16), (1, 1), (2, 1), (0, b'G')] {
        let mut hostile = node.raw().await;
        let mut frame = ready(1);
        frame[at] = byte;
        hostile.send(&frame).await.unwrap();
        expect_closed(&mut hostile).await;
        expect_served(&node, &mut bystander).await;
    }
}

#[tokio::test]
async fn a_length_beyond_the_limit_closes_the_connection_at_once() {
    let node = TestNode::start(&[]).await;
    let mut bystander = node.raw().await;
    let limit = u32::try_from(FRAME_BYTES_MAX).unwrap();
    for (body, attachment) in [(u32::MAX, 0), (0, u32::MAX), (u32::MAX, u32::MAX), (limit, 0)] {
        let mut hostile = node.raw().await;
        let mut head = ready(1)[..REQUEST_HEAD_BYTES].to_vec();
        head[12..16].copy_from_slice(&body.to_le_bytes());
        head[16..20].copy_from_slice(&attachment.to_le_bytes());
        hostile.send(&head).await.unwrap();
        expect_closed(&mut hostile).await;
        expect_served(&node, &mut bystander).await;
    }
}

#[tokio::test]
async fn a_truncated_frame_is_never_answered_and_hurts_nobody() {
    let node = TestNode::start(&[]).await;
    let mut bystander = node.raw().await;
    let frame = exists(1, b"k");
    for length in [1, 4, REQUEST_HEAD_BYTES - 1, REQUEST_HEAD_BYTES, frame.len() - 1] {
        let mut hostile = node.raw().await;
        hostile.send(&frame[..length]).await.unwrap();
        hostile.finish().await.unwrap();
        expect_closed(&mut hostile).await;
    }
    expect_served(&node, &mut bystander).await;
}

#[tokio::test]
async fn a_frame_sent_byte_by_byte_is_answered() {
    let node = TestNode::start(&[]).await;
    let mut slow = node.raw().await;
    let mut bytes = exists(3, b"some key");
    bytes.extend(ready(4));
    for byte in bytes {
        slow.send(&[byte]).await.unwrap();
        tokio::task::yield_now().await;
    }
    let answer = slow.receive().await.unwrap().unwrap();
    assert_eq!(answer.head.sequence, 3);
    assert_eq!(decode_response::<calls::ExistKey>(answer.body()).unwrap(), Ok(false));
    expect_ready(&mut slow, 4).await;
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order_with_their_numbers() {
    let node = TestNode::start(&[]).await;
    let writer = node.owner(1, 1 << 20).await;
    writer.put("k", &plain()).await;
    let mut connection = node.raw().await;
    let numbers: Vec<u32> = (0..300).map(|n| n * 7 + u32::MAX / 2).chain([u32::MAX, 0]).collect();
    let mut bytes = Vec::new();
    for (at, number) in numbers.iter().enumerate() {
        match at % 3 {
            0 => bytes.extend(ready(*number)),
            1 => bytes.extend(exists(*number, b"k")),
            _ => bytes.extend(exists(*number, b"none")),
        }
    }
    connection.send(&bytes).await.unwrap();
    for (at, number) in numbers.iter().enumerate() {
        let answer = connection.receive().await.unwrap().unwrap();
        assert_eq!(answer.head.sequence, *number);
        if at % 3 > 0 {
            let found = decode_response::<calls::ExistKey>(answer.body()).unwrap();
            assert_eq!(found, Ok(at % 3 == 1));
        }
    }
}

#[tokio::test]
async fn what_the_peer_tolerates_in_a_head_is_tolerated() {
    let node = TestNode::start(&[]).await;
    let mut connection = node.raw().await;
    let mut typed = ready(1);
    typed[3] = 0xff;
    connection.send(&typed).await.unwrap();
    expect_ready(&mut connection, 1).await;
    // An attachment is read and ignored, of whatever bytes.
    for size in [1_u32, 20, 100_000] {
        let mut frame = ready(size);
        frame[16..20].copy_from_slice(&size.to_le_bytes());
        frame.extend(vec![0x15; size as usize]);
        connection.send(&frame).await.unwrap();
        expect_ready(&mut connection, size).await;
    }
}

#[tokio::test]
async fn an_unknown_function_is_error_11_and_the_connection_goes_on() {
    let node = TestNode::start(&[]).await;
    let mut connection = node.raw().await;
    for id in [0, 1, u32::MAX, Function::ServiceReady.id() ^ 1] {
        let mut frame = exists(5, b"k");
        frame[8..12].copy_from_slice(&id.to_le_bytes());
        connection.send(&frame).await.unwrap();
        let answer = connection.receive().await.unwrap().unwrap();
        assert_eq!((answer.head.rpc_error, answer.head.sequence), (11, 5));
        let text = mooncake_ha::wire::call::decode_rpc_error(answer.body()).unwrap();
        assert_eq!(text, b"the rpc function not registered");
    }
    connection.send(&ready(6)).await.unwrap();
    expect_ready(&mut connection, 6).await;
}

#[tokio::test]
async fn a_flood_of_garbage_on_many_connections_hurts_nobody_else() {
    let node = TestNode::start(&[]).await;
    let mut bystander = node.raw().await;
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    for round in 0..60 {
        let mut hostile = node.raw().await;
        let mut garbage: Vec<u8> = (0..4_000)
            .map(|_| {
                seed ^= seed << 13;
                seed ^= seed >> 7;
                seed ^= seed << 17;
                (seed >> 32) as u8
            })
            .collect();
        // Half of them get past the magic, so that the rest of the head and the body are garbage, too.
        if round % 2 == 0 {
            garbage[..4].copy_from_slice(&[0x15, 0, 0, 0]);
        }
        // The server may have closed the connection before all is sent.
        let _ = hostile.send(&garbage).await;
    }
    expect_served(&node, &mut bystander).await;
    node.assert_sound();
}
