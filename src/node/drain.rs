//! The leader's part in drain jobs: which replicas to move next, and where to.
//!
//! A look costs in proportion to what lies on the segments of the job. Objects that are being written or
//! copied are blocked until that is over; a read lease blocks nothing, because the memory of a moved replica
//! stays reserved for its readers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::MasterNode;
use super::error::NodeError;
use crate::model::{Object, ObjectRef, Replica, SegmentStatus, TaskId, Uuid};
use crate::state::State;
use crate::state::command::{Command, Key};
use crate::state::drain::{DrainCommand, DrainJob, DrainStep, PlannedMove, Unit};

/// How often jobs are looked at.
pub(super) const DRAIN_INTERVAL: Duration = Duration::from_millis(500);

/// Moves that one step begins at most.
const MOVES_PER_STEP_MAX: usize = 256;

/// What one look at a job shows.
#[derive(Debug, Default)]
struct Plan {
    moves: Vec<(Unit, Arc<str>)>,
    blocked: u64,
    /// Replicas that are not given up.
    open: u64,
    /// Replicas that are.
    given_up: u64,
}

impl MasterNode {
    /// Takes every job that has not ended one step further.
    pub(crate) async fn step_drains(&self) -> Result<(), NodeError> {
        let open: Vec<Uuid> = self.look(|state| {
            let open = state.drains().iter().filter(|(_, job)| !job.status.is_over());
            open.map(|(id, _)| id).collect()
        });
        for id in open {
            let planned = self.look(|state| Some(plan(state, state.drains().get(id)?)));
            let Some(plan) = planned else { continue };
            let roll = || TaskId(Uuid { first: rand::random(), second: rand::random() });
            let moves = plan.moves.into_iter();
            let step = DrainStep {
                id,
                moves: moves
                    .map(|(unit, target)| PlannedMove { task: roll(), unit, target })
                    .collect(),
                blocked: plan.blocked,
                is_exhausted: plan.open == 0 && plan.given_up > 0,
                tasks_pending_max: self.settings().tasks.pending_max,
            };
            self.propose_work(&Command::Drain(DrainCommand::Step(step))).await?;
        }
        Ok(())
    }
}

/// Looks at what lies on the segments of a job.
fn plan(state: &State, job: &DrainJob) -> Plan {
    let mut plan = Plan::default();
    let active: std::collections::BTreeSet<&Unit> =
        job.active.values().map(|active| &active.unit).collect();
    let free = (job.concurrency as usize).saturating_sub(active.len()).min(MOVES_PER_STEP_MAX);
    let mut usage = usage(state, job);
    for name in &job.segments {
        for (_, mounted) in state.segments().named(name) {
            if mounted.status != SegmentStatus::Draining {
                continue;
            }
            for used in mounted.allocator.used() {
                let look = |object: &Object| look_at(state, object, name);
                let seen = state.view().table.peek(ObjectRef(used.owner), look).flatten();
                let Some((unit, places)) = seen else { continue };
                if active.contains(&unit) {
                    plan.open += 1;
                    continue;
                }
                if job.is_given_up(&unit) {
                    plan.given_up += 1;
                    continue;
                }
                plan.open += 1;
                let target =
                    places.and_then(|places| choose(&mut usage, &places, used.requested_bytes));
                match target {
                    None => plan.blocked += 1,
                    Some(target) if plan.moves.len() < free => plan.moves.push((unit, target)),
                    Some(_) => {}
                }
            }
        }
    }
    plan
}

/// The unit of an object on a segment, and the names of all segments that hold it; those are `None` while it
/// cannot be moved.
fn look_at(
    state: &State,
    object: &Object,
    source: &Arc<str>,
) -> Option<(Unit, Option<Vec<Arc<str>>>)> {
    let tenant = state.tenant_name(object.tenant)?.clone();
    // A task's payload is text.
    std::str::from_utf8(&object.key).ok()?;
    let unit = Unit { tenant, key: Key(object.key.to_vec()), source: Arc::clone(source) };
    let is_busy = |replica: &Replica| !replica.is_complete() || replica.references > 0;
    if object.replicas.iter().any(is_busy) {
        return Some((unit, None));
    }
    let name = |replica: &Replica| {
        let mounted = state.segments().get(replica.place.segment()?)?;
        Some(Arc::clone(&mounted.segment.name))
    };
    Some((unit, Some(object.replicas.iter().filter_map(name).collect())))
}

/// Bytes in use and capacity of the segments that a job may move to, by name.
fn usage(state: &State, job: &DrainJob) -> BTreeMap<Arc<str>, (u64, u64)> {
    let mut usage = BTreeMap::<Arc<str>, (u64, u64)>::new();
    let ok = state.segments().iter().filter(|(_, mounted)| mounted.status == SegmentStatus::Ok);
    for (_, mounted) in ok {
        let name = &mounted.segment.name;
        let is_allowed = job.targets.is_empty() || job.targets.contains(name);
        if is_allowed && !job.segments.contains(name) {
            let (used, capacity) = usage.entry(Arc::clone(name)).or_default();
            *used += mounted.allocator.used_bytes();
            *capacity += mounted.segment.size;
        }
    }
    usage
}

/// The emptiest segment that does not hold the object and has room for it, which counts as taken; else one
/// that holds the object: then the move only drops the replica to drain.
fn choose(
    usage: &mut BTreeMap<Arc<str>, (u64, u64)>,
    places: &[Arc<str>],
    bytes: u64,
) -> Option<Arc<str>> {
    let share = |(used, capacity): (u64, u64)| {
        u128::from(used).saturating_mul(1_000_000) / u128::from(capacity.max(1))
    };
    let has_room = |(used, capacity): (u64, u64)| used.saturating_add(bytes) <= capacity;
    let free = usage.iter().filter(|(name, usage)| !places.contains(name) && has_room(**usage));
    let emptiest = free.min_by_key(|(_, usage)| share(**usage)).map(|(name, _)| Arc::clone(name));
    if let Some(name) = emptiest {
        if let Some((used, _)) = usage.get_mut(&name) {
            *used = used.saturating_add(bytes);
        }
        return Some(name);
    }
    usage.keys().find(|name| places.contains(name)).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage_of(all: &[(&str, u64, u64)]) -> BTreeMap<Arc<str>, (u64, u64)> {
        all.iter().map(|(name, used, capacity)| (Arc::from(*name), (*used, *capacity))).collect()
    }

    #[test]
    fn the_emptiest_segment_with_room_is_chosen_and_fills_up() {
        let mut usage = usage_of(&[("a", 10, 100), ("b", 0, 100), ("c", 0, 5)]);
        let chosen: Vec<_> = (0..3).map(|_| choose(&mut usage, &[], 6).unwrap()).collect();
        assert_eq!(chosen.iter().map(|name| &**name).collect::<Vec<_>>(), ["b", "b", "a"]);
    }

    #[test]
    fn where_every_segment_holds_it_already_one_of_them_is_chosen() {
        let mut usage = usage_of(&[("a", 99, 100), ("b", 0, 100)]);
        let places = [Arc::from("b"), Arc::from("s")];
        assert_eq!(choose(&mut usage, &places, 6).as_deref(), Some("b"), "a has no room");
        assert_eq!(choose(&mut usage, &[], 200), None);
    }
}
