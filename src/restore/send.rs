//! From a judged image to commands: completed, encoded, sent in parts, and taken over.

use mooncake_ha_snapshot as snapshot;
use snapshot::{Image, RestoreReport, SnapshotId};
use std::sync::Arc;
use tokio::task::{JoinHandle, JoinSet};

use super::build::both_ways;
use super::{RestoreError, Restorer, aside, in_log, recorded};
use crate::model::Millis;
use crate::node::MasterNode;
use crate::node::error::NodeError;
use crate::state::command::{Command, Key};
use crate::state::image::{ImageError, Prepared, prepare};
use crate::state::restore::{
    PART_BYTES_MAX, Preloaded, RestoreBegin, RestoreFinish, RestorePart, RestoreRefused,
};
use crate::state::{Reply, State};

/// Parts that are proposed and not yet applied at most.
const PARTS_IN_FLIGHT_MAX: usize = 8;

/// An image in the form in which it goes through the log, and the state that it makes, once it is there.
struct Built {
    bytes: Vec<u8>,
    crc32: u32,
    loading: JoinHandle<Result<State, ImageError>>,
}

/// Both are made side by side: on a node of two cores the one is there with the other.
async fn build(image: Image) -> Result<Built, RestoreError> {
    let (encoder, loader) = both_ways(image);
    let loading = tokio::task::spawn_blocking(|| loader.load());
    let encode = || {
        let bytes = encoder.encode()?;
        let crc32 = crc32fast::hash(&bytes);
        Ok::<_, snapshot::SnapshotError>((bytes, crc32))
    };
    let (bytes, crc32) = aside(encode).await?.map_err(damaged)?;
    Ok(Built { bytes, crc32, loading })
}

fn damaged(error: snapshot::SnapshotError) -> RestoreError {
    RestoreError::Refused(RestoreRefused::Damaged(error.to_string()))
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
        // The candidate may be later than the clock: its own time decided then.
        let decided_at = report.candidates.last().map_or(now.0, |candidate| candidate.now_ms);
        let now = now.max(Millis(decided_at));
        let prepared = aside(move || prepare(image, now)).await?.map_err(damaged)?;
        let Prepared { image, leases_until, clients } = prepared;
        let built = build(image).await?;
        // Their time to return begins now; a leader that has led for long would give them up at once.
        clients.iter().for_each(|client| self.node.hear(*client));
        let attempt = rand::random();
        let parts = built.bytes.len().div_ceil(PART_BYTES_MAX);
        let parts = u32::try_from(parts).unwrap_or(u32::MAX);
        let snapshot = Arc::from(id.to_string());
        let begin = RestoreBegin { attempt, snapshot, now, parts, crc32: built.crc32 };
        let (outcome, report) = (recorded(report.outcome), in_log(report));
        let finish = RestoreFinish { attempt, leases_until, outcome, report };
        let done = self.take_over(begin, built, finish).await;
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
        built: Built,
        finish: RestoreFinish,
    ) -> Result<(), RestoreError> {
        let (attempt, Built { bytes, crc32, loading }) = (begin.attempt, built);
        step(self.node.clone(), Command::RestoreBegin(begin)).await?;
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
        drop(bytes);
        let loaded = loading.await.map_err(|e| RestoreError::Interrupted(e.to_string()))?;
        let damaged = |e: ImageError| RestoreRefused::Damaged(e.to_string());
        let state = loaded.map_err(|e| RestoreError::Refused(damaged(e)))?;
        self.node.machine().preload(Preloaded { attempt, crc32, state });
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
