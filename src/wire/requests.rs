//! The argument lists of the functions, with names (wire protocol 4).
//!
//! One struct for each list of names and types; functions with the same list share it. A function
//! of one argument has no list: its request is the argument itself. Arguments that recur:
//! `client_id` is the caller, `tenant_id` the name space of the keys, `replica_type` the kind of
//! replicas meant, `force` ignores read leases. `S` is the type of the strings, `&[u8]` when
//! decoded by a server.

#![expect(
    missing_docs,
    reason = "the arguments that are not clear from name and type are explained above"
)]

use super::pack::wire_struct;
use super::types::{
    NoFSegment, ObjectMeta, OffloadTaskItem, ReplicaType, ReplicateConfig, Segment,
    StorageObjectMetadata, TaskCompleteRequest,
};
use crate::model::ids::{ClientId, SegmentId, Uuid};

wire_struct! {
    /// ExistKey, GetReplicaList.
    pub struct KeyRequest<S> {
        key: S,
        tenant_id: S,
    }

    /// BatchExistKey, BatchGetReplicaList.
    pub struct KeysRequest<S> {
        keys: Vec<S>,
        tenant_id: S,
    }

    /// GetReplicaListByRegex.
    pub struct RegexRequest<S> {
        regex: S,
        tenant_id: S,
    }

    /// BatchReplicaClear. An empty `segment_name` means every segment.
    pub struct BatchReplicaClearRequest<S> {
        object_keys: Vec<S>,
        client_id: ClientId,
        segment_name: S,
    }

    /// PutStart, UpsertStart. `slice_length` is the object's size in bytes.
    pub struct PutStartRequest<S> {
        client_id: ClientId,
        key: S,
        slice_length: u64,
        config: ReplicateConfig<S>,
        tenant_id: S,
    }

    /// PutEnd, UpsertEnd.
    pub struct PutEndRequest<S> {
        client_id: ClientId,
        object_meta: ObjectMeta<S>,
        replica_type: ReplicaType,
        tenant_id: S,
    }

    /// PutRevoke, UpsertRevoke.
    pub struct PutRevokeRequest<S> {
        client_id: ClientId,
        key: S,
        replica_type: ReplicaType,
        tenant_id: S,
    }

    /// BatchPutStart, BatchUpsertStart. One length a key, or the handler refuses all.
    pub struct BatchPutStartRequest<S> {
        client_id: ClientId,
        keys: Vec<S>,
        slice_lengths: Vec<u64>,
        config: ReplicateConfig<S>,
        tenant_id: S,
    }

    /// BatchPutEnd.
    pub struct BatchPutEndRequest<S> {
        client_id: ClientId,
        object_metas: Vec<ObjectMeta<S>>,
        replica_type: ReplicaType,
        tenant_id: S,
    }

    /// BatchPutRevoke.
    pub struct BatchPutRevokeRequest<S> {
        client_id: ClientId,
        keys: Vec<S>,
        replica_type: ReplicaType,
        tenant_id: S,
    }

    /// BatchUpsertEnd.
    pub struct BatchUpsertEndRequest<S> {
        client_id: ClientId,
        object_metas: Vec<ObjectMeta<S>>,
        tenant_id: S,
    }

    /// BatchUpsertRevoke.
    pub struct BatchUpsertRevokeRequest<S> {
        client_id: ClientId,
        keys: Vec<S>,
        tenant_id: S,
    }

    /// Remove.
    pub struct RemoveRequest<S> {
        key: S,
        force: bool,
        tenant_id: S,
    }

    /// RemoveByRegex.
    pub struct RemoveByRegexRequest<S> {
        regex: S,
        force: bool,
        tenant_id: S,
    }

    /// RemoveAll.
    pub struct RemoveAllRequest<S> {
        force: bool,
        tenant_id: S,
    }

    /// BatchRemove.
    pub struct BatchRemoveRequest<S> {
        keys: Vec<S>,
        force: bool,
        tenant_id: S,
    }

    /// MountSegment.
    pub struct MountSegmentRequest<S> {
        segment: Segment<S>,
        client_id: ClientId,
    }

    /// MountNoFSegment.
    pub struct MountNoFSegmentRequest<S> {
        segment: NoFSegment<S>,
        client_id: ClientId,
    }

    /// ReMountSegment: every segment of the client.
    pub struct ReMountSegmentRequest<S> {
        segments: Vec<Segment<S>>,
        client_id: ClientId,
    }

    /// ReMountNoFSegment: every NVMe-oF segment of the client.
    pub struct ReMountNoFSegmentRequest<S> {
        segments: Vec<NoFSegment<S>>,
        client_id: ClientId,
    }

    /// UnmountSegment, UnmountNoFSegment.
    pub struct UnmountSegmentRequest {
        segment_id: SegmentId,
        client_id: ClientId,
    }

    /// GracefulUnmountSegment.
    pub struct GracefulUnmountSegmentRequest {
        segment_id: SegmentId,
        client_id: ClientId,
        grace_period_ms: u64,
    }

    /// MountLocalDiskSegment, OffloadObjectHeartbeat.
    pub struct LocalDiskRequest {
        client_id: ClientId,
        enable_offloading: bool,
    }

    /// ReportSsdCapacity.
    pub struct ReportSsdCapacityRequest {
        client_id: ClientId,
        ssd_total_capacity_bytes: i64,
    }

    /// NotifyOffloadSuccess. One entry of `metadatas` a task.
    pub struct NotifyOffloadSuccessRequest<S> {
        client_id: ClientId,
        tasks: Vec<OffloadTaskItem<S>>,
        metadatas: Vec<StorageObjectMetadata<S>>,
    }

    /// PromotionAllocStart. `size` in bytes.
    pub struct PromotionAllocStartRequest<S> {
        client_id: ClientId,
        key: S,
        tenant_id: S,
        size: u64,
        preferred_segments: Vec<S>,
    }

    /// NotifyPromotionSuccess and -Failure, CopyEnd, CopyRevoke, MoveEnd, MoveRevoke.
    pub struct ClientKeyRequest<S> {
        client_id: ClientId,
        key: S,
        tenant_id: S,
    }

    /// CopyStart. Segments by name.
    pub struct CopyStartRequest<S> {
        client_id: ClientId,
        key: S,
        tenant_id: S,
        src_segment: S,
        tgt_segments: Vec<S>,
    }

    /// DynamicReplicaCopyStart. Segments by name; `lease_id` and `version_epoch` as in the task.
    pub struct DynamicReplicaCopyStartRequest<S> {
        client_id: ClientId,
        key: S,
        tenant_id: S,
        src_segment: S,
        tgt_segments: Vec<S>,
        lease_id: Uuid,
        version_epoch: u64,
    }

    /// DynamicReplicaCopyEnd and -Revoke. `lease_id` and `version_epoch` as in the task.
    pub struct DynamicReplicaCopyRequest<S> {
        client_id: ClientId,
        key: S,
        tenant_id: S,
        lease_id: Uuid,
        version_epoch: u64,
    }

    /// MoveStart. Segments by name.
    pub struct MoveStartRequest<S> {
        client_id: ClientId,
        key: S,
        tenant_id: S,
        src_segment: S,
        tgt_segment: S,
    }

    /// EvictDiskReplica.
    pub struct EvictDiskReplicaRequest<S> {
        client_id: ClientId,
        key: S,
        tenant_id: S,
        replica_type: ReplicaType,
    }

    /// BatchEvictDiskReplica.
    pub struct BatchEvictDiskReplicaRequest<S> {
        client_id: ClientId,
        keys: Vec<S>,
        tenant_id: S,
        replica_type: ReplicaType,
    }

    /// CreateCopyTask. Segments by name.
    pub struct CreateCopyTaskRequest<S> {
        key: S,
        tenant_id: S,
        targets: Vec<S>,
    }

    /// CreateMoveTask. Segments by name.
    pub struct CreateMoveTaskRequest<S> {
        key: S,
        tenant_id: S,
        source: S,
        target: S,
    }

    /// FetchTasks: at most `batch_size` tasks.
    pub struct FetchTasksRequest {
        client_id: ClientId,
        batch_size: u64,
    }

    /// MarkTaskToComplete.
    pub struct MarkTaskToCompleteRequest<S> {
        client_id: ClientId,
        request: TaskCompleteRequest<S>,
    }
}
