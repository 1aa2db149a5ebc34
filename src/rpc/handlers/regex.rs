//! GetReplicaListByRegex and RemoveByRegex.

use std::sync::Arc;

use super::Answer;
use crate::model::ErrorCode;
use crate::rpc::{Service, convert};
use crate::wire::pack::Map;
use crate::wire::requests::{RegexRequest, RemoveByRegexRequest};
use crate::wire::types::ReplicaDescriptor;

/// Replicas by key.
type ByKey = Map<Box<[u8]>, Vec<ReplicaDescriptor<Arc<str>>>>;

pub async fn get_replica_list_by_regex(
    service: &Service,
    request: RegexRequest<&[u8]>,
) -> Answer<Result<ByKey, ErrorCode>> {
    let tenant = match service.reader(request.tenant_id) {
        Ok(tenant) => tenant,
        Err(code) => return Ok(Err(code)),
    };
    let found = service.node.find_by_regex(&tenant, request.regex).await?;
    let describe = |(key, found): (Vec<u8>, crate::node::read::Found)| {
        (key.into_boxed_slice(), convert::descriptors(found.replicas))
    };
    Ok(found.map(|found| Map(found.into_iter().map(describe).collect())))
}

pub async fn remove_by_regex(
    service: &Service,
    request: RemoveByRegexRequest<&[u8]>,
) -> Answer<Result<i64, ErrorCode>> {
    let tenant = match service.reader(request.tenant_id) {
        Ok(tenant) => tenant,
        Err(code) => return Ok(Err(code)),
    };
    let removed = service.node.remove_by_regex(&tenant, request.regex, request.force).await?;
    Ok(removed.map(|count| i64::try_from(count).unwrap_or(i64::MAX)))
}
