//! Remove, BatchRemove, RemoveAll, BatchReplicaClear.

use super::Answer;
use crate::model::ErrorCode;
use crate::rpc::{Service, convert};
use crate::wire::requests::{
    BatchRemoveRequest, BatchReplicaClearRequest, RemoveAllRequest, RemoveRequest,
};

pub async fn remove(
    service: &Service,
    request: RemoveRequest<&[u8]>,
) -> Answer<Result<(), ErrorCode>> {
    let tenant = match service.reader(request.tenant_id) {
        Ok(tenant) => tenant,
        Err(code) => return Ok(Err(code)),
    };
    let removed = service.node.remove(&tenant, vec![request.key.to_vec()], request.force).await?;
    Ok(removed.into_iter().next().unwrap_or(Err(ErrorCode::InternalError)))
}

pub async fn batch_remove(
    service: &Service,
    request: BatchRemoveRequest<&[u8]>,
) -> Answer<Vec<Result<(), ErrorCode>>> {
    let tenant = match service.reader(request.tenant_id) {
        Ok(tenant) => tenant,
        Err(code) => return Ok(request.keys.iter().map(|_| Err(code)).collect()),
    };
    let keys = request.keys.iter().map(|key| key.to_vec()).collect();
    service.node.remove(&tenant, keys, request.force).await
}

pub async fn remove_all(service: &Service, request: RemoveAllRequest<&[u8]>) -> Answer<i64> {
    // The call has no form for an error.
    let Ok(tenant) = service.all_of(request.tenant_id) else { return Ok(0) };
    // Without the name of a tenant everything is meant, on every disk, too.
    let removed = match tenant {
        None => service.node.remove_everything(request.force).await?,
        Some(tenant) => service.node.remove_all_of(&tenant, request.force).await?,
    };
    Ok(i64::try_from(removed).unwrap_or(i64::MAX))
}

/// Answers with the keys that were cleared; whatever kept the others is not told.
pub async fn batch_replica_clear(
    service: &Service,
    request: BatchReplicaClearRequest<&[u8]>,
) -> Answer<Result<Vec<Box<[u8]>>, ErrorCode>> {
    let segment = match convert::text(request.segment_name) {
        Ok(name) if name.is_empty() => None,
        Ok(name) => Some(name),
        // No segment has such a name.
        Err(_) => return Ok(Ok(Vec::new())),
    };
    let keys = request.object_keys.iter().filter(|key| !key.is_empty());
    let keys: Vec<Vec<u8>> = keys.map(|key| key.to_vec()).collect();
    let cleared = service.node.clear_replicas(keys.clone(), request.client_id, segment).await?;
    let each = keys.into_iter().zip(cleared);
    Ok(Ok(each
        .filter_map(|(key, cleared)| cleared.ok().map(|()| key.into_boxed_slice()))
        .collect()))
}
