//! Eviction by way of a disk (behaviour 10.2, "offload on evict").

use super::command::{EvictToDisk, Fate};
use crate::model::{Object, ObjectRef, ReplicaKind};
use crate::state::State;
use crate::state::evict::Chosen;

impl State {
    /// One fate a victim. A victim with a copy on disk goes. Another one is queued for a client that owns part
    /// of its memory, and only that part stays; if nobody takes it, it goes only if that is forced.
    pub(super) fn evict_to_disk(&mut self, command: &EvictToDisk) -> Vec<Fate> {
        let mut queued = 0;
        let spares_soft_pinned = command.evict.spares_soft_pinned;
        let mut fates = Vec::with_capacity(command.evict.victims.len());
        for victim in &command.evict.victims {
            let fate = match self.choose_victim(victim, spares_soft_pinned) {
                Some(chosen) => self.evict_chosen(chosen, command, queued < command.queued_max),
                None => Fate::default(),
            };
            queued += u64::from(fate.is_queued);
            fates.push(fate);
        }
        fates
    }

    fn evict_chosen(&mut self, chosen: Chosen, command: &EvictToDisk, may_queue: bool) -> Fate {
        let object = chosen.object;
        if self.is_on_local_disk(object) || (command.is_forced && !may_queue) {
            return Fate { freed: self.drop_chosen(chosen), is_queued: false };
        }
        if may_queue && self.queue_offload(object, 1, command.queue_max) {
            let kept = self.tiers.offloads.get(object).map(|offload| offload.source);
            let others = chosen.without(kept);
            return Fate { freed: self.drop_chosen(others), is_queued: true };
        }
        let freed = if command.is_forced { self.drop_chosen(chosen) } else { 0 };
        Fate { freed, is_queued: false }
    }

    fn is_on_local_disk(&self, object: ObjectRef) -> bool {
        let is_there = |object: &Object| {
            let mut replicas = object.replicas.iter();
            replicas.any(|r| {
                r.is_complete() && r.place.kind() == ReplicaKind::LocalDisk && !self.is_lost(r)
            })
        };
        self.view.table.peek(object, is_there) == Some(true)
    }
}
