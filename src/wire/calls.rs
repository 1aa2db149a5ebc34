//! The 64 calls: what each function takes and returns (wire protocol 4).
//!
//! One unit type a call, by which handlers and clients are typed:
//! `decode_request::<PutStart>(body)`. What a call does, and when it refuses, is the handlers'
//! business. [`with_call`] leads from a function that came off the wire to its call.

use super::call::{Answer, Call};
use super::function::Function;
use super::pack::{Map, NoArguments};
use super::requests::*;
use super::types::*;
use crate::model::ids::{ClientId, SegmentId, TaskId};

/// Strings of a client's results.
type Owned = Box<[u8]>;

/// Something to do with a call whose type is known only when it runs.
pub trait CallVisitor {
    /// What comes of it.
    type Output;

    /// Does it.
    fn visit<C: Call>(self) -> Self::Output;
}

macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident($request:ty) $(for each of $items:ident)?
        -> $response:ty;)+) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug)]
            pub struct $name;

            impl Call for $name {
                const FUNCTION: Function = Function::$name;
                type Request<'a> = $request;
                type Response = $response;

                fn items(_request: &Self::Request<'_>) -> usize {
                    calls!(@items _request $($items)?)
                }
            }
        )+

        /// Does with the call of `function` what `visitor` says.
        pub fn with_call<V: CallVisitor>(function: Function, visitor: V) -> V::Output {
            match function { $(Function::$name => visitor.visit::<$name>(),)+ }
        }
    };
    (@items $request:ident) => { 1 };
    (@items $request:ident $items:ident) => { $request.$items.len() };
}

