//! The function table and the types against their definition and against the real master's own.

use md5::{Digest, Md5};
use serde_json::Value;

use super::{fixture, hex};
use crate::model::error_code::ErrorCode;
use crate::wire::Call;
use crate::wire::calls::{CallVisitor, with_call};
use crate::wire::function::Function;
use crate::wire::types::{ReplicaType, SoftPinAction, WireError};

/// The first four bytes of the MD5 of `bytes`, as a big-endian number.
fn md5_start(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(*Md5::digest(bytes).first_chunk().unwrap())
}

pub(super) struct Described;

impl CallVisitor for Described {
    type Output = Value;

    /// Id, literals and hashes of a call, recomputed from its name and its types.
    fn visit<C: Call>(self) -> Value {
        let name = format!("mooncake::WrappedMasterService::{}", C::FUNCTION.name());
        let hash = |literal: &[u8]| format!("{:#010x}", md5_start(literal) & !1);
        let (request, response) = (C::REQUEST.literal(), C::RESPONSE.literal());
        let has_body = !request.is_empty();
        serde_json::json!({
            "rpc": C::FUNCTION.name(),
            "function_id": format!("{:#010x}", md5_start(name.as_bytes())),
            "request_literal": hex(request),
            "request_hash": has_body.then(|| hash(request)),
            "response_literal": hex(response),
            "response_hash": hash(response),
        })
    }
}

#[test]
fn names_and_types_give_the_ids_literals_and_hashes_of_the_real_master() {
    let fixture = fixture();
    let rpcs = fixture["rpcs"].as_array().unwrap();
    assert_eq!(rpcs.len(), Function::ALL.len());
    for (rpc, &function) in rpcs.iter().zip(Function::ALL) {
        let described = with_call(function, Described);
        for (field, value) in described.as_object().unwrap() {
            assert_eq!(value, &rpc[field], "{function} {field}");
        }
    }
}

struct Tabled;

impl CallVisitor for Tabled {
    type Output = ();

    fn visit<C: Call>(self) {
        let function = C::FUNCTION;
        let described = Described.visit::<C>();
        let hexadecimal = |number: u32| Value::from(format!("{number:#010x}"));
        assert_eq!(described["function_id"], hexadecimal(function.id()));
        assert_eq!(described["response_hash"], hexadecimal(C::RESPONSE.hash()));
        assert_eq!(C::RESPONSE.hash(), function.response_hash());
        match &described["request_hash"] {
            Value::Null => assert_eq!(function.request_hash(), 0),
            hash => assert_eq!(hash, &hexadecimal(function.request_hash())),
        }
    }
}

#[test]
fn the_function_table_holds_what_names_and_types_give() {
    for &function in Function::ALL {
        with_call(function, Tabled);
        assert_eq!(Function::from_id(function.id()), Some(function));
    }
    assert_eq!(Function::from_id(0x8938_5f08), None);
    assert_eq!(Function::from_id(0), None);
}

#[test]
fn unknown_numbers_of_enums_and_errors_are_kept() {
    assert_eq!(ReplicaType(100).name(), Some("DFS"));
    assert_eq!(ReplicaType(77).name(), None);
    assert_eq!(format!("{:?}", SoftPinAction::ENABLE), "ENABLE");
    assert_eq!(format!("{:?}", SoftPinAction(9)), "SoftPinAction(9)");
    assert_eq!(WireError(-12_345).code(), None);
    assert_eq!(WireError(-12_345).to_string(), "UNKNOWN_ERROR (-12345)");
    assert_eq!(WireError::from(ErrorCode::ObjectNotFound), WireError(-704));
}
