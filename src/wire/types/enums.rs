//! The protocol's enums: numbers with names (wire protocol 3.1).
//!
//! A number without a name survives decoding; whether it is an error is the handler's to say.

use crate::wire::pack::wire_enum;

wire_enum! {
    /// Which kind of replica.
    pub enum ReplicaType: i32 {
        /// In a client's memory segment.
        MEMORY = 0,
        /// A file under the shared root directory.
        DISK = 1,
        /// On a client's own disk.
        LOCAL_DISK = 2,
        /// On an NVMe-oF segment.
        NOF_SSD = 3,
        /// Every kind but shared disk.
        ALL = 4,
        /// In a distributed file system.
        DFS = 100,
    }

    /// How far a replica has come.
    pub enum ReplicaStatus: i32 {
        /// Never sent.
        UNDEFINED = 0,
        /// Space is reserved.
        INITIALIZED = 1,
        /// Being written.
        PROCESSING = 2,
        /// Readable.
        COMPLETE = 3,
        /// Gone.
        REMOVED = 4,
        /// The write failed.
        FAILED = 5,
    }

    /// What a write asks of the soft pin; `model::soft_pin` has the rules.
    pub enum SoftPinAction: u8 {
        /// Keep what is.
        PRESERVE = 0,
        /// Start a pin.
        ENABLE = 1,
        /// End the pin.
        DISABLE = 2,
    }

    /// What an object holds; opaque to the master.
    pub enum ObjectDataType: u8 {
        /// Not said.
        UNKNOWN = 0,
        /// A KV-cache block.
        KVCACHE = 1,
        /// A tensor.
        TENSOR = 2,
        /// Model weights.
        WEIGHT = 3,
        /// A training sample.
        SAMPLE = 4,
        /// Activations.
        ACTIVATION = 5,
        /// Gradients.
        GRADIENT = 6,
        /// Optimizer state.
        OPTIMIZER_STATE = 7,
        /// Metadata.
        METADATA = 8,
        /// Anything else.
        GENERAL = 9,
    }

    /// What a ping tells its client.
    pub enum ClientStatus: i32 {
        /// Never sent.
        UNDEFINED = 0,
        /// All is well.
        OK = 1,
        /// The master does not know the client's segments: mount them again.
        NEED_REMOUNT = 2,
    }

    /// The life of a segment.
    pub enum SegmentStatus: i32 {
        /// Never sent.
        UNDEFINED = 0,
        /// Mounted.
        OK = 1,
        /// A drain job moves its replicas away.
        DRAINING = 2,
        /// A drain job has moved its replicas away.
        DRAINED = 3,
        /// Unmounted when its grace period ends.
        GRACEFULLY_UNMOUNTING = 4,
        /// Being unmounted.
        UNMOUNTING = 5,
    }

    /// What a task does.
    pub enum TaskType: i32 {
        /// Copies a replica.
        REPLICA_COPY = 0,
        /// Moves a replica.
        REPLICA_MOVE = 1,
    }

    /// How far a task has come.
    pub enum TaskStatus: i32 {
        /// Not fetched.
        PENDING = 0,
        /// Fetched by its client.
        PROCESSING = 1,
        /// Ended without success.
        FAILED = 2,
        /// Ended with success.
        SUCCESS = 3,
    }
}
