//! Mounting, re-mounting and unmounting segments (behaviour 5).
//!
//! An unmount takes effect for readers and writers at once, by the segment's status; its objects are dropped
//! in bounded steps, found through the allocations of this segment alone.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::model::{
    ClientId, ErrorCode, Millis, Object, ObjectRef, Segment, SegmentId, SegmentIdx, SegmentStatus,
};

use super::State;
use super::put::NO_OWNER;
use super::segment_table::Mounted;
use super::settle::memory_node;
use super::view::Directory;

/// Allocations that an unmount drops within its own command. A segment with more is finished by the leader's
/// worker, so that no command runs for long.
const UNMOUNT_AT_ONCE_MAX: u32 = 1024;

impl State {
    pub(super) fn mount_segment(
        &mut self,
        segment: &Segment,
        client: ClientId,
    ) -> Result<(), ErrorCode> {
        let mounted = self.mount_one(segment, client);
        if mounted.is_ok() {
            self.note_client(client, &segment.host_id);
        }
        self.publish_directory();
        mounted
    }

    /// Mounts a segment unless exactly it is mounted already.
    ///
    /// Errors: `InvalidParams` for an unusable range; `UnavailableInCurrentStatus` while an earlier life of the
    /// id is ending; `SegmentAlreadyExists` if the id is another client's or its fields differ (the peer says
    /// OK to both and lets the caller believe that it owns memory which it does not).
    fn mount_one(&mut self, segment: &Segment, client: ClientId) -> Result<(), ErrorCode> {
        if !segment.is_range_valid() {
            return Err(ErrorCode::InvalidParams);
        }
        let known = self.segments.index_of(segment.id).and_then(|index| self.segments.get(index));
        if let Some(known) = known {
            return match known.status {
                SegmentStatus::Ok if known.owner == client && is_same(&known.segment, segment) => {
                    if let Some(index) = self.segments.index_of(segment.id) {
                        self.claim_segment(index, segment);
                    }
                    Ok(())
                }
                SegmentStatus::Ok => Err(ErrorCode::SegmentAlreadyExists),
                _ => Err(ErrorCode::UnavailableInCurrentStatus),
            };
        }
        let (allocator, kept) =
            self.allocator_for(segment).map_err(|_| ErrorCode::InvalidParams)?;
        let index = self.segments.insert(Mounted {
            segment: segment.clone(),
            owner: client,
            status: SegmentStatus::Ok,
            allocator,
            unmount_at: None,
        });
        self.hold_again(index, kept);
        Ok(())
    }

    /// Makes a client alive and mounts those of its segments that are missing.
    ///
    /// A segment that cannot be mounted does not keep the others out: the client is told once and is not asked
    /// to re-mount for ever, as it is by the peer.
    pub(super) fn remount_segments(
        &mut self,
        segments: &[Segment],
        client: ClientId,
    ) -> Result<(), ErrorCode> {
        let is_foreign = |segment: &Segment| {
            let known = self.segments.index_of(segment.id);
            let known = known.and_then(|index| self.segments.get(index));
            known.is_some_and(|k| k.owner != client || !is_same(&k.segment, segment))
        };
        if segments.iter().any(is_foreign) {
            return Err(ErrorCode::InvalidParams);
        }
        let mut result = Ok(());
        for segment in segments {
            result = result.and(self.mount_one(segment, client));
            // Also one that is on its way out is known to be there.
            self.forget_unclaimed(segment.id);
        }
        self.drop_unclaimed(client);
        let host_id = segments.iter().map(|s| &s.host_id).find(|host| !host.is_empty());
        let host_id = host_id.cloned().unwrap_or_else(|| Arc::from(""));
        self.note_client(client, &host_id);
        if result != Err(ErrorCode::UnavailableInCurrentStatus) {
            self.clients.touch(client).is_alive = true;
        }
        self.publish_directory();
        result
    }

    /// Errors: `IllegalClient` if another client owns it; `UnavailableInCurrentStatus` if it is ending already.
    pub(super) fn unmount_segment(
        &mut self,
        segment: SegmentId,
        client: ClientId,
    ) -> Result<(), ErrorCode> {
        let Some(index) = self.segments.index_of(segment) else { return Ok(()) };
        let Some(mounted) = self.segments.get(index) else { return Ok(()) };
        if mounted.owner != client {
            return Err(ErrorCode::IllegalClient);
        }
        if mounted.status == SegmentStatus::Unmounting {
            return Err(ErrorCode::UnavailableInCurrentStatus);
        }
        self.begin_unmount(index);
        self.publish_directory();
        Ok(())
    }

    /// Closes a segment to new writes and sets the time of its unmount. Asked again, the earlier time counts.
    ///
    /// Errors: `SegmentNotFound` if the client has no segment; `InvalidParams` if this one is not the client's;
    /// `UnavailableInCurrentStatus` if it is ending or has been emptied.
    pub(super) fn graceful_unmount(
        &mut self,
        segment: SegmentId,
        client: ClientId,
        grace_ms: u64,
    ) -> Result<(), ErrorCode> {
        if !self.segments.iter().any(|(_, mounted)| mounted.owner == client) {
            return Err(ErrorCode::SegmentNotFound);
        }
        let index = self.segments.index_of(segment).ok_or(ErrorCode::InvalidParams)?;
        let mounted = self.segments.get(index).filter(|mounted| mounted.owner == client);
        let earlier = match mounted.ok_or(ErrorCode::InvalidParams)? {
            Mounted { status: SegmentStatus::Ok | SegmentStatus::Draining, .. } => None,
            Mounted { status: SegmentStatus::GracefullyUnmounting, unmount_at, .. } => *unmount_at,
            _ => return Err(ErrorCode::UnavailableInCurrentStatus),
        };
        let asked = Millis(self.clock.0.saturating_add(grace_ms));
        self.segments.set_status(index, SegmentStatus::GracefullyUnmounting);
        if let Some(mounted) = self.segments.get_mut(index) {
            mounted.unmount_at = Some(earlier.map_or(asked, |earlier| earlier.min(asked)));
        }
        self.publish_directory();
        Ok(())
    }

