//! Set-up and heartbeat: ServiceReady, GetStorageConfig, GetFsdir, Ping.

use super::Answer;
use crate::model::{ClientId, ErrorCode};
use crate::rpc::Service;
use crate::wire::pack::NoArguments;
use crate::wire::types::{ClientStatus, GetStorageConfigResponse, PingResponse};

/// What clients compare byte for byte before they do anything else.
const SERVICE_VERSION: &str = "2.0.0";

pub async fn service_ready(_: &Service, _: NoArguments) -> Answer<Result<&'static str, ErrorCode>> {
    Ok(Ok(SERVICE_VERSION))
}

pub async fn get_fsdir(service: &Service, _: NoArguments) -> Answer<Result<String, ErrorCode>> {
    Ok(Ok(fsdir(service)))
}

/// The directory that clients share, or nothing.
fn fsdir(service: &Service) -> String {
    let directory = service.node.settings().tiers.directory.as_deref();
    directory.unwrap_or_default().to_owned()
}

pub async fn get_storage_config(
    service: &Service,
    _: NoArguments,
) -> Answer<Result<GetStorageConfigResponse<String>, ErrorCode>> {
    let storage = &service.storage;
    Ok(Ok(GetStorageConfigResponse {
        fsdir: fsdir(service),
        enable_disk_eviction: storage.is_disk_eviction_enabled,
        quota_bytes: storage.quota_bytes,
    }))
}

pub async fn ping(service: &Service, client: ClientId) -> Answer<Result<PingResponse, ErrorCode>> {
    let guard = service.node.leader_guard().await?;
    service.node.hear(client);
    let is_alive = guard.directory().alive.contains(&client);
    let client_status = if is_alive { ClientStatus::OK } else { ClientStatus::NEED_REMOUNT };
    // The revision under which discovery tells this leader; 0 outside HA mode, as the peer has it.
    let view = if service.node.settings().is_cluster { guard.term() } else { 0 };
    let view_version_id = i64::try_from(view).unwrap_or(i64::MAX);
    Ok(Ok(PingResponse { view_version_id, client_status }))
}
