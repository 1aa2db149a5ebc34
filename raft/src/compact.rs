//! When the log becomes a raft snapshot, and how much of it goes afterwards.
//!
//! Guards: one raft snapshot at a time; entries go on being applied while it is written; a failed
//! attempt is shown and tried again, it never stops the node; the log is purged only behind a
//! raft snapshot that is on disk. Leaves to `snapshot_file.rs` the file.
//!
//! Policy: after `max(snapshot_log_bytes, size of the last raft snapshot)` bytes of log, at most
//! `8 x snapshot_log_bytes`, so that writing the state costs no more than writing the log did.

use std::sync::Arc;
use std::time::Duration;

use openraft::Raft;
use openraft::base::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use crate::adapter::{Adapter, Applied};
use crate::config::Config;
use crate::log::LogStore;
use crate::machine::SaveFn;
use crate::snapshot_file::SnapshotDir;
use crate::types::{SnapshotMeta, TypeConfig};

/// How often the size of the log is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// Pause after a failed attempt: the disk is probably full, and each attempt costs a state.
const RETRY: Duration = Duration::from_secs(30);
/// The log may outgrow `snapshot_log_bytes` by this factor when the state is large.
const LARGEST: u64 = 8;

/// What is answered to who asked for a raft snapshot: the index it reaches, or why not.
pub(crate) type Answer = oneshot::Sender<Result<Option<u64>, String>>;

/// See the file's head.
pub(crate) struct Compactor {
    pub(crate) raft: Raft<TypeConfig, Adapter>,
    pub(crate) log: LogStore,
    pub(crate) applied: Arc<Applied>,
    pub(crate) dir: SnapshotDir,
    pub(crate) snapshot_log_bytes: u64,
    pub(crate) log_keep_bytes: u64,
    /// Why the last attempt failed.
    pub(crate) error: Arc<Mutex<Option<String>>>,
}

impl Compactor {
    pub(crate) fn new(
        config: &Config,
        raft: Raft<TypeConfig, Adapter>,
        log: LogStore,
        applied: Arc<Applied>,
        dir: SnapshotDir,
    ) -> Self {
        Self {
            raft,
            log,
            applied,
            dir,
            snapshot_log_bytes: config.snapshot_log_bytes,
            log_keep_bytes: config.log_keep_bytes,
            error: Arc::new(Mutex::new(None)),
        }
    }

    /// Runs until the node drops its side of `asked`.
    pub(crate) async fn run(self, mut asked: mpsc::Receiver<Answer>) {
        let mut pause = LOOK;
        loop {
            match tokio::time::timeout(pause, asked.recv()).await {
                Ok(None) => return,
                Ok(Some(answer)) => {
                    // Nobody waits any more: fine.
                    let _ = answer.send(self.attempt().await);
                    pause = LOOK;
                }
                Err(_) if self.is_due() => {
                    pause = if self.attempt().await.is_ok() { LOOK } else { RETRY };
                }
                Err(_) => pause = LOOK,
            }
        }
    }

    fn is_due(&self) -> bool {
        let current = self.applied.current().file;
        let covered = current.as_ref().and_then(|file| file.meta.last_log_id).map(|id| id.index);
        let size = current.map_or(0, |file| file.bytes);
        let most = self.snapshot_log_bytes.saturating_mul(LARGEST);
        let limit = self.snapshot_log_bytes.max(size).min(most);
        self.applied.index() > covered && self.log.bytes_after(covered) >= limit
    }

    async fn attempt(&self) -> Result<Option<u64>, String> {
        let result = self.compact().await;
        if let Err(reason) = &result {
            tracing::error!("raft snapshot was not made: {reason}; the log grows until one is");
        }
        *self.error.lock() = result.as_ref().err().cloned();
        result
    }

    async fn compact(&self) -> Result<Option<u64>, String> {
        let frozen = self.raft.with_state_machine(freeze).await;
        let (meta, save) = frozen.map_err(|e| e.to_string())?;
        let Some(last) = meta.last_log_id else { return Ok(None) };
        let covered = self.applied.current().file.and_then(|file| file.meta.last_log_id);
        if covered != Some(last) {
            let dir = self.dir.clone();
            let write = self.dir.world.behind(move || dir.write(&meta, save));
            let file = write.await?.map_err(|e| e.to_string())?;
            self.applied.set_current(file);
            self.raft.trigger().snapshot().await.map_err(|e| e.to_string())?;
        }
        self.purge().await?;
        Ok(Some(last.index))
    }

    /// Lets go of log behind the raft snapshot that openraft knows of.
    async fn purge(&self) -> Result<(), String> {
        let Some(file) = self.applied.current().file else { return Ok(()) };
        let Some(covered) = file.meta.last_log_id else { return Ok(()) };
        let known = Some(Duration::from_secs(10));
        self.raft
            .wait(known)
            .metrics(|m| m.snapshot >= Some(covered), "openraft knows of the raft snapshot")
            .await
            .map_err(|e| e.to_string())?;
        let Some(point) = self.log.purge_point(self.log_keep_bytes) else { return Ok(()) };
        let upto = point.min(covered.index);
        self.raft.trigger().purge_log(upto).await.map_err(|e| e.to_string())
    }
}

/// Runs between two entries, in the state machine's worker.
fn freeze(adapter: &mut Adapter) -> BoxFuture<'_, (SnapshotMeta, SaveFn)> {
    Box::pin(std::future::ready(adapter.freeze()))
}
