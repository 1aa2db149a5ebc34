//! PutStart, PutEnd, PutRevoke and their batches.
//!
//! Requests that break a rule are refused here, before the log, so they change nothing. A batch becomes
//! commands of bounded size, proposed in order; each key has a result of its own.

use std::sync::Arc;

use super::Answer;
use crate::model::{ClientId, ErrorCode, ReplicaSelect};
use crate::node::error::NodeError;
use crate::rpc::{Service, convert};
use crate::state::Reply;
use crate::state::command::{
    Command, End, EndItem, KEYS_PER_COMMAND_MAX, Key, Revoke, Start, StartItem,
};
use crate::wire::requests::{
    BatchPutEndRequest, BatchPutRevokeRequest, BatchPutStartRequest, PutEndRequest,
    PutRevokeRequest, PutStartRequest,
};
use crate::wire::types::{ObjectMeta, ReplicaDescriptor, ReplicateConfig};

pub type Started = Result<Vec<ReplicaDescriptor<Arc<str>>>, ErrorCode>;
pub type Ended = Result<(), ErrorCode>;

pub async fn put_start(service: &Service, request: PutStartRequest<&[u8]>) -> Answer<Started> {
    let (client, config) = (request.client_id, &request.config);
    let (keys, sizes) = ([request.key], [request.slice_length]);
    let by = by(client, request.tenant_id);
    Ok(only(start(service, Command::PutStart, by, &keys, &sizes, config).await?))
}

pub async fn batch_put_start(
    service: &Service,
    request: BatchPutStartRequest<&[u8]>,
) -> Answer<Vec<Started>> {
    let (client, config) = (request.client_id, &request.config);
    let begin = Command::PutStart;
    let by = by(client, request.tenant_id);
    start(service, begin, by, &request.keys, &request.slice_lengths, config).await
}

pub async fn put_end(service: &Service, request: PutEndRequest<&[u8]>) -> Answer<Ended> {
    let (by, metas) = (by(request.client_id, request.tenant_id), [request.object_meta]);
    let ended = end(service, by, &metas, convert::select(request.replica_type)).await?;
    Ok(only(ended))
}

pub async fn batch_put_end(
    service: &Service,
    request: BatchPutEndRequest<&[u8]>,
) -> Answer<Vec<Ended>> {
    let select = convert::select(request.replica_type);
    end(service, by(request.client_id, request.tenant_id), &request.object_metas, select).await
}

pub async fn put_revoke(service: &Service, request: PutRevokeRequest<&[u8]>) -> Answer<Ended> {
    let select = convert::select(request.replica_type);
    let by = by(request.client_id, request.tenant_id);
    Ok(only(revoke(service, by, &[request.key], select).await?))
}

pub async fn batch_put_revoke(
    service: &Service,
    request: BatchPutRevokeRequest<&[u8]>,
) -> Answer<Vec<Ended>> {
    let select = convert::select(request.replica_type);
    revoke(service, by(request.client_id, request.tenant_id), &request.keys, select).await
}

/// Who asks, and in which name space.
#[derive(Clone, Copy)]
pub struct By<'a> {
    pub client: ClientId,
    /// As it came.
    pub tenant: &'a [u8],
}

pub fn by(client: ClientId, tenant: &[u8]) -> By<'_> {
    By { client, tenant }
}

/// The result of a call with one key.
pub fn only<T>(results: Vec<Result<T, ErrorCode>>) -> Result<T, ErrorCode> {
    results.into_iter().next().unwrap_or(Err(ErrorCode::InternalError))
}

/// Starts writes by the command that `begin` makes.
pub async fn start(
    service: &Service,
    begin: fn(Start) -> Command,
    by: By<'_>,
    keys: &[&[u8]],
    sizes: &[u64],
    config: &ReplicateConfig<&[u8]>,
) -> Answer<Vec<Started>> {
    let settings = service.node.settings();
    let refused = |code| Ok(keys.iter().map(|_| Err(code)).collect());
    let tenant = match service.writer(by.tenant)? {
        Ok(tenant) => tenant.for_command(),
        Err(code) => return refused(code),
    };
    if keys.len() != sizes.len() {
        return refused(ErrorCode::InvalidParams);
    }
    let checked = convert::write_config(config, &settings.pins)
        .and_then(|write| Ok((write, convert::groups(config, keys.len())?)));
    let (write, groups) = match checked {
        Ok(checked) => checked,
        Err(code) => return refused(code),
    };
    // An empty key or a size of 0 fails only its own item.
    let items = keys.iter().zip(sizes).zip(groups).map(|((key, &size), group)| {
        let is_valid = !key.is_empty() && size != 0;
        is_valid.then(|| StartItem { key: Key(key.to_vec()), size, group })
    });
    let mut all = Vec::with_capacity(keys.len());
    for chunk in chunks(items) {
        let (config, rules) = (write.clone(), settings.rules);
        let (client, tenant) = (by.client, tenant.clone());
        let start = Start { client, tenant, items: chunk.items, config, rules };
        let started = service.node.start_writes(begin, start).await;
        let started = started.map_err(|error| error.after_progress(!all.is_empty()))?;
        let started = started.into_iter().map(|started| started.map(convert::descriptors));
        all.extend(merge(&chunk.is_valid, started));
    }
    let started = all.iter().zip(sizes).filter(|(result, _)| result.is_ok());
    started.for_each(|(_, size)| service.metrics.value_sizes.observe(*size));
    Ok(all)
}

