//! `POST /api/v1/remove_all`; the token that every page that changes something needs.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::Serialize;

use super::answer::Refused;
use super::{Door, answer, query};
use crate::config::Secret;

#[derive(Serialize)]
struct Removed {
    success: bool,
    removed_count: u64,
}

/// Removes every object that no read lease protects; with `force=true` or `force=1` all finished ones. `tenant_id`
/// picks one tenant if tenants are kept apart; a name that no tenant can have removes nothing, as on the peer.
pub async fn remove_all(
    State(door): State<Arc<Door>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    check_token(&door.token, &headers)?;
    let force = query::is_set(query.as_deref(), "force");
    let node = door.node()?;
    let tenant = match node.settings().tenants.is_enabled {
        true => query::tenant(query.as_deref(), "tenant_id"),
        false => Ok(None),
    };
    let removed_count = match &tenant {
        Ok(None) => node.remove_everything(force).await?,
        Ok(Some(tenant)) => node.remove_all_of(tenant, force).await?,
        Err(_) => 0,
    };
    door.metrics.note_remove_all();
    tracing::info!(removed_count, force, "all objects were removed by an operator");
    Ok(answer::json(StatusCode::OK, &Removed { success: true, removed_count }))
}

/// Errors: a token is set and the request does not carry it.
pub(super) fn check_token(token: &Secret, headers: &HeaderMap) -> Result<(), Refused> {
    if token.is_empty() {
        return Ok(());
    }
    let sent =
        headers.get(AUTHORIZATION).and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
    let is_equal = sent.is_some_and(|sent| is_same(sent, token.reveal().as_bytes()));
    if is_equal { Ok(()) } else { Err(Refused::Unauthorized) }
}

/// Takes as long for a nearly right token as for a wrong one of that length.
fn is_same(a: &[u8], b: &[u8]) -> bool {
    let differing = a.iter().zip(b).fold(0, |differing, (a, b)| differing | (a ^ b));
    a.len() == b.len() && differing == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_needs_the_token_only_where_one_is_set() {
        let token = Secret::new("t0k");
        let with = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, value.parse().unwrap());
            headers
        };
        assert_eq!(check_token(&Secret::default(), &HeaderMap::new()), Ok(()));
        assert_eq!(check_token(&token, &with("Bearer t0k")), Ok(()));
        for wrong in ["Bearer t0", "Bearer t0kk", "t0k", "Bearer "] {
            assert_eq!(check_token(&token, &with(wrong)), Err(Refused::Unauthorized), "{wrong}");
        }
        assert_eq!(check_token(&token, &HeaderMap::new()), Err(Refused::Unauthorized));
    }
}
