//! The fourteen calls that have other types in 0.3.12, named as the functions are.

use super::types::{
    BatchPutStartRequest, CopyStartResponse, GetReplicaListResponse, MoveStartResponse,
    PromotionAllocStartResponse, PutStartRequest, ReplicaDescriptor,
};
use crate::wire::call::{Answer, Call};
use crate::wire::calls::CallVisitor;
use crate::wire::function::Function;
use crate::wire::pack::{Body, Map};
use crate::wire::requests::{
    BatchPutRevokeRequest, BatchUpsertRevokeRequest, CopyStartRequest, KeyRequest, KeysRequest,
    MoveStartRequest, PromotionAllocStartRequest, PutRevokeRequest, RegexRequest,
};

/// Strings of a client's results.
type Owned = Box<[u8]>;

macro_rules! older_calls {
    ($($(#[$doc:meta])* $name:ident = $request_hash:literal, $response_hash:literal;
        ($request:ty) $(for each of $items:ident)? -> $response:ty;)+) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug)]
            pub struct $name;

            impl Call for $name {
                const FUNCTION: Function = Function::$name;
                type Request<'a> = $request;
                type Response = $response;
                const REQUEST: &'static Body = &Body::of::<Self::Request<'static>>($request_hash);
                const RESPONSE: &'static Body = &Body::of::<Self::Response>($response_hash);

                fn items(_request: &Self::Request<'_>) -> usize {
                    older_calls!(@items _request $($items)?)
                }
            }
        )+

        /// The functions that have other types.
        pub const ALL: &[Function] = &[$(Function::$name,)+];

        /// The type hashes of request and response, if either differs from today's.
        pub fn hashes(function: Function) -> Option<(u32, u32)> {
            match function { $(Function::$name => Some(super::hashes_of::<$name>()),)+ _ => None }
        }

        /// Does with the older call of `function` what `visitor` says; `None` if there is none.
        pub fn with_older_call<V: CallVisitor>(
            function: Function,
            visitor: V,
        ) -> Option<V::Output> {
            match function { $(Function::$name => Some(visitor.visit::<$name>()),)+ _ => None }
        }
    };
    (@items $request:ident) => { 1 };
    (@items $request:ident $items:ident) => { $request.$items.len() };
}

older_calls! {
    /// Descriptors as they were.
    GetReplicaListByRegex = 0x7cf9_1ed8, 0xf67f_a572;
        (RegexRequest<&'a [u8]>) -> Answer<Map<Owned, Vec<ReplicaDescriptor<Owned>>>>;
    /// No checksum.
    GetReplicaList = 0x7cf9_1ed8, 0x75ec_f440;
        (KeyRequest<&'a [u8]>) -> Answer<GetReplicaListResponse<Owned>>;
    /// The same for many keys.
    BatchGetReplicaList = 0x00f7_8d62, 0x0a20_c6b8;
        (KeysRequest<&'a [u8]>) for each of keys -> Vec<Answer<GetReplicaListResponse<Owned>>>;
    /// A boolean soft pin.
    PutStart = 0x6920_ea5c, 0x12e5_cdba;
        (PutStartRequest<&'a [u8]>) -> Answer<Vec<ReplicaDescriptor<Owned>>>;
    /// A key without a checksum.
    PutEnd = 0x1b7a_228a, 0xaf28_68cc; (PutRevokeRequest<&'a [u8]>) -> Answer<()>;
    /// A boolean soft pin.
    BatchPutStart = 0x8048_5c74, 0xac1d_82a2;
        (BatchPutStartRequest<&'a [u8]>) for each of keys
            -> Vec<Answer<Vec<ReplicaDescriptor<Owned>>>>;
    /// Keys without checksums.
    BatchPutEnd = 0x94ee_5d44, 0x39fc_52ce;
        (BatchPutRevokeRequest<&'a [u8]>) for each of keys -> Vec<Answer<()>>;
    /// A boolean soft pin.
    UpsertStart = 0x6920_ea5c, 0x12e5_cdba;
        (PutStartRequest<&'a [u8]>) -> Answer<Vec<ReplicaDescriptor<Owned>>>;
    /// A key without a checksum.
    UpsertEnd = 0x1b7a_228a, 0xaf28_68cc; (PutRevokeRequest<&'a [u8]>) -> Answer<()>;
    /// A boolean soft pin.
    BatchUpsertStart = 0x8048_5c74, 0xac1d_82a2;
        (BatchPutStartRequest<&'a [u8]>) for each of keys
            -> Vec<Answer<Vec<ReplicaDescriptor<Owned>>>>;
    /// Keys without checksums.
    BatchUpsertEnd = 0xd609_1496, 0x39fc_52ce;
        (BatchUpsertRevokeRequest<&'a [u8]>) for each of keys -> Vec<Answer<()>>;
    /// Descriptors as they were.
    PromotionAllocStart = 0xc6e7_29cc, 0x2e4a_74ce;
        (PromotionAllocStartRequest<&'a [u8]>) -> Answer<PromotionAllocStartResponse<Owned>>;
    /// Descriptors as they were.
    CopyStart = 0xb5bd_dd1a, 0x3a0e_ef84;
        (CopyStartRequest<&'a [u8]>) -> Answer<CopyStartResponse<Owned>>;
    /// Descriptors as they were.
    MoveStart = 0xef2e_e70c, 0x97f2_5be0;
        (MoveStartRequest<&'a [u8]>) -> Answer<MoveStartResponse<Owned>>;
}
