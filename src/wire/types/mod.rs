//! The client's types, field for field (wire protocol 3).
//!
//! These are what clients say, not what the state may hear: any number and any string can stand in
//! them. Handlers turn them into `model` values. `S` is the type of their strings, see
//! [`super::pack::Text`].

mod enums;
mod error;
mod object;
mod segment;
mod task;

pub use enums::{
    ClientStatus, ObjectDataType, ReplicaStatus, ReplicaType, SegmentStatus, SoftPinAction,
    TaskStatus, TaskType,
};
pub use error::WireError;
pub use object::{
    BufferDescriptor, Descriptor, DiskDescriptor, DistributedFSDescriptor, GetReplicaListResponse,
    LocalDiskDescriptor, MemoryDescriptor, NoFDescriptor, ObjectMeta, ReplicaDescriptor,
    ReplicateConfig,
};
pub use segment::{
    GetStorageConfigResponse, NoFSegment, NoFSegmentOwnerInfo, PingResponse, Segment,
};
pub use task::{
    CopyStartResponse, MoveStartResponse, OffloadTaskItem, PromotionAllocStartResponse,
    PromotionTaskItem, QueryTaskResponse, StorageObjectMetadata, TaskAssignment,
    TaskCompleteRequest,
};
