//! The calls of clients of release 0.3.12: translated, handled as everybody's, answered in their form.

use std::sync::atomic::Ordering;

use super::Service;
use super::handlers::{promotion, read, regex, transfer, upsert, write};
use super::not_built::Refuse;
use super::tally::Tally;
use crate::node::error::NodeError;
use crate::wire::Function;
use crate::wire::call::{decode_request, encode_response, encode_rpc_error};
use crate::wire::frame::{RequestHead, RpcError};
use crate::wire::older::calls::{self, with_older_call};
use crate::wire::older::{FromOlder, ToOlder};

macro_rules! routes {
    ($service:ident, $head:ident, $body:ident, $out:ident, $function:ident;
     $($call:ident => $handler:path,)+) => {
        match $function {
            $(Function::$call => match decode_request::<calls::$call>($body) {
                Ok(request) => {
                    let answer = $handler($service, FromOlder::from_older(request)).await?;
                    let (items, failed) = answer.tally();
                    $service.metrics.rpc.record($function, items, failed);
                    let answer = answer.to_older();
                    encode_response::<calls::$call, _>($head.sequence, &answer, $out);
                }
                Err(_) => encode_rpc_error($head.sequence, RpcError::InvalidArguments, $out),
            },)+
            other => {
                let refuse = Refuse { sequence: $head.sequence, body: $body, out: $out };
                if with_older_call(other, refuse).is_none() {
                    return Ok(false);
                }
                $service.not_built.note(other, $service.node.clock().monotonic());
            }
        }
    };
}

/// As `dispatch`, for a client of 0.3.12. `false`: the function has no form of its own there, and nothing was done.
///
/// Errors: this node cannot serve the call; nothing was appended.
pub async fn dispatch_older(
    service: &Service,
    function: Function,
    head: &RequestHead,
    body: &[u8],
    out: &mut Vec<u8>,
) -> Result<bool, NodeError> {
    routes! { service, head, body, out, function;
        GetReplicaList => read::get_replica_list,
        BatchGetReplicaList => read::batch_get_replica_list,
        GetReplicaListByRegex => regex::get_replica_list_by_regex,
        PutStart => write::put_start,
        PutEnd => write::put_end,
        BatchPutStart => write::batch_put_start,
        BatchPutEnd => write::batch_put_end,
        UpsertStart => upsert::upsert_start,
        UpsertEnd => upsert::upsert_end,
        BatchUpsertStart => upsert::batch_upsert_start,
        BatchUpsertEnd => upsert::batch_upsert_end,
        CopyStart => transfer::copy_start,
        MoveStart => transfer::move_start,
        PromotionAllocStart => promotion::promotion_alloc_start,
    }
    service.metrics.older_calls.fetch_add(1, Ordering::Relaxed);
    Ok(true)
}
