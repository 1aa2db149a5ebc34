//! `POST /api/v1/segments/unmount`: an operator takes segments away, at once or after a grace time.
//!
//! It is what the owner's own call would do: the segment goes with the replicas on it, and the owner, who is not
//! told, mounts it again only when it starts anew.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::Serialize;

use super::answer::Refused;
use super::remove::check_token;
use super::{Door, answer, query};
use crate::model::{ClientId, ErrorCode, SegmentId, SegmentStatus};
use crate::state::command::Command;
use crate::state::{Reply, State as Store};

#[derive(Serialize)]
struct Page {
    success: bool,
    unmounted: Vec<Unmounted>,
}

#[derive(Serialize)]
struct Unmounted {
    segment: String,
    segment_id: String,
    client_id: String,
}

struct Found {
    name: Arc<str>,
    id: SegmentId,
    owner: ClientId,
}

/// `POST /api/v1/segments/unmount?segment=S[&grace_ms=N]`; S is an id or a name, of which there may be several
/// segments.
pub async fn unmount(
    State(door): State<Arc<Door>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    check_token(&door.token, &headers)?;
    let query = query.as_deref();
    let wanted = query::raw(query, "segment").filter(|raw| !raw.is_empty()).map(query::plain);
    let wanted = wanted.and_then(|bytes| String::from_utf8(bytes).ok());
    let wanted = wanted.ok_or_else(|| Refused::Bad("Missing segment query parameter".into()))?;
    let grace_ms = query::number(query, "grace_ms")?;
    let (node, _) = door.leading().await?;
    let found = node.look(|state| find(state, &wanted));
    if found.is_empty() {
        return Err(ErrorCode::SegmentNotFound.into());
    }
    let mut unmounted = Vec::new();
    for Found { name, id: segment, owner: client } in found {
        let command = match grace_ms {
            None => Command::UnmountSegment { segment, client },
            Some(grace_ms) => {
                Command::GracefulUnmount { segment, client, grace_ms: grace_ms as u64 }
            }
        };
        match node.propose(&command).await? {
            Reply::Outcome(outcome) => outcome?,
            _ => return Err(ErrorCode::InternalError.into()),
        }
        tracing::info!(segment = &*name, %client, ?grace_ms, "unmounted by an operator");
        let (segment, segment_id) = (name.to_string(), segment.to_string());
        unmounted.push(Unmounted { segment, segment_id, client_id: client.to_string() });
    }
    Ok(answer::json(StatusCode::OK, &Page { success: true, unmounted }))
}

/// The segments of an id or a name that are not on their way out already.
fn find(state: &Store, wanted: &str) -> Vec<Found> {
    let id = wanted.parse().ok().map(SegmentId);
    let is_wanted = |mounted: &&crate::state::segment_table::Mounted| {
        let is_named = Some(mounted.segment.id) == id || &*mounted.segment.name == wanted;
        is_named && mounted.status != SegmentStatus::Unmounting
    };
    let found = state.segments().in_mount_order().filter(is_wanted);
    let found = found.map(|mounted| Found {
        name: Arc::clone(&mounted.segment.name),
        id: mounted.segment.id,
        owner: mounted.owner,
    });
    found.collect()
}
