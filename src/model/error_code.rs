//! The numbers by which the store tells a client what went wrong.
//!
//! This is the client's error type only: an operator gets sentences, a programmer gets assertions.
//! Names and numbers are those of the wire protocol, section 5.

use serde::{Deserialize, Serialize};

macro_rules! error_codes {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal;)*) => {
        /// A failed operation, as the client sees it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum ErrorCode { $($(#[$doc])* $name,)* }

        impl ErrorCode {
            /// Every code, in the order of the wire protocol's table.
            pub const ALL: &'static [ErrorCode] = &[$(ErrorCode::$name,)*];

            /// The number on the wire.
            pub fn number(self) -> i32 {
                match self { $(ErrorCode::$name => $number,)* }
            }

            /// The name that the peer prints.
            pub fn name(self) -> &'static str {
                match self { $(ErrorCode::$name => $text,)* }
            }
        }
    };
}

error_codes! {
    /// Something that should not happen; also a full ping queue at the peer.
    InternalError = -1, "INTERNAL_ERROR";
    /// Unused by a master.
    BufferOverflow = -10, "BUFFER_OVERFLOW";
    /// Unused by a master.
    ShardIndexOutOfRange = -100, "SHARD_INDEX_OUT_OF_RANGE";
    /// No such segment.
    SegmentNotFound = -101, "SEGMENT_NOT_FOUND";
    /// The segment exists and differs.
    SegmentAlreadyExists = -102, "SEGMENT_ALREADY_EXISTS";
    /// No such client.
    ClientNotFound = -103, "CLIENT_NOT_FOUND";
    /// No segment has room. A retry may help after eviction.
    NoAvailableHandle = -200, "NO_AVAILABLE_HANDLE";
    /// Protocol versions or write generations differ.
    InvalidVersion = -300, "INVALID_VERSION";
    /// Unused by a master.
    InvalidKey = -400, "INVALID_KEY";
    /// Unused by a master.
    WriteFail = -500, "WRITE_FAIL";
    /// The request breaks a rule; a retry of the same request cannot help.
    InvalidParams = -600, "INVALID_PARAMS";
    /// The caller is not the client that started the operation or owns the thing.
    IllegalClient = -601, "ILLEGAL_CLIENT";
    /// No such write is in progress.
    InvalidWrite = -700, "INVALID_WRITE";
    /// Unused by a master.
    InvalidRead = -701, "INVALID_READ";
    /// Unused by a master.
    InvalidReplica = -702, "INVALID_REPLICA";
    /// The object exists and has no readable replica, or one is still being written.
    ReplicaIsNotReady = -703, "REPLICA_IS_NOT_READY";
    /// No such object.
    ObjectNotFound = -704, "OBJECT_NOT_FOUND";
    /// The key is taken.
    ObjectAlreadyExists = -705, "OBJECT_ALREADY_EXISTS";
    /// A read lease protects the object.
    ObjectHasLease = -706, "OBJECT_HAS_LEASE";
    /// Only produced by clients.
    LeaseExpired = -707, "LEASE_EXPIRED";
    /// A copy, move, offload or promotion of the object is running.
    ObjectHasReplicationTask = -708, "OBJECT_HAS_REPLICATION_TASK";
    /// No copy or move of the object is running.
    ObjectNoReplicationTask = -709, "OBJECT_NO_REPLICATION_TASK";
    /// The object has no such replica.
    ReplicaNotFound = -710, "REPLICA_NOT_FOUND";
    /// Unused by a master.
    ReplicaAlreadyExists = -711, "REPLICA_ALREADY_EXISTS";
    /// A replica of a running copy or move vanished.
    ReplicaIsGone = -712, "REPLICA_IS_GONE";
    /// Only produced by clients.
    ReplicaNotInLocalMemory = -713, "REPLICA_NOT_IN_LOCAL_MEMORY";
    /// A replica is the source of a running operation.
    ObjectReplicaBusy = -714, "OBJECT_REPLICA_BUSY";
    /// Only produced by clients.
    TransferFail = -800, "TRANSFER_FAIL";
    /// Only produced by clients.
    ChecksumMismatch = -801, "CHECKSUM_MISMATCH";
    /// Only produced by clients.
    RpcFail = -900, "RPC_FAIL";
    /// Only produced by clients.
    RpcTimeout = -901, "RPC_TIMEOUT";
    /// The peer's HA backend failed.
    EtcdOperationError = -1000, "ETCD_OPERATION_ERROR";
    /// The peer's HA backend lacks a key.
    EtcdKeyNotExist = -1001, "ETCD_KEY_NOT_EXIST";
    /// The peer's HA backend refused a transaction.
    EtcdTransactionFail = -1002, "ETCD_TRANSACTION_FAIL";
    /// The peer's HA backend call was cancelled.
    EtcdCtxCancelled = -1003, "ETCD_CTX_CANCELLED";
    /// The peer's operation log lacks an entry.
    OplogEntryNotFound = -1004, "OPLOG_ENTRY_NOT_FOUND";
    /// The peer's Kubernetes lease failed.
    K8sLeaseOperationError = -1005, "K8S_LEASE_OPERATION_ERROR";
    /// The peer's Kubernetes lease is missing.
    K8sLeaseNotFound = -1006, "K8S_LEASE_NOT_FOUND";
    /// The peer's standby is behind.
    IncompleteOplogCatchUp = -1007, "INCOMPLETE_OPLOG_CATCH_UP";
    /// The thing exists and its status forbids the operation now.
    UnavailableInCurrentStatus = -1010, "UNAVAILABLE_IN_CURRENT_STATUS";
    /// The feature is off in this deployment.
    UnavailableInCurrentMode = -1011, "UNAVAILABLE_IN_CURRENT_MODE";
    /// The operation is not available in this build.
    NotSupported = -1012, "NOT_SUPPORTED";
    /// File tier: no such file.
    FileNotFound = -1100, "FILE_NOT_FOUND";
    /// File tier: cannot open.
    FileOpenFail = -1101, "FILE_OPEN_FAIL";
    /// File tier: cannot read.
    FileReadFail = -1102, "FILE_READ_FAIL";
    /// File tier: cannot write.
    FileWriteFail = -1103, "FILE_WRITE_FAIL";
    /// File tier: bad buffer.
    FileInvalidBuffer = -1104, "FILE_INVALID_BUFFER";
    /// File tier: cannot lock.
    FileLockFail = -1105, "FILE_LOCK_FAIL";
    /// File tier: bad handle.
    FileInvalidHandle = -1106, "FILE_INVALID_HANDLE";
    /// Bucket tier: no such bucket.
    BucketNotFound = -1200, "BUCKET_NOT_FOUND";
    /// Bucket tier: the bucket exists.
    BucketAlreadyExists = -1201, "BUCKET_ALREADY_EXISTS";
    /// Bucket tier: too many keys for a bucket.
    KeysExceedBucketLimit = -1202, "KEYS_EXCEED_BUCKET_LIMIT";
    /// Too many keys queued.
    KeysUltraLimit = -1203, "KEYS_ULTRA_LIMIT";
    /// Offloading is off.
    UnableOffload = -1300, "UNABLE_OFFLOAD";
    /// Offloading is paused for this client.
    UnableOffloading = -1301, "UNABLE_OFFLOADING";
    /// No such task.
    TaskNotFound = -1400, "TASK_NOT_FOUND";
    /// Too many tasks wait.
    TaskPendingLimitExceeded = -1401, "TASK_PENDING_LIMIT_EXCEEDED";
    /// No such job.
    JobNotFound = -1402, "JOB_NOT_FOUND";
    /// Snapshot of something that has no serialised form.
    SerializeUnsupported = -1500, "SERIALIZE_UNSUPPORTED";
    /// Snapshot could not be written.
    SerializeFail = -1501, "SERIALIZE_FAIL";
    /// Snapshot could not be read.
    DeserializeFail = -1502, "DESERIALIZE_FAIL";
    /// Snapshot could not be stored.
    PersistentFail = -1503, "PERSISTENT_FAIL";
    /// Distributed file system: timeout.
    DfsNetworkTimeout = -1600, "DFS_NETWORK_TIMEOUT";
    /// Distributed file system: not set up.
    DfsServiceUnavailable = -1601, "DFS_SERVICE_UNAVAILABLE";
    /// Distributed file system: quota.
    DfsQuotaExceeded = -1602, "DFS_QUOTA_EXCEEDED";
    /// Distributed file system: permission.
    DfsPermissionDenied = -1603, "DFS_PERMISSION_DENIED";
    /// Distributed file system: stale handle.
    DfsStaleHandle = -1604, "DFS_STALE_HANDLE";
    /// Distributed file system: partial write.
    DfsPartialWrite = -1605, "DFS_PARTIAL_WRITE";
    /// The tenant's quota is used up.
    TenantQuotaExceeded = -1700, "TENANT_QUOTA_EXCEEDED";
    /// The tenant has no policy.
    TenantNotRegistered = -1701, "TENANT_NOT_REGISTERED";
    /// The tenant still has objects.
    TenantNotEmpty = -1702, "TENANT_NOT_EMPTY";
}

impl ErrorCode {
    /// Whether the same request may succeed later without any change by the caller.
    pub fn is_retryable(self) -> bool {
        matches!(
            self,
            ErrorCode::NoAvailableHandle
                | ErrorCode::ReplicaIsNotReady
                | ErrorCode::ObjectHasLease
                | ErrorCode::ObjectHasReplicationTask
                | ErrorCode::ObjectReplicaBusy
                | ErrorCode::UnavailableInCurrentStatus
                | ErrorCode::TaskPendingLimitExceeded
                | ErrorCode::TenantQuotaExceeded
        )
    }

    /// The code with this wire number, if there is one. 0 is success and has none.
    pub fn from_number(number: i32) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.number() == number)
    }
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::error::Error for ErrorCode {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_leads_back_to_its_code_and_zero_to_none() {
        for &code in ErrorCode::ALL {
            assert_eq!(ErrorCode::from_number(code.number()), Some(code));
        }
        assert_eq!(ErrorCode::from_number(0), None);
        assert_eq!(ErrorCode::ALL.len(), 71);
    }
}
