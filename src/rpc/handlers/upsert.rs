//! UpsertStart, UpsertEnd, UpsertRevoke and their batches.
//!
//! Checked and cut into commands as the Put family is; only the start is a command of its own.

use super::Answer;
use super::write::{Ended, Started, end, only, revoke, start};
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
    let begin = Command::UpsertStart;
    Ok(only(start(service, begin, client, &keys, &sizes, config).await?))
}

pub async fn batch_upsert_start(
    service: &Service,
    request: BatchPutStartRequest<&[u8]>,
) -> Answer<Vec<Started>> {
    let (client, config) = (request.client_id, &request.config);
    let begin = Command::UpsertStart;
    start(service, begin, client, &request.keys, &request.slice_lengths, config).await
}

pub async fn upsert_end(service: &Service, request: PutEndRequest<&[u8]>) -> Answer<Ended> {
    let (client, metas) = (request.client_id, [request.object_meta]);
    Ok(only(end(service, client, &metas, convert::select(request.replica_type)).await?))
}

pub async fn batch_upsert_end(
    service: &Service,
    request: BatchUpsertEndRequest<&[u8]>,
) -> Answer<Vec<Ended>> {
    end(service, request.client_id, &request.object_metas, Ok(ReplicaSelect::All)).await
}

pub async fn upsert_revoke(service: &Service, request: PutRevokeRequest<&[u8]>) -> Answer<Ended> {
    let select = convert::select(request.replica_type);
    Ok(only(revoke(service, request.client_id, &[request.key], select).await?))
}

pub async fn batch_upsert_revoke(
    service: &Service,
    request: BatchUpsertRevokeRequest<&[u8]>,
) -> Answer<Vec<Ended>> {
    revoke(service, request.client_id, &request.keys, Ok(ReplicaSelect::All)).await
}
