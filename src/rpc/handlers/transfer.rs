//! Copies and moves: CopyStart, CopyEnd, CopyRevoke, MoveStart, MoveEnd, MoveRevoke, and the forms for
//! dynamic replicas, which this master never asks for.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Answer;
use super::write::{By, by, unexpected};
use crate::model::{ErrorCode, Uuid};
use crate::rpc::{Service, convert};
use crate::state::Reply;
use crate::state::command::{Command, Key};
use crate::state::transfer::{
    TransferEnd, TransferKind, TransferStart, TransferStarted, TransferVerdict,
};
use crate::wire::requests::{
    ClientKeyRequest, CopyStartRequest, DynamicReplicaCopyRequest, DynamicReplicaCopyStartRequest,
    MoveStartRequest,
};
use crate::wire::types::{CopyStartResponse, MoveStartResponse};

type Outcome = Result<(), ErrorCode>;
type CopyStarted = Result<CopyStartResponse<Arc<str>>, ErrorCode>;
type MoveStarted = Result<MoveStartResponse<Arc<str>>, ErrorCode>;

pub async fn copy_start(
    service: &Service,
    request: CopyStartRequest<&[u8]>,
) -> Answer<CopyStarted> {
    let of = Of { by: by(request.client_id, request.tenant_id), key: request.key };
    let from = request.src_segment;
    let targets = names(&request.tgt_segments);
    let started = start(service, TransferKind::Copy, of, from, targets).await?;
    Ok(started.map(|started| CopyStartResponse {
        source: convert::descriptor(started.source),
        targets: convert::descriptors(started.targets),
    }))
}

pub async fn move_start(
    service: &Service,
    request: MoveStartRequest<&[u8]>,
) -> Answer<MoveStarted> {
    let of = Of { by: by(request.client_id, request.tenant_id), key: request.key };
    let from = request.src_segment;
    let targets = vec![name(request.tgt_segment)];
    let started = start(service, TransferKind::Move, of, from, targets).await?;
    Ok(started.map(|started| MoveStartResponse {
        source: convert::descriptor(started.source),
        target: started.targets.into_iter().next().map(convert::descriptor),
    }))
}

pub async fn copy_end(service: &Service, request: ClientKeyRequest<&[u8]>) -> Answer<Outcome> {
    end(service, &request, TransferKind::Copy, TransferVerdict::Done).await
}

pub async fn copy_revoke(service: &Service, request: ClientKeyRequest<&[u8]>) -> Answer<Outcome> {
    end(service, &request, TransferKind::Copy, TransferVerdict::Revoked).await
}

pub async fn move_end(service: &Service, request: ClientKeyRequest<&[u8]>) -> Answer<Outcome> {
    end(service, &request, TransferKind::Move, TransferVerdict::Done).await
}

pub async fn move_revoke(service: &Service, request: ClientKeyRequest<&[u8]>) -> Answer<Outcome> {
    end(service, &request, TransferKind::Move, TransferVerdict::Revoked).await
}

/// There is never a reservation for a dynamic replica, and that is the first thing checked (behaviour 8.6).
pub async fn dynamic_copy_start(
    service: &Service,
    _: DynamicReplicaCopyStartRequest<&[u8]>,
) -> Answer<CopyStarted> {
    service.node.leader_guard().await?;
    Ok(Err(ErrorCode::UnavailableInCurrentStatus))
}

pub async fn dynamic_copy_end(
    service: &Service,
    request: DynamicReplicaCopyRequest<&[u8]>,
) -> Answer<Outcome> {
    end_dynamic(service, &request, TransferVerdict::Done).await
}

pub async fn dynamic_copy_revoke(
    service: &Service,
    request: DynamicReplicaCopyRequest<&[u8]>,
) -> Answer<Outcome> {
    end_dynamic(service, &request, TransferVerdict::Revoked).await
}

/// Text that names a segment. No segment has a name that is not UTF-8, so such a name finds none.
pub fn name(bytes: &[u8]) -> Arc<str> {
    Arc::from(String::from_utf8_lossy(bytes))
}

/// The names, each once, in order: a command has no more of them than it needs.
pub fn names(list: &[&[u8]]) -> Vec<Arc<str>> {
    let mut seen = BTreeSet::new();
    let first = list.iter().filter(|bytes| seen.insert(**bytes));
    first.map(|bytes| name(bytes)).collect()
}

/// Which object, and who asks.
#[derive(Clone, Copy)]
struct Of<'a> {
    by: By<'a>,
    key: &'a [u8],
}

async fn start(
    service: &Service,
    kind: TransferKind,
    of: Of<'_>,
    source: &[u8],
    targets: Vec<Arc<str>>,
) -> Answer<Result<TransferStarted, ErrorCode>> {
    let tenant = match service.writer(of.by.tenant)? {
        Ok(tenant) => tenant.for_command(),
        Err(code) => return Ok(Err(code)),
    };
    let (client, key, source) = (of.by.client, Key(of.key.to_vec()), name(source));
    let start = TransferStart { client, tenant, key, kind, source, targets };
    match service.node.propose(&Command::TransferStart(start)).await? {
        Reply::Transfer(started) => Ok(started),
        other => Err(unexpected(&other)),
    }
}

async fn end(
    service: &Service,
    request: &ClientKeyRequest<&[u8]>,
    kind: TransferKind,
    verdict: TransferVerdict,
) -> Answer<Outcome> {
    let of = Of { by: by(request.client_id, request.tenant_id), key: request.key };
    propose_end(service, of, (kind, verdict), false).await
}

async fn end_dynamic(
    service: &Service,
    request: &DynamicReplicaCopyRequest<&[u8]>,
    verdict: TransferVerdict,
) -> Answer<Outcome> {
    // A plain copy carries zeros where a dynamic one carries its lease, and the two must agree.
    let is_dynamic = (request.lease_id, request.version_epoch) != (Uuid::NIL, 0);
    let what = (TransferKind::Copy, verdict);
    let of = Of { by: by(request.client_id, request.tenant_id), key: request.key };
    propose_end(service, of, what, is_dynamic).await
}

async fn propose_end(
    service: &Service,
    of: Of<'_>,
    (kind, verdict): (TransferKind, TransferVerdict),
    is_dynamic: bool,
) -> Answer<Outcome> {
    let release_timeout_ms = service.node.settings().rules.release_timeout_ms;
    let tenant = match service.reader(of.by.tenant) {
        Ok(tenant) => tenant.for_command(),
        Err(code) => return Ok(Err(code)),
    };
    let (client, key) = (of.by.client, Key(of.key.to_vec()));
    let end = TransferEnd { client, tenant, key, kind, verdict, is_dynamic, release_timeout_ms };
    match service.node.propose(&Command::TransferEnd(end)).await? {
        Reply::Outcome(outcome) => Ok(outcome),
        other => Err(unexpected(&other)),
    }
}
