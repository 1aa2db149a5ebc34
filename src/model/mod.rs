//! Plain nouns of the store: identities, time, error codes, objects, replicas, segments, pins.
//!
//! Everything here is a value whose constructor keeps its invariant. Nothing here does I/O, reads a
//! clock or depends on another room, so every other room may depend on this one.

pub mod error_code;
pub mod ids;
pub mod soft_pin;
pub mod time;

pub use error_code::ErrorCode;
pub use ids::{ClientId, ObjectKey, ReplicaId, SegmentId, TaskId, Tenant, Uuid};
pub use soft_pin::{PendingPin, PinAction, PinChange, PinLimits, PinRequest};
pub use time::{Deadline, Millis, Ttl};
