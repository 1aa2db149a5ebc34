//! Hands for stories about disks: one line a command.

use std::sync::Arc;

use super::world::*;
use crate::alloc::Strategy;
use crate::model::PinRequest::Preserve;
use crate::model::{Descriptor, ErrorCode, Object, ReplicaKind, ReplicaSelect};
use crate::state::Reply;
use crate::state::command::{Command, End, EndItem, Start};
use crate::state::disk::command::{
    Admission, EndWithOffload, EvictFiles, EvictToDisk, Fate, OffloadFetch, OffloadReport,
    OffloadedItem, Promote, PromotionEnd, PromotionStart, PutWithFile, TierCommand, TierReply,
};
use crate::state::evict::{Evict, Victim, incarnation};

/// A report of 1 KiB on disk; a failed one for `None`.
pub fn offloaded(name: &str, size: Option<u64>) -> OffloadedItem {
    OffloadedItem { tenant: None, key: key(name), size, endpoint: Arc::from("d:1") }
}

impl World {
    /// Client 1 with a segment and a disk.
    pub fn with_disk() -> Self {
        let mut world = World::small();
        world.mount_disk(1);
        world
    }

    pub fn tier(&mut self, command: TierCommand) -> Reply {
        self.apply(Command::Tier(command))
    }

    pub fn mount_disk(&mut self, by: u64) {
        let mount = TierCommand::MountDisk { client: client(by), is_enabled: true };
        assert_eq!(outcome(self.tier(mount)), Ok(()));
    }

    pub fn unmount_disk(&mut self, by: u64) {
        let unmount = TierCommand::UnmountDisk { client: client(by) };
        assert_eq!(outcome(self.tier(unmount)), Ok(()));
    }

    pub fn end_offloading(&mut self, name: &str, queue_max: u64) -> Outcome {
        let items = vec![EndItem { key: key(name), checksum: None }];
        let end = End { client: client(1), tenant: None, items, select: ReplicaSelect::All };
        only(self.tier(TierCommand::PutEnd(EndWithOffload { end, queue_max })))
    }

    /// Writes 1 KiB that is to go to disk.
    pub fn put_offloading(&mut self, name: &str) {
        self.open(name, Preserve);
        assert_eq!(self.end_offloading(name, 100), Ok(()));
    }

    pub fn fetch_as(&mut self, by: u64, is_enabled: bool) -> Result<Vec<String>, ErrorCode> {
        let fetch = OffloadFetch { client: client(by), is_enabled, items_max: 100 };
        match self.tier(TierCommand::OffloadFetch(fetch)) {
            Reply::Tier(TierReply::Offloads(work)) => work.map(names),
            other => panic!("{other:?}"),
        }
    }

    pub fn fetch(&mut self) -> Vec<String> {
        self.fetch_as(1, true).unwrap()
    }

    pub fn report_as(&mut self, by: u64, items: Vec<OffloadedItem>) -> Outcome {
        let report = OffloadReport { client: client(by), items };
        outcome(self.tier(TierCommand::OffloadDone(report)))
    }

    pub fn report(&mut self, name: &str) -> Outcome {
        self.report_as(1, vec![offloaded(name, Some(1024))])
    }

    /// Writes 1 KiB and has it on the disk of client 1, too.
    pub fn put_on_disk(&mut self, name: &str) {
        self.put_offloading(name);
        assert_eq!(self.fetch(), [name]);
        assert_eq!(self.report(name), Ok(()));
    }

    pub fn victim(&self, name: &str) -> Victim {
        let incarnation = self.peek(name, incarnation).unwrap();
        Victim { tenant: None, key: key(name), incarnation }
    }

    pub fn evict(&mut self, name: &str) -> u64 {
        let victims = vec![self.victim(name)];
        match self.apply(Command::Evict(Evict { victims, spares_soft_pinned: false })) {
            Reply::Evicted(freed) => freed[0],
            other => panic!("{other:?}"),
        }
    }

