//! What the log is told of catalog snapshots, so that what one could bring back is not written over.
//!
//! Whoever takes a snapshot announces it, waits for the answer, freezes the state after that, and tells when it
//! is published. Without the second word everything that is freed stays guarded as if it had been: a leader may
//! have died between the two.

use super::MasterNode;
use super::error::NodeError;
use crate::state::Reply;
use crate::state::command::Command;
use crate::state::guard::Published;

impl MasterNode {
    /// Announces a snapshot whose state is frozen after this; answers its generation.
    ///
    /// Errors: this node does not lead, or nothing is known of the answer.
    pub async fn begin_snapshot(&self) -> Result<u64, NodeError> {
        match self.propose(&Command::SnapshotBegin).await? {
            Reply::Generation(generation) => Ok(generation),
            other => Err(NodeError::OutcomeUnknown(format!("{other:?}"))),
        }
    }

    /// Tells that the snapshot of a generation can be restored; `next_replica_id` is that of the frozen state.
    ///
    /// Errors: as for [`MasterNode::begin_snapshot`].
    pub async fn snapshot_published(
        &self,
        generation: u64,
        next_replica_id: u64,
    ) -> Result<(), NodeError> {
        let told = Published { generation, next_replica_id };
        self.propose(&Command::SnapshotPublished(told)).await.map(|_| ())
    }

    /// The restore that an earlier leader has begun and not ended.
    pub(super) fn unfinished_restore(&self) -> Option<u64> {
        self.look(|state| state.restore().stage().map(|stage| stage.begin.attempt))
    }

    /// Gives a restore up that an earlier leader has begun; its leader, or an operator, begins again.
    pub(super) async fn abort_restore(&self, attempt: u64) {
        tracing::warn!(attempt, "a restore of an earlier leader was not finished; it is given up");
        if let Err(error) = self.propose(&Command::RestoreAbort { attempt }).await {
            // The next leader finds it again.
            tracing::warn!(%error, "the unfinished restore stays for the next leader");
        }
    }
}
