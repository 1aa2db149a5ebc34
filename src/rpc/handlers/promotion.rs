//! From a client's disk back to memory: PromotionObjectHeartbeat, PromotionAllocStart, NotifyPromotionSuccess,
//! NotifyPromotionFailure (behaviour 10.4).

use std::sync::Arc;

use super::Answer;
use super::disk::names;
use super::write::unexpected;
use crate::model::{ClientId, ErrorCode};
use crate::rpc::{Service, convert};
use crate::state::Reply;
use crate::state::command::{Command, Key};
use crate::state::disk::command::{PromotionEnd, PromotionStart, TierCommand, TierReply, WorkItem};
use crate::wire::requests::{ClientKeyRequest, PromotionAllocStartRequest};
use crate::wire::types::{PromotionAllocStartResponse, PromotionTaskItem};

type Outcome = Result<(), ErrorCode>;
type Promotions = Vec<PromotionTaskItem<Box<[u8]>>>;

/// Promotions that one heartbeat hands out when no setting says how many.
const PER_HEARTBEAT: u32 = 1;

pub async fn promotion_object_heartbeat(
    service: &Service,
    client: ClientId,
) -> Answer<Result<Promotions, ErrorCode>> {
    service.node.leader_guard().await?;
    let waiting = service.node.look(|state| {
        state.tiers().disks().get(client)?;
        Some(state.tiers().promotions().waiting(client))
    });
    match waiting {
        None => return Ok(Err(ErrorCode::SegmentNotFound)),
        Some(0) => return Ok(Ok(Vec::new())),
        Some(_) => {}
    }
    let rules = service.node.settings().tiers.promotion;
    let items_max = rules.map_or(PER_HEARTBEAT, |rules| rules.per_heartbeat);
    let fetch = Command::Tier(TierCommand::PromotionFetch { client, items_max });
    match service.node.propose(&fetch).await? {
        Reply::Tier(TierReply::Promotions(work)) => {
            Ok(work.map(|items| items.into_iter().map(promotion_item).collect()))
        }
        other => Err(unexpected(&other)),
    }
}

fn promotion_item(item: WorkItem) -> PromotionTaskItem<Box<[u8]>> {
    PromotionTaskItem {
        tenant_id: Box::from(item.tenant.name().as_bytes()),
        key: item.key,
        size: i64::try_from(item.size).unwrap_or(i64::MAX),
    }
}

pub async fn promotion_alloc_start(
    service: &Service,
    request: PromotionAllocStartRequest<&[u8]>,
) -> Answer<Result<PromotionAllocStartResponse<Arc<str>>, ErrorCode>> {
    let tenant = match service.reader(request.tenant_id) {
        Ok(tenant) => tenant,
        Err(code) => return Ok(Err(code)),
    };
    let start = PromotionStart {
        client: request.client_id,
        tenant: tenant.for_command(),
        key: Key(request.key.to_vec()),
        size: request.size,
        preferred: names(&request.preferred_segments),
        strategy: service.node.settings().rules.strategy,
    };
    match service.node.propose(&Command::Tier(TierCommand::PromotionStart(start))).await? {
        Reply::Tier(TierReply::Staged(staged)) => Ok(staged.map(|staged| {
            PromotionAllocStartResponse { memory_descriptor: convert::descriptor(staged) }
        })),
        other => Err(unexpected(&other)),
    }
}

pub async fn notify_promotion_success(
    service: &Service,
    request: ClientKeyRequest<&[u8]>,
) -> Answer<Outcome> {
    end(service, request, true).await
}

pub async fn notify_promotion_failure(
    service: &Service,
    request: ClientKeyRequest<&[u8]>,
) -> Answer<Outcome> {
    end(service, request, false).await
}

async fn end(
    service: &Service,
    request: ClientKeyRequest<&[u8]>,
    is_success: bool,
) -> Answer<Outcome> {
    let (client, key) = (request.client_id, Key(request.key.to_vec()));
    let tenant = match service.reader(request.tenant_id) {
        Ok(tenant) => tenant.for_command(),
        Err(code) => return Ok(Err(code)),
    };
    let end = PromotionEnd { client, tenant, key, is_success };
    match service.node.propose(&Command::Tier(TierCommand::PromotionEnd(end))).await? {
        Reply::Outcome(outcome) => Ok(outcome),
        other => Err(unexpected(&other)),
    }
}
