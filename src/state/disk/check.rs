//! The invariants of the tiers, walked.

use std::collections::BTreeMap;

use crate::model::{ClientId, Object, ObjectKey, ObjectRef, Place, ReplicaId};
use crate::state::State;
use crate::state::put::KeyAt;

/// What a walk over the tiers finds.
#[derive(Debug, Default)]
pub(in crate::state) struct TierWalk {
    /// Replicas in use, with their use counts.
    pub uses: BTreeMap<ReplicaId, u16>,
    /// What is wrong.
    pub findings: Vec<String>,
}

/// The file of an object on a client's disk.
pub(in crate::state) fn local_file(object: &Object) -> Option<(ClientId, ReplicaId)> {
    object.replicas.iter().find_map(|replica| match &replica.place {
        Place::LocalDisk(disk) => Some((disk.client, replica.id)),
        _ => None,
    })
}

impl State {
    /// Each job is its object's; registered disks are those of known clients.
    pub(in crate::state) fn walk_tiers(&self) -> TierWalk {
        let tiers = &self.tiers;
        let mut walk = TierWalk::default();
        walk.findings.extend(tiers.offloads.check("offloads"));
        walk.findings.extend(tiers.promotions.check("promotions"));
        for (at, offload) in tiers.offloads.iter() {
            self.walk_job(at, &offload.name, &[offload.source], &mut walk);
            let is_taken = !offload.takers.is_empty() && offload.started <= self.clock;
            if !is_taken {
                walk.findings.push(format!("{offload:?} has no taker or begins in the future"));
            }
        }
        for (at, promotion) in tiers.promotions.iter() {
            let staged = promotion.staged.into_iter();
            let used: Vec<ReplicaId> = staged.chain([promotion.source]).collect();
            self.walk_job(at, &promotion.name, &used, &mut walk);
        }
        for (client, _) in tiers.disks.iter() {
            if self.clients.get(client).is_none() {
                walk.findings.push(format!("the disk of {client} is of nobody"));
            }
        }
        walk
    }

    fn walk_job(&self, at: ObjectRef, name: &ObjectKey, used: &[ReplicaId], walk: &mut TierWalk) {
        let found = self.find_filed(KeyAt::new(&name.tenant, &name.key));
        if found != Some(at) {
            walk.findings.push(format!("the work on {name:?} is on {at:?}, found {found:?}"));
        }
        let there = |object: &Object| {
            let is_used = |id: &&ReplicaId| object.replicas.iter().any(|r| r.id == **id);
            used.iter().filter(is_used).copied().collect::<Vec<_>>()
        };
        for id in self.view.table.peek(at, there).unwrap_or_default() {
            *walk.uses.entry(id).or_default() += 1;
        }
    }

    /// The files of clients' disks, as the objects have them.
    pub(in crate::state) fn check_files(
        &self,
        counted: &BTreeMap<(ClientId, ReplicaId), ObjectRef>,
    ) -> Vec<String> {
        let is_right = self.tiers.files == *counted;
        let differs = || "the index of files differs from the objects".to_owned();
        (!is_right).then(differs).into_iter().collect()
    }
}
