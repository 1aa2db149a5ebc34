//! `/api/v1/tenant_quotas` in the peer's form: the quotas of tenants and what each is charged (behaviour 13.1).

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::{Deserialize, Serialize};

use super::answer::Refused;
use super::remove::check_token;
use super::{Door, answer, query};
use crate::config::QUOTA_BYTES_MAX;
use crate::model::{ErrorCode, Tenant};
use crate::node::MasterNode;
use crate::node::tenants::PolicyError;
use crate::state::tenants::Account;

#[derive(Serialize)]
struct Page<T> {
    success: bool,
    data: T,
}

#[derive(Serialize)]
struct Row {
    tenant_id: String,
    requested_quota_bytes: u64,
    effective_quota_bytes: u64,
    charged_bytes: u64,
    admission_closed: bool,
    over_quota: bool,
    has_explicit_policy: bool,
}

impl From<Account> for Row {
    fn from(account: Account) -> Self {
        Row {
            tenant_id: account.tenant.name().to_owned(),
            requested_quota_bytes: account.requested,
            effective_quota_bytes: account.effective,
            charged_bytes: account.usage.charged,
            admission_closed: !account.has_policy,
            over_quota: account.is_over_quota(),
            has_explicit_policy: account.has_policy,
        }
    }
}

fn page<T: Serialize>(data: T) -> Response {
    answer::json(StatusCode::OK, &Page { success: true, data })
}

impl From<PolicyError> for Refused {
    fn from(error: PolicyError) -> Self {
        match error {
            PolicyError::Refused(code) => code.into(),
            PolicyError::File(_) => Refused::Failed(error.to_string()),
            PolicyError::Node(error) => error.into(),
        }
    }
}

/// The node, if tenants are kept apart.
async fn open(door: &Door) -> Result<&MasterNode, Refused> {
    let (node, _) = door.leading().await?;
    match node.settings().tenants.is_enabled {
        true => Ok(node),
        false => Err(ErrorCode::UnavailableInCurrentMode.into()),
    }
}

/// The tenant that is to be changed.
fn named(query: Option<&str>) -> Result<Tenant, Refused> {
    let tenant = query::tenant(query, "tenant_id").ok().flatten();
    tenant.ok_or_else(|| Refused::Bad("Missing or invalid tenant_id".into()))
}

/// `GET /api/v1/tenant_quotas[?tenant_id=T]`.
pub async fn get(
    State(door): State<Arc<Door>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Refused> {
    let node = open(&door).await?;
    let tenant = query::tenant(query.as_deref(), "tenant_id")
        .map_err(|_| Refused::Bad("Invalid tenant_id".into()))?;
    match tenant {
        None => {
            let accounts = node.look(|state| state.accounts());
            Ok(page(accounts.into_iter().map(Row::from).collect::<Vec<_>>()))
        }
        Some(tenant) => {
            let account = node.look(|state| state.account(&tenant));
            Ok(page(Row::from(account.ok_or(ErrorCode::ObjectNotFound)?)))
        }
    }
}

#[derive(Deserialize)]
struct Asked {
    #[serde(default)]
    requested_quota_bytes: u64,
}

/// `PUT /api/v1/tenant_quotas?tenant_id=T` with `{"requested_quota_bytes":N}`.
pub async fn put(
    State(door): State<Arc<Door>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Refused> {
    check_token(&door.token, &headers)?;
    let node = open(&door).await?;
    let tenant = named(query.as_deref())?;
    let bad = |error| Refused::Bad(format!("Invalid JSON body: {error}"));
    let asked: Asked = serde_json::from_slice(&body).map_err(bad)?;
    let quota = asked.requested_quota_bytes;
    if !(1..=QUOTA_BYTES_MAX).contains(&quota) {
        return Err(Refused::Bad("Tenant quota must be in [1, 2^63 - 1] bytes".into()));
    }
    let account = node.set_policy(&tenant, quota).await?;
    tracing::info!(tenant = tenant.name(), quota, "an operator has set a quota");
    Ok(page(account.map(Row::from)))
}

/// `DELETE /api/v1/tenant_quotas?tenant_id=T`; refused while the tenant has objects.
pub async fn delete(
    State(door): State<Arc<Door>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    check_token(&door.token, &headers)?;
    let node = open(&door).await?;
    let tenant = named(query.as_deref())?;
    node.delete_policy(&tenant).await?;
    tracing::info!(tenant = tenant.name(), "an operator has taken a quota away");
    Ok(page(()))
}