    /// Closes a segment to everybody and drops as much of it as one command may.
    pub(super) fn begin_unmount(&mut self, index: SegmentIdx) {
        self.segments.set_status(index, SegmentStatus::Unmounting);
        self.drain_step(index, UNMOUNT_AT_ONCE_MAX);
    }

    pub(super) fn drain_unmounted(&mut self, segment: SegmentId, allocations_max: u32) -> bool {
        let Some(index) = self.segments.index_of(segment) else { return true };
        let status = self.segments.get(index).map(|mounted| mounted.status);
        if status != Some(SegmentStatus::Unmounting) {
            return true;
        }
        let is_finished = self.drain_step(index, allocations_max);
        if is_finished {
            self.publish_directory();
        }
        is_finished
    }

    /// Drops up to `allocations_max` allocations of an unmounting segment with the replicas that own them;
    /// removes the segment when none is left. Returns whether it was removed.
    fn drain_step(&mut self, index: SegmentIdx, allocations_max: u32) -> bool {
        let Some(mounted) = self.segments.get(index) else { return true };
        let batch: Vec<_> = mounted.allocator.used().take(allocations_max as usize).collect();
        let is_finished = batch.len() < allocations_max as usize;
        for used in batch.iter().filter(|used| used.owner != NO_OWNER) {
            self.note_gone(index, used);
        }
        let Some(mounted) = self.segments.get_mut(index) else { return true };
        for used in &batch {
            let freed = mounted.allocator.free(used.node);
            debug_assert!(freed.is_ok(), "listed as used: {used:?}");
        }
        let set_aside = batch.iter().filter(|used| used.owner == NO_OWNER);
        let set_aside: BTreeSet<u32> = set_aside.map(|used| used.node).collect();
        if !set_aside.is_empty() {
            let lost = self.discards.forget_nodes(index, &set_aside);
            for used in &batch {
                if let Some(lost) = lost.get(&used.node) {
                    self.note_gone_discard(index, used, lost);
                }
            }
        }
        for used in batch.iter().filter(|used| used.owner != NO_OWNER) {
            self.lose_replica(ObjectRef(used.owner), index, used.node);
        }
        if is_finished && let Some(gone) = self.segments.remove(index) {
            self.forget_unclaimed(gone.segment.id);
        }
        is_finished
    }

    /// Takes a replica whose allocation is already gone from its object, and the object with its last one.
    fn lose_replica(&mut self, object: ObjectRef, index: SegmentIdx, node: u32) {
        let lost = Some((index, node));
        let is_last =
            |object: &Object| matches!(&*object.replicas, [one] if memory_node(one) == lost);
        // Nearly always; editing what goes anyway would settle it twice.
        if self.view.table.peek(object, is_last) == Some(true) {
            return self.erase_freed(object, lost);
        }
        self.forget_replica_at(object, index, node);
        self.erase_if_gone(object);
    }

    /// Drops the replica of an object whose allocation is already gone.
    fn forget_replica_at(&mut self, object: ObjectRef, index: SegmentIdx, node: u32) {
        self.edit(object, |object| {
            object.replicas.retain(|replica| memory_node(replica) != Some((index, node)));
            super::put::settle_write(object);
        });
    }

    /// Remembers a client by its mount, and its host if it names one.
    fn note_client(&mut self, client: ClientId, host_id: &Arc<str>) {
        let record = self.clients.touch(client);
        if !host_id.is_empty() {
            record.host_id = Arc::clone(host_id);
        }
    }

    /// Remembers the host of a client that is known.
    pub(super) fn note_host(&mut self, client: ClientId, host_id: &Arc<str>) {
        let is_known = self.clients.get(client).is_some_and(|record| record.host_id != *host_id);
        if is_known && !host_id.is_empty() {
            self.note_client(client, host_id);
        }
    }

    /// Shows readers the segments and clients as they are now, and tells quotas how much memory there is.
    pub(super) fn publish_directory(&mut self) {
        self.refresh_quotas();
        let alive = self.clients.alive().collect();
        let lost_files = self.tiers.lost.clone();
        let segments = self.segments.views();
        self.view.publish_directory(Directory { segments, alive, lost_files });
    }
}

/// Whether two descriptions name the same memory in the same way. A protocol that is not known yet (it is not
/// part of the peer's snapshots) equals any.
fn is_same(known: &Segment, told: &Segment) -> bool {
    let is_protocol_same = known.protocol.is_empty() || known.protocol == told.protocol;
    is_protocol_same
        && known.name == told.name
        && (known.base, known.size) == (told.base, told.size)
        && known.endpoint == told.endpoint
}
