//! The leader's part in the tiers: which commands they change, which objects come back to memory, which files
//! are still to be dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::MasterNode;
use super::error::NodeError;
use super::settings::TierSettings;
use crate::leader::promotion::{Remembered, Wish};
use crate::model::{ClientId, Descriptor, Location, Tenant};
use crate::state::Reply;
use crate::state::command::{Command, KEYS_PER_COMMAND_MAX, Key};
use crate::state::disk::command::{
    Admission, EndWithOffload, EvictToDisk, Promote, PutWithFile, TierCommand, TierReply,
};
use crate::state::evict::Evict;

/// How often wishes for promotions are looked at.
pub(super) const PROMOTION_INTERVAL: Duration = Duration::from_millis(10);

/// How often files of clients that are gone are looked for.
pub(super) const LOST_FILES_INTERVAL: Duration = Duration::from_millis(50);

/// Files that one command drops: other commands wait behind it.
const FILES_PER_STEP: u32 = 512;

/// Wishes that are looked at in one go.
const WISHES_PER_GO: usize = if KEYS_PER_COMMAND_MAX < 128 { KEYS_PER_COMMAND_MAX } else { 128 };

/// Counts of this process's promotions, for metrics.
#[derive(Debug, Default)]
pub struct PromotionStats {
    /// Reads of objects that were not read often enough.
    pub rejected_frequency: AtomicU64,
    /// Wishes while memory was too full.
    pub rejected_watermark: AtomicU64,
    /// Wishes while too many were under way.
    pub rejected_cap: AtomicU64,
    /// Wishes that were remembered.
    pub recorded: AtomicU64,
    /// Remembered ones that were granted.
    pub candidates_admitted: AtomicU64,
    /// Remembered ones that were given up or had become needless.
    pub candidates_rejected: AtomicU64,
    /// Remembered ones whose time was over after some tries.
    pub expired_tried: AtomicU64,
    /// Remembered ones whose time was over before any.
    pub expired_untried: AtomicU64,
    /// Wishes that were not remembered because too many were.
    pub dropped_limit: AtomicU64,
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

impl TierSettings {
    /// The command of a write as this deployment has it: with a file, or with an offload after it.
    pub fn of_write(&self, command: Command) -> Command {
        let queue_max = self.offload_queue_max;
        let with_file = |start, is_upsert, directory: &Arc<str>| {
            let directory = Arc::clone(directory);
            Command::Tier(TierCommand::PutStart(PutWithFile { start, is_upsert, directory }))
        };
        match (command, &self.directory) {
            (Command::PutStart(start), Some(directory)) => with_file(start, false, directory),
            (Command::UpsertStart(start), Some(directory)) => with_file(start, true, directory),
            (Command::PutEnd(end), _) if self.is_offload_enabled && !self.offload_on_evict => {
                Command::Tier(TierCommand::PutEnd(EndWithOffload { end, queue_max }))
            }
            (other, _) => other,
        }
    }

    /// The command of an eviction, which may queue so many objects for disks.
    pub(super) fn of_eviction(&self, evict: Evict, queued_max: u64) -> Command {
        if !self.evicts_to_disk() {
            return Command::Evict(evict);
        }
        Command::Tier(TierCommand::Evict(EvictToDisk {
            evict,
            queue_max: self.offload_queue_max,
            queued_max,
            is_forced: self.offload_force_evict,
        }))
    }

    /// Whether eviction goes by way of a disk.
    pub(super) fn evicts_to_disk(&self) -> bool {
        self.is_offload_enabled && self.offload_on_evict
    }

    /// Objects that one pass of eviction may queue. Without force there is nothing else to do with them, so
    /// only the queues themselves are a limit.
    pub(super) fn queued_per_pass(&self) -> u64 {
        if self.offload_force_evict { self.offload_cap } else { u64::MAX }
    }
}

impl MasterNode {
    /// Counts of promotions.
    pub fn promotion_stats(&self) -> &PromotionStats {
        &self.inner.promotions
    }

    /// Takes note of a read that found these replicas.
    pub fn note_read(&self, tenant: &Tenant, key: &[u8], found: &[Descriptor]) {
        self.note_heat(tenant, key, found);
        let Some(rules) = self.settings().tiers.promotion else { return };
        let is_memory = |d: &Descriptor| matches!(d.location, Location::Memory { .. });
        let is_local = |d: &Descriptor| matches!(d.location, Location::LocalDisk { .. });
        if found.iter().any(is_memory) || !found.iter().any(is_local) {
            return;
        }
        let Some(leader) = self.leader() else { return };
        if !leader.promotions.lock().hit(tenant, key, rules.threshold) {
            add(&self.promotion_stats().rejected_frequency, 1);
        }
    }

