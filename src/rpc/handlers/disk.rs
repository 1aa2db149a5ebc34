//! Clients' disks: MountLocalDiskSegment and its kin, offload reports, evicted files (behaviour 10.1 to 10.3).
//!
//! A heartbeat that changes nothing and has nothing to fetch makes no entry. What a fetch hands out and what a
//! poll answers is told once, as by the peer: if the answer is lost, an offload ends by the release timeout.

use std::sync::Arc;

use super::Answer;
use super::write::{only, unexpected};
use crate::model::{ClientId, ErrorCode, ReplicaKind, Tenant};
use crate::rpc::{Service, convert};
use crate::state::Reply;
use crate::state::command::{Command, KEYS_PER_COMMAND_MAX, Key};
use crate::state::disk::command::{
    EvictFiles, OffloadFetch, OffloadReport, OffloadedItem, TierCommand, TierReply, WorkItem,
};
use crate::state::disk::offload::OFFLOADS_PER_COMMAND_MAX;
use crate::wire::requests::{
    BatchEvictDiskReplicaRequest, EvictDiskReplicaRequest, LocalDiskRequest,
    NotifyOffloadSuccessRequest, ReportSsdCapacityRequest,
};
use crate::wire::types::{OffloadTaskItem, ReplicaType, StorageObjectMetadata};

type Outcome = Result<(), ErrorCode>;
type Offloads = Vec<OffloadTaskItem<Box<[u8]>>>;

/// Commands by which one heartbeat fetches; the rest waits for the next.
const FETCHES_MAX: u32 = 16;

pub async fn mount_local_disk_segment(
    service: &Service,
    request: LocalDiskRequest,
) -> Answer<Outcome> {
    if !service.node.settings().tiers.is_offload_enabled {
        return Ok(Err(ErrorCode::UnableOffload));
    }
    let (client, is_enabled) = (request.client_id, request.enable_offloading);
    service.node.hear(client);
    outcome(service, TierCommand::MountDisk { client, is_enabled }).await
}

pub async fn unmount_local_disk_segment(service: &Service, client: ClientId) -> Answer<Outcome> {
    if !service.node.settings().tiers.is_offload_enabled {
        return Ok(Err(ErrorCode::UnableOffload));
    }
    outcome(service, TierCommand::UnmountDisk { client }).await
}

pub async fn report_ssd_capacity(
    service: &Service,
    request: ReportSsdCapacityRequest,
) -> Answer<Outcome> {
    let Ok(bytes) = u64::try_from(request.ssd_total_capacity_bytes) else {
        return Ok(Err(ErrorCode::InvalidParams));
    };
    let client = request.client_id;
    service.node.leader_guard().await?;
    let known = service.node.look(|state| state.tiers().disks().get(client).copied());
    match known {
        None => Ok(Err(ErrorCode::SegmentNotFound)),
        Some(disk) if disk.capacity_bytes == bytes => Ok(Ok(())),
        Some(_) => outcome(service, TierCommand::ReportCapacity { client, bytes }).await,
    }
}

pub async fn offload_object_heartbeat(
    service: &Service,
    request: LocalDiskRequest,
) -> Answer<Result<Offloads, ErrorCode>> {
    let (client, is_enabled) = (request.client_id, request.enable_offloading);
    service.node.leader_guard().await?;
    let mut all = Offloads::new();
    for _ in 0..FETCHES_MAX {
        let looked = service.node.look(|state| {
            let disk = state.tiers().disks().get(client)?;
            Some((disk.is_enabled, state.tiers().offloads().waiting(client)))
        });
        let Some((was_enabled, waiting)) = looked else {
            return Ok(Err(ErrorCode::SegmentNotFound));
        };
        if was_enabled == is_enabled && waiting == 0 {
            break;
        }
        let items_max = OFFLOADS_PER_COMMAND_MAX;
        let fetch = TierCommand::OffloadFetch(OffloadFetch { client, is_enabled, items_max });
        let reply = service.node.propose(&Command::Tier(fetch)).await;
        match reply.map_err(|error| error.after_progress(!all.is_empty()))? {
            Reply::Tier(TierReply::Offloads(Ok(items))) => {
                all.extend(items.into_iter().map(offload_item));
            }
            Reply::Tier(TierReply::Offloads(Err(code))) => return Ok(Err(code)),
            other => return Err(unexpected(&other)),
        }
        if !is_enabled {
            break;
        }
    }
    Ok(Ok(all))
}

fn offload_item(item: WorkItem) -> OffloadTaskItem<Box<[u8]>> {
    OffloadTaskItem {
        tenant_id: Box::from(item.tenant.name().as_bytes()),
        key: item.key,
        size: i64::try_from(item.size).unwrap_or(i64::MAX),
    }
}

