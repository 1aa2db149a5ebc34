//! Copies and moves: CopyStart, CopyEnd, CopyRevoke, MoveStart, MoveEnd, MoveRevoke, and the forms for copies
//! that dynamic replication has reserved.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Answer;
use super::write::{By, by, unexpected};
use crate::model::{ErrorCode, ObjectKey, Tenant};
use crate::rpc::{Service, convert};
use crate::state::Reply;
use crate::state::command::{Command, Key};
use crate::state::dynamic::command::{DynamicCommand, DynamicToken};
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
    Ok(started.map(copy_started))
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

/// A copy that the leader has reserved. Without a reservation there is nothing to decide, so no entry is made.
pub async fn dynamic_copy_start(
    service: &Service,
    request: DynamicReplicaCopyStartRequest<&[u8]>,
) -> Answer<CopyStarted> {
    let tenant = match service.writer(request.tenant_id)? {
        Ok(tenant) => tenant,
        Err(code) => return Ok(Err(code)),
    };
    if !service.node.leader_guard().await?.is_there(&tenant, request.key) {
        return Ok(Err(ErrorCode::ObjectNotFound));
    }
    if !has_copy(service, &tenant, request.key) {
        return Ok(Err(ErrorCode::UnavailableInCurrentStatus));
    }
    let token = DynamicToken { lease: request.lease_id, epoch: request.version_epoch };
    let start = TransferStart {
        client: request.client_id,
        tenant: tenant.for_command(),
        key: Key(request.key.to_vec()),
        kind: TransferKind::Copy,
        source: name(request.src_segment),
        targets: names(&request.tgt_segments),
    };
    let start = Command::Dynamic(DynamicCommand::Start { start, token });
    Ok(service.node.start_transfer(&tenant, &start).await?.map(copy_started))
}

fn has_copy(service: &Service, tenant: &Tenant, key: &[u8]) -> bool {
    let name = ObjectKey { tenant: tenant.clone(), key: Box::from(key) };
    service.node.look(|state| state.has_copy(&name))
}

fn copy_started(started: TransferStarted) -> CopyStartResponse<Arc<str>> {
    CopyStartResponse {
        source: convert::descriptor(started.source),
        targets: convert::descriptors(started.targets),
    }
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
    let of_tenant = match service.writer(of.by.tenant)? {
        Ok(tenant) => tenant,
        Err(code) => return Ok(Err(code)),
    };
    let (client, key, source) = (of.by.client, Key(of.key.to_vec()), name(source));
    let tenant = of_tenant.for_command();
    let start = TransferStart { client, tenant, key, kind, source, targets };
    let start = Command::TransferStart(start);
    service.node.start_transfer(&of_tenant, &start).await
}

async fn end(
    service: &Service,
    request: &ClientKeyRequest<&[u8]>,
    kind: TransferKind,
    verdict: TransferVerdict,
) -> Answer<Outcome> {
    let of = Of { by: by(request.client_id, request.tenant_id), key: request.key };
    propose_end(service, of, (kind, verdict), DynamicToken::default()).await
}

async fn end_dynamic(
    service: &Service,
    request: &DynamicReplicaCopyRequest<&[u8]>,
    verdict: TransferVerdict,
) -> Answer<Outcome> {
    // A plain copy carries zeros where a dynamic one carries its lease, and the two must agree.
    let token = DynamicToken { lease: request.lease_id, epoch: request.version_epoch };
    let what = (TransferKind::Copy, verdict);
    let of = Of { by: by(request.client_id, request.tenant_id), key: request.key };
    propose_end(service, of, what, token).await
}

async fn propose_end(
    service: &Service,
    of: Of<'_>,
    (kind, verdict): (TransferKind, TransferVerdict),
    token: DynamicToken,
) -> Answer<Outcome> {
    let release_timeout_ms = service.node.settings().rules.release_timeout_ms;
    let tenant = match service.reader(of.by.tenant) {
        Ok(tenant) => tenant.for_command(),
        Err(code) => return Ok(Err(code)),
    };
    let (client, key) = (of.by.client, Key(of.key.to_vec()));
    let is_dynamic = false;
    let end = TransferEnd { client, tenant, key, kind, verdict, is_dynamic, release_timeout_ms };
    // A plain end keeps the form that nodes of before dynamic replication can read.
    let command = match token == DynamicToken::default() {
        true => Command::TransferEnd(end),
        false => Command::Dynamic(DynamicCommand::End { end, token }),
    };
    match service.node.propose(&command).await? {
        Reply::Outcome(outcome) => Ok(outcome),
        other => Err(unexpected(&other)),
    }
}