/// Ends writes; a selection that is refused refuses every item.
pub async fn end(
    service: &Service,
    by: By<'_>,
    metas: &[ObjectMeta<&[u8]>],
    select: Result<ReplicaSelect, ErrorCode>,
) -> Answer<Vec<Ended>> {
    let (select, tenant) = match select.and_then(|s| Ok((s, service.reader(by.tenant)?))) {
        Ok((select, tenant)) => (select, tenant.for_command()),
        Err(code) => return Ok(metas.iter().map(|_| Err(code)).collect()),
    };
    let items = metas
        .iter()
        .map(|meta| Some(EndItem { key: Key(meta.key.to_vec()), checksum: meta.object_checksum }));
    let mut all = Vec::with_capacity(metas.len());
    for chunk in chunks(items) {
        let (client, tenant) = (by.client, tenant.clone());
        let end = End { client, tenant, items: chunk.items, select };
        let ended = results(propose(service, Command::PutEnd(end), !all.is_empty()).await?)?;
        all.extend(merge(&chunk.is_valid, ended));
    }
    Ok(all)
}

/// Takes writes back; a selection that is refused refuses every item.
pub async fn revoke(
    service: &Service,
    by: By<'_>,
    keys: &[&[u8]],
    select: Result<ReplicaSelect, ErrorCode>,
) -> Answer<Vec<Ended>> {
    let (select, tenant) = match select.and_then(|s| Ok((s, service.reader(by.tenant)?))) {
        Ok((select, tenant)) => (select, tenant.for_command()),
        Err(code) => return Ok(keys.iter().map(|_| Err(code)).collect()),
    };
    let items = keys.iter().map(|key| Some(Key(key.to_vec())));
    let mut all = Vec::with_capacity(keys.len());
    for chunk in chunks(items) {
        let (client, tenant) = (by.client, tenant.clone());
        let revoke = Revoke { client, tenant, keys: chunk.items, select };
        let revoked =
            results(propose(service, Command::PutRevoke(revoke), !all.is_empty()).await?)?;
        all.extend(merge(&chunk.is_valid, revoked));
    }
    Ok(all)
}

/// Proposes one command of a batch.
async fn propose(service: &Service, command: Command, has_progress: bool) -> Answer<Reply> {
    let command = service.node.settings().tiers.of_write(command);
    let reply = service.node.propose(&command).await;
    reply.map_err(|error| error.after_progress(has_progress))
}

fn results(reply: Reply) -> Result<Vec<Ended>, NodeError> {
    match reply {
        Reply::Results(results) => Ok(results),
        other => Err(unexpected(&other)),
    }
}

/// A reply of another family: the command was applied and what came of it cannot be told.
pub fn unexpected(reply: &Reply) -> NodeError {
    NodeError::OutcomeUnknown(format!("the state gave a reply of another kind: {reply:?}"))
}

/// Part of a batch: the items of one command, and which of the requested ones they are.
struct Chunk<I> {
    is_valid: Vec<bool>,
    items: Vec<I>,
}

/// Cuts a batch into commands of bounded size, in order. `None` stands for an item that broke a rule.
fn chunks<I>(items: impl Iterator<Item = Option<I>>) -> Vec<Chunk<I>> {
    let mut chunks: Vec<Chunk<I>> = Vec::new();
    for item in items {
        if chunks.last().is_none_or(|chunk| chunk.is_valid.len() >= KEYS_PER_COMMAND_MAX) {
            chunks.push(Chunk { is_valid: Vec::new(), items: Vec::new() });
        }
        if let Some(chunk) = chunks.last_mut() {
            chunk.is_valid.push(item.is_some());
            chunk.items.extend(item);
        }
    }
    chunks
}

/// One result a requested item: those of the command, and a refusal for each that broke a rule.
fn merge<T>(
    is_valid: &[bool],
    results: impl IntoIterator<Item = Result<T, ErrorCode>>,
) -> Vec<Result<T, ErrorCode>> {
    let mut results = results.into_iter();
    let each = is_valid.iter().map(|is_valid| match is_valid {
        true => results.next().unwrap_or(Err(ErrorCode::InternalError)),
        false => Err(ErrorCode::InvalidParams),
    });
    each.collect()
}
