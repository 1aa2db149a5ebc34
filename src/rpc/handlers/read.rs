//! ExistKey, GetReplicaList and their batches. None makes a log entry or touches a soft pin.

use std::sync::Arc;

use super::Answer;
use crate::model::ErrorCode;
use crate::node::read::{Found, LeaderGuard, MaybeFenced};
use crate::rpc::{Service, convert};
use crate::wire::requests::{KeyRequest, KeysRequest};
use crate::wire::types::GetReplicaListResponse;

type Replicas = GetReplicaListResponse<Arc<str>>;

pub async fn exist_key(
    service: &Service,
    request: KeyRequest<&[u8]>,
) -> Answer<Result<bool, ErrorCode>> {
    Ok(Ok(service.node.read_unfenced(|guard| guard.exists(request.key)).await?))
}

pub async fn batch_exist_key(
    service: &Service,
    request: KeysRequest<&[u8]>,
) -> Answer<Vec<Result<bool, ErrorCode>>> {
    let exists = |guard: &LeaderGuard<'_>, key: &[u8]| guard.exists(key);
    let found = read_each(service, &request.keys, exists).await?;
    Ok(found.into_iter().map(Ok).collect())
}

pub async fn get_replica_list(
    service: &Service,
    request: KeyRequest<&[u8]>,
) -> Answer<Result<Replicas, ErrorCode>> {
    let found = service.node.read_unfenced(|guard| guard.replicas(request.key)).await?;
    Ok(replicas(service, found))
}

pub async fn batch_get_replica_list(
    service: &Service,
    request: KeysRequest<&[u8]>,
) -> Answer<Vec<Result<Replicas, ErrorCode>>> {
    let look = |guard: &LeaderGuard<'_>, key: &[u8]| guard.replicas(key);
    let found = read_each(service, &request.keys, look).await?;
    Ok(found.into_iter().map(|found| replicas(service, found)).collect())
}

fn replicas(service: &Service, found: Result<Found, ErrorCode>) -> Result<Replicas, ErrorCode> {
    let hit = found.as_ref().ok().map(|found| (found.replicas.as_slice(), found.size));
    service.metrics.cache.record(hit);
    let found = found?;
    Ok(GetReplicaListResponse {
        replicas: convert::descriptors(found.replicas),
        lease_ttl_ms: service.node.settings().lease_ttl.0,
        object_checksum: found.checksum,
    })
}

/// Reads all keys under one proof of leadership; the few whose removal is being decided are read again.
async fn read_each<T>(
    service: &Service,
    keys: &[&[u8]],
    read: impl Fn(&LeaderGuard<'_>, &[u8]) -> MaybeFenced<T>,
) -> Answer<Vec<T>> {
    let looks: Vec<MaybeFenced<T>> = {
        let guard = service.node.leader_guard().await?;
        keys.iter().map(|key| read(&guard, key)).collect()
    };
    let mut found = Vec::with_capacity(looks.len());
    for (look, key) in looks.into_iter().zip(keys) {
        found.push(match look {
            Ok(value) => value,
            Err(_fenced) => service.node.read_unfenced(|guard| read(guard, key)).await?,
        });
    }
    Ok(found)
}
