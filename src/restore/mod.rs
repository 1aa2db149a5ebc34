//! A cold restore of the running cluster from its catalog: at its first start, or when an operator asks.
//!
//! The leader tries candidates from newest to oldest and sends the first good one through the log
//! (`state::restore`). Guards that only one restore runs at a time, that only an empty store is replaced, that
//! one instant decides everything, and that the report hides nothing. What survives is decided in the snapshot
//! crate; what a snapshot is, in `docs/snapshot.md`.

mod build;
mod first;
mod send;

use std::sync::Arc;

use mooncake_ha_snapshot as snapshot;
use serde::Serialize;
use snapshot::{Catalog, Outcome, RestoreOptions, RestoreReport, SnapshotId, Survival, Trial};
use tokio::sync::Mutex;

pub use first::{FirstRestoreError, before_serving};

use crate::config::{Config, RestoreSurvival};
use crate::node::MasterNode;
use crate::node::error::NodeError;
use crate::state::command::{Command, Key};
use crate::state::restore::{REPORT_BYTES_MAX, RestoreDecide, RestoreOutcome, RestoreRefused};

/// What is to be restored.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Only this snapshot; else the newest that can be restored.
    pub only: Option<SnapshotId>,
    /// Which objects survive.
    pub survival: Survival,
    /// Judge, and change nothing.
    pub is_dry_run: bool,
}

/// Why nothing was restored although somebody asked.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// This node does not lead.
    #[error("this node does not lead; only the leader restores")]
    NotLeading,
    /// The store is in use, or the attempt was given up.
    #[error(transparent)]
    Refused(RestoreRefused),
    /// The catalog cannot be read at all.
    #[error("the catalog cannot be read: {0}; nothing was restored")]
    Catalog(#[from] snapshot::store::StoreError),
    /// The log did not take it.
    #[error("the restore was not finished: {0}; it is given up, ask again")]
    Node(#[from] NodeError),
    /// The process is stopping, or a thread failed.
    #[error("the restore was interrupted: {0}")]
    Interrupted(String),
}

/// Restores one node's cluster from one catalog.
pub struct Restorer {
    node: MasterNode,
    catalog: Arc<Catalog>,
    /// Held while one runs.
    turn: Mutex<()>,
}

impl Restorer {
    /// Nothing runs yet.
    pub fn new(catalog: Catalog, node: MasterNode) -> Self {
        Restorer { node, catalog: Arc::new(catalog), turn: Mutex::default() }
    }

    /// Tries candidates until the store has taken one over; answers what became of all of them.
    ///
    /// Must run to its end once begun: spawn it if the caller may go.
    ///
    /// Errors: by cause, see [`RestoreError`]. That no candidate is good is no error but an outcome.
    pub async fn run(&self, wanted: Wanted) -> Result<RestoreReport, RestoreError> {
        let _turn = self.turn.lock().await;
        let started = self.node.clock().monotonic();
        if self.node.leader().is_none() {
            return Err(RestoreError::NotLeading);
        }
        if !wanted.is_dry_run {
            self.node.look(|state| state.expect_empty()).map_err(RestoreError::Refused)?;
        }
        let now = self.node.clock().now(self.node.machine().view().clock());
        let options =
            RestoreOptions { now_ms: now.0, survival: wanted.survival, only: wanted.only };
        if wanted.survival == Survival::Complete {
            tracing::warn!(
                "restore_survival=complete: objects are kept on the operator's word that clients left \
                 their memory untouched since the snapshot"
            );
        }
        let catalog = Arc::clone(&self.catalog);
        let mut trial = aside(move || Trial::new(catalog, options)).await??;
        loop {
            // Reading and judging take a core for a while, so they happen beside the runtime.
            let (back, good) = aside(move || {
                let good = trial.next_good();
                (trial, good)
            })
            .await?;
            trial = back;
            let Some((id, image)) = good else { break };
            if wanted.is_dry_run {
                break;
            }
            match self.send(id, image, trial.report(), now).await {
                Ok(()) => break,
                // The store did not take this one; an older one may be sound.
                Err(RestoreError::Refused(RestoreRefused::Damaged(why))) => trial.refuse(why),
                Err(error) => return Err(error),
            }
        }
        let report = trial.report().clone();
        let took = self.node.clock().monotonic().saturating_sub(started);
        let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        match report.outcome {
            Outcome::Restored => tracing::info!(took_ms, "{report}"),
            _ => tracing::warn!(took_ms, "{report}"),
        }
        Ok(report)
    }

    /// Records that the cluster starts empty, and why.
    ///
    /// Errors: the log did not take it.
    pub async fn decide_empty(&self, report: &RestoreReport) -> Result<(), NodeError> {
        let now = self.node.clock().now(self.node.machine().view().clock());
        let (outcome, report) = (recorded(report.outcome), in_log(report));
        let decide = RestoreDecide { outcome, now, report };
        self.node.propose(&Command::RestoreDecide(decide)).await.map(|_| ())
    }
}

/// Runs work that blocks.
async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, RestoreError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| RestoreError::Interrupted(error.to_string()))
}

/// The survival rule of the configuration.
pub fn survival_of(config: &Config) -> Survival {
    match config.snapshot.survival {
        RestoreSurvival::Rfc => Survival::Rfc,
        RestoreSurvival::Lease => Survival::Lease,
        RestoreSurvival::Complete => Survival::Complete,
    }
}

fn recorded(outcome: Outcome) -> RestoreOutcome {
    match outcome {
        Outcome::Restored => RestoreOutcome::Restored,
        Outcome::NothingSurvived => RestoreOutcome::NothingSurvived,
        Outcome::NoSnapshot => RestoreOutcome::NoSnapshot,
        Outcome::AllFailed => RestoreOutcome::AllFailed,
    }
}

/// The report as it goes into the log: findings cut short.
fn in_log(report: &RestoreReport) -> Key {
    #[derive(Serialize)]
    struct Brief {
        outcome: Outcome,
        survival: Survival,
        untold: &'static str,
    }
    let text = serde_json::to_vec(&report.shortened()).unwrap_or_default();
    if !text.is_empty() && text.len() <= REPORT_BYTES_MAX {
        return Key(text);
    }
    let untold = "the report is too large for the log; see that of the node that restored";
    let brief = Brief { outcome: report.outcome, survival: report.survival, untold };
    Key(serde_json::to_vec(&brief).unwrap_or_default())
}
