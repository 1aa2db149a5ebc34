//! NVMe-oF segments, of which there are none: this build lacks them as the peer's release does (behaviour 10.5).
//! Mounting and unmounting is refused without a handler (`rpc/not_built.rs`).

use super::Answer;
use crate::model::ErrorCode;
use crate::rpc::Service;
use crate::wire::pack::NoArguments;
use crate::wire::types::{NoFSegment, NoFSegmentOwnerInfo};

pub async fn get_all_nof_segments(
    service: &Service,
    _: NoArguments,
) -> Answer<Result<Vec<NoFSegment<String>>, ErrorCode>> {
    service.node.leader_guard().await?;
    Ok(Ok(Vec::new()))
}

pub async fn get_nof_segments_by_name(
    service: &Service,
    _name: &[u8],
) -> Answer<Result<Vec<NoFSegmentOwnerInfo>, ErrorCode>> {
    service.node.leader_guard().await?;
    Ok(Err(ErrorCode::SegmentNotFound))
}
