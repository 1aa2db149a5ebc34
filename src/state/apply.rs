//! Applying an entry: advance the clock, one match, one reply a command.
//!
//! There is no logic here. A refused command changes nothing but the clock, and its refusal is a reply, not
//! an error: only an entry that cannot be understood is one, and it stops the node.

use super::command::{Command, Entry, Stamp};
use super::dynamic::command::DynamicToken;
use super::leadership::Leadership;
use super::reply::Reply;
use super::{State, encode};
use crate::alloc::Rng;
use crate::model::Millis;
use crate::plant::{Bug, is_planted};

impl State {
    /// Applies the bytes of one entry.
    ///
    /// Errors: the entry was written by a newer version or is damaged; nothing was changed.
    pub fn apply(&mut self, entry: &[u8]) -> Result<Vec<Reply>, encode::EntryError> {
        Ok(self.apply_entry(&encode::decode(entry)?))
    }

    /// Applies one entry.
    pub fn apply_entry(&mut self, entry: &Entry) -> Vec<Reply> {
        self.arrivals.clear();
        self.presence.begin_entry();
        self.advance_clock(entry.stamp);
        let mut rng = Rng::new(entry.stamp.seed);
        let commands = entry.commands.iter();
        let replies = commands.map(|command| self.apply_command(command, &mut rng)).collect();
        self.presence.end_entry();
        replies
    }

    /// State time never falls: a new leader with a slow clock must not revive an expired pin.
    fn advance_clock(&mut self, stamp: Stamp) {
        if stamp.now > self.clock {
            self.clock = stamp.now;
            self.view.publish_clock(stamp.now);
        }
    }

    fn apply_command(&mut self, command: &Command, rng: &mut Rng) -> Reply {
        let plain = DynamicToken::default();
        match command {
            Command::Noop => Reply::Done,
            Command::PutStart(start) => Reply::Starts(self.put_start(start, rng)),
            Command::PutEnd(end) => Reply::Results(self.put_end(end)),
            Command::PutRevoke(revoke) => Reply::Results(self.put_revoke(revoke)),
            Command::Remove(remove) => Reply::Results(self.remove(remove, Millis(0))),
            Command::MountSegment { segment, client } => {
                Reply::Outcome(self.mount_segment(segment, *client))
            }
            Command::ReMountSegment { segments, client } => {
                Reply::Outcome(self.remount_segments(segments, *client))
            }
            Command::UnmountSegment { segment, client } => {
                Reply::Outcome(self.unmount_segment(*segment, *client))
            }
            Command::DrainUnmounted { segment, allocations_max } => {
                Reply::Drained { is_finished: self.drain_unmounted(*segment, *allocations_max) }
            }
            Command::ExpireClients(expired) => {
                self.expire_clients(expired);
                Reply::Done
            }
            Command::Sweep(sweep) => Reply::Swept(self.sweep(sweep)),
            Command::MetadataPut { key, value } => {
                Reply::Metadata(self.metadata.put(&key.0, &value.0))
            }
            Command::MetadataDelete { key } => Reply::Metadata(self.metadata.delete(&key.0)),
            Command::UpsertStart(start) => Reply::Starts(self.upsert_start(start, rng)),
            Command::ClearReplicas(clear) => Reply::Results(self.clear_replicas(clear)),
            Command::GracefulUnmount { segment, client, grace_ms } => {
                Reply::Outcome(self.graceful_unmount(*segment, *client, *grace_ms))
            }
            Command::Lead(told) => {
                Leadership::follow(&mut self.leadership, told);
                if is_planted(Bug::DropPendingPins) {
                    self.plant_drop_pending();
                }
                Reply::Done
            }
            Command::TransferStart(start) => {
                Reply::Transfer(self.transfer_start(start, plain, rng))
            }
            Command::TransferEnd(end) => Reply::Outcome(self.transfer_end(end, plain)),
            Command::TaskCreate(create) => Reply::Task(self.create_task(create, plain, rng)),
            Command::TasksFetch(fetch) => Reply::Tasks(self.fetch_tasks(fetch)),
            Command::Evict(evict) => Reply::Evicted(self.evict(evict)),
            Command::SweepPins(sweep) => Reply::Swept(self.sweep_some_pins(sweep)),
            Command::TaskComplete(done) => Reply::Outcome(self.complete_task(done)),
            Command::RemoveLeased { remove, leased_until } => {
                Reply::Results(self.remove(remove, *leased_until))
            }
            Command::SnapshotBegin => Reply::Generation(self.begin_snapshot()),
            Command::SnapshotPublished(told) => {
                self.snapshot_published(told);
                Reply::Done
            }
            Command::RestoreBegin(begin) => Reply::Restore(self.restore_begin(begin)),
            Command::RestorePart(part) => Reply::Restore(self.restore_part(part)),
            Command::RestoreFinish(finish) => Reply::Restore(self.restore_finish(finish)),
            Command::RestoreAbort { attempt } => self.restore_abort(*attempt),
            Command::RestoreDecide(decide) => self.restore_decide(decide),
            Command::Tenants(change) => Reply::Outcome(self.change_tenants(change)),
            Command::Tier(command) => self.tier(command, rng),
            Command::Drain(command) => Reply::Outcome(self.drain_job(command, rng)),
            Command::Dynamic(command) => self.replicate(command, rng),
        }
    }
}
