//! Every decoder of this crate that meets bytes from outside, as functions for fuzzing.
//!
//! No part of the crate's face. Each must return for any bytes: no panic, no hang, no memory beyond a small multiple
//! of the bytes. Those of the member crates are in their own `probes`.

use crate::config::{self, ENV_PREFIX};
use crate::snapshotter::Offer;
use crate::state::State;
use crate::state::encode;
use crate::state::image::Leases;
use crate::wire::Function;
use crate::wire::call::{
    Call, decode_request, decode_response, decode_rpc_error, encode_request, encode_response,
};
use crate::wire::calls::{CallVisitor, with_call};
use crate::wire::frame::{RequestHead, ResponseHead};
use crate::wire::older::calls::with_older_call;

/// The name of a decoder, and what feeds it bytes.
pub type Probe = (&'static str, fn(&[u8]));

/// All of them.
pub const PROBES: &[Probe] = &[
    ("rpc_frame", rpc_frame),
    ("rpc_request", rpc_request),
    ("rpc_response", rpc_response),
    ("entry", entry),
    ("state_image", state_image),
    ("discovery", crate::discovery::probe),
    ("admin_query", crate::admin::probe),
    ("key_pattern", crate::node::probe),
    ("flags", flags),
    ("config_file", config::probe),
    ("leases", leases),
    ("tenant_policies", config::probe_policies),
    ("events_zmtp", crate::events::probe),
];

fn rpc_frame(bytes: &[u8]) {
    if let Ok(Some((head, _))) = RequestHead::parse(bytes) {
        let body = head.body(bytes);
        if let Some(function) = Function::from_id(head.function_id) {
            with_call(function, Request(body));
            with_older_call(function, Request(body));
        }
    }
    if let Ok(Some((head, _))) = ResponseHead::parse(bytes) {
        let _ = decode_rpc_error(head.body(bytes));
    }
}

/// The function that the first byte picks, and the body of a call of it.
fn picked(bytes: &[u8]) -> Option<(Function, &[u8])> {
    let (number, body) = bytes.split_first()?;
    let function = Function::ALL.get(usize::from(*number) % Function::ALL.len())?;
    Some((*function, body))
}

struct Request<'b>(&'b [u8]);

impl CallVisitor for Request<'_> {
    type Output = ();

    fn visit<C: Call>(self) {
        if let Ok(request) = decode_request::<C>(self.0) {
            let _ = C::items(&request);
            encode_request::<C>(1, &request, &mut Vec::new());
        }
    }
}

struct Response<'b>(&'b [u8]);

impl CallVisitor for Response<'_> {
    type Output = ();

    fn visit<C: Call>(self) {
        if let Ok(response) = decode_response::<C>(self.0) {
            encode_response::<C, _>(1, &response, &mut Vec::new());
        }
    }
}

fn rpc_request(bytes: &[u8]) {
    if let Some((function, body)) = picked(bytes) {
        with_call(function, Request(body));
    }
}

fn rpc_response(bytes: &[u8]) {
    if let Some((function, body)) = picked(bytes) {
        with_call(function, Response(body));
    }
}

/// An entry of the log, decoded, written again, and applied to an empty state.
fn entry(bytes: &[u8]) {
    if let Ok(decoded) = encode::decode(bytes) {
        let again = encode::encode(&decoded).unwrap_or_default();
        assert_eq!(again, bytes, "an entry has one form");
        let _ = State::default().apply(bytes);
    }
}

/// A raft snapshot's content.
fn state_image(bytes: &[u8]) {
    let _ = State::load(&mut &*bytes);
}

/// The lines as flags, then as variables. A path is never given, so no file is read.
fn flags(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes).replace("config", "confi_");
    let args: Vec<String> = text.lines().map(str::to_owned).collect();
    let _ = config::load(&args, []);
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    let env = pairs.map(|(name, value)| (format!("{ENV_PREFIX}{name}"), value.to_owned()));
    let _ = config::load(&[], env);
}

/// What a follower gets from the leader.
fn leases(bytes: &[u8]) {
    if let Some(leases) = Leases::decode(bytes) {
        assert_eq!(leases.encode(), bytes, "a table has one form");
    }
    let _ = serde_json::from_slice::<Offer>(bytes);
}
