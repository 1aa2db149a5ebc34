//! Round trips of random values of every call, in every size width, and hostile lengths.

use proptest::prelude::*;
use rand::SeedableRng;

use crate::model::error_code::ErrorCode;
use crate::model::ids::{ClientId, ReplicaId, Uuid};
use crate::wire::calls::{self, CallVisitor, with_call};
use crate::wire::frame::{RequestHead, ResponseHead};
use crate::wire::function::Function;
use crate::wire::pack::reader::Width;
use crate::wire::pack::{Body, Dice, ITEMS_MAX, Pack, Reader, Unpack, UnpackError, Writer};
use crate::wire::types::{
    BufferDescriptor, Descriptor, GetReplicaListResponse, MemoryDescriptor, ReplicaDescriptor,
    ReplicaStatus, WireError,
};
use crate::wire::{
    Answer, Call, decode_request, decode_response, encode_refusal, encode_request, encode_response,
};

/// `value` as a body whose lengths are `width` wide, with or without literal.
fn body_in(body: &Body, value: &impl Pack, width: Width, with_literal: bool) -> Vec<u8> {
    let mut bytes = (body.hash() | 1).to_le_bytes().to_vec();
    bytes.push(width.meta_bits() | if with_literal { 0xe4 } else { 0xe0 });
    if with_literal {
        bytes.extend_from_slice(body.literal());
        bytes.push(0);
    }
    value.pack(&mut Writer::new(&mut bytes, Some(width)));
    bytes
}

struct RoundTrip(Dice);

impl CallVisitor for RoundTrip {
    type Output = ();

    fn visit<C: Call>(mut self) {
        let request = C::Request::sample(&mut self.0);
        let mut frame = Vec::new();
        encode_request::<C>(1, &request, &mut frame);
        let (head, length) = RequestHead::parse(&frame).unwrap().unwrap();
        assert_eq!((length, head.function_id), (frame.len(), C::FUNCTION.id()));
        let body = head.body(&frame);
        let decoded = decode_request::<C>(body).unwrap();
        assert_eq!(decoded.to_json(), request.to_json());

        let response = C::Response::sample(&mut self.0);
        let mut frame = Vec::new();
        encode_response::<C, _>(u32::MAX, &response, &mut frame);
        let (head, length) = ResponseHead::parse(&frame).unwrap().unwrap();
        assert_eq!((length, head.sequence), (frame.len(), u32::MAX));
        let decoded = decode_response::<C>(head.body(&frame)).unwrap();
        assert_eq!(decoded.to_json(), response.to_json());

        for (width, with_literal) in [(Width::Four, true), (Width::Eight, false)] {
            let body = body_in(C::RESPONSE, &response, width, with_literal);
            let decoded = decode_response::<C>(&body).unwrap();
            assert_eq!(decoded.to_json(), response.to_json());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn whatever_is_encoded_decodes_to_the_same(seed: u64) {
        let mut dice = Dice::seed_from_u64(seed);
        for &function in Function::ALL {
            with_call(function, RoundTrip(Dice::from_rng(&mut dice)));
        }
    }

    #[test]
    fn random_payloads_never_panic(payload: Vec<u8>, meta: u8) {
        for &function in Function::ALL {
            with_call(function, Garbage(&payload, meta));
        }
    }
}

struct Garbage<'g>(&'g [u8], u8);

impl CallVisitor for Garbage<'_> {
    type Output = ();

    fn visit<C: Call>(self) {
        let Garbage(payload, meta) = self;
        let with_head = |hash: u32| {
            let head = (hash | 1).to_le_bytes();
            [&head, &[meta & !4][..], payload].concat()
        };
        let _ = decode_request::<C>(&with_head(C::REQUEST.hash()));
        let _ = decode_response::<C>(&with_head(C::RESPONSE.hash()));
    }
}

struct HugeCounts;

impl CallVisitor for HugeCounts {
    type Output = ();

    fn visit<C: Call>(self) {
        for width in [Width::Four, Width::Eight] {
            let mut body = (C::REQUEST.hash() | 1).to_le_bytes().to_vec();
            body.push(width.meta_bits());
            // Client id and the like come out as numbers, the first length as the greatest there
            // is.
            body.extend_from_slice(&[0xff; 4096]);
            let has_length =
                [0x80, 0x82, 0x84].iter().any(|container| C::REQUEST.literal().contains(container));
            let is_refused = decode_request::<C>(&body).is_err();
            assert_eq!(is_refused, has_length, "{}", C::FUNCTION);
        }
    }
}

