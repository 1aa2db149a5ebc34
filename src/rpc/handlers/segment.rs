//! MountSegment, ReMountSegment, UnmountSegment and the segment queries.

use super::Answer;
use super::write::unexpected;
use crate::model::{ErrorCode, MountedView, SegmentId};
use crate::rpc::{Service, convert};
use crate::state::Reply;
use crate::state::command::Command;
use crate::wire::requests::{MountSegmentRequest, ReMountSegmentRequest, UnmountSegmentRequest};
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
