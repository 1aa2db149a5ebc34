//! What clients report to have on their disks (behaviour 10.2).
//!
//! A report that answers an offload ends it. One that answers none comes from a client that has found the
//! files of an earlier registration: the object is made anew if the store does not know it. What the report
//! cannot be about is not believed: an object that is being written, has another size, or waits to be
//! offloaded by this client, whose file is then of an earlier object of that key.

use super::command::{OffloadReport, OffloadedItem};
use crate::model::replica::LocalDiskPlace;
use crate::model::{
    ClientId, ErrorCode, GroupIdx, NewObject, Object, ObjectRef, Place, Replica, ReplicaStatus,
    WriterIdx,
};
use crate::state::State;
use crate::state::put::KeyAt;

impl State {
    /// Errors: `SegmentNotFound` if the client has no disk here; what ended its offloads has done so.
    /// `TenantNotRegistered` if it found files for which no object may begin; the others are taken all the same.
    pub(super) fn offload_done(&mut self, report: &OffloadReport) -> Result<(), ErrorCode> {
        let is_registered = self.tiers.disks.get(report.client).is_some();
        let mut result = Ok(());
        for item in &report.items {
            result = result.and(self.offloaded(report.client, item, is_registered));
        }
        if is_registered { result } else { Err(ErrorCode::SegmentNotFound) }
    }

    fn offloaded(
        &mut self,
        client: ClientId,
        item: &OffloadedItem,
        is_registered: bool,
    ) -> Result<(), ErrorCode> {
        let tenant = item.tenant.clone().unwrap_or_default();
        let at = KeyAt::new(&tenant, &item.key.0);
        let found = self.open_for_write(at);
        let offload = found.and_then(|object| self.tiers.offloads.get(object));
        let (has_offload, is_told) =
            (offload.is_some(), offload.is_some_and(|offload| offload.is_told(client)));
        let Some(size) = item.size.filter(|size| *size > 0) else {
            if is_told {
                found.map(|object| self.release_offload(object));
            }
            return Ok(());
        };
        if is_told {
            found.map(|object| self.release_offload(object));
        }
        if !is_registered || (has_offload && !is_told) {
            return Ok(());
        }
        match found {
            Some(object) => {
                let is_meant = |object: &Object| object.size == size && !object.is_processing;
                if is_told || self.view.table.peek(object, is_meant) == Some(true) {
                    self.add_local_file(object, client, size, item);
                }
            }
            // Of a tenant that may not write no object begins.
            None => {
                self.admit(&tenant)?;
                self.file_offloaded(client, size, item, at);
            }
        }
        Ok(())
    }

    fn local_file(&mut self, client: ClientId, size: u64, item: &OffloadedItem) -> Replica {
        let id = self.new_replica_id();
        let endpoint = item.endpoint.to_string();
        let place = Place::LocalDisk(Box::new(LocalDiskPlace { client, size, endpoint }));
        Replica { id, place, references: 0, status: ReplicaStatus::Complete }
    }

    /// Adds the file to an object that has none. Of the same client's only the endpoint may change; another
    /// client's stays, and its own is ignored (behaviour 17.8).
    fn add_local_file(
        &mut self,
        object: ObjectRef,
        client: ClientId,
        size: u64,
        item: &OffloadedItem,
    ) {
        let has_file = self.edit(object, |object| {
            let mut places = object.replicas.iter_mut();
            let file = places.find_map(|replica| match &mut replica.place {
                Place::LocalDisk(disk) => Some(disk),
                _ => None,
            });
            let is_there = file.is_some();
            if let Some(disk) = file.filter(|disk| disk.client == client) {
                disk.endpoint = item.endpoint.to_string();
            }
            is_there
        });
        if has_file == Some(false) {
            let replica = self.local_file(client, size, item);
            self.edit(object, |object| object.replicas.push(replica));
        }
    }

    /// Files an object that is known only by its file: without a group and without a soft pin.
    fn file_offloaded(&mut self, client: ClientId, size: u64, item: &OffloadedItem, at: KeyAt<'_>) {
        let replica = self.local_file(client, size, item);
        let object = Object::new(NewObject {
            key: at.key.into(),
            tenant: self.acquire_tenant(at.tenant),
            size,
            put_start: self.clock,
            writer: WriterIdx(self.writers.acquire(&client)),
            group: GroupIdx::NONE,
            data_type: 0,
            is_hard_pinned: false,
            replicas: std::iter::once(replica).collect(),
        });
        let (writer, tenant) = (object.writer, object.tenant);
        // A full shard takes no more; the file waits for the next report.
        if self.file(at.hash, object).is_none() {
            self.release_numbers(writer, tenant, GroupIdx::NONE);
        }
    }
}
