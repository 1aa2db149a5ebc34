//! UpsertStart, UpsertEnd, UpsertRevoke and their batches.
//!
//! Checked and cut into commands as the Put family is; only the start is a command of its own.

use super::Answer;
use super::write::{Ended, Started, by, end, only, revoke, start};
use crate::model::ReplicaSelect;
use crate::rpc::{Service, convert};
use crate::state::command::Command;
use crate::wire::requests::{
    BatchPutStartRequest, BatchUpsertEndRequest, BatchUpsertRevokeRequest, PutEndRequest,
    PutRevokeRequest, PutStartRequest,
};

pub async fn upsert_start(service: &Service, request: PutStartRequest<&[u8]>) -> Answer<Started> {
    let (client, config) = (request.client_id, &request.config);
    let (keys, sizes) = ([request.key], [request.slice_length]);
    let (begin, by) = (Command::UpsertStart, by(client, request.tenant_id));
    Ok(only(start(service, begin, by, &keys, &sizes, config).await?))
}

pub async fn batch_upsert_start(
    service: &Service,
    request: BatchPutStartRequest<&[u8]>,
) -> Answer<Vec<Started>> {
    let (client, config) = (request.client_id, &request.config);
    let (begin, by) = (Command::UpsertStart, by(client, request.tenant_id));
    start(service, begin, by, &request.keys, &request.slice_lengths, config).await
}

pub async fn upsert_end(service: &Service, request: PutEndRequest<&[u8]>) -> Answer<Ended> {
    let (by, metas) = (by(request.client_id, request.tenant_id), [request.object_meta]);
    Ok(only(end(service, by, &metas, convert::select(request.replica_type)).await?))
}

pub async fn batch_upsert_end(
    service: &Service,
    request: BatchUpsertEndRequest<&[u8]>,
) -> Answer<Vec<Ended>> {
    let by = by(request.client_id, request.tenant_id);
    end(service, by, &request.object_metas, Ok(ReplicaSelect::All)).await
}

pub async fn upsert_revoke(service: &Service, request: PutRevokeRequest<&[u8]>) -> Answer<Ended> {
    let select = convert::select(request.replica_type);
    let by = by(request.client_id, request.tenant_id);
    Ok(only(revoke(service, by, &[request.key], select).await?))
}

pub async fn batch_upsert_revoke(
    service: &Service,
    request: BatchUpsertRevokeRequest<&[u8]>,
) -> Answer<Vec<Ended>> {
    let by = by(request.client_id, request.tenant_id);
    revoke(service, by, &request.keys, Ok(ReplicaSelect::All)).await
}
