//! From a judged image to commands: completed, encoded, sent in parts, and taken over.

use mooncake_ha_snapshot as snapshot;
use snapshot::{Image, RestoreReport, SnapshotId};
use std::sync::Arc;
use tokio::task::JoinSet;

use super::{RestoreError, Restorer, aside, in_log, recorded};
use crate::model::{ClientId, Millis};
use crate::node::MasterNode;
use crate::node::error::NodeError;
use crate::state::Reply;
use crate::state::command::{Command, Key};
use crate::state::image::prepare;
use crate::state::restore::{
    PART_BYTES_MAX, RestoreBegin, RestoreFinish, RestorePart, RestoreRefused,
};

/// Parts that are proposed and not yet applied at most.
const PARTS_IN_FLIGHT_MAX: usize = 8;

/// An image in the form in which it goes through the log.
struct Encoded {
    bytes: Arc<Vec<u8>>,
    crc32: u32,
    leases_until: Millis,
    clients: Vec<ClientId>,
}

fn encode(image: Image, now: Millis) -> Result<Encoded, snapshot::SnapshotError> {
    let prepared = prepare(image, now)?;
    let payloads = snapshot::encode_image_on_two(&prepared.image)?;
    let (leases_until, clients) = (prepared.leases_until, prepared.clients);
    drop(prepared.image);
    let mut bytes = Vec::new();
    snapshot::write_container(&payloads, &mut bytes)?;
    let crc32 = crc32fast::hash(&bytes);
    Ok(Encoded { bytes: Arc::new(bytes), crc32, leases_until, clients })
}

impl Restorer {
    /// Has the store replaced by an image.
    ///
    /// Errors: `Refused(Damaged)` if this image cannot be taken over and another one may be; anything else
    /// ends the restore. No stage is left unless leadership is lost, and then the next leader removes it.
    pub(super) async fn send(
        &self,
        id: SnapshotId,
        image: Image,
        report: &RestoreReport,
        now: Millis,
    ) -> Result<(), RestoreError> {
        let damaged = |error: snapshot::SnapshotError| {
            RestoreError::Refused(RestoreRefused::Damaged(error.to_string()))
        };
        // The candidate may be later than the clock: its own time decided then.
        let decided_at = report.candidates.last().map_or(now.0, |candidate| candidate.now_ms);
        let now = now.max(Millis(decided_at));
        let Encoded { bytes, crc32, leases_until, clients } =
            aside(move || encode(image, now)).await?.map_err(damaged)?;
        // Their time to return begins now; a leader that has led for long would give them up at once.
        clients.iter().for_each(|client| self.node.hear(*client));
        let attempt = rand::random();
        let count = u32::try_from(bytes.len().div_ceil(PART_BYTES_MAX)).unwrap_or(u32::MAX);
        let snapshot = Arc::from(id.to_string());
        let begin = RestoreBegin { attempt, snapshot, now, parts: count, crc32 };
        let (outcome, report) = (recorded(report.outcome), in_log(report));
        let finish = RestoreFinish { attempt, leases_until, outcome, report };
        let done = self.take_over(begin, bytes, finish).await;
        if done.is_err() {
            // Best effort: a stage that stays is replaced by the next attempt or given up by the next leader.
            let _ = self.node.propose(&Command::RestoreAbort { attempt }).await;
        }
        clients.iter().for_each(|client| self.node.hear(*client));
        done
    }

    async fn take_over(
        &self,
        begin: RestoreBegin,
        bytes: Arc<Vec<u8>>,
        finish: RestoreFinish,
    ) -> Result<(), RestoreError> {
        let (attempt, crc32) = (begin.attempt, begin.crc32);
        step(self.node.clone(), Command::RestoreBegin(begin)).await?;
        // While the parts are on their way: on a node of two cores that hides most of it.
        let (node, image) = (self.node.clone(), Arc::clone(&bytes));
        let loading = move || node.machine().preload(attempt, crc32, &image);
        let loading = tokio::task::spawn_blocking(loading);
        let mut flights = JoinSet::new();
        for (number, bytes) in (0..).zip(bytes.chunks(PART_BYTES_MAX)) {
            if flights.len() >= PARTS_IN_FLIGHT_MAX {
                land(&mut flights).await?;
            }
            let part = RestorePart { attempt, number, bytes: Key(bytes.to_vec()) };
            flights.spawn(step(self.node.clone(), Command::RestorePart(part)));
        }
        while !flights.is_empty() {
            land(&mut flights).await?;
        }
        let loaded = loading.await.map_err(|e| RestoreError::Interrupted(e.to_string()))?;
        loaded.map_err(|e| RestoreError::Refused(RestoreRefused::Damaged(e.to_string())))?;
        step(self.node.clone(), Command::RestoreFinish(finish)).await
    }
}

async fn land(flights: &mut JoinSet<Result<(), RestoreError>>) -> Result<(), RestoreError> {
    match flights.join_next().await {
        None => Ok(()),
        Some(Ok(done)) => done,
        Some(Err(error)) => Err(RestoreError::Interrupted(error.to_string())),
    }
}

async fn step(node: MasterNode, command: Command) -> Result<(), RestoreError> {
    match node.propose(&command).await? {
        Reply::Restore(done) => done.map_err(RestoreError::Refused),
        other => Err(NodeError::OutcomeUnknown(format!("{other:?}")).into()),
    }
}