    /// Grants the wishes whose turn it is.
    pub(crate) async fn promote_wished(&self) -> Result<(), NodeError> {
        let (Some(rules), Some(leader)) = (self.settings().tiers.promotion, self.leader()) else {
            return Ok(());
        };
        let now = self.clock().monotonic();
        let due = leader.promotions.lock().take(now, WISHES_PER_GO);
        let stats = self.promotion_stats();
        add(&stats.expired_tried, due.expired_tried);
        add(&stats.expired_untried, due.expired_untried);
        if due.wishes.is_empty() {
            return Ok(());
        }
        let (used, capacity) = self.look(|state| state.segments().memory_usage());
        if self.settings().eviction.is_above(used, capacity) {
            add(&stats.rejected_watermark, due.wishes.len() as u64);
            due.wishes.into_iter().for_each(|wish| self.remember(wish, now));
            return Ok(());
        }
        let name = |wish: &Wish| (wish.object.tenant.for_command(), Key(wish.object.key.to_vec()));
        let objects = due.wishes.iter().map(name).collect();
        let promote = Promote { objects, in_flight_max: rules.in_flight_max };
        let reply = self.propose_work(&Command::Tier(TierCommand::Promote(promote))).await?;
        let Reply::Tier(TierReply::Admissions(admissions)) = reply else { return Ok(()) };
        for (wish, admission) in due.wishes.into_iter().zip(admissions) {
            match admission {
                Admission::Admitted => {
                    add(&stats.candidates_admitted, u64::from(wish.is_retry()));
                }
                Admission::NotNeeded => {
                    add(&stats.candidates_rejected, u64::from(wish.is_retry()));
                }
                Admission::Full => {
                    add(&stats.rejected_cap, 1);
                    self.remember(wish, now);
                }
                Admission::NoTaker => self.remember(wish, now),
            }
        }
        Ok(())
    }

    fn remember(&self, wish: Wish, now: Duration) {
        let Some(leader) = self.leader() else { return };
        let stats = self.promotion_stats();
        match leader.promotions.lock().remember(wish, now) {
            Remembered::First => add(&stats.recorded, 1),
            Remembered::Again => {}
            Remembered::GivenUp => add(&stats.candidates_rejected, 1),
            Remembered::NoRoom => add(&stats.dropped_limit, 1),
        }
    }

    /// Drops the files of clients that are gone, step by step.
    pub(crate) async fn drop_lost_files(&self) -> Result<(), NodeError> {
        let lost: Vec<ClientId> = self.look(|state| state.tiers().lost().collect());
        for client in lost {
            let files_max = FILES_PER_STEP;
            let step = Command::Tier(TierCommand::DropLost { client, files_max });
            while let Reply::Drained { is_finished: false } = self.propose_work(&step).await? {}
        }
        Ok(())
    }

    /// Removes every object that may be removed, and tells every client to empty its disk. Returns how many
    /// went.
    ///
    /// Errors: the node cannot serve; what was removed until then stays removed.
    pub async fn remove_everything(&self, force: bool) -> Result<u64, NodeError> {
        self.wipe_disks().await?;
        self.remove_all(None, force).await
    }

    /// Removes every object of a tenant that may be removed, and tells those clients to empty their disks that had
    /// files of them. Returns how many went.
    ///
    /// Errors: the node cannot serve; what was removed until then stays removed.
    pub async fn remove_all_of(&self, tenant: &Tenant, force: bool) -> Result<u64, NodeError> {
        let files = self.look(|state| state.tiers().files_by_client());
        let removed = self.remove_all(Some(tenant), force).await?;
        let wiped = self.wipe_emptied(files).await;
        wiped.map_err(|error| error.after_progress(removed > 0))?;
        Ok(removed)
    }

    /// Tells every client to empty its disk, before all objects are removed.
    ///
    /// Errors: the node cannot serve; see [`NodeError`].
    async fn wipe_disks(&self) -> Result<(), NodeError> {
        let clients = self.look(|state| {
            state.tiers().disks().iter().map(|(client, _)| client).collect::<Vec<_>>()
        });
        self.wipe(clients).await
    }

    /// Tells those clients to empty their disks that have fewer files than before.
    ///
    /// Errors: the node cannot serve; see [`NodeError`].
    async fn wipe_emptied(
        &self,
        before: std::collections::BTreeMap<ClientId, u64>,
    ) -> Result<(), NodeError> {
        let after = self.look(|state| state.tiers().files_by_client());
        let has_fewer =
            |(client, files): &(ClientId, u64)| after.get(client).copied().unwrap_or(0) < *files;
        let emptied = before.into_iter().filter(has_fewer).map(|(client, _)| client);
        self.wipe(emptied.collect()).await
    }

    async fn wipe(&self, clients: Vec<ClientId>) -> Result<(), NodeError> {
        for clients in clients.chunks(KEYS_PER_COMMAND_MAX) {
            let clients = clients.to_vec();
            self.propose(&Command::Tier(TierCommand::WipeDisks { clients })).await?;
        }
        Ok(())
    }
}
