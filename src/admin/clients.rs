//! `GET /api/v1/clients`: the clients that the store knows, with the memory that each gives.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;

use super::answer::Refused;
use super::{Door, answer, query};
use crate::model::{ClientId, Uuid};

/// Clients of a page if the request does not say how many.
const CLIENTS_LISTED: usize = 1_000;

/// Clients of a page at most; a larger limit means this one.
const CLIENTS_LISTED_MAX: usize = 10_000;

#[derive(Serialize)]
struct Page {
    success: bool,
    /// Clients in all.
    total: usize,
    clients: Vec<Row>,
    /// What to send as `after` for the next page; `null` on the last one.
    next: Option<String>,
}

#[derive(Serialize)]
struct Row {
    client_id: String,
    host_id: String,
    /// Whether it has mounted or re-mounted since it was last given up.
    is_alive: bool,
    /// Milliseconds since this leader heard it; `null` if it has not.
    silent_ms: Option<u64>,
    segments: usize,
    memory_bytes: u64,
    used_bytes: u64,
}

#[derive(Clone, Copy, Default)]
struct Memory {
    segments: usize,
    size: u64,
    used: u64,
}

/// `GET /api/v1/clients[?limit=N&after=NEXT]`, ascending by id.
pub async fn clients(
    State(door): State<Arc<Door>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Refused> {
    let query = query.as_deref();
    let limit = query::number(query, "limit")?.unwrap_or(CLIENTS_LISTED).min(CLIENTS_LISTED_MAX);
    let after = match query::text(query, "after").filter(|text| !text.is_empty()) {
        Some(text) => {
            let bad = |_| Refused::Bad("after is not the next of an earlier page".into());
            Some(ClientId(text.parse::<Uuid>().map_err(bad)?))
        }
        None => None,
    };
    let (node, _) = door.leading().await?;
    let now = node.clock().monotonic();
    let leader = node.leader();
    let (total, mut clients) = node.look(|state| {
        let mut memory: BTreeMap<ClientId, Memory> = BTreeMap::new();
        for (_, mounted) in state.segments().iter() {
            let theirs = memory.entry(mounted.owner).or_default();
            theirs.segments += 1;
            theirs.size += mounted.segment.size;
            theirs.used += mounted.allocator.used_bytes();
        }
        let all = state.clients();
        let page = all.iter().filter(|(client, _)| after.is_none_or(|after| *client > after));
        let row = |(client, record): (ClientId, &crate::state::clients::ClientRecord)| {
            let theirs = memory.get(&client).copied().unwrap_or_default();
            let row = Row {
                client_id: client.to_string(),
                host_id: record.host_id.to_string(),
                is_alive: record.is_alive,
                silent_ms: None,
                segments: theirs.segments,
                memory_bytes: theirs.size,
                used_bytes: theirs.used,
            };
            (client, row)
        };
        (all.iter().count(), page.take(limit.saturating_add(1)).map(row).collect::<Vec<_>>())
    });
    let is_cut = clients.len() > limit;
    clients.truncate(limit);
    if let Some(leader) = leader {
        let liveness = leader.liveness.lock();
        for (client, row) in &mut clients {
            let silence = liveness.silence(*client, now).map(|silence| silence.as_millis());
            row.silent_ms = silence.and_then(|ms| u64::try_from(ms).ok());
        }
    }
    let next = clients.last().filter(|_| is_cut).map(|(client, _)| client.to_string());
    let clients = clients.into_iter().map(|(_, row)| row).collect();
    Ok(answer::json(StatusCode::OK, &Page { success: true, total, clients, next }))
}
