//! Copies, moves, offloads and promotions: what is to be done, what was done.

use super::enums::{TaskStatus, TaskType};
use super::object::ReplicaDescriptor;
use crate::model::ids::{ClientId, TaskId};
use crate::wire::pack::wire_struct;

wire_struct! {
    /// From where to where to copy.
    pub struct CopyStartResponse<S> {
        /// The replica to read.
        source: ReplicaDescriptor<S>,
        /// The replicas to write; empty if every target has one already.
        targets: Vec<ReplicaDescriptor<S>>,
    }

    /// From where to where to move.
    pub struct MoveStartResponse<S> {
        /// The replica to read.
        source: ReplicaDescriptor<S>,
        /// The replica to write; absent if the target has one already.
        target: Option<ReplicaDescriptor<S>>,
    }

    /// Where a promoted object goes.
    pub struct PromotionAllocStartResponse<S> {
        /// The replica to write.
        memory_descriptor: ReplicaDescriptor<S>,
    }

    /// The state of a task.
    pub struct QueryTaskResponse<S> {
        /// The task.
        id: TaskId,
        /// What it does.
        r#type: TaskType,
        /// How far it is.
        status: TaskStatus,
        /// Unix milliseconds.
        created_at_ms_epoch: i64,
        /// Unix milliseconds.
        last_updated_at_ms_epoch: i64,
        /// Who does it.
        assigned_client: ClientId,
        /// What its client said at the end.
        message: S,
    }

    /// A task for the client that fetched it.
    pub struct TaskAssignment<S> {
        /// The task.
        id: TaskId,
        /// What it does.
        r#type: TaskType,
        /// JSON text, wire protocol 6.5.
        payload: S,
        /// Unix milliseconds.
        created_at_ms_epoch: i64,
        /// How often the client may try.
        max_retry_attempts: u32,
    }

    /// The end of a task.
    pub struct TaskCompleteRequest<S> {
        /// The task.
        id: TaskId,
        /// How it ended.
        status: TaskStatus,
        /// For people.
        message: S,
    }

    /// An object to write to local disk, or written.
    pub struct OffloadTaskItem<S> {
        /// Name space of the key.
        tenant_id: S,
        /// The object.
        key: S,
        /// Bytes.
        size: i64,
    }

    /// An object to read back from local disk.
    pub struct PromotionTaskItem<S> {
        /// Name space of the key.
        tenant_id: S,
        /// The object.
        key: S,
        /// Bytes.
        size: i64,
    }

    /// Where on its disk a client put an object.
    pub struct StorageObjectMetadata<S> {
        /// Which bucket.
        bucket_id: i64,
        /// Where in the bucket.
        offset: i64,
        /// Bytes of the key.
        key_size: i64,
        /// Bytes of the object.
        data_size: i64,
        /// Where the client listens.
        transport_endpoint: S,
    }
}
