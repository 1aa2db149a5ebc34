//! The captured frames of the real master: decoded, compared with their meaning, encoded again.

use serde_json::Value;

use super::{fixture, unhex};
use crate::wire::call::decode_rpc_error;
use crate::wire::calls::{CallVisitor, with_call};
use crate::wire::frame::{RequestHead, ResponseHead, RpcError};
use crate::wire::function::Function;
use crate::wire::pack::Pack;
use crate::wire::{
    Call, decode_request, decode_response, encode_request, encode_response, encode_rpc_error,
};

/// One captured pair.
struct Vector<'v> {
    label: &'v str,
    form: &'v str,
    json: &'v Value,
    request: Vec<u8>,
    response: Vec<u8>,
}

fn vectors(fixture: &Value) -> Vec<Vector<'_>> {
    let vectors = fixture["vectors"].as_array().unwrap();
    vectors
        .iter()
        .map(|json| Vector {
            label: json["label"].as_str().unwrap(),
            form: json["form"].as_str().unwrap(),
            json,
            request: unhex(json["request"].as_str().unwrap()),
            response: unhex(json["response"].as_str().unwrap()),
        })
        .collect()
}

fn request_head(frame: &[u8]) -> RequestHead {
    let (head, length) = RequestHead::parse(frame).unwrap().unwrap();
    assert_eq!(length, frame.len());
    head
}

fn response_head(frame: &[u8]) -> ResponseHead {
    let (head, length) = ResponseHead::parse(frame).unwrap().unwrap();
    assert_eq!(length, frame.len());
    head
}

/// What the capture says of the arguments: by name, or the value itself if there is only one.
fn expected_arguments<'v>(decoded: &'v Value, rpc: &Value) -> &'v Value {
    let arguments = &decoded["args"];
    match rpc["args"].as_array().unwrap().as_slice() {
        [only] => &arguments[only[0].as_str().unwrap()],
        _ => arguments,
    }
}

struct CanonicalRequest<'v>(&'v Vector<'v>, &'v Value);

impl CallVisitor for CanonicalRequest<'_> {
    type Output = ();

    fn visit<C: Call>(self) {
        let CanonicalRequest(vector, rpc) = self;
        let head = request_head(&vector.request);
        let request = decode_request::<C>(head.body(&vector.request)).unwrap();
        let decoded = &vector.json["request_decoded"];
        assert_eq!(decoded["seq"], head.sequence, "{}", vector.label);
        let expected = expected_arguments(decoded, rpc);
        assert_eq!(&request.to_json(), expected, "{}", vector.label);
        let mut again = Vec::new();
        encode_request::<C>(head.sequence, &request, &mut again);
        assert_eq!(again, vector.request, "{}", vector.label);
    }
}

struct AnyResponse<'v>(&'v Vector<'v>);

impl CallVisitor for AnyResponse<'_> {
    type Output = ();

    fn visit<C: Call>(self) {
        let AnyResponse(vector) = self;
        let head = response_head(&vector.response);
        let response = decode_response::<C>(head.body(&vector.response)).unwrap();
        let decoded = &vector.json["response_decoded"];
        assert_eq!(decoded["seq"], head.sequence, "{}", vector.label);
        assert_eq!(response.to_json(), decoded["result"], "{}", vector.label);
        let mut again = Vec::new();
        encode_response::<C, _>(head.sequence, &response, &mut again);
        assert_eq!(again, vector.response, "{}", vector.label);
    }
}

#[test]
fn every_canonical_request_decodes_to_its_meaning_and_encodes_to_its_bytes() {
    let fixture = fixture();
    let mut seen = 0;
    for vector in vectors(&fixture) {
        if vector.form != "canonical" {
            continue;
        }
        let function = Function::from_id(request_head(&vector.request).function_id).unwrap();
        assert_eq!(vector.json["rpc"], function.name());
        let rpcs = fixture["rpcs"].as_array().unwrap();
        let rpc = rpcs.iter().find(|rpc| rpc["rpc"] == function.name()).unwrap();
        with_call(function, CanonicalRequest(&vector, rpc));
        seen += 1;
    }
    assert_eq!(seen, 286);
}

