//! `GET /api/v1/soft_pins`: the pins that end next.
//!
//! The index is looked at under the state's lock (a few milliseconds for a million pins); keys are looked up
//! afterwards, one shard lock each, and a pin that changed in between is neither listed nor counted.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;

use super::answer::Refused;
use super::{Door, answer, query};
use crate::model::{Deadline, ObjectRef, TenantIdx};
use crate::node::MasterNode;

/// Pins listed if the request does not say how many.
const PINS_LISTED: usize = 100;

/// Pins listed at most; a larger limit means this one.
const PINS_LISTED_MAX: usize = 100_000;

#[derive(Serialize)]
struct Page {
    success: bool,
    /// Active pins in all.
    active: usize,
    /// Entries of the index's heap, stale ones included.
    heap_len: usize,
    next_deadline_ms: Option<u64>,
    /// The leader's time.
    now_ms: u64,
    pins: Vec<Pin>,
}

#[derive(Serialize)]
struct Pin {
    tenant: String,
    key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_encoded: Option<String>,
    deadline_ms: u64,
}

/// `GET /api/v1/soft_pins?limit=N[&within_ms=M]`, in the order of deadlines; with M only those that end within
/// so many milliseconds.
pub async fn soft_pins(
    State(door): State<Arc<Door>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Refused> {
    let query = query.as_deref();
    let limit = query::number(query, "limit")?.unwrap_or(PINS_LISTED).min(PINS_LISTED_MAX);
    let within_ms = query::number(query, "within_ms")?.map(|ms| ms as u64);
    let (node, guard) = door.leading().await?;
    let now_ms = guard.now().0;
    let (active, heap_len, first) = node.look(|state| {
        let index = state.deadlines();
        (index.len(), index.heap_len(), index.first_live(limit.max(1)))
    });
    let next_deadline_ms = first.first().map(|(deadline, _)| deadline.0);
    let until = within_ms.map_or(u64::MAX, |ms| now_ms.saturating_add(ms));
    let first = first.into_iter().take(limit).take_while(|(deadline, _)| deadline.0 <= until);
    let first: Vec<(Deadline, ObjectRef)> = first.collect();
    let pins = pins(node, &first);
    let active = still_active(active, first.len(), pins.len());
    let body = Page { success: true, active, heap_len, next_deadline_ms, now_ms, pins };
    Ok(answer::json(StatusCode::OK, &body))
}

/// Of the pins that were active, those that may be yet: what was looked up and is not listed has changed since.
fn still_active(active: usize, looked_up: usize, listed: usize) -> usize {
    active.saturating_sub(looked_up.saturating_sub(listed))
}

fn pins(node: &MasterNode, first: &[(Deadline, ObjectRef)]) -> Vec<Pin> {
    let table = &node.machine().view().table;
    let mut tenants: BTreeMap<TenantIdx, String> = BTreeMap::new();
    let look = |&(deadline, at): &(Deadline, ObjectRef)| {
        let found = table.peek(at, |object| {
            (object.pin() == Some(deadline)).then(|| (object.tenant, object.key.clone()))
        });
        let (tenant, key) = found??;
        let tenant = tenants.entry(tenant).or_insert_with(|| {
            node.look(|state| state.tenant_name(tenant).map(|name| name.name().to_owned()))
                .unwrap_or_default()
        });
        let (key, key_encoded) = query::shown(&key);
        Some(Pin { tenant: tenant.clone(), key, key_encoded, deadline_ms: deadline.0 })
    };
    first.iter().filter_map(look).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_that_ends_while_the_page_is_made_is_neither_listed_nor_counted() {
        assert_eq!(still_active(46, 46, 45), 45);
        assert_eq!(still_active(1_000, 100, 99), 999, "most are not listed at all");
        assert_eq!(still_active(0, 0, 0), 0);
    }
}
