//! The messages of etcd's KV and Watch services, as far as they are read or written here.
//!
//! Names and numbers are those of etcd's public API, version 3; fields left out are skipped when read. The
//! three requests of a watch stream are one-of alternatives there and optional fields here, which is the
//! same on the wire.

use prost::Message;

/// Who answered, and at which revision.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct ResponseHeader {
    /// The node that answers.
    #[prost(uint64, tag = "2")]
    pub member_id: u64,
    /// The term of the view, at least 1.
    #[prost(int64, tag = "3")]
    pub revision: i64,
    /// The term of the view.
    #[prost(uint64, tag = "4")]
    pub raft_term: u64,
}

/// A key with its value.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// What the client takes as the version of the view.
    #[prost(int64, tag = "2")]
    pub create_revision: i64,
    #[prost(int64, tag = "3")]
    pub mod_revision: i64,
    /// Writes since the creation, that one included.
    #[prost(int64, tag = "4")]
    pub version: i64,
    #[prost(bytes = "vec", tag = "5")]
    pub value: Vec<u8>,
    /// 0: none.
    #[prost(int64, tag = "6")]
    pub lease: i64,
}

/// Asks for the keys in `key..range_end`, or for `key` alone if there is no end.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub range_end: Vec<u8>,
    /// Asks for the past or the future; 0 or less asks for now.
    #[prost(int64, tag = "4")]
    pub revision: i64,
    #[prost(bool, tag = "8")]
    pub keys_only: bool,
    #[prost(bool, tag = "9")]
    pub count_only: bool,
}

/// The keys found.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct RangeResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    #[prost(message, repeated, tag = "2")]
    pub kvs: Vec<KeyValue>,
    #[prost(int64, tag = "4")]
    pub count: i64,
}

/// One request on a watch stream.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct WatchRequest {
    #[prost(message, optional, tag = "1")]
    pub create_request: Option<WatchCreateRequest>,
    #[prost(message, optional, tag = "2")]
    pub cancel_request: Option<WatchCancelRequest>,
    #[prost(message, optional, tag = "3")]
    pub progress_request: Option<WatchProgressRequest>,
}

/// Starts a watch on `key..range_end`, or on `key` alone if there is no end.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct WatchCreateRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub range_end: Vec<u8>,
    /// The first revision of interest; 0 or less: what comes after now.
    #[prost(int64, tag = "3")]
    pub start_revision: i64,
    #[prost(bool, tag = "4")]
    pub progress_notify: bool,
    /// 0 lets the server choose.
    #[prost(int64, tag = "7")]
    pub watch_id: i64,
}

/// Ends a watch.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct WatchCancelRequest {
    #[prost(int64, tag = "1")]
    pub watch_id: i64,
}

/// Asks for the current revision.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct WatchProgressRequest {}

/// One answer on a watch stream.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct WatchResponse {
    /// Never absent: the client's library reads it without a check.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    #[prost(int64, tag = "2")]
    pub watch_id: i64,
    #[prost(bool, tag = "3")]
    pub created: bool,
    #[prost(bool, tag = "4")]
    pub canceled: bool,
    #[prost(string, tag = "6")]
    pub cancel_reason: String,
    #[prost(message, repeated, tag = "11")]
    pub events: Vec<Event>,
}

/// A change of a key.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Event {
    /// 0: the key was put. Nothing else happens to a view.
    #[prost(int32, tag = "1")]
    pub kind: i32,
    #[prost(message, optional, tag = "2")]
    pub kv: Option<KeyValue>,
}

/// [`Event::kind`] of a put.
pub(super) const PUT: i32 = 0;

/// Reads a message as each that a client sends, and writes it again; for `probes`.
pub(crate) fn probe(bytes: &[u8]) {
    if let Ok(message) = RangeRequest::decode(bytes) {
        let _ = message.encode_to_vec();
    }
    if let Ok(message) = WatchRequest::decode(bytes) {
        let _ = message.encode_to_vec();
    }
}
