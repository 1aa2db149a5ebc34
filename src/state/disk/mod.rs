//! The tiers below memory (behaviour 10): clients' own disks, the shared directory, and the way between a
//! disk and memory.
//!
//! *Replicated*: which clients have a disk, which of their files are given up, every offload and promotion
//! from its wish to its end. So a new leader hands out what the old one did not, and what the old one handed
//! out ends by its report or by the release timeout. *Derived*: which object a client's file belongs to.
//! *Leader-local* (`leader::promotion`): how often an object is read. None of it starts, moves or clears a
//! soft pin; only the End of a write does, be it of a file under the shared directory.

mod check;
pub mod command;
mod evict;
mod jobs;
mod lost;
pub mod offload;
pub mod promotion;
pub mod registry;
mod report;
mod shared;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::State;
use super::reply::Reply;
use crate::alloc::Rng;
use crate::model::{ClientId, Millis, ObjectRef, ReplicaId};
use command::{TierCommand, TierReply};
use jobs::Jobs;
use offload::Offload;
use promotion::Promotion;
use registry::Disks;

pub(super) use check::local_file;

/// Counts of promotions that survive restarts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TierCounters {
    /// Promotions that were given to a disk's client.
    pub admitted: u64,
    /// Objects that came back to memory.
    pub completed: u64,
    /// Bytes of them.
    pub completed_bytes: u64,
    /// Promotions that took longer than the release timeout.
    pub expired: u64,
    /// Promotions that the client could not do.
    pub failed: u64,
    /// Promotions whose object or whose memory went.
    pub cancelled: u64,
}

/// Everything about disks.
#[derive(Clone, Debug, Default)]
pub struct Tiers {
    /// Replicated. The clients with a disk.
    pub(super) disks: Disks,
    /// Replicated. Clients whose files up to a replica number are given up; dropped in steps.
    pub(super) lost: BTreeMap<ClientId, ReplicaId>,
    /// Replicated. Objects on their way to a disk.
    pub(super) offloads: Jobs<Offload>,
    /// Replicated. Objects on their way back.
    pub(super) promotions: Jobs<Promotion>,
    /// Replicated.
    pub(super) counters: TierCounters,
    /// Derived. Invariant: the LOCAL_DISK replica of every object, by client; its number orders it the same
    /// on every node.
    pub(super) files: BTreeMap<(ClientId, ReplicaId), ObjectRef>,
}

impl Tiers {
    /// The clients with a disk.
    pub fn disks(&self) -> &Disks {
        &self.disks
    }

    /// Objects on their way to a disk.
    pub fn offloads(&self) -> &Jobs<Offload> {
        &self.offloads
    }

    /// Objects on their way back to memory.
    pub fn promotions(&self) -> &Jobs<Promotion> {
        &self.promotions
    }

    /// Counts that survive restarts.
    pub fn counters(&self) -> &TierCounters {
        &self.counters
    }

    /// Clients whose files are being given up.
    pub fn lost(&self) -> impl Iterator<Item = ClientId> {
        self.lost.keys().copied()
    }

    /// Objects that have a file on the disk of each client that has any.
    pub fn files_by_client(&self) -> BTreeMap<ClientId, u64> {
        let mut files = BTreeMap::new();
        for (client, _) in self.files.keys() {
            *files.entry(*client).or_default() += 1;
        }
        files
    }

    /// When the oldest offload or promotion began.
    pub fn oldest(&self) -> Option<Millis> {
        let offload = self.offloads.first().map(|(_, offload)| offload.started);
        let promotion = self.promotions.first().map(|(_, promotion)| promotion.started);
        offload.into_iter().chain(promotion).min()
    }

    /// A file came, went or changed hands.
    pub(super) fn settle_file(
        &mut self,
        object: ObjectRef,
        before: Option<(ClientId, ReplicaId)>,
        after: Option<(ClientId, ReplicaId)>,
    ) {
        if before == after {
            return;
        }
        if let Some(before) = before {
            self.files.remove(&before);
        }
        if let Some(after) = after {
            self.files.insert(after, object);
        }
    }

