//! The tiers in a raft snapshot: a section of their own, so that snapshots of before it are read.
//!
//! Catalog snapshots have instead what the peer's format has room for: the registered disks, with nothing
//! queued, because what a disk gets is decided anew after a restore.

use mooncake_ha_snapshot as snapshot;
use serde::{Deserialize, Serialize};

use super::save::uuid;
use super::{FrozenState, ImageError};
use crate::model::{ClientId, Millis, ObjectKey, ObjectRef, ReplicaId};
use crate::state::State;
use crate::state::disk::offload::Offload;
use crate::state::disk::promotion::Promotion;
use crate::state::disk::registry::Disks;
use crate::state::disk::{TierCounters, Tiers};
use crate::state::put::KeyAt;

/// Name of the section in the extension.
pub(super) const TIERS: &str = "tiers";

/// Changed only together with a new section name.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct TierRecord {
    disks: Disks,
    lost: Vec<(ClientId, ReplicaId)>,
    counters: TierCounters,
    /// Oldest first.
    offloads: Vec<OffloadRecord>,
    /// Oldest first.
    promotions: Vec<PromotionRecord>,
}

#[derive(Serialize, Deserialize)]
struct OffloadRecord {
    name: ObjectKey,
    source: ReplicaId,
    started: Millis,
    takers: Vec<(ClientId, bool)>,
}

#[derive(Serialize, Deserialize)]
struct PromotionRecord {
    name: ObjectKey,
    source: ReplicaId,
    holder: ClientId,
    size: u64,
    staged: Option<ReplicaId>,
    is_told: bool,
    started: Millis,
}

impl TierRecord {
    pub(super) fn of(tiers: &Tiers) -> Self {
        let offload = |(_, offload): (ObjectRef, &Offload)| OffloadRecord {
            name: offload.name.clone(),
            source: offload.source,
            started: offload.started,
            takers: offload.takers.to_vec(),
        };
        let promotion = |(_, promotion): (ObjectRef, &Promotion)| PromotionRecord {
            name: promotion.name.clone(),
            source: promotion.source,
            holder: promotion.holder,
            size: promotion.size,
            staged: promotion.staged,
            is_told: promotion.is_told,
            started: promotion.started,
        };
        TierRecord {
            disks: tiers.disks.clone(),
            lost: tiers.lost.iter().map(|(client, bound)| (*client, *bound)).collect(),
            counters: tiers.counters,
            offloads: tiers.offloads.iter().map(offload).collect(),
            promotions: tiers.promotions.iter().map(promotion).collect(),
        }
    }

    /// Puts everything back into a state whose objects are there already.
    ///
    /// Errors: work on an object that is not there.
    pub(super) fn put_back(self, state: &mut State) -> Result<(), ImageError> {
        state.tiers.disks = self.disks;
        state.tiers.lost = self.lost.into_iter().collect();
        state.tiers.counters = self.counters;
        for OffloadRecord { name, source, started, takers } in self.offloads {
            let object = find(state, &name)?;
            use_replicas(state, object, &[source]);
            let takers = takers.into_iter().collect();
            state.tiers.offloads.push(object, Offload { name, source, started, takers });
        }
        for record in self.promotions {
            let PromotionRecord { name, source, holder, size, staged, is_told, started } = record;
            let object = find(state, &name)?;
            let used: Vec<ReplicaId> = staged.into_iter().chain([source]).collect();
            use_replicas(state, object, &used);
            let promotion = Promotion { name, source, holder, size, staged, is_told, started };
            state.tiers.promotions.push(object, promotion);
        }
        Ok(())
    }
}

fn find(state: &State, name: &ObjectKey) -> Result<ObjectRef, ImageError> {
    let missing = || ImageError::Inconsistent(format!("section {TIERS}: no object {name:?}"));
    state.find_filed(KeyAt::new(&name.tenant, &name.key)).ok_or_else(missing)
}

fn use_replicas(state: &mut State, object: ObjectRef, ids: &[ReplicaId]) {
    state.edit(object, |object| {
        for replica in object.replicas.iter_mut().filter(|replica| ids.contains(&replica.id)) {
            replica.references += 1;
        }
    });
}

impl FrozenState {
    /// The registered disks as the peer's format has them.
    pub(super) fn local_disks(&self) -> Vec<(snapshot::Uuid, snapshot::LocalDiskImage)> {
        let image = |(client, disk): (ClientId, &crate::state::disk::registry::LocalDisk)| {
            let image = snapshot::LocalDiskImage {
                offloading: disk.is_enabled,
                queue: Vec::new(),
                capacity_bytes: Some(i64::try_from(disk.capacity_bytes).unwrap_or(i64::MAX)),
            };
            (uuid(client.0), image)
        };
        self.tiers.disks.iter().map(image).collect()
    }

    /// Promotions with memory: a restore drops that memory and keeps the rest of the object.
    pub(super) fn promotion_images(&self) -> impl Iterator<Item = snapshot::TransferImage> {
        let image = |(_, promotion): (ObjectRef, &Promotion)| {
            let name = &promotion.name;
            Some(snapshot::TransferImage {
                name: snapshot::ObjectName {
                    tenant: std::sync::Arc::from(name.tenant.name()),
                    key: name.key.clone(),
                },
                kind: snapshot::TransferKind::Promotion,
                client: uuid(promotion.holder.0),
                started_ms: promotion.started.0,
                source: promotion.source.0,
                targets: vec![promotion.staged?.0],
            })
        };
        self.tiers.promotions.iter().filter_map(image)
    }
}