#[test]
fn a_count_that_the_body_cannot_hold_is_refused_before_allocation() {
    for &function in Function::ALL {
        with_call(function, HugeCounts);
    }
    for (bytes, width) in
        [(vec![0xff; 4], Width::Four), (vec![0xff; 8], Width::Eight), (vec![3, 0, 0], Width::One)]
    {
        let mut reader = Reader::new(&bytes, width);
        let vector: Result<Vec<&[u8]>, _> = Unpack::unpack(&mut reader);
        assert_eq!(vector, Err(UnpackError::Truncated));
    }
}

#[test]
fn more_items_than_the_limit_are_refused() {
    let count = ITEMS_MAX as u32 + 1;
    let mut payload = count.to_le_bytes().to_vec();
    payload.resize(4 + 8 * count as usize, 0);
    let mut reader = Reader::new(&payload, Width::Four);
    let vector: Result<Vec<&[u8]>, _> = Unpack::unpack(&mut reader);
    assert_eq!(vector, Err(UnpackError::TooManyItems(count.into())));
}

#[test]
fn an_answer_with_shared_strings_and_error_codes_has_the_clients_bytes() {
    fn answer<S: Clone>(protocol: S, endpoint: S) -> GetReplicaListResponse<S> {
        let buffer_descriptor = BufferDescriptor {
            size: 5,
            buffer_address: 1 << 40,
            protocol,
            transport_endpoint: endpoint,
        };
        let replica = ReplicaDescriptor {
            id: ReplicaId(1),
            descriptor: Descriptor::Memory(MemoryDescriptor { buffer_descriptor }),
            status: ReplicaStatus::COMPLETE,
        };
        GetReplicaListResponse {
            replicas: vec![replica.clone(), replica],
            lease_ttl_ms: 10_000,
            object_checksum: None,
        }
    }
    let shared: std::sync::Arc<str> = "127.0.0.1:1".into();
    let served = vec![Ok(answer("tcp".into(), shared)), Err(ErrorCode::ObjectNotFound)];
    let owned = |text: &str| Box::<[u8]>::from(text.as_bytes());
    let read: Vec<Answer<_>> =
        vec![Ok(answer(owned("tcp"), owned("127.0.0.1:1"))), Err(WireError(-704))];
    let mut frame = Vec::new();
    encode_response::<calls::BatchGetReplicaList, _>(3, &served, &mut frame);
    let (head, _) = ResponseHead::parse(&frame).unwrap().unwrap();
    let decoded = decode_response::<calls::BatchGetReplicaList>(head.body(&frame)).unwrap();
    assert_eq!(decoded, read);
}

#[test]
fn a_width_grows_only_when_a_later_length_needs_it() {
    for (length, meta) in [(255, 0x04), (256, 0x0c), (65_535, 0x0c), (65_536, 0x14)] {
        let (key, tenant_id): (&[u8], &[u8]) = (&vec![b'k'; length], b"default");
        for (key, tenant_id) in [(key, tenant_id), (tenant_id, key)] {
            let mut frame = Vec::new();
            let request = crate::wire::requests::KeyRequest { key, tenant_id };
            encode_request::<calls::ExistKey>(0, &request, &mut frame);
            assert_eq!(frame[24], meta);
            let decoded = decode_request::<calls::ExistKey>(&frame[20..]).unwrap();
            assert_eq!(decoded, request);
        }
    }
}

#[test]
fn a_refusal_has_one_part_for_each_key() {
    let request = crate::wire::requests::KeysRequest {
        keys: vec![b"a".as_slice(), b"b", b"c"],
        tenant_id: b"".as_slice(),
    };
    let mut frame = Vec::new();
    encode_refusal::<calls::BatchExistKey>(0, &request, ErrorCode::NotSupported, &mut frame);
    let decoded = decode_response::<calls::BatchExistKey>(&frame[16..]).unwrap();
    assert_eq!(decoded, vec![Err(WireError(-1012)); 3]);
    let client_id = ClientId(Uuid::NIL);
    let mut frame = Vec::new();
    encode_refusal::<calls::Ping>(0, &client_id, ErrorCode::NotSupported, &mut frame);
    let decoded = decode_response::<calls::Ping>(&frame[16..]).unwrap();
    assert_eq!(decoded, Err(WireError(-1012)));
}
