//! ExistKey, GetReplicaList and their batches. None makes a log entry or touches a soft pin.

use std::sync::Arc;

use super::Answer;
use crate::model::{ErrorCode, Tenant};
use crate::node::read::{Exists, FindReplicas, Found};
use crate::rpc::{Service, convert};
use crate::wire::requests::{KeyRequest, KeysRequest};
use crate::wire::types::GetReplicaListResponse;

type Replicas = GetReplicaListResponse<Arc<str>>;

pub async fn exist_key(
    service: &Service,
    request: KeyRequest<&[u8]>,
) -> Answer<Result<bool, ErrorCode>> {
    let tenant = match service.reader(request.tenant_id) {
        Ok(tenant) => tenant,
        Err(code) => return Ok(Err(code)),
    };
    Ok(Ok(service.node.read::<Exists>(&tenant, request.key).await?))
}

pub async fn batch_exist_key(
    service: &Service,
    request: KeysRequest<&[u8]>,
) -> Answer<Vec<Result<bool, ErrorCode>>> {
    let tenant = match service.reader(request.tenant_id) {
        Ok(tenant) => tenant,
        Err(code) => return Ok(request.keys.iter().map(|_| Err(code)).collect()),
    };
    let found = service.node.read_many::<Exists>(&tenant, &request.keys).await?;
    Ok(found.into_iter().map(Ok).collect())
}

pub async fn get_replica_list(
    service: &Service,
    request: KeyRequest<&[u8]>,
) -> Answer<Result<Replicas, ErrorCode>> {
    let tenant = match service.reader(request.tenant_id) {
        Ok(tenant) => tenant,
        Err(code) => return Ok(Err(code)),
    };
    let found = service.node.read::<FindReplicas>(&tenant, request.key).await?;
    Ok(replicas(service, &tenant, request.key, found))
}

pub async fn batch_get_replica_list(
    service: &Service,
    request: KeysRequest<&[u8]>,
) -> Answer<Vec<Result<Replicas, ErrorCode>>> {
    let tenant = match service.reader(request.tenant_id) {
        Ok(tenant) => tenant,
        Err(code) => return Ok(request.keys.iter().map(|_| Err(code)).collect()),
    };
    let found = service.node.read_many::<FindReplicas>(&tenant, &request.keys).await?;
    let each = request.keys.iter().zip(found);
    Ok(each.map(|(key, found)| replicas(service, &tenant, key, found)).collect())
}

fn replicas(
    service: &Service,
    tenant: &Tenant,
    key: &[u8],
    found: Result<Found, ErrorCode>,
) -> Result<Replicas, ErrorCode> {
    let hit = found.as_ref().ok().map(|found| (found.replicas.as_slice(), found.size));
    service.metrics.cache.record(hit);
    let found = found?;
    service.node.note_read(tenant, key, &found.replicas);
    Ok(GetReplicaListResponse {
        replicas: convert::descriptors(found.replicas),
        lease_ttl_ms: service.node.settings().lease_ttl.0,
        object_checksum: found.checksum,
    })
}
