//! A call: a function with the types of its request and its response, and both ends of its bytes.
//!
//! The server decodes with [`decode_request`] and answers with [`encode_response`]; our client does
//! the reverse. A server may answer with any type that looks the same on the wire, such as
//! `Result<_, ErrorCode>` with shared strings; that it does is checked when compiling.

use super::frame::{RequestHead, ResponseHead, RpcError};
use super::function::Function;
use super::pack::{Body, Pack, Unpack, UnpackError, Wire};
use super::types::WireError;
use crate::model::error_code::ErrorCode;

/// What our client gets for an operation that can fail.
pub type Answer<T> = Result<T, WireError>;

/// The body of an RPC-layer error: one string.
const RPC_ERROR_TEXT: Body = Body::of::<&[u8]>(0x9dcf_fa76);

/// One function of the protocol. [`super::calls`] has a unit type for each.
pub trait Call: Send + Sync + 'static {
    /// Which.
    const FUNCTION: Function;
    /// The arguments, borrowing their strings.
    type Request<'a>: Pack + Unpack<'a>;
    /// The result as a client reads it, with strings of its own. A server's answer has its literal.
    type Response: Pack + for<'a> Unpack<'a> + Refusal + Send;

    /// The request's body.
    const REQUEST: &'static Body =
        &Body::of::<Self::Request<'static>>(Self::FUNCTION.request_hash());
    /// The response's body.
    const RESPONSE: &'static Body = &Body::of::<Self::Response>(Self::FUNCTION.response_hash());

    /// How many answers the request asks for: its number of keys for a batch, else 1.
    fn items(request: &Self::Request<'_>) -> usize;
}

/// A result type that can say no.
pub trait Refusal {
    /// A refusal with `code` of each of `items` parts.
    fn refusal(code: ErrorCode, items: usize) -> Self;
}

impl<T> Refusal for Answer<T> {
    fn refusal(code: ErrorCode, _items: usize) -> Self {
        Err(code.into())
    }
}

impl<T> Refusal for Vec<Answer<T>> {
    fn refusal(code: ErrorCode, items: usize) -> Self {
        (0..items).map(|_| Err(code.into())).collect()
    }
}

impl Refusal for i64 {
    /// RemoveAll has no room for an error in its type: the number itself, which is negative.
    fn refusal(code: ErrorCode, _items: usize) -> Self {
        code.number().into()
    }
}

/// Reads the arguments of `C`.
///
/// Errors: by cause, see [`UnpackError`]; the answer to each is [`RpcError::InvalidArguments`].
pub fn decode_request<C: Call>(body: &[u8]) -> Result<C::Request<'_>, UnpackError> {
    C::REQUEST.decode(body)
}

/// Appends the whole response frame of `C` with number `sequence`.
///
/// A body over [`super::frame::REPLY_BYTES_MAX`] is replaced by RPC error 10.
pub fn encode_response<C: Call, R: Pack>(sequence: u32, response: &R, out: &mut Vec<u8>) {
    const {
        assert!(
            R::LITERAL.is_same(<C::Response as Wire>::LITERAL),
            "this answer is not of the call's response type"
        );
    }
    if !ResponseHead::write(sequence, 0, out, |out| C::RESPONSE.encode(response, out)) {
        encode_rpc_error(
            sequence,
            RpcError::Exception("the answer is too large for one frame"),
            out,
        );
    }
}

/// Appends the whole response frame that refuses `request` with `code` in the normal response form.
pub fn encode_refusal<C: Call>(
    sequence: u32,
    request: &C::Request<'_>,
    code: ErrorCode,
    out: &mut Vec<u8>,
) {
    let response = C::Response::refusal(code, C::items(request));
    encode_response::<C, _>(sequence, &response, out);
}

/// Appends the whole response frame of an RPC-layer error.
pub fn encode_rpc_error(sequence: u32, error: RpcError, out: &mut Vec<u8>) {
    ResponseHead::write(sequence, error.code(), out, |out| {
        RPC_ERROR_TEXT.encode(&error.text(), out);
    });
}

/// Appends the whole request frame of `C` with number `sequence`.
pub fn encode_request<C: Call>(sequence: u32, request: &C::Request<'_>, out: &mut Vec<u8>) {
    RequestHead::write(sequence, C::FUNCTION.id(), out, |out| {
        C::REQUEST.encode(request, out);
    });
}

/// Reads the result of `C`. Errors: by cause, see [`UnpackError`].
pub fn decode_response<C: Call>(body: &[u8]) -> Result<C::Response, UnpackError> {
    C::RESPONSE.decode(body)
}

/// Reads the text of an RPC-layer error. Errors: by cause, see [`UnpackError`].
pub fn decode_rpc_error(body: &[u8]) -> Result<&[u8], UnpackError> {
    RPC_ERROR_TEXT.decode(body)
}
