//! Remove, BatchRemove, RemoveAll.

use super::Answer;
use crate::model::ErrorCode;
use crate::rpc::Service;
use crate::wire::requests::{BatchRemoveRequest, RemoveAllRequest, RemoveRequest};

pub async fn remove(
    service: &Service,
    request: RemoveRequest<&[u8]>,
) -> Answer<Result<(), ErrorCode>> {
    let removed = service.node.remove(vec![request.key.to_vec()], request.force).await?;
    Ok(removed.into_iter().next().unwrap_or(Err(ErrorCode::InternalError)))
}

pub async fn batch_remove(
    service: &Service,
    request: BatchRemoveRequest<&[u8]>,
) -> Answer<Vec<Result<(), ErrorCode>>> {
    let keys = request.keys.iter().map(|key| key.to_vec()).collect();
    service.node.remove(keys, request.force).await
}

pub async fn remove_all(service: &Service, request: RemoveAllRequest<&[u8]>) -> Answer<i64> {
    let removed = service.node.remove_all(request.force).await?;
    Ok(i64::try_from(removed).unwrap_or(i64::MAX))
}
