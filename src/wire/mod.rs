//! The peer's RPC protocol: bytes to typed values and back (`docs/protocol.md`).
//!
//! A connection's bytes become a frame (`frame`), its number a function (`function`), its body the
//! arguments of a call (`call`, `calls`, `requests`, `types`, in the encoding of `pack`). Guards:
//! decoding what was encoded gives the same value; every length is checked before it is allocated;
//! ids, literals and hashes are the peer's. There is no state here, and what a call means is left
//! to `rpc`.

pub mod call;
pub mod calls;
pub mod frame;
pub mod function;
pub mod older;
pub mod pack;
pub mod requests;
pub mod types;

#[cfg(test)]
mod tests;

pub use call::{
    Answer, Call, decode_request, decode_response, encode_refusal, encode_request, encode_response,
    encode_rpc_error,
};
pub use frame::{RequestHead, ResponseHead, RpcError};
pub use function::Function;
pub use pack::NoArguments;
