//! Finding memory for the replicas of a write: the state's side of `alloc`.
//!
//! Runs in apply, because the leader cannot know what space its own pipelined proposals will leave. So the
//! choice depends only on the state, the command and the entry's seed.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::alloc::{Allocation, FreeRatio, Pool, Rng, Strategy, place};
use crate::model::{
    Descriptor, ErrorCode, Location, Place, Replica, ReplicaId, ReplicaStatus, Replicas, SegmentIdx,
};

use super::State;
use super::command::Start;
use super::put::{KeyAt, NO_OWNER};
use super::segment_table::SegmentTable;

/// The segments that receive allocations, as the placement strategies see them.
pub(super) struct SegmentPool<'a> {
    pub segments: &'a mut SegmentTable,
    /// Bytes of one replica.
    pub size: u64,
}

/// Space for one replica.
pub(super) struct Space {
    pub segment: SegmentIdx,
    pub allocation: Allocation,
    pub address: u64,
}

impl SegmentPool<'_> {
    /// Takes space on one segment.
    pub fn allocate_on(&mut self, segment: SegmentIdx) -> Option<Space> {
        let allocator = &mut self.segments.get_mut(segment)?.allocator;
        let allocation = allocator.allocate(self.size, NO_OWNER)?;
        Some(Space { segment, address: allocator.address(allocation), allocation })
    }
}

impl Pool for SegmentPool<'_> {
    type Space = Space;

    fn names(&self) -> usize {
        self.segments.allocatable().len()
    }

    fn members(&self, name: usize) -> usize {
        self.segments.allocatable().get(name).map_or(0, |(_, members)| members.len())
    }

    fn free_ratio(&self, name: usize, strategy: Strategy) -> FreeRatio {
        if strategy == Strategy::SsdFreeRatioFirst {
            return FreeRatio::ALL_FREE;
        }
        let members = self.segments.allocatable().get(name).map(|(_, members)| members);
        let allocators = members.unwrap_or_default().iter().filter_map(|at| self.segments.get(*at));
        let (free, total) = allocators.fold((0_u64, 0_u64), |(free, total), mounted| {
            let capacity = mounted.allocator.capacity();
            let unused = capacity.saturating_sub(mounted.allocator.used_bytes());
            (free.saturating_add(unused), total.saturating_add(capacity))
        });
        FreeRatio { free, total }
    }

    fn try_allocate(&mut self, name: usize, member: usize) -> Option<Space> {
        let segment = *self.segments.allocatable().get(name)?.1.get(member)?;
        self.allocate_on(segment)
    }
}

impl State {
    /// Reserves the replicas of one object.
    ///
    /// Errors: `NoAvailableHandle` if not even one can be had.
    pub(super) fn allocate(
        &mut self,
        start: &Start,
        size: u64,
        at: KeyAt<'_>,
        same_node: Option<&Arc<str>>,
        rng: &mut Rng,
    ) -> Result<Replicas, ErrorCode> {
        let preferred = self.preferred_names(start, at, same_node);
        let wanted = u64::from(start.config.replica_num);
        let mut pool = SegmentPool { segments: &mut self.segments, size };
        let placed = place(start.rules.strategy, wanted, &preferred, rng, &mut pool);
        match placed {
            Ok(placed) => {
                if (placed.len() as u64) < wanted {
                    self.counters.partial_allocations += 1;
                }
                Ok(placed.iter().map(|placed| self.new_memory_replica(&placed.space)).collect())
            }
            Err(error) => {
                self.counters.allocation_failures += 1;
                Err(error)
            }
        }
    }

    /// A number that no replica has had.
    pub(super) fn new_replica_id(&mut self) -> ReplicaId {
        let id = ReplicaId(self.next_replica_id);
        self.next_replica_id += 1;
        id
    }

    /// A replica in freshly taken space.
    pub(super) fn new_memory_replica(&mut self, space: &Space) -> Replica {
        let id = self.new_replica_id();
        let (segment, address) = (space.segment, space.address);
        let place = Place::Memory { segment, node: space.allocation.node, address };
        Replica { id, place, references: 0, status: ReplicaStatus::Processing }
    }

    /// Places of the names to try first: those asked for, then the writer's neighbourhood (behaviour 6.1).
    fn preferred_names(
        &self,
        start: &Start,
        at: KeyAt<'_>,
        same_node: Option<&Arc<str>>,
    ) -> SmallVec<[usize; 4]> {
        let names = self.segments.allocatable();
        let asked = same_node.into_iter().chain(
            // The endpoint of the first item's replica replaces the list, as the peer does it.
            start.config.preferred.iter().filter(|_| same_node.is_none()),
        );
        let mut places: SmallVec<[usize; 4]> =
            asked.filter_map(|name| names.position(name)).collect();
        let replicas = u64::from(start.config.replica_num);
        if start.rules.strategy.is_local(replicas, start.config.is_same_node_preferred) {
            let host = self.host_of(start);
            if !host.is_empty() {
                let near = self.segments.hosts().nearest_first(&host, at.hash);
                places.extend(near.filter_map(|name| names.position(name)));
            }
        }
        places
    }

    fn host_of(&self, start: &Start) -> Arc<str> {
        let told = &start.config.host_id;
        if !told.is_empty() {
            return Arc::clone(told);
        }
        self.clients.get(start.client).map_or_else(|| Arc::clone(told), |r| Arc::clone(&r.host_id))
    }
}

/// The endpoint of the last memory replica: where the rest of a same-node batch goes.
pub(super) fn last_endpoint(descriptors: &[Descriptor]) -> Option<Arc<str>> {
    descriptors.iter().rev().find_map(|descriptor| match &descriptor.location {
        Location::Memory { endpoint, .. } => Some(Arc::clone(endpoint)),
        _ => None,
    })
}
