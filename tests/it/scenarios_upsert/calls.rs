//! The calls of these scenarios, made terse.

use mooncake_ha::model::ErrorCode;
use mooncake_ha::wire::Answer;
use mooncake_ha::wire::calls as c;
use mooncake_ha::wire::requests as r;
use mooncake_ha::wire::types::{ObjectMeta, ReplicaType, ReplicateConfig, SegmentStatus};

use crate::support::node::{Caller, Replicas, plain, segment_id};

const TENANT: &[u8] = b"default";

/// The answer of a call that failed.
pub fn refused<T>(code: ErrorCode) -> Answer<T> {
    Err(code.into())
}

/// One copy in a group.
pub fn in_group(group: &str) -> ReplicateConfig<&[u8]> {
    ReplicateConfig { group_ids: Some(vec![group.as_bytes()]), ..plain() }
}

/// One group a key.
pub fn in_groups<'a>(groups: &[&'a str]) -> ReplicateConfig<&'a [u8]> {
    let groups = groups.iter().map(|group| group.as_bytes()).collect();
    ReplicateConfig { group_ids: Some(groups), ..plain() }
}

pub async fn upsert(
    caller: &Caller,
    key: &str,
    slice_length: u64,
    config: &ReplicateConfig<&[u8]>,
) -> Answer<Replicas> {
    let (client_id, key, config) = (caller.id, key.as_bytes(), config.clone());
    let request = r::PutStartRequest { client_id, key, slice_length, config, tenant_id: TENANT };
    caller.call::<c::UpsertStart>(&request).await
}

pub async fn upsert_end(caller: &Caller, key: &str) -> Answer<()> {
    let object_meta = ObjectMeta { key: key.as_bytes(), object_checksum: None };
    let (client_id, replica_type) = (caller.id, ReplicaType::ALL);
    let tenant_id = TENANT;
    let request = r::PutEndRequest { client_id, object_meta, replica_type, tenant_id };
    caller.call::<c::UpsertEnd>(&request).await
}

pub async fn upsert_revoke(caller: &Caller, key: &str) -> Answer<()> {
    let (client_id, key, replica_type) = (caller.id, key.as_bytes(), ReplicaType::ALL);
    let request = r::PutRevokeRequest { client_id, key, replica_type, tenant_id: TENANT };
    caller.call::<c::UpsertRevoke>(&request).await
}

pub async fn batch_upsert(
    caller: &Caller,
    keys: &[&str],
    sizes: &[u64],
    config: &ReplicateConfig<&[u8]>,
) -> Vec<Answer<Replicas>> {
    let request = r::BatchPutStartRequest {
        client_id: caller.id,
        keys: keys.iter().map(|key| key.as_bytes()).collect(),
        slice_lengths: sizes.to_vec(),
        config: config.clone(),
        tenant_id: TENANT,
    };
    caller.call::<c::BatchUpsertStart>(&request).await
}

pub async fn batch_upsert_end(caller: &Caller, keys: &[&str]) -> Vec<Answer<()>> {
    let metas = keys.iter().map(|key| ObjectMeta { key: key.as_bytes(), object_checksum: None });
    let object_metas = metas.collect();
    let client_id = caller.id;
    let request = r::BatchUpsertEndRequest { client_id, object_metas, tenant_id: TENANT };
    caller.call::<c::BatchUpsertEnd>(&request).await
}

pub async fn batch_upsert_revoke(caller: &Caller, keys: &[&str]) -> Vec<Answer<()>> {
    let keys = keys.iter().map(|key| key.as_bytes()).collect();
    let request = r::BatchUpsertRevokeRequest { client_id: caller.id, keys, tenant_id: TENANT };
    caller.call::<c::BatchUpsertRevoke>(&request).await
}

/// The keys that a pattern finds, with the number of replicas of each, in the order of the answer.
pub async fn find(caller: &Caller, pattern: &str) -> Answer<Vec<(String, usize)>> {
    let request = r::RegexRequest { regex: pattern.as_bytes(), tenant_id: TENANT };
    let found = caller.call::<c::GetReplicaListByRegex>(&request).await?;
    let name = |key: Box<[u8]>| String::from_utf8_lossy(&key).into_owned();
    Ok(found.0.into_iter().map(|(key, replicas)| (name(key), replicas.len())).collect())
}

pub async fn remove_by_regex(caller: &Caller, pattern: &str, force: bool) -> Answer<i64> {
    let request = r::RemoveByRegexRequest { regex: pattern.as_bytes(), force, tenant_id: TENANT };
    caller.call::<c::RemoveByRegex>(&request).await
}

pub async fn clear(caller: &Caller, keys: &[&str], segment: &str) -> Vec<String> {
    let request = r::BatchReplicaClearRequest {
        object_keys: keys.iter().map(|key| key.as_bytes()).collect(),
        client_id: caller.id,
        segment_name: segment.as_bytes(),
    };
    let cleared = caller.call::<c::BatchReplicaClear>(&request).await.unwrap();
    cleared.iter().map(|key| String::from_utf8_lossy(key).into_owned()).collect()
}

pub async fn leave(caller: &Caller, n: u64, grace_period_ms: u64) -> Answer<()> {
    let (segment_id, client_id) = (segment_id(n), caller.id);
    let request = r::GracefulUnmountSegmentRequest { segment_id, client_id, grace_period_ms };
    caller.call::<c::GracefulUnmountSegment>(&request).await
}

pub async fn status_by_id(caller: &Caller, n: u64) -> Answer<SegmentStatus> {
    caller.call::<c::QuerySegmentStatusById>(&segment_id(n)).await
}