pub async fn notify_offload_success(
    service: &Service,
    request: NotifyOffloadSuccessRequest<&[u8]>,
) -> Answer<Outcome> {
    if request.tasks.len() != request.metadatas.len() {
        return Ok(Err(ErrorCode::InvalidParams));
    }
    let pairs = request.tasks.iter().zip(&request.metadatas);
    let items: Result<Vec<OffloadedItem>, ErrorCode> = pairs
        .filter(|(task, _)| !task.key.is_empty())
        .map(|pair| offloaded_item(service, pair))
        .collect();
    let items = match items {
        Ok(items) => items,
        Err(code) => return Ok(Err(code)),
    };
    let client = request.client_id;
    let mut result = Ok(());
    for (number, items) in items.chunks(KEYS_PER_COMMAND_MAX).enumerate() {
        let report = OffloadReport { client, items: items.to_vec() };
        let command = Command::Tier(TierCommand::OffloadDone(report));
        let reply = service.node.propose(&command).await;
        match reply.map_err(|error| error.after_progress(number > 0))? {
            Reply::Outcome(outcome) => result = result.and(outcome),
            other => return Err(unexpected(&other)),
        }
    }
    Ok(result)
}

fn offloaded_item(
    service: &Service,
    (task, metadata): (&OffloadTaskItem<&[u8]>, &StorageObjectMetadata<&[u8]>),
) -> Result<OffloadedItem, ErrorCode> {
    Ok(OffloadedItem {
        tenant: service.reader(task.tenant_id)?.for_command(),
        key: Key(task.key.to_vec()),
        size: u64::try_from(metadata.data_size).ok(),
        endpoint: convert::text(metadata.transport_endpoint)?,
    })
}

pub async fn evict_disk_replica(
    service: &Service,
    request: EvictDiskReplicaRequest<&[u8]>,
) -> Answer<Outcome> {
    let (client, kind) = (request.client_id, request.replica_type);
    Ok(only(evict(service, client, request.tenant_id, &[request.key], kind).await?))
}

pub async fn batch_evict_disk_replica(
    service: &Service,
    request: BatchEvictDiskReplicaRequest<&[u8]>,
) -> Answer<Vec<Outcome>> {
    let (client, tenant, kind) = (request.client_id, request.tenant_id, request.replica_type);
    evict(service, client, tenant, &request.keys, kind).await
}

async fn evict(
    service: &Service,
    client: ClientId,
    tenant: &[u8],
    keys: &[&[u8]],
    replica_type: ReplicaType,
) -> Answer<Vec<Outcome>> {
    let tenant = match service.reader(tenant) {
        Ok(tenant) => tenant,
        Err(code) => return Ok(keys.iter().map(|_| Err(code)).collect()),
    };
    let kind = match replica_type {
        ReplicaType::DISK => ReplicaKind::Disk,
        ReplicaType::LOCAL_DISK => ReplicaKind::LocalDisk,
        _ => return not_files(service, &tenant, keys).await,
    };
    let mut results = Vec::with_capacity(keys.len());
    for chunk in keys.chunks(KEYS_PER_COMMAND_MAX) {
        let keys = chunk.iter().map(|key| Key(key.to_vec())).collect();
        let evict = EvictFiles { client, tenant: tenant.for_command(), keys, kind };
        let reply = service.node.propose(&Command::Tier(TierCommand::EvictFiles(evict))).await;
        match reply.map_err(|error| error.after_progress(!results.is_empty()))? {
            Reply::Results(evicted) => results.extend(evicted),
            other => return Err(unexpected(&other)),
        }
    }
    Ok(results)
}

/// Whether a key exists is told before that the type is wrong (behaviour 10.3).
async fn not_files(service: &Service, tenant: &Tenant, keys: &[&[u8]]) -> Answer<Vec<Outcome>> {
    let guard = service.node.leader_guard().await?;
    let refuse = |key: &&[u8]| match guard.is_there(tenant, key) {
        true => Err(ErrorCode::InvalidParams),
        false => Err(ErrorCode::ObjectNotFound),
    };
    Ok(keys.iter().map(refuse).collect())
}

pub async fn poll_remove_all(
    service: &Service,
    client: ClientId,
) -> Answer<Result<bool, ErrorCode>> {
    service.node.leader_guard().await?;
    let known = service.node.look(|state| state.tiers().disks().get(client).copied());
    match known {
        None => return Ok(Err(ErrorCode::SegmentNotFound)),
        Some(disk) if !disk.is_to_wipe => return Ok(Ok(false)),
        Some(_) => {}
    }
    match service.node.propose(&Command::Tier(TierCommand::TakeWipe { client })).await? {
        Reply::Tier(TierReply::Wipe(wipe)) => Ok(wipe),
        other => Err(unexpected(&other)),
    }
}

async fn outcome(service: &Service, command: TierCommand) -> Answer<Outcome> {
    match service.node.propose(&Command::Tier(command)).await? {
        Reply::Outcome(outcome) => Ok(outcome),
        other => Err(unexpected(&other)),
    }
}

/// Segment names of a request that are text; others name nothing.
pub fn names(names: &[&[u8]]) -> Vec<Arc<str>> {
    names.iter().filter_map(|name| convert::text(name).ok()).collect()
}
