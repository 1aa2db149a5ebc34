//! Plain nouns of the store: identities, time, error codes, objects, replicas, segments, pins.
//!
//! Everything here is a value whose constructor keeps its invariant. Nothing here does I/O, reads a
//! clock or depends on another room, so every other room may depend on this one.

pub mod descriptor;
pub mod error_code;
pub mod ids;
pub mod key_bytes;
pub mod object;
pub mod replica;
pub mod replicas;
pub mod segment;
pub mod soft_pin;
pub mod time;

pub use descriptor::{Descriptor, Location};
pub use error_code::ErrorCode;
pub use ids::{ClientId, ObjectKey, ObjectRef, ReplicaId, SegmentId, TaskId, Tenant, Uuid};
pub use key_bytes::KeyBytes;
pub use object::{GroupIdx, Lease, NewObject, Object, TenantIdx, WriterIdx};
pub use replica::{Place, Replica, ReplicaKind, ReplicaSelect, ReplicaStatus, SegmentIdx};
pub use replicas::Replicas;
pub use segment::{MountedView, Segment, SegmentStatus};
pub use soft_pin::{Eligible, PendingPin, PinAction, PinChange, PinLimits, PinRequest};
pub use time::{Deadline, Millis, Ttl};
