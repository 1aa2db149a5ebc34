//! From a function to its handler: one table, no logic.

use super::Service;
use super::handlers::{
    disk, nof, promotion, read, regex, remove, segment, session, task, transfer, upsert, write,
};
use super::not_built::Refuse;
use super::older::dispatch_older;
use super::tally::Tally;
use crate::node::error::NodeError;
use crate::wire::Function;
use crate::wire::call::{decode_request, encode_response, encode_rpc_error};
use crate::wire::calls::{self, with_call};
use crate::wire::frame::{RequestHead, RpcError};
use crate::wire::older::Release;

macro_rules! routes {
    ($service:ident, $head:ident, $body:ident, $out:ident, $function:ident, else $rest:path;
     $($call:ident => $handler:path,)+) => {
        match $function {
            $(Function::$call => match decode_request::<calls::$call>($body) {
                Ok(request) => {
                    let answer = $handler($service, request).await?;
                    let (items, failed) = answer.tally();
                    $service.metrics.rpc.record($function, items, failed);
                    encode_response::<calls::$call, _>($head.sequence, &answer, $out);
                }
                Err(_) => encode_rpc_error($head.sequence, RpcError::InvalidArguments, $out),
            },)+
            other => $rest($service, $head, $body, $out, other).await?,
        }
    };
}

/// Handles one request, and appends its answer to `out`, in the form of the client's `release`.
///
/// Errors: this node cannot serve the call; nothing was appended.
pub async fn dispatch(
    service: &Service,
    head: &RequestHead,
    release: Release,
    body: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), NodeError> {
    let Some(function) = Function::from_id(head.function_id) else {
        encode_rpc_error(head.sequence, RpcError::NotRegistered, out);
        return Ok(());
    };
    if release == Release::V0312 && dispatch_older(service, function, head, body, out).await? {
        return Ok(());
    }
    routes! { service, head, body, out, function, else dispatch_disk;
        ServiceReady => session::service_ready,
        GetStorageConfig => session::get_storage_config,
        GetFsdir => session::get_fsdir,
        Ping => session::ping,
        FetchTasks => task::fetch_tasks,
        CreateCopyTask => task::create_copy_task,
        CreateMoveTask => task::create_move_task,
        MarkTaskToComplete => task::mark_task_to_complete,
        QueryTask => task::query_task,
        ExistKey => read::exist_key,
        BatchExistKey => read::batch_exist_key,
        GetReplicaList => read::get_replica_list,
        BatchGetReplicaList => read::batch_get_replica_list,
        PutStart => write::put_start,
        PutEnd => write::put_end,
        PutRevoke => write::put_revoke,
        BatchPutStart => write::batch_put_start,
        BatchPutEnd => write::batch_put_end,
        BatchPutRevoke => write::batch_put_revoke,
        UpsertStart => upsert::upsert_start,
        UpsertEnd => upsert::upsert_end,
        UpsertRevoke => upsert::upsert_revoke,
        BatchUpsertStart => upsert::batch_upsert_start,
        BatchUpsertEnd => upsert::batch_upsert_end,
        BatchUpsertRevoke => upsert::batch_upsert_revoke,
        Remove => remove::remove,
        BatchRemove => remove::batch_remove,
        RemoveAll => remove::remove_all,
        BatchReplicaClear => remove::batch_replica_clear,
        GetReplicaListByRegex => regex::get_replica_list_by_regex,
        RemoveByRegex => regex::remove_by_regex,
        MountSegment => segment::mount_segment,
        ReMountSegment => segment::remount_segment,
        UnmountSegment => segment::unmount_segment,
        GracefulUnmountSegment => segment::graceful_unmount_segment,
        BatchQueryIp => segment::batch_query_ip,
        QuerySegmentStatus => segment::query_segment_status,
        QuerySegmentStatusById => segment::query_segment_status_by_id,
        CopyStart => transfer::copy_start,
        CopyEnd => transfer::copy_end,
        CopyRevoke => transfer::copy_revoke,
        MoveStart => transfer::move_start,
        MoveEnd => transfer::move_end,
        MoveRevoke => transfer::move_revoke,
        DynamicReplicaCopyStart => transfer::dynamic_copy_start,
        DynamicReplicaCopyEnd => transfer::dynamic_copy_end,
        DynamicReplicaCopyRevoke => transfer::dynamic_copy_revoke,
    }
    Ok(())
}

/// The calls about disks.
async fn dispatch_disk(
    service: &Service,
    head: &RequestHead,
    body: &[u8],
    out: &mut Vec<u8>,
    function: Function,
) -> Result<(), NodeError> {
    routes! { service, head, body, out, function, else refuse;
        MountLocalDiskSegment => disk::mount_local_disk_segment,
        UnmountLocalDiskSegment => disk::unmount_local_disk_segment,
        OffloadObjectHeartbeat => disk::offload_object_heartbeat,
        ReportSsdCapacity => disk::report_ssd_capacity,
        NotifyOffloadSuccess => disk::notify_offload_success,
        EvictDiskReplica => disk::evict_disk_replica,
        BatchEvictDiskReplica => disk::batch_evict_disk_replica,
        PollRemoveAll => disk::poll_remove_all,
        PromotionObjectHeartbeat => promotion::promotion_object_heartbeat,
        PromotionAllocStart => promotion::promotion_alloc_start,
        NotifyPromotionSuccess => promotion::notify_promotion_success,
        NotifyPromotionFailure => promotion::notify_promotion_failure,
        GetAllNoFSegments => nof::get_all_nof_segments,
        GetNoFSegmentsByName => nof::get_nof_segments_by_name,
    }
    Ok(())
}

/// The calls that are left.
async fn refuse(
    service: &Service,
    head: &RequestHead,
    body: &[u8],
    out: &mut Vec<u8>,
    function: Function,
) -> Result<(), NodeError> {
    service.not_built.note(function, service.node.clock().monotonic());
    with_call(function, Refuse { sequence: head.sequence, body, out });
    Ok(())
}
