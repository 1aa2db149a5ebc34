//! The captured frames of release 0.3.12: decoded, compared with their meaning, encoded again, translated.

use proptest::prelude::*;
use rand::SeedableRng;
use serde_json::{Value, json};

use super::tables::Described;
use super::unhex;
use crate::wire::calls::{self, CallVisitor};
use crate::wire::frame::{RequestHead, ResponseHead};
use crate::wire::function::Function;
use crate::wire::older::calls as older_calls;
use crate::wire::older::calls::with_older_call;
use crate::wire::older::{FromOlder, Release, Shown, ToOlder};
use crate::wire::pack::{Dice, Pack, Unpack};
use crate::wire::requests;
use crate::wire::types::{
    DistributedFSDescriptor, GetReplicaListResponse, ReplicaDescriptor, SoftPinAction,
};
use crate::wire::{
    Answer, Call, decode_request, decode_response, encode_request, encode_response, types,
};

fn fixture() -> Value {
    let text = include_str!("../../../tests/fixtures/wire-0.3.12/vectors.json");
    serde_json::from_str(text).unwrap()
}

fn function(json: &Value) -> Function {
    let name = json["rpc"].as_str().unwrap();
    Function::ALL.iter().find(|function| function.name() == name).copied().unwrap()
}

fn bytes(json: &Value, which: &str) -> Vec<u8> {
    unhex(json[which].as_str().unwrap())
}

#[test]
fn names_and_types_give_the_literals_and_hashes_of_the_older_master() {
    let fixture = fixture();
    let rpcs = fixture["rpcs"].as_array().unwrap();
    assert_eq!(rpcs.len(), older_calls::ALL.len());
    for rpc in rpcs {
        let described = with_older_call(function(rpc), Described).unwrap();
        for (field, value) in described.as_object().unwrap() {
            assert_eq!(value, &rpc[field], "{} {field}", rpc["rpc"]);
        }
        let (request, response) = older_calls::hashes(function(rpc)).unwrap();
        assert_eq!(rpc["request_hash"], format!("{request:#010x}"));
        assert_eq!(rpc["response_hash"], format!("{response:#010x}"));
    }
}

struct Canonical<'v>(&'v Value);

impl CallVisitor for Canonical<'_> {
    type Output = ();

    fn visit<C: Call>(self) {
        let Canonical(vector) = self;
        let label = &vector["label"];
        let frame = bytes(vector, "request");
        let (head, _) = RequestHead::parse(&frame).unwrap().unwrap();
        let request = decode_request::<C>(head.body(&frame)).unwrap();
        assert_eq!(request.to_json(), vector["request_decoded"]["args"], "{label}");
        let mut again = Vec::new();
        encode_request::<C>(head.sequence, &request, &mut again);
        assert_eq!(again, frame, "{label}");

        let frame = bytes(vector, "response");
        let (head, _) = ResponseHead::parse(&frame).unwrap().unwrap();
        let response = decode_response::<C>(head.body(&frame)).unwrap();
        assert_eq!(response.to_json(), vector["response_decoded"]["result"], "{label}");
        let mut again = Vec::new();
        encode_response::<C, _>(head.sequence, &response, &mut again);
        assert_eq!(again, frame, "{label}");
    }
}

#[test]
fn every_older_frame_decodes_to_its_meaning_and_encodes_to_its_bytes() {
    let fixture = fixture();
    let vectors = fixture["vectors"].as_array().unwrap();
    for vector in vectors {
        with_older_call(function(vector), Canonical(vector)).unwrap();
    }
    assert_eq!(vectors.len(), 58);
}

struct Decodes<'v>(&'v [u8]);

impl CallVisitor for Decodes<'_> {
    type Output = bool;

    fn visit<C: Call>(self) -> bool {
        decode_request::<C>(self.0).is_ok()
    }
}

#[test]
fn a_request_whose_type_changed_shows_its_release_and_decodes_in_no_other() {
    let fixture = fixture();
    let mut shown = [0, 0];
    for vector in fixture["vectors"].as_array().unwrap() {
        let (function, frame) = (function(vector), bytes(vector, "request"));
        let (head, _) = RequestHead::parse(&frame).unwrap().unwrap();
        let body = head.body(&frame);
        let today = calls::with_call(function, Decodes(body));
        match Release::of_request(function, body) {
            Shown::Release(release) => {
                assert_eq!((release, today), (Release::V0312, false), "{function}");
                shown[0] += 1;
            }
            Shown::AnswerDiffers => {
                assert!(today, "{function}");
                shown[1] += 1;
            }
            Shown::Nothing => panic!("{function} has other types in 0.3.12"),
        }
    }
    assert_eq!(shown, [39, 19]);
    let newer = super::fixture();
    for vector in newer["vectors"].as_array().unwrap() {
        let (frame, name) = (bytes(vector, "request"), &vector["rpc"]);
        let Some(function) = Function::ALL.iter().find(|function| *name == function.name()) else {
            continue;
        };
        let (head, _) = RequestHead::parse(&frame).unwrap().unwrap();
        let shown = Release::of_request(*function, head.body(&frame));
        assert_ne!(shown, Shown::Release(Release::V0312), "{}", vector["label"]);
    }
}

