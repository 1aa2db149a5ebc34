//! The restore at a cluster's first start: no client is served before it is decided.
//!
//! Every node of the cluster waits; the one that leads restores. That it was decided is in the log, so a
//! restart, or another leader, does not do it again.

use std::time::Duration;

use mooncake_ha_snapshot as snapshot;
use snapshot::{Outcome, RestoreReport};

use super::{RestoreError, Restorer, Wanted, survival_of};
use crate::config::Config;
use crate::node::MasterNode;

/// Pause between two looks whether this node leads or the restore is decided.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// Why the node must not serve.
#[derive(Debug, thiserror::Error)]
pub enum FirstRestoreError {
    /// There are snapshots, and none can be restored.
    #[error(
        "--enable_snapshot_restore: no snapshot could be restored, and starting empty would let new \
         snapshots push the damaged ones out. Look at them with `mooncake-ha snapshot verify`, repair or \
         move them, or start once with --restore_or_empty (docs/operations.md#restore). {0}"
    )]
    AllFailed(RestoreReport),
    /// The catalog cannot be read.
    #[error("--enable_snapshot_restore: {0} (docs/operations.md#restore)")]
    Catalog(RestoreError),
}

/// Returns when the cluster may serve: something was restored, there was nothing, or it is not the first start.
///
/// Errors: by cause, see [`FirstRestoreError`]; the node should stop.
pub async fn before_serving(
    config: &Config,
    node: &MasterNode,
    restorer: &Restorer,
) -> Result<(), FirstRestoreError> {
    let wanted = Wanted { only: None, survival: survival_of(config), is_dry_run: false };
    loop {
        let is_decided =
            node.look(|state| state.restore().record().is_some() || state.expect_empty().is_err());
        if is_decided {
            return Ok(());
        }
        if node.leader().is_some() {
            match restorer.run(wanted).await {
                Ok(report) => settle(config, restorer, report).await?,
                Err(error @ RestoreError::Catalog(_)) => {
                    return Err(FirstRestoreError::Catalog(error));
                }
                // Leadership has moved on, or somebody was faster: look again.
                Err(error) => tracing::warn!(%error, "the restore is tried again"),
            }
        }
        tokio::time::sleep(LOOK_PAUSE).await;
    }
}

/// Records what the store itself cannot: that there was nothing, or that the operator wants to go on without.
async fn settle(
    config: &Config,
    restorer: &Restorer,
    report: RestoreReport,
) -> Result<(), FirstRestoreError> {
    match report.outcome {
        Outcome::Restored | Outcome::NothingSurvived => return Ok(()),
        Outcome::NoSnapshot => tracing::info!("there is no snapshot; the cluster starts empty"),
        Outcome::AllFailed if config.snapshot.restore_or_empty => {
            tracing::error!("no snapshot could be restored; --restore_or_empty: starting empty");
        }
        Outcome::AllFailed => return Err(FirstRestoreError::AllFailed(report)),
    }
    if let Err(error) = restorer.decide_empty(&report).await {
        tracing::warn!(%error, "that the cluster starts empty is decided again");
    }
    Ok(())
}
