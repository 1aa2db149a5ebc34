//! `POST /api/v1/snapshots`: takes a catalog snapshot now and answers its id.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::Serialize;

use super::answer::Refused;
use super::remove::check_token;
use super::{Door, answer};
use crate::model::ErrorCode;
use crate::snapshotter::{SnapshotterError, Taken};

#[derive(Serialize)]
struct Page {
    success: bool,
    #[serde(flatten)]
    taken: Taken,
}

/// Answers when the snapshot is published, after one that is being taken already.
pub async fn take(State(door): State<Arc<Door>>, headers: HeaderMap) -> Result<Response, Refused> {
    check_token(&door.token, &headers)?;
    door.node()?;
    let off = || Refused::Bad("catalog snapshots are off; start with --enable_snapshot".into());
    match door.snapshotter.get().ok_or_else(off)?.take().await {
        Ok(taken) => Ok(answer::json(StatusCode::OK, &Page { success: true, taken })),
        Err(SnapshotterError::NotLeading) => Err(Refused::NotServing),
        Err(error) => {
            tracing::error!("{error}");
            let (status, code) = (StatusCode::INTERNAL_SERVER_ERROR, ErrorCode::InternalError);
            Ok(answer::error(status, code, &error.to_string()))
        }
    }
}
