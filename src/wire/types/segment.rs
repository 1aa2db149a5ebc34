//! Segments, and what a client learns about the cluster.

use super::enums::ClientStatus;
use crate::model::ids::{ClientId, SegmentId};
use crate::wire::pack::wire_struct;

wire_struct! {
    /// A region of a client's memory.
    pub struct Segment<S> {
        /// Made by the client.
        id: SegmentId,
        /// The client's host name and port; several segments may share it.
        name: S,
        /// Address of its first byte in the client's process.
        base: u64,
        /// Bytes.
        size: u64,
        /// Where the client's transfer engine listens.
        te_endpoint: S,
        /// How to reach it.
        protocol: S,
        /// The client's host; empty for loopback names.
        host_id: S,
    }

    /// An NVMe-oF segment.
    pub struct NoFSegment<S> {
        /// Made by the client.
        id: SegmentId,
        /// Its name.
        name: S,
        /// Its first byte.
        base: u64,
        /// Bytes.
        size: u64,
        /// How to reach it.
        te_endpoint: S,
    }

    /// Who mounted an NVMe-oF segment.
    pub struct NoFSegmentOwnerInfo {
        /// The segment.
        segment_id: SegmentId,
        /// Its client.
        client_id: ClientId,
    }

    /// The answer to a heartbeat.
    pub struct PingResponse {
        /// Grows with each change of leader; 0 outside HA.
        view_version_id: i64,
        /// What the client has to do.
        client_status: ClientStatus,
    }

    /// Where shared files go.
    pub struct GetStorageConfigResponse<S> {
        /// The directory; empty = no shared disk.
        fsdir: S,
        /// Whether files are evicted.
        enable_disk_eviction: bool,
        /// Bytes allowed; 0 = no limit.
        quota_bytes: u64,
    }
}