    pub fn evict_to_disk(&mut self, names: &[&str], queued_max: u64, is_forced: bool) -> Vec<Fate> {
        let victims = names.iter().map(|name| self.victim(name)).collect();
        let evict = Evict { victims, spares_soft_pinned: false };
        let evict = EvictToDisk { evict, queue_max: 100, queued_max, is_forced };
        match self.tier(TierCommand::Evict(evict)) {
            Reply::Tier(TierReply::Evicted(fates)) => fates,
            other => panic!("{other:?}"),
        }
    }

    pub fn evict_file(&mut self, by: u64, name: &str, kind: ReplicaKind) -> Outcome {
        let evict = EvictFiles { client: client(by), tenant: None, keys: vec![key(name)], kind };
        only(self.tier(TierCommand::EvictFiles(evict)))
    }

    pub fn drop_lost(&mut self, by: u64, files_max: u32) -> bool {
        match self.tier(TierCommand::DropLost { client: client(by), files_max }) {
            Reply::Drained { is_finished } => is_finished,
            other => panic!("{other:?}"),
        }
    }

    /// An object of 1 KiB that is on the disk of client 1 only.
    pub fn put_on_disk_only(&mut self, name: &str) {
        self.put_on_disk(name);
        assert_eq!(self.evict(name), 1024);
        assert_eq!(self.kinds(name), [ReplicaKind::LocalDisk]);
    }

    pub fn promote(&mut self, name: &str, in_flight_max: u32) -> Admission {
        let objects = vec![(None, key(name))];
        match self.tier(TierCommand::Promote(Promote { objects, in_flight_max })) {
            Reply::Tier(TierReply::Admissions(admissions)) => admissions[0],
            other => panic!("{other:?}"),
        }
    }

    pub fn promotions(&mut self, by: u64) -> Result<Vec<String>, ErrorCode> {
        let fetch = TierCommand::PromotionFetch { client: client(by), items_max: 1 };
        match self.tier(fetch) {
            Reply::Tier(TierReply::Promotions(work)) => work.map(names),
            other => panic!("{other:?}"),
        }
    }

    pub fn stage(&mut self, by: u64, name: &str, size: u64) -> Result<Descriptor, ErrorCode> {
        let start = PromotionStart {
            client: client(by),
            tenant: None,
            key: key(name),
            size,
            preferred: Vec::new(),
            strategy: Strategy::Random,
        };
        match self.tier(TierCommand::PromotionStart(start)) {
            Reply::Tier(TierReply::Staged(staged)) => staged,
            other => panic!("{other:?}"),
        }
    }

    pub fn promoted(&mut self, by: u64, name: &str, is_success: bool) -> Outcome {
        let end = PromotionEnd { client: client(by), tenant: None, key: key(name), is_success };
        outcome(self.tier(TierCommand::PromotionEnd(end)))
    }

    /// The kinds of an object's finished replicas, in order.
    pub fn kinds(&self, name: &str) -> Vec<ReplicaKind> {
        let kinds = |object: &Object| {
            let done = object.replicas.iter().filter(|r| r.is_complete());
            done.map(|replica| replica.place.kind()).collect()
        };
        self.peek(name, kinds).unwrap_or_default()
    }

    pub fn upsert(&mut self, name: &str, size: u64) -> Result<Vec<Descriptor>, ErrorCode> {
        match self.apply(Command::UpsertStart(start(name, size, config(1, Preserve)))) {
            Reply::Starts(mut started) => started.remove(0),
            other => panic!("{other:?}"),
        }
    }

    pub fn start_with_file(&mut self, start: Start) -> Result<Vec<Descriptor>, ErrorCode> {
        let put = PutWithFile { start, is_upsert: false, directory: Arc::from("/r/c") };
        match self.tier(TierCommand::PutStart(put)) {
            Reply::Starts(mut started) => started.remove(0),
            other => panic!("{other:?}"),
        }
    }
}

fn names(items: Vec<crate::state::disk::command::WorkItem>) -> Vec<String> {
    items.into_iter().map(|item| String::from_utf8(item.key.to_vec()).unwrap()).collect()
}
