//! `DELETE /api/v1/object`: an operator removes one object, by the rules of the Remove call.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::Serialize;

use super::answer::Refused;
use super::remove::check_token;
use super::{Door, answer, query};
use crate::model::ErrorCode;

#[derive(Serialize)]
struct Removed {
    success: bool,
    tenant: String,
    key: String,
}

/// `DELETE /api/v1/object?key=K[&tenant=T&force=true]`. The key is decoded once and in no other way: a removal
/// must not find a key that merely looks like the one that was written.
pub async fn object_remove(
    State(door): State<Arc<Door>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    check_token(&door.token, &headers)?;
    let query = query.as_deref();
    let raw = query::raw(query, "key").filter(|raw| !raw.is_empty());
    let key = raw.map(query::plain);
    let key = key.ok_or_else(|| Refused::Bad("Missing key query parameter".into()))?;
    let tenant = query::tenant(query, "tenant")?.unwrap_or_default();
    let force = query::is_set(query, "force");
    let results = door.node()?.remove(&tenant, vec![key.clone()], force).await?;
    results.into_iter().next().unwrap_or(Err(ErrorCode::InternalError))?;
    let (key, _) = query::shown(&key);
    tracing::info!(key, tenant = tenant.name(), force, "an object was removed by an operator");
    let tenant = tenant.name().to_owned();
    Ok(answer::json(StatusCode::OK, &Removed { success: true, tenant, key }))
}