calls! {
    /// Whether the key has a readable replica.
    ExistKey(KeyRequest<&'a [u8]>) -> Answer<bool>;
    /// The hosts of clients.
    BatchQueryIp(Vec<ClientId>) -> Answer<Map<ClientId, Vec<Owned>>>;
    /// Removes unleased objects, or their replicas in one segment; the keys cleared.
    BatchReplicaClear(BatchReplicaClearRequest<&'a [u8]>) -> Answer<Vec<Owned>>;
    /// The replicas of every key in which the pattern is found.
    GetReplicaListByRegex(RegexRequest<&'a [u8]>)
        -> Answer<Map<Owned, Vec<ReplicaDescriptor<Owned>>>>;
    /// The replicas of a key, under a read lease.
    GetReplicaList(KeyRequest<&'a [u8]>) -> Answer<GetReplicaListResponse<Owned>>;
    /// The same for many keys.
    BatchGetReplicaList(KeysRequest<&'a [u8]>) for each of keys
        -> Vec<Answer<GetReplicaListResponse<Owned>>>;
    /// Starts the write of a new object: replicas to write.
    PutStart(PutStartRequest<&'a [u8]>) -> Answer<Vec<ReplicaDescriptor<Owned>>>;
    /// Ends it: the replicas are readable.
    PutEnd(PutEndRequest<&'a [u8]>) -> Answer<()>;
    /// Takes it back.
    PutRevoke(PutRevokeRequest<&'a [u8]>) -> Answer<()>;
    /// PutStart for many keys with one configuration.
    BatchPutStart(BatchPutStartRequest<&'a [u8]>) for each of keys
        -> Vec<Answer<Vec<ReplicaDescriptor<Owned>>>>;
    /// PutEnd for many keys.
    BatchPutEnd(BatchPutEndRequest<&'a [u8]>) for each of object_metas -> Vec<Answer<()>>;
    /// PutRevoke for many keys.
    BatchPutRevoke(BatchPutRevokeRequest<&'a [u8]>) for each of keys -> Vec<Answer<()>>;
    /// Starts the write of a new or of an existing object.
    UpsertStart(PutStartRequest<&'a [u8]>) -> Answer<Vec<ReplicaDescriptor<Owned>>>;
    /// Ends it.
    UpsertEnd(PutEndRequest<&'a [u8]>) -> Answer<()>;
    /// Takes it back.
    UpsertRevoke(PutRevokeRequest<&'a [u8]>) -> Answer<()>;
    /// UpsertStart for many keys with one configuration.
    BatchUpsertStart(BatchPutStartRequest<&'a [u8]>) for each of keys
        -> Vec<Answer<Vec<ReplicaDescriptor<Owned>>>>;
    /// UpsertEnd for many keys.
    BatchUpsertEnd(BatchUpsertEndRequest<&'a [u8]>) for each of object_metas -> Vec<Answer<()>>;
    /// UpsertRevoke for many keys.
    BatchUpsertRevoke(BatchUpsertRevokeRequest<&'a [u8]>) for each of keys -> Vec<Answer<()>>;
    /// Removes an object.
    Remove(RemoveRequest<&'a [u8]>) -> Answer<()>;
    /// Removes every object in whose key the pattern is found; how many.
    RemoveByRegex(RemoveByRegexRequest<&'a [u8]>) -> Answer<i64>;
    /// Removes every object; how many.
    RemoveAll(RemoveAllRequest<&'a [u8]>) -> i64;
    /// Remove for many keys.
    BatchRemove(BatchRemoveRequest<&'a [u8]>) for each of keys -> Vec<Answer<()>>;
    /// Offers a memory segment.
    MountSegment(MountSegmentRequest<&'a [u8]>) -> Answer<()>;
    /// Offers an NVMe-oF segment.
    MountNoFSegment(MountNoFSegmentRequest<&'a [u8]>) -> Answer<()>;
    /// Offers all of a client's memory segments again.
    ReMountSegment(ReMountSegmentRequest<&'a [u8]>) -> Answer<()>;
    /// Offers all of a client's NVMe-oF segments again.
    ReMountNoFSegment(ReMountNoFSegmentRequest<&'a [u8]>) -> Answer<()>;
    /// Withdraws a memory segment.
    UnmountSegment(UnmountSegmentRequest) -> Answer<()>;
    /// Withdraws it after a grace period.
    GracefulUnmountSegment(GracefulUnmountSegmentRequest) -> Answer<()>;
    /// Withdraws an NVMe-oF segment.
    UnmountNoFSegment(UnmountSegmentRequest) -> Answer<()>;
    /// Every NVMe-oF segment.
    GetAllNoFSegments(NoArguments) -> Answer<Vec<NoFSegment<Owned>>>;
    /// Who mounted the NVMe-oF segments of that name.
    GetNoFSegmentsByName(&'a [u8]) -> Answer<Vec<NoFSegmentOwnerInfo>>;
    /// A client's heartbeat.
    Ping(ClientId) -> Answer<PingResponse>;
    /// The shared directory of this cluster.
    GetFsdir(NoArguments) -> Answer<Owned>;
    /// The status of a segment by name.
    QuerySegmentStatus(&'a [u8]) -> Answer<SegmentStatus>;
    /// The status of a segment.
    QuerySegmentStatusById(SegmentId) -> Answer<SegmentStatus>;
    /// How shared disk is set up.
    GetStorageConfig(NoArguments) -> Answer<GetStorageConfigResponse<Owned>>;
    /// ExistKey for many keys.
    BatchExistKey(KeysRequest<&'a [u8]>) for each of keys -> Vec<Answer<bool>>;
    /// The version of the service.
    ServiceReady(NoArguments) -> Answer<Owned>;
    /// Offers a client's own disk.
    MountLocalDiskSegment(LocalDiskRequest) -> Answer<()>;
    /// Withdraws it.
    UnmountLocalDiskSegment(ClientId) -> Answer<()>;
    /// Which objects the client is to write to its disk.
    OffloadObjectHeartbeat(LocalDiskRequest) -> Answer<Vec<OffloadTaskItem<Owned>>>;
    /// Tells the size of the client's disk.
    ReportSsdCapacity(ReportSsdCapacityRequest) -> Answer<()>;
    /// Tells which objects are on the client's disk.
    NotifyOffloadSuccess(NotifyOffloadSuccessRequest<&'a [u8]>) -> Answer<()>;
    /// Which objects the client is to read back into memory.
    PromotionObjectHeartbeat(ClientId) -> Answer<Vec<PromotionTaskItem<Owned>>>;
    /// Starts reading one back: the replica to write.
    PromotionAllocStart(PromotionAllocStartRequest<&'a [u8]>)
        -> Answer<PromotionAllocStartResponse<Owned>>;
    /// Ends it.
    NotifyPromotionSuccess(ClientKeyRequest<&'a [u8]>) -> Answer<()>;
    /// Takes it back.
    NotifyPromotionFailure(ClientKeyRequest<&'a [u8]>) -> Answer<()>;
    /// Starts a copy: the replicas to read and to write.
    CopyStart(CopyStartRequest<&'a [u8]>) -> Answer<CopyStartResponse<Owned>>;
    /// Starts a copy that the master asked for by itself.
    DynamicReplicaCopyStart(DynamicReplicaCopyStartRequest<&'a [u8]>)
        -> Answer<CopyStartResponse<Owned>>;
    /// Ends a copy.
    CopyEnd(ClientKeyRequest<&'a [u8]>) -> Answer<()>;
    /// Ends a copy that the master asked for by itself.
    DynamicReplicaCopyEnd(DynamicReplicaCopyRequest<&'a [u8]>) -> Answer<()>;
    /// Takes a copy back.
    CopyRevoke(ClientKeyRequest<&'a [u8]>) -> Answer<()>;
    /// Takes a copy back that the master asked for by itself.
    DynamicReplicaCopyRevoke(DynamicReplicaCopyRequest<&'a [u8]>) -> Answer<()>;
    /// Starts a move: the replicas to read and to write.
    MoveStart(MoveStartRequest<&'a [u8]>) -> Answer<MoveStartResponse<Owned>>;
    /// Ends a move.
    MoveEnd(ClientKeyRequest<&'a [u8]>) -> Answer<()>;
    /// Takes a move back.
    MoveRevoke(ClientKeyRequest<&'a [u8]>) -> Answer<()>;
    /// Drops a disk replica that the client evicted.
    EvictDiskReplica(EvictDiskReplicaRequest<&'a [u8]>) -> Answer<()>;
    /// The same for many keys.
    BatchEvictDiskReplica(BatchEvictDiskReplicaRequest<&'a [u8]>) for each of keys
        -> Vec<Answer<()>>;
    /// Whether the client is to empty its disk.
    PollRemoveAll(ClientId) -> Answer<bool>;
    /// Asks for a copy by a client.
    CreateCopyTask(CreateCopyTaskRequest<&'a [u8]>) -> Answer<TaskId>;
    /// Asks for a move by a client.
    CreateMoveTask(CreateMoveTaskRequest<&'a [u8]>) -> Answer<TaskId>;
    /// The state of a task.
    QueryTask(TaskId) -> Answer<QueryTaskResponse<Owned>>;
    /// The tasks for a client.
    FetchTasks(FetchTasksRequest) -> Answer<Vec<TaskAssignment<Owned>>>;
    /// Ends a task.
    MarkTaskToComplete(MarkTaskToCompleteRequest<&'a [u8]>) -> Answer<()>;
}
