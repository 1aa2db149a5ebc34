//! MountSegment, ReMountSegment, UnmountSegment, GracefulUnmountSegment and the segment queries.

use std::collections::{BTreeMap, BTreeSet};

use super::Answer;
use super::write::unexpected;
use crate::model::{ClientId, ErrorCode, MountedView, SegmentId};
use crate::rpc::{Service, convert};
use crate::state::Reply;
use crate::state::command::Command;
use crate::wire::pack::Map;
use crate::wire::requests::{
    GracefulUnmountSegmentRequest, MountSegmentRequest, ReMountSegmentRequest,
    UnmountSegmentRequest,
};
use crate::wire::types::SegmentStatus;

type Outcome = Result<(), ErrorCode>;

pub async fn mount_segment(
    service: &Service,
    request: MountSegmentRequest<&[u8]>,
) -> Answer<Outcome> {
    let segment = match convert::segment(&request.segment) {
        Ok(segment) => segment,
        Err(code) => return Ok(Err(code)),
    };
    service.node.hear(request.client_id);
    propose(service, Command::MountSegment { segment, client: request.client_id }).await
}

pub async fn remount_segment(
    service: &Service,
    request: ReMountSegmentRequest<&[u8]>,
) -> Answer<Outcome> {
    let segments = request.segments.iter().map(convert::segment).collect::<Result<_, _>>();
    let segments = match segments {
        Ok(segments) => segments,
        Err(code) => return Ok(Err(code)),
    };
    service.node.hear(request.client_id);
    propose(service, Command::ReMountSegment { segments, client: request.client_id }).await
}

pub async fn unmount_segment(service: &Service, request: UnmountSegmentRequest) -> Answer<Outcome> {
    let (segment, client) = (request.segment_id, request.client_id);
    propose(service, Command::UnmountSegment { segment, client }).await
}

pub async fn graceful_unmount_segment(
    service: &Service,
    request: GracefulUnmountSegmentRequest,
) -> Answer<Outcome> {
    let (segment, client) = (request.segment_id, request.client_id);
    let grace_ms = request.grace_period_ms;
    propose(service, Command::GracefulUnmount { segment, client, grace_ms }).await
}

/// The hosts of clients' segments. A client without a segment is left out.
pub async fn batch_query_ip(
    service: &Service,
    clients: Vec<ClientId>,
) -> Answer<Result<Map<ClientId, Vec<String>>, ErrorCode>> {
    let guard = service.node.leader_guard().await?;
    let mut hosts: BTreeMap<ClientId, Vec<String>> = BTreeMap::new();
    let wanted: BTreeSet<ClientId> = clients.into_iter().collect();
    for view in guard.directory().segments.iter().flatten() {
        if !view.status.is_readable() || !wanted.contains(&view.owner) {
            continue;
        }
        let known = hosts.entry(view.owner).or_default();
        let host = host_of(&view.segment.endpoint);
        if !host.is_empty() && known.iter().all(|known| known != host) {
            known.push(host.to_owned());
        }
    }
    Ok(Ok(Map(hosts.into_iter().collect())))
}

/// The host of `host`, `host:port`, `[v6]:port` or a bare v6 address.
fn host_of(endpoint: &str) -> &str {
    if let Some((host, _)) = endpoint.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return host;
    }
    match endpoint.split_once(':') {
        Some((host, port)) if !port.contains(':') => host,
        _ => endpoint,
    }
}

pub async fn query_segment_status(
    service: &Service,
    name: &[u8],
) -> Answer<Result<SegmentStatus, ErrorCode>> {
    status_of(service, |view| view.segment.name.as_bytes() == name).await
}

pub async fn query_segment_status_by_id(
    service: &Service,
    id: SegmentId,
) -> Answer<Result<SegmentStatus, ErrorCode>> {
    status_of(service, |view| view.segment.id == id).await
}

/// The status of the latest matching segment. One that is going away is told as gone: for its clients it is.
async fn status_of(
    service: &Service,
    is_wanted: impl Fn(&MountedView) -> bool,
) -> Answer<Result<SegmentStatus, ErrorCode>> {
    let guard = service.node.leader_guard().await?;
    let mut segments = guard.directory().segments.iter().rev().flatten();
    let found = segments.find(|view| view.status.is_readable() && is_wanted(view));
    let status = found.map(|view| convert::segment_status(view.status));
    Ok(status.ok_or(ErrorCode::SegmentNotFound))
}

async fn propose(service: &Service, command: Command) -> Answer<Outcome> {
    match service.node.propose(&command).await? {
        Reply::Outcome(outcome) => Ok(outcome),
        other => Err(unexpected(&other)),
    }
}