#[test]
fn every_response_decodes_to_its_meaning_and_encodes_to_its_bytes() {
    let fixture = fixture();
    let mut seen = 0;
    for vector in vectors(&fixture) {
        if response_head(&vector.response).rpc_error == 0 {
            let name = vector.json["rpc"].as_str().unwrap();
            let function = Function::ALL.iter().find(|f| f.name() == name).copied().unwrap();
            with_call(function, AnyResponse(&vector));
            seen += 1;
        }
    }
    assert_eq!(seen, 295);
}

struct Decodes<'v>(&'v [u8]);

impl CallVisitor for Decodes<'_> {
    type Output = Option<Value>;

    fn visit<C: Call>(self) -> Option<Value> {
        let request = decode_request::<C>(self.0).ok()?;
        Some(request.to_json())
    }
}

#[test]
fn unusual_requests_that_the_real_master_accepts_are_accepted() {
    let fixture = fixture();
    let mut seen = 0;
    for vector in vectors(&fixture) {
        if vector.form != "variant" {
            continue;
        }
        let head = request_head(&vector.request);
        let function = Function::from_id(head.function_id).unwrap();
        let arguments = with_call(function, Decodes(head.body(&vector.request))).unwrap();
        let expected = match function {
            Function::ExistKey => serde_json::json!({ "key": "a", "tenant_id": "default" }),
            Function::Remove => {
                serde_json::json!({ "key": "zz", "force": true, "tenant_id": "default" })
            }
            _ => serde_json::json!({}),
        };
        assert_eq!(arguments, expected, "{}", vector.json["note"]);
        seen += 1;
    }
    assert_eq!(seen, 9);
}

#[test]
fn bad_requests_get_the_error_frame_of_the_real_master() {
    let fixture = fixture();
    let mut seen = 0;
    for vector in vectors(&fixture) {
        if vector.form != "bad" {
            continue;
        }
        let head = request_head(&vector.request);
        let body = head.body(&vector.request);
        let error = match Function::from_id(head.function_id) {
            None => RpcError::NotRegistered,
            Some(function) => {
                assert_eq!(with_call(function, Decodes(body)), None, "{}", vector.label);
                RpcError::InvalidArguments
            }
        };
        let mut answer = Vec::new();
        encode_rpc_error(head.sequence, error, &mut answer);
        assert_eq!(answer, vector.response, "{}", vector.json["note"]);
        let text = decode_rpc_error(response_head(&answer).body(&answer)).unwrap();
        assert_eq!(text, error.text().as_bytes());
        seen += 1;
    }
    assert_eq!(seen, 4);
}

struct Damaged<'v>(&'v [u8]);

impl CallVisitor for Damaged<'_> {
    type Output = ();

    /// Cuts the body at each byte, flips each bit: never a panic; a cut body is never a request.
    fn visit<C: Call>(self) {
        if C::REQUEST.literal().is_empty() {
            return;
        }
        for end in 0..self.0.len() {
            assert!(decode_request::<C>(&self.0[..end]).is_err());
        }
        let mut body = self.0.to_vec();
        for at in 0..body.len() {
            for bit in 0..8 {
                body[at] ^= 1 << bit;
                let _ = decode_request::<C>(&body);
                body[at] ^= 1 << bit;
            }
        }
    }
}

struct DamagedResponse<'v>(&'v [u8]);

impl CallVisitor for DamagedResponse<'_> {
    type Output = ();

    fn visit<C: Call>(self) {
        for end in 0..self.0.len() {
            assert!(decode_response::<C>(&self.0[..end]).is_err());
        }
        let mut body = self.0.to_vec();
        for at in 0..body.len() {
            for flip in [1, 2, 8, 16, 0x80, 0xff] {
                body[at] ^= flip;
                let _ = decode_response::<C>(&body);
                body[at] ^= flip;
            }
        }
    }
}

#[test]
fn a_frame_cut_or_damaged_at_any_byte_never_panics() {
    let fixture = fixture();
    // Only a canonical body has no byte to spare.
    let canonical = |vector: &Vector<'_>| vector.form == "canonical";
    for vector in vectors(&fixture).into_iter().filter(canonical) {
        let (request, response) = (&vector.request, &vector.response);
        let head = request_head(request);
        if let Some(function) = Function::from_id(head.function_id) {
            with_call(function, Damaged(head.body(request)));
            let head = response_head(response);
            if head.rpc_error == 0 {
                with_call(function, DamagedResponse(head.body(response)));
            }
        }
        for end in 0..request.len().min(20) {
            assert_eq!(RequestHead::parse(&request[..end]), Ok(None));
        }
    }
}
