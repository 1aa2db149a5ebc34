//! `GET /api/v1/objects`: the objects of the store, a page at a time. Grants no lease, counts no hit.
//!
//! Shards are walked in order and the objects of one in the order of tenant and key, so a page goes on where the
//! one before ended although objects come and go: what stays is listed once. Each shard is locked for as long as
//! its keys take to copy, and a page ends early when it has looked at very many objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;

use super::answer::Refused;
use super::{Door, answer, query};
use crate::model::ids::SHARD_COUNT;
use crate::model::{Object, ReplicaKind, Tenant, TenantIdx};
use crate::node::MasterNode;
use crate::state::view::Directory;

/// Objects of a page if the request does not say how many.
const OBJECTS_LISTED: usize = 100;

/// Objects of a page at most; a larger limit means this one.
const OBJECTS_LISTED_MAX: usize = 10_000;

/// Objects that one page looks at, at most a shard more: with a rare prefix a page may have fewer than asked.
const LOOKS_MAX: usize = 200_000;

#[derive(Serialize)]
struct Page {
    success: bool,
    objects: Vec<Row>,
    /// What to send as `after` for the next page; `null` on the last one.
    next: Option<String>,
}

#[derive(Serialize)]
struct Row {
    tenant: String,
    key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_encoded: Option<String>,
    size: u64,
    is_readable: bool,
    memory_replicas: usize,
    disk_replicas: usize,
    hard_pin: bool,
    /// Committed deadline.
    soft_pin_ms: Option<u64>,
}

/// Where a page begins: behind this object of this shard, or at its first one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Cursor {
    shard: usize,
    behind: Option<(String, Vec<u8>)>,
}

impl Cursor {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, '.');
        let shard = parts.next()?.parse().ok().filter(|shard| *shard < SHARD_COUNT)?;
        let behind = match (parts.next(), parts.next()) {
            (Some(tenant), Some(key)) => {
                Some((String::from_utf8(hex_decode(tenant)?).ok()?, hex_decode(key)?))
            }
            (None, None) => None,
            _ => return None,
        };
        Some(Cursor { shard, behind })
    }

    fn text(&self) -> String {
        match &self.behind {
            Some((tenant, key)) => {
                format!("{}.{}.{}", self.shard, hex(tenant.as_bytes()), hex(key))
            }
            None => self.shard.to_string(),
        }
    }
}

/// Hexadecimal digits: they need no encoding in a query, whatever the key is.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn hex_decode(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    if rest.is_empty() { pairs.iter().map(byte).collect() } else { None }
}

/// Which objects are wanted.
struct Wanted {
    /// `None` for those of every tenant.
    tenant: Option<Tenant>,
    prefix: Vec<u8>,
    limit: usize,
}

/// `GET /api/v1/objects[?tenant=T&prefix=P&limit=N&after=NEXT]`.
pub async fn objects(
    State(door): State<Arc<Door>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Refused> {
    let query = query.as_deref();
    let wanted = Wanted {
        tenant: query::tenant(query, "tenant")?,
        prefix: query::raw(query, "prefix").map(query::plain).unwrap_or_default(),
        limit: query::number(query, "limit")?.unwrap_or(OBJECTS_LISTED).min(OBJECTS_LISTED_MAX),
    };
    let after = match query::raw(query, "after").filter(|text| !text.is_empty()) {
        Some(text) => Cursor::parse(text)
            .ok_or_else(|| Refused::Bad("after is not the next of an earlier page".into()))?,
        None => Cursor::default(),
    };
    let (node, guard) = door.leading().await?;
    let directory = guard.directory().clone();
    drop(guard);
    let (objects, next) = collect(node, &directory, &wanted, after).await;
    let next = next.map(|cursor| cursor.text());
    Ok(answer::json(StatusCode::OK, &Page { success: true, objects, next }))
}

/// The rows of a page and where the next one begins.
async fn collect(
    node: &MasterNode,
    directory: &Directory,
    wanted: &Wanted,
    mut at: Cursor,
) -> (Vec<Row>, Option<Cursor>) {
    let tenants = node.look(|state| match &wanted.tenant {
        None => state.tenants().map(|(tenant, index)| (index, tenant.clone())).collect(),
        Some(tenant) => {
            let index = state.tenant_idx(Some(tenant));
            index.map(|index| (index, tenant.clone())).into_iter().collect::<BTreeMap<_, _>>()
        }
    });
    let (mut rows, mut looks) = (Vec::new(), 0);
    while at.shard < SHARD_COUNT {
        if looks >= LOOKS_MAX || rows.len() >= wanted.limit {
            return (rows, Some(at));
        }
        let (seen, mut found) = look_shard(node, directory, wanted, &tenants, &at);
        looks += seen;
        found.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let room = wanted.limit - rows.len();
        let is_cut = found.len() > room;
        found.truncate(room);
        if is_cut {
            let behind = found.last().map(|(name, _)| name.clone()).or(at.behind);
            rows.extend(found.into_iter().map(|(_, row)| row));
            return (rows, Some(Cursor { shard: at.shard, behind }));
        }
        rows.extend(found.into_iter().map(|(_, row)| row));
        at = Cursor { shard: at.shard + 1, behind: None };
        tokio::task::yield_now().await;
    }
    (rows, None)
}

type Named = ((String, Vec<u8>), Row);

/// How many objects a shard has, and the wanted ones behind the cursor.
fn look_shard(
    node: &MasterNode,
    directory: &Directory,
    wanted: &Wanted,
    tenants: &BTreeMap<TenantIdx, Tenant>,
    at: &Cursor,
) -> (usize, Vec<Named>) {
    let choose = |object: &Object| {
        let tenant = tenants.get(&object.tenant)?;
        let is_behind = at.behind.as_ref().is_none_or(|(name, key)| {
            (tenant.name(), &*object.key) > (name.as_str(), key.as_slice())
        });
        let is_wanted = is_behind && object.key.starts_with(&wanted.prefix);
        is_wanted.then(|| {
            ((tenant.name().to_owned(), object.key.to_vec()), row(tenant, object, directory))
        })
    };
    let table = &node.machine().view().table;
    let found = table
        .look_shard(at.shard, |shard| (shard.len(), shard.objects().filter_map(choose).collect()));
    found.unwrap_or_default()
}

fn row(tenant: &Tenant, object: &Object, directory: &Directory) -> Row {
    let (key, key_encoded) = query::shown(&object.key);
    let count = |kind| object.complete_count(kind);
    Row {
        tenant: tenant.name().to_owned(),
        key,
        key_encoded,
        size: object.size,
        is_readable: directory.is_readable(object),
        memory_replicas: count(ReplicaKind::Memory),
        disk_replicas: count(ReplicaKind::Disk) + count(ReplicaKind::LocalDisk),
        hard_pin: object.is_hard_pinned,
        soft_pin_ms: object.pin().map(|deadline| deadline.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_survives_its_text_and_anything_else_is_refused() {
        let behind = Some(("a/b".to_owned(), vec![0, 0xff, b'.']));
        for cursor in [Cursor::default(), Cursor { shard: 1023, behind }] {
            assert_eq!(Cursor::parse(&cursor.text()), Some(cursor));
        }
        for bad in ["", "x", "1024", "7.61", "7.6.61", "7.61.zz", "7.ff.61"] {
            assert_eq!(Cursor::parse(bad), None, "{bad}");
        }
    }
}
