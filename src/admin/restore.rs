//! `/api/v1/restore`: how the newest restore ended, and on `POST` a restore.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use mooncake_ha_snapshot::{Outcome, RestoreReport, SnapshotId, Survival};
use serde::Serialize;
use serde_json::Value as Json;

use super::answer::Refused;
use super::remove::check_token;
use super::{Door, answer, query};
use crate::model::ErrorCode;
use crate::restore::{RestoreError, Wanted};
use crate::state::restore::{RestoreOutcome, RestoreRecord};

/// What is recorded of the newest restore.
#[derive(Serialize)]
struct Recorded {
    /// How it ended; absent if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<RestoreOutcome>,
    snapshot: Option<String>,
    /// When it was decided, and the instant that decided what survives; Unix milliseconds.
    at_ms: u64,
    now_ms: u64,
    report: Json,
    /// Restored segments whose clients have not come back.
    unclaimed_segments: Vec<String>,
    /// Bytes that the newest catalog snapshot keeps from being used again.
    guarded_bytes: u64,
    is_under_way: bool,
}

/// Answers on every node: the record is in the log.
pub async fn page(State(door): State<Arc<Door>>) -> Result<Response, Refused> {
    let recorded = door.node()?.look(|state| {
        let restore = state.restore();
        let record = restore.record();
        let text = |record: &RestoreRecord| serde_json::from_slice(&record.report.0).ok();
        Recorded {
            outcome: record.map(|record| record.outcome),
            snapshot: record.and_then(|record| record.snapshot.as_deref().map(str::to_owned)),
            at_ms: record.map_or(0, |record| record.at.0),
            now_ms: record.map_or(0, |record| record.now.0),
            report: record.and_then(text).unwrap_or(Json::Null),
            unclaimed_segments: restore.unclaimed().iter().map(ToString::to_string).collect(),
            guarded_bytes: state.discards().held_bytes(),
            is_under_way: restore.stage().is_some(),
        }
    });
    Ok(answer::json(StatusCode::OK, &recorded))
}

/// The answer to a restore. Losing everything is no success.
#[derive(Serialize)]
struct Answered {
    success: bool,
    dry_run: bool,
    report: RestoreReport,
    text: String,
}

/// Restores; `id` names a snapshot, `survival` the rule, `dry_run=true` changes nothing. The rule `complete`
/// asks for `yes=true`, since nobody but the operator can know that it is right.
pub async fn run(
    State(door): State<Arc<Door>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    check_token(&door.token, &headers)?;
    door.node()?;
    let off = || {
        let what = "there is no catalog; start with --enable_snapshot or --enable_snapshot_restore";
        Refused::Bad(what.into())
    };
    let restorer = Arc::clone(door.restorer.get().ok_or_else(off)?);
    let wanted = wanted(query.as_deref())?;
    // On a task of its own: an operator who goes away does not leave it half done.
    let restoring = tokio::spawn(async move { restorer.run(wanted).await });
    let done = restoring.await.map_err(|error| Refused::Unknown(error.to_string()))?;
    match done {
        Ok(report) => {
            let (success, text) = (report.outcome == Outcome::Restored, report.to_string());
            let dry_run = wanted.is_dry_run;
            Ok(answer::json(StatusCode::OK, &Answered { success, dry_run, report, text }))
        }
        Err(RestoreError::NotLeading) => Err(Refused::NotServing),
        Err(RestoreError::Refused(refused)) => {
            let code = ErrorCode::from(&refused);
            Ok(answer::error(answer::status_of(code), code, &refused.to_string()))
        }
        Err(RestoreError::Node(error)) => Err(error.into()),
        Err(error) => {
            tracing::error!("{error}");
            let (status, code) = (StatusCode::INTERNAL_SERVER_ERROR, ErrorCode::InternalError);
            Ok(answer::error(status, code, &error.to_string()))
        }
    }
}

fn wanted(query: Option<&str>) -> Result<Wanted, Refused> {
    let is_set = |name| matches!(query::text(query, name).as_deref(), Some("true" | "1"));
    let only = match query::text(query, "id") {
        None => None,
        Some(id) => {
            let bad = || Refused::Bad(format!("{id:?} is no snapshot id"));
            Some(SnapshotId::parse(&id).ok_or_else(bad)?)
        }
    };
    let survival = match query::text(query, "survival") {
        None => Survival::Rfc,
        Some(name) => name.parse().map_err(|error| Refused::Bad(format!("{error}")))?,
    };
    let is_dry_run = is_set("dry_run");
    if survival == Survival::Complete && !is_dry_run && !is_set("yes") {
        let what = "survival=complete keeps objects whose memory nobody has protected: right only if the \
                    clients left it untouched since the snapshot; say yes=true (--yes) if they did";
        return Err(Refused::Bad(what.into()));
    }
    Ok(Wanted { only, survival, is_dry_run })
}
