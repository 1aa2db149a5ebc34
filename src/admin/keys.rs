//! `/query_key` and `/batch_query_keys` in the peer's form: where the bytes of an object are.
//!
//! The first is a read like a client's: it grants a read lease and counts as a hit. The second grants nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;

use super::answer::Refused;
use super::{Door, answer, query};
use crate::model::ids::key_hash;
use crate::model::{Descriptor, ErrorCode, Location, Tenant, TenantIdx};
use crate::node::MasterNode;
use crate::node::read::{FindReplicas, Found, LeaderGuard};

/// A piece of a client's memory.
#[derive(Serialize)]
struct Buffer {
    size_: u64,
    buffer_address_: u64,
    protocol_: Arc<str>,
    transport_endpoint_: Arc<str>,
}

fn buffers(replicas: &[Descriptor]) -> Vec<Buffer> {
    let buffer = |replica: &Descriptor| match &replica.location {
        Location::Memory { size, address, protocol, endpoint } => Some(Buffer {
            size_: *size,
            buffer_address_: *address,
            protocol_: Arc::clone(protocol),
            transport_endpoint_: Arc::clone(endpoint),
        }),
        Location::Disk { .. } | Location::LocalDisk { .. } => None,
    };
    replicas.iter().filter_map(buffer).collect()
}

#[derive(Serialize)]
struct Success<T> {
    success: bool,
    data: T,
}

/// `GET /query_key?key=K`.
pub async fn query_key(
    State(door): State<Arc<Door>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Refused> {
    let raw = query::raw(query.as_deref(), "key").unwrap_or_default();
    let found = find(door.node()?, raw).await?;
    let hit = found.as_ref().ok().map(|found| (found.replicas.as_slice(), found.size));
    door.metrics.note_read(hit);
    Ok(match found {
        Ok(found) => {
            let body = Success { success: true, data: buffers(&found.replicas) };
            answer::json(StatusCode::OK, &body)
        }
        // Every failure is a 404 here, as on the peer.
        Err(code) => answer::error(StatusCode::NOT_FOUND, code, code.name()),
    })
}

/// Reads the first form of the key that names an object.
async fn find(node: &MasterNode, raw: &str) -> Result<Result<Found, ErrorCode>, Refused> {
    let mut last = Err(ErrorCode::ObjectNotFound);
    for key in query::candidates(raw) {
        last = node.read::<FindReplicas>(&Tenant::default(), &key).await?;
        if last != Err(ErrorCode::ObjectNotFound) {
            break;
        }
    }
    Ok(last)
}

/// What is known of one key; a failed one has an error and nothing else.
#[derive(Default, Serialize)]
struct Item {
    ok: bool,
    error: Option<&'static str>,
    values: Option<Vec<Buffer>>,
    disk_values: Option<Vec<DiskFile>>,
    local_disk_values: Option<Vec<LocalFile>>,
    nof_values: Option<Vec<Buffer>>,
}

#[derive(Serialize)]
struct DiskFile {
    file_path: String,
    object_size: u64,
}

#[derive(Serialize)]
struct LocalFile {
    client_id: String,
    object_size: u64,
    transport_endpoint: String,
}

#[derive(Serialize)]
struct NoKeys {
    success: bool,
    error: &'static str,
}

/// `GET /batch_query_keys?keys=a,b`. The length of a URL bounds the number of keys.
pub async fn batch_query_keys(
    State(door): State<Arc<Door>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Refused> {
    let raw = query::raw(query.as_deref(), "keys").unwrap_or_default();
    if raw.is_empty() {
        let error = "No keys provided. Use ?keys=key1,key2,...";
        return Ok(answer::json(StatusCode::BAD_REQUEST, &NoKeys { success: false, error }));
    }
    let (node, guard) = door.leading().await?;
    let mut data = BTreeMap::new();
    let decoded = query::decode(raw);
    for key in decoded.split(|byte| *byte == b',') {
        let text = String::from_utf8_lossy(key).into_owned();
        data.insert(text, item(look(node, &guard, key)));
    }
    Ok(answer::json(StatusCode::OK, &Success { success: true, data }))
}

/// The readable replicas of a key, without a lease.
fn look(
    node: &MasterNode,
    guard: &LeaderGuard<'_>,
    key: &[u8],
) -> Result<Vec<Descriptor>, ErrorCode> {
    let directory = guard.directory();
    let table = &node.machine().view().table;
    table.look(key_hash(key), TenantIdx(0), key, |object| {
        let object = object.filter(|object| directory.exists(object));
        let object = object.ok_or(ErrorCode::ObjectNotFound)?;
        let replicas = directory.describe_readable(object);
        if replicas.is_empty() { Err(ErrorCode::ReplicaIsNotReady) } else { Ok(replicas) }
    })
}

fn item(found: Result<Vec<Descriptor>, ErrorCode>) -> Item {
    let replicas = match found {
        Ok(replicas) => replicas,
        Err(code) => return Item { error: Some(code.name()), ..Item::default() },
    };
    let values = Some(buffers(&replicas));
    let (mut disk, mut local) = (Vec::new(), Vec::new());
    for replica in replicas {
        match replica.location {
            Location::Memory { .. } => {}
            Location::Disk { path, size } => {
                disk.push(DiskFile { file_path: path, object_size: size });
            }
            Location::LocalDisk { client, size, endpoint } => local.push(LocalFile {
                client_id: client.to_string(),
                object_size: size,
                transport_endpoint: endpoint,
            }),
        }
    }
    let disk_values = (!disk.is_empty()).then_some(disk);
    let local_disk_values = (!local.is_empty()).then_some(local);
    Item { ok: true, values, disk_values, local_disk_values, ..Item::default() }
}
