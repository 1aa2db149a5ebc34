//! Clients that have a disk of their own for objects (behaviour 10.1).
//!
//! A registration is replicated, so it outlives its leader. It goes when its client withdraws it or is given
//! up; the client's heartbeat then learns that it is unknown and registers again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::{ClientId, ErrorCode};
use crate::state::State;

/// A client's disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalDisk {
    /// Whether the client takes objects.
    pub is_enabled: bool,
    /// Bytes, as the client said; 0 until it did.
    pub capacity_bytes: u64,
    /// Whether it is to empty its disk and has not been told.
    pub is_to_wipe: bool,
}

/// Every registered disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disks(BTreeMap<ClientId, LocalDisk>);

impl Disks {
    /// The disk of a client.
    pub fn get(&self, client: ClientId) -> Option<&LocalDisk> {
        self.0.get(&client)
    }

    /// Every disk, by client.
    pub fn iter(&self) -> impl Iterator<Item = (ClientId, &LocalDisk)> {
        self.0.iter().map(|(client, disk)| (*client, disk))
    }

    /// Bytes of all disks.
    pub fn capacity_bytes(&self) -> u64 {
        self.0.values().fold(0, |sum, disk| sum.saturating_add(disk.capacity_bytes))
    }

    pub(super) fn set_enabled(
        &mut self,
        client: ClientId,
        is_enabled: bool,
    ) -> Result<(), ErrorCode> {
        let disk = self.0.get_mut(&client).ok_or(ErrorCode::SegmentNotFound)?;
        disk.is_enabled = is_enabled;
        Ok(())
    }

    pub(super) fn set_capacity(&mut self, client: ClientId, bytes: u64) -> Result<(), ErrorCode> {
        let disk = self.0.get_mut(&client).ok_or(ErrorCode::SegmentNotFound)?;
        disk.capacity_bytes = bytes;
        Ok(())
    }

    pub(super) fn ask_wipe(&mut self, client: ClientId) {
        if let Some(disk) = self.0.get_mut(&client) {
            disk.is_to_wipe = true;
        }
    }

    pub(super) fn take_wipe(&mut self, client: ClientId) -> Result<bool, ErrorCode> {
        let disk = self.0.get_mut(&client).ok_or(ErrorCode::SegmentNotFound)?;
        Ok(std::mem::take(&mut disk.is_to_wipe))
    }

    /// Whether the client of a disk takes objects.
    pub(super) fn takes_objects(&self, client: ClientId) -> bool {
        self.get(client).is_some_and(|disk| disk.is_enabled)
    }
}

impl State {
    /// Registers a disk. Asked again, nothing changes: only heartbeats change the flag.
    pub(super) fn mount_disk(&mut self, client: ClientId, is_enabled: bool) {
        // Known clients are given up when they fall silent, and their disks with them.
        self.clients.touch(client);
        let disk = LocalDisk { is_enabled, ..LocalDisk::default() };
        self.tiers.disks.0.entry(client).or_insert(disk);
    }

    /// Takes a disk and its files away from everybody; the files follow in steps.
    pub(super) fn unmount_disk(&mut self, client: ClientId) {
        if self.tiers.disks.0.contains_key(&client) {
            self.lose_disk(client);
            self.publish_directory();
        }
    }

    /// A client's disk is gone: nobody reads its files any more, and nothing waits for it. The caller shows
    /// readers the directory.
    pub(in crate::state) fn lose_disk(&mut self, client: ClientId) {
        self.tiers.disks.0.remove(&client);
        self.give_up_files(client);
        self.give_up_work(client);
    }
}
