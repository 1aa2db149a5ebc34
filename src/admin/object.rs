//! `GET /api/v1/object`: everything about one object, for an operator. Grants no lease, counts no hit.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;

use super::answer::Refused;
use super::{Door, answer, query};
use crate::model::object::Lease;
use crate::model::{
    ErrorCode, GroupIdx, Object, PendingPin, PinRequest, Place, Replica, ReplicaStatus, Tenant,
};
use crate::node::MasterNode;
use crate::state::table::table_hash;
use crate::state::view::Directory;

#[derive(Serialize)]
struct Page {
    success: bool,
    tenant: String,
    /// Replacement characters where the key is not UTF-8; `key_encoded` is exact then.
    key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_encoded: Option<String>,
    size: u64,
    /// Whether a client can read it now.
    is_readable: bool,
    /// Whether a write is in progress.
    is_processing: bool,
    replicas: Vec<ReplicaPage>,
    /// The client that wrote it last.
    writer: Option<String>,
    put_start_ms: u64,
    /// When the read lease that this node granted ends or ended, or when the object was last written.
    lease_ms: u64,
    hard_pin: bool,
    /// The number of the object's group in this node's memory; `null` without a group.
    group: Option<u32>,
    data_type: u8,
    checksum: Option<u64>,
    soft_pin: SoftPin,
}

#[derive(Default, Serialize)]
struct ReplicaPage {
    id: u64,
    kind: &'static str,
    status: &'static str,
    /// Whether its segment is mounted.
    is_reachable: bool,
    references: u16,
    segment: Option<String>,
    segment_id: Option<String>,
    address: Option<u64>,
    protocol: Option<String>,
    endpoint: Option<String>,
    path: Option<String>,
    client_id: Option<String>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct SoftPin {
    state: &'static str,
    deadline_ms: Option<u64>,
    pending: Option<Pending>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct Pending {
    action: &'static str,
    ttl_ms: Option<u64>,
    /// Replicas of the write that asked.
    eligible: Vec<u64>,
}

/// `GET /api/v1/object?key=K[&tenant=T]`.
pub async fn object(
    State(door): State<Arc<Door>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Refused> {
    let query = query.as_deref();
    let raw = query::raw(query, "key").filter(|raw| !raw.is_empty());
    let raw = raw.ok_or_else(|| Refused::Bad("Missing key query parameter".into()))?;
    let tenant = query::tenant(query, "tenant")?.unwrap_or_default();
    let (node, guard) = door.leading().await?;
    let found = query::candidates(raw).into_iter().find_map(|key| copy_of(node, &tenant, &key));
    let object = found.ok_or(ErrorCode::ObjectNotFound)?;
    Ok(answer::json(StatusCode::OK, &page(node, guard.directory(), &tenant, object)))
}

/// A copy, so that no lock is held while the page is written.
fn copy_of(node: &MasterNode, tenant: &Tenant, key: &[u8]) -> Option<Object> {
    let index = node.look(|state| state.tenant_idx(Some(tenant)))?;
    let view = node.machine().view();
    view.table.look_filed(table_hash(tenant, key), index, key, |found| {
        let (at, object) = found?;
        let mut copy = object.clone();
        // A read of another member of its group counts as well.
        copy.lease = Lease::until(view.lease_end(at, object));
        Some(copy)
    })
}

fn page(node: &MasterNode, directory: &Directory, tenant: &Tenant, object: Object) -> Page {
    let writer = node.look(|state| state.writer_id(object.writer));
    let (key, key_encoded) = query::shown(&object.key);
    let replicas = object.replicas.iter().map(|replica| replica_page(replica, directory));
    Page {
        success: true,
        tenant: tenant.name().to_owned(),
        key,
        key_encoded,
        size: object.size,
        is_readable: directory.is_readable(&object),
        is_processing: object.is_processing,
        replicas: replicas.collect(),
        writer: writer.map(|writer| writer.to_string()),
        put_start_ms: object.put_start.0,
        lease_ms: object.lease.end().0,
        hard_pin: object.is_hard_pinned,
        group: (object.group != GroupIdx::NONE).then_some(object.group.0),
        data_type: object.data_type,
        checksum: object.checksum(),
        soft_pin: soft_pin(&object),
    }
}

fn replica_page(replica: &Replica, directory: &Directory) -> ReplicaPage {
    let page = ReplicaPage {
        id: replica.id.0,
        status: match replica.status {
            ReplicaStatus::Processing => "PROCESSING",
            ReplicaStatus::Complete => "COMPLETE",
        },
        is_reachable: directory.is_valid(replica),
        references: replica.references,
        ..ReplicaPage::default()
    };
    match &replica.place {
        Place::Memory { segment, address, .. } => {
            let segment = directory.segment(*segment).map(|view| &view.segment);
            ReplicaPage {
                kind: "memory",
                segment: segment.map(|segment| segment.name.to_string()),
                segment_id: segment.map(|segment| segment.id.to_string()),
                protocol: segment.map(|segment| segment.protocol.to_string()),
                endpoint: segment.map(|segment| segment.endpoint.to_string()),
                address: Some(*address),
                ..page
            }
        }
        Place::Disk(disk) => ReplicaPage { kind: "disk", path: Some(disk.path.clone()), ..page },
        Place::LocalDisk(disk) => ReplicaPage {
            kind: "local_disk",
            client_id: Some(disk.client.to_string()),
            endpoint: Some(disk.endpoint.clone()),
            ..page
        },
    }
}

/// Committed means active, also while a request for something else waits.
fn soft_pin(object: &Object) -> SoftPin {
    let pending = object.pending().map(pending);
    let deadline = object.pin();
    let state = match (deadline, &pending) {
        (Some(_), _) => "active",
        (None, Some(_)) => "pending",
        (None, None) => "disabled",
    };
    SoftPin { state, deadline_ms: deadline.map(|deadline| deadline.0), pending }
}

fn pending(pin: &PendingPin) -> Pending {
    let (action, ttl_ms) = match pin.request {
        PinRequest::Preserve => ("preserve", None),
        PinRequest::Enable(ttl) => ("enable", Some(ttl.0)),
        PinRequest::Disable => ("disable", None),
    };
    Pending { action, ttl_ms, eligible: pin.eligible.iter().map(|id| id.0).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{
        Deadline, KeyBytes, Millis, NewObject, ReplicaId, TenantIdx, Ttl, WriterIdx,
    };

    #[test]
    fn a_pin_is_disabled_pending_or_active() {
        let mut object = Object::new(NewObject {
            key: KeyBytes::from(&b"k"[..]),
            tenant: TenantIdx(0),
            size: 1,
            put_start: Millis(0),
            writer: WriterIdx(0),
            group: GroupIdx::NONE,
            data_type: 0,
            is_hard_pinned: false,
            replicas: Default::default(),
        });
        let disabled = SoftPin { state: "disabled", deadline_ms: None, pending: None };
        assert_eq!(soft_pin(&object), disabled);
        let request = PinRequest::Enable(Ttl(7));
        let eligible = std::iter::once(ReplicaId(3)).collect();
        object.set_pending(Some(PendingPin { request, eligible }));
        let waits = || Some(Pending { action: "enable", ttl_ms: Some(7), eligible: vec![3] });
        let waiting = SoftPin { state: "pending", deadline_ms: None, pending: waits() };
        assert_eq!(soft_pin(&object), waiting);
        object.set_pin(Some(Deadline(9)));
        let active = SoftPin { state: "active", deadline_ms: Some(9), pending: waits() };
        assert_eq!(soft_pin(&object), active);
    }
}