    /// Takes over from the empty store that a restore replaces: disks whose clients have reported.
    pub(super) fn after_restore(&mut self, before: &mut Tiers) {
        self.disks = std::mem::take(&mut before.disks);
        self.counters = before.counters;
    }
}

impl State {
    /// Everything about disks.
    pub fn tiers(&self) -> &Tiers {
        &self.tiers
    }

    pub(super) fn tier(&mut self, command: &TierCommand, rng: &mut Rng) -> Reply {
        match command {
            TierCommand::MountDisk { client, is_enabled } => {
                self.mount_disk(*client, *is_enabled);
                Reply::Outcome(Ok(()))
            }
            TierCommand::UnmountDisk { client } => {
                self.unmount_disk(*client);
                Reply::Outcome(Ok(()))
            }
            TierCommand::ReportCapacity { client, bytes } => {
                Reply::Outcome(self.tiers.disks.set_capacity(*client, *bytes))
            }
            TierCommand::WipeDisks { clients } => {
                clients.iter().for_each(|client| self.tiers.disks.ask_wipe(*client));
                Reply::Done
            }
            TierCommand::TakeWipe { client } => {
                Reply::Tier(TierReply::Wipe(self.tiers.disks.take_wipe(*client)))
            }
            TierCommand::DropLost { client, files_max } => {
                Reply::Drained { is_finished: self.drop_lost(*client, *files_max) }
            }
            TierCommand::EvictFiles(evict) => Reply::Results(self.evict_files(evict)),
            TierCommand::PutStart(put) => Reply::Starts(self.put_start_with_file(put, rng)),
            TierCommand::PutEnd(put) => Reply::Results(self.put_end_with_offload(put)),
            TierCommand::Evict(evict) => Reply::Tier(TierReply::Evicted(self.evict_to_disk(evict))),
            TierCommand::OffloadFetch(fetch) => {
                Reply::Tier(TierReply::Offloads(self.fetch_offloads(fetch)))
            }
            TierCommand::OffloadDone(report) => Reply::Outcome(self.offload_done(report)),
            TierCommand::Promote(wishes) => {
                Reply::Tier(TierReply::Admissions(self.admit_promotions(wishes)))
            }
            TierCommand::PromotionFetch { client, items_max } => {
                Reply::Tier(TierReply::Promotions(self.fetch_promotions(*client, *items_max)))
            }
            TierCommand::PromotionStart(start) => {
                Reply::Tier(TierReply::Staged(self.promotion_start(start, rng)))
            }
            TierCommand::PromotionEnd(end) => Reply::Outcome(self.promotion_end(end)),
        }
    }

    /// An object is gone: what was to be done with it will not be.
    pub(super) fn forget_tiers(&mut self, object: ObjectRef) {
        self.tiers.offloads.remove(object);
        if self.tiers.promotions.remove(object).is_some() {
            self.tiers.counters.cancelled += 1;
        }
    }

    /// Ends up to `items_max` offloads and as many promotions that are older than the release timeout.
    /// Returns how many.
    pub(super) fn sweep_tiers(&mut self, items_max: u32, release_timeout_ms: u64) -> u64 {
        let clock = self.clock;
        let is_due = |started: Millis| started.0.saturating_add(release_timeout_ms) <= clock.0;
        let mut dropped = 0;
        for _ in 0..items_max {
            let Some((object, offload)) = self.tiers.offloads.first() else { break };
            if !is_due(offload.started) {
                break;
            }
            self.release_offload(object);
            dropped += 1;
        }
        for _ in 0..items_max {
            let Some((object, promotion)) = self.tiers.promotions.first() else { break };
            if !is_due(promotion.started) {
                break;
            }
            self.expire_promotion(object, release_timeout_ms);
            dropped += 1;
        }
        dropped
    }
}