#[test]
fn a_soft_pin_asked_for_is_one_of_the_default_length_and_none_preserves() {
    let translated = |with_soft_pin: bool| {
        let mut dice = Dice::seed_from_u64(7);
        let mut older = crate::wire::older::PutStartRequest::<&[u8]>::sample(&mut dice);
        older.config.with_soft_pin = with_soft_pin;
        let today = requests::PutStartRequest::from_older(older.clone());
        // Whatever else the older form says, it still says.
        let (mut theirs, ours) = (older.to_json(), today.to_json());
        theirs["config"].as_object_mut().unwrap().remove("with_soft_pin");
        for (field, value) in theirs["config"].as_object().unwrap() {
            assert_eq!(&ours["config"][field], value, "{field}");
        }
        for field in ["client_id", "key", "slice_length", "tenant_id"] {
            assert_eq!(ours[field], theirs[field], "{field}");
        }
        assert_eq!(today.config.dfs_replica_num, 0);
        (today.config.soft_pin_action, today.config.soft_pin_ttl_ms)
    };
    assert_eq!(translated(true), (SoftPinAction::ENABLE, None));
    assert_eq!(translated(false), (SoftPinAction::PRESERVE, None));
}

#[test]
fn an_older_end_names_its_keys_and_no_checksum() {
    let mut dice = Dice::seed_from_u64(8);
    let older = requests::BatchPutRevokeRequest::<&[u8]>::sample(&mut dice);
    let today = requests::BatchPutEndRequest::from_older(older.clone());
    let keys: Vec<_> = today.object_metas.iter().map(|meta| meta.key).collect();
    assert_eq!((keys, today.client_id), (older.keys, older.client_id));
    assert!(today.object_metas.iter().all(|meta| meta.object_checksum.is_none()));
    assert_eq!((today.replica_type, today.tenant_id), (older.replica_type, older.tenant_id));
}

#[test]
fn an_answer_loses_only_what_the_older_form_cannot_say() {
    let mut dice = Dice::seed_from_u64(9);
    let mut today: GetReplicaListResponse<Box<[u8]>> = Unpack::sample(&mut dice);
    today.object_checksum = Some(5);
    let mut expected = today.to_json();
    expected.as_object_mut().unwrap().remove("object_checksum");
    let answer: Answer<_> = Ok(today);
    assert_eq!(answer.to_older().to_json(), json!({ "ok": expected }));
}

#[test]
fn a_replica_in_a_distributed_file_system_does_not_decode() {
    let place = DistributedFSDescriptor::<&[u8]>::sample(&mut Dice::seed_from_u64(1));
    let replica = ReplicaDescriptor {
        id: crate::model::ids::ReplicaId(1),
        descriptor: types::Descriptor::DistributedFS(place),
        status: types::ReplicaStatus::COMPLETE,
    };
    let answer: Answer<_> = Ok(vec![replica.to_older()]);
    let mut frame = Vec::new();
    encode_response::<older_calls::PutStart, _>(1, &answer, &mut frame);
    let (head, _) = ResponseHead::parse(&frame).unwrap().unwrap();
    assert!(decode_response::<older_calls::PutStart>(head.body(&frame)).is_err());
}

struct Damaged<'v>(&'v [u8]);

impl CallVisitor for Damaged<'_> {
    type Output = ();

    fn visit<C: Call>(self) {
        let mut body = self.0.to_vec();
        for end in 0..body.len() {
            assert!(decode_request::<C>(&body[..end]).is_err());
        }
        for at in 0..body.len() {
            for bit in 0..8 {
                body[at] ^= 1 << bit;
                let _ = decode_request::<C>(&body);
                body[at] ^= 1 << bit;
            }
        }
    }
}

#[test]
fn an_older_frame_cut_or_damaged_at_any_byte_never_panics() {
    for vector in fixture()["vectors"].as_array().unwrap() {
        let frame = bytes(vector, "request");
        let (head, _) = RequestHead::parse(&frame).unwrap().unwrap();
        with_older_call(function(vector), Damaged(head.body(&frame))).unwrap();
    }
}

struct RoundTrip(Dice);

impl CallVisitor for RoundTrip {
    type Output = ();

    fn visit<C: Call>(mut self) {
        let request = C::Request::sample(&mut self.0);
        let mut frame = Vec::new();
        encode_request::<C>(1, &request, &mut frame);
        let (head, _) = RequestHead::parse(&frame).unwrap().unwrap();
        let decoded = decode_request::<C>(head.body(&frame)).unwrap();
        assert_eq!(decoded.to_json(), request.to_json());
        let response = C::Response::sample(&mut self.0);
        let mut frame = Vec::new();
        encode_response::<C, _>(1, &response, &mut frame);
        let (head, _) = ResponseHead::parse(&frame).unwrap().unwrap();
        let decoded = decode_response::<C>(head.body(&frame)).unwrap();
        assert_eq!(decoded.to_json(), response.to_json());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn whatever_is_encoded_in_an_older_form_decodes_to_the_same(seed: u64) {
        let mut dice = Dice::seed_from_u64(seed);
        for &function in older_calls::ALL {
            with_older_call(function, RoundTrip(Dice::from_rng(&mut dice))).unwrap();
        }
    }
}
