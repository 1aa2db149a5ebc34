//! Between the wire's structs and the model's: the border at which requests are checked.
//!
//! What passes here obeys the request rules; "PRESERVE with a TTL" cannot be said afterwards.

use std::sync::Arc;

use crate::model::{
    Descriptor, ErrorCode, Location, PinLimits, PinRequest, ReplicaSelect, Segment, SegmentStatus,
    Ttl,
};
use crate::state::command::{Key, WriteConfig};
use crate::wire::types;

/// Text that names a segment, host or protocol.
///
/// Errors: `InvalidParams` if it is not UTF-8 (the peer takes any bytes; see docs/differences.md).
pub fn text(bytes: &[u8]) -> Result<Arc<str>, ErrorCode> {
    std::str::from_utf8(bytes).map(Arc::from).map_err(|_| ErrorCode::InvalidParams)
}

/// What a write asks for (behaviour 2.1, checks 2 to 8).
///
/// Errors: `InvalidParams` for replica counts or soft-pin requests that break a rule;
/// `DfsServiceUnavailable` for a distributed file system, of which there is none.
pub fn write_config(
    config: &types::ReplicateConfig<&[u8]>,
    limits: &PinLimits,
) -> Result<WriteConfig, ErrorCode> {
    let (memory, nof, dfs) = (config.replica_num, config.nof_replica_num, config.dfs_replica_num);
    if (memory, nof, dfs) == (0, 0, 0) || dfs > 1 || (dfs > 0 && memory == 0) {
        return Err(ErrorCode::InvalidParams);
    }
    if dfs > 0 {
        return Err(ErrorCode::DfsServiceUnavailable);
    }
    if nof > 0 {
        return Err(ErrorCode::InvalidParams);
    }
    let ttl = config.soft_pin_ttl_ms.map(Ttl);
    let pin = PinRequest::parse(config.soft_pin_action.0, ttl, limits)?;
    let single = config.preferred_segment;
    let preferred = if single.is_empty() {
        let named = config.preferred_segments.iter().filter(|name| !name.is_empty());
        named.map(|name| text(name)).collect::<Result<_, _>>()?
    } else {
        vec![text(single)?]
    };
    Ok(WriteConfig {
        replica_num: u32::try_from(memory).unwrap_or(u32::MAX),
        pin,
        is_hard_pinned: config.with_hard_pin,
        data_type: config.data_type.0,
        preferred,
        is_same_node_preferred: config.prefer_alloc_in_same_node,
        host_id: text(config.host_id)?,
    })
}

/// The group of each key of a call.
///
/// Errors: `InvalidParams` unless there is none or one a key.
pub fn groups(
    config: &types::ReplicateConfig<&[u8]>,
    keys: usize,
) -> Result<Vec<Option<Key>>, ErrorCode> {
    match &config.group_ids {
        None => Ok(vec![None; keys]),
        Some(ids) if ids.len() == keys => Ok(ids.iter().map(|id| Some(Key(id.to_vec()))).collect()),
        Some(_) => Err(ErrorCode::InvalidParams),
    }
}

/// Which replicas an End or Revoke means.
///
/// Errors: `InvalidParams` for a number without a name.
pub fn select(replica_type: types::ReplicaType) -> Result<ReplicaSelect, ErrorCode> {
    match replica_type {
        types::ReplicaType::ALL => Ok(ReplicaSelect::All),
        types::ReplicaType::MEMORY => Ok(ReplicaSelect::Memory),
        types::ReplicaType::DISK => Ok(ReplicaSelect::Disk),
        types::ReplicaType::LOCAL_DISK => Ok(ReplicaSelect::LocalDisk),
        types::ReplicaType::NOF_SSD => Ok(ReplicaSelect::NoF),
        types::ReplicaType::DFS => Ok(ReplicaSelect::Dfs),
        _ => Err(ErrorCode::InvalidParams),
    }
}

/// A segment as a client describes it. Errors: see [`text`].
pub fn segment(segment: &types::Segment<&[u8]>) -> Result<Segment, ErrorCode> {
    Ok(Segment {
        id: segment.id,
        name: text(segment.name)?,
        base: segment.base,
        size: segment.size,
        endpoint: text(segment.te_endpoint)?,
        protocol: text(segment.protocol)?,
        host_id: text(segment.host_id)?,
    })
}

/// A segment's status on the wire.
pub fn segment_status(status: SegmentStatus) -> types::SegmentStatus {
    types::SegmentStatus(status.number())
}

/// A replica on the wire.
pub fn descriptor(descriptor: Descriptor) -> types::ReplicaDescriptor<Arc<str>> {
    let place = match descriptor.location {
        Location::Memory { size, address, protocol, endpoint } => {
            let buffer_descriptor = types::BufferDescriptor {
                size,
                buffer_address: address,
                protocol,
                transport_endpoint: endpoint,
            };
            types::Descriptor::Memory(types::MemoryDescriptor { buffer_descriptor })
        }
        Location::Disk { path, size } => types::Descriptor::Disk(types::DiskDescriptor {
            file_path: Arc::from(path),
            object_size: size,
        }),
        Location::LocalDisk { client, size, endpoint } => {
            types::Descriptor::LocalDisk(types::LocalDiskDescriptor {
                client_id: client,
                object_size: size,
                transport_endpoint: Arc::from(endpoint),
            })
        }
    };
    let status = types::ReplicaStatus(descriptor.status.number());
    types::ReplicaDescriptor { id: descriptor.id, descriptor: place, status }
}

/// Replicas on the wire.
pub fn descriptors(replicas: Vec<Descriptor>) -> Vec<types::ReplicaDescriptor<Arc<str>>> {
    replicas.into_iter().map(descriptor).collect()
}
