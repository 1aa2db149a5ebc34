//! The leader's part in dynamic replication: which objects are hot, what is read, where the further replica goes.
//!
//! The plan is made from what the leader sees and judged again in apply. A copy is carried out by the client that
//! owns the source, as any task.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::MasterNode;
use super::error::NodeError;
use super::settings::DynamicSettings;
use crate::leader::heat::score;
use crate::model::{
    Descriptor, Location, Millis, Object, ObjectKey, ObjectRef, ReplicaKind, Segment, SegmentIdx,
    SegmentStatus, TaskId, Tenant, Uuid,
};
use crate::state::command::{Command, KEYS_PER_COMMAND_MAX, Key};
use crate::state::dynamic::command::{DynamicCommand, DynamicToken, Reservations, Reserve};
use crate::state::table::table_hash;
use crate::state::{Reply, State};

/// How often hot objects are looked at.
pub(super) const DYNAMIC_INTERVAL: Duration = Duration::from_millis(100);

/// Hot objects that are looked at in one go.
const OBJECTS_PER_GO: usize = if KEYS_PER_COMMAND_MAX < 64 { KEYS_PER_COMMAND_MAX } else { 64 };

/// What is observed is told in so many lines a go at most; the rest is counted.
const LINES_PER_GO: usize = 8;

/// A target is at most so full afterwards, in percent.
const TARGET_FULL_PERCENT: u128 = 85;

/// Counts of this process's looks at hot objects, for metrics.
#[derive(Debug, Default)]
pub struct DynamicStats {
    /// Times at which an object became hot.
    pub hot: AtomicU64,
    /// Hot objects for which a copy was planned.
    pub planned: AtomicU64,
    /// Hot objects for which none was: busy, resting, or no segment to copy to.
    pub unplanned: AtomicU64,
    /// Planned copies that were not reserved, because something had changed or too many tasks wait.
    pub refused: AtomicU64,
}

fn add(counter: &AtomicU64, count: usize) {
    counter.fetch_add(count as u64, Ordering::Relaxed);
}

/// A copy of an object: from where to where, of which writing.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Plan {
    epoch: u64,
    source: Arc<str>,
    target: Arc<str>,
}

impl MasterNode {
    /// Counts of dynamic replication.
    pub fn dynamic_stats(&self) -> &DynamicStats {
        &self.inner.dynamic
    }

    /// Counts a read that found these replicas.
    pub(super) fn note_heat(&self, tenant: &Tenant, key: &[u8], found: &[Descriptor]) {
        let Some(rules) = self.settings().dynamic else { return };
        let is_memory = |d: &&Descriptor| matches!(d.location, Location::Memory { .. });
        let in_memory = found.iter().filter(is_memory).count() as u64;
        // A client reads the key from JSON text, which has no form for other bytes.
        if in_memory == 0 || in_memory >= rules.replicas_max || std::str::from_utf8(key).is_err() {
            return;
        }
        let Some(leader) = self.leader() else { return };
        let now = self.clock().monotonic();
        if leader.heat.lock().hit(tenant, key, now, &rules.heat) {
            add(&self.dynamic_stats().hot, 1);
        }
    }

    /// Gives the objects that have become hot a further replica, or says what it would do.
    pub(crate) async fn replicate_hot(&self) -> Result<(), NodeError> {
        let (Some(rules), Some(leader)) = (self.settings().dynamic, self.leader()) else {
            return Ok(());
        };
        let monotonic = self.clock().monotonic();
        let hot = leader.heat.lock().take(OBJECTS_PER_GO, monotonic, &rules.heat);
        if hot.is_empty() {
            return Ok(());
        }
        let now = self.clock().now(self.machine().view().clock());
        let plans: Vec<Option<Plan>> = self.look(|state| {
            let mut places = places(state);
            hot.iter().map(|name| plan((state, now), &mut places, name, &rules)).collect()
        });
        let planned: Vec<(&Arc<ObjectKey>, Plan)> =
            hot.iter().zip(plans).filter_map(|(name, plan)| Some((name, plan?))).collect();
        add(&self.dynamic_stats().planned, planned.len());
        add(&self.dynamic_stats().unplanned, hot.len() - planned.len());
        if !rules.is_enforced {
            tell(&planned);
            return Ok(());
        }
        if planned.is_empty() {
            return Ok(());
        }
        let reservations = Reservations {
            wishes: planned.into_iter().map(|(name, plan)| wish(name, plan)).collect(),
            replicas_max: rules.replicas_max,
            tasks_pending_max: self.settings().tasks.pending_max,
        };
        let reserve = Command::Dynamic(DynamicCommand::Reserve(reservations));
        if let Reply::Results(results) = self.propose_work(&reserve).await? {
            let refused = results.iter().filter(|result| result.is_err()).count();
            add(&self.dynamic_stats().refused, refused);
        }
        Ok(())
    }
}

fn wish(name: &ObjectKey, plan: Plan) -> Reserve {
    let roll = || Uuid { first: rand::random(), second: rand::random() };
    Reserve {
        tenant: name.tenant.for_command(),
        key: Key(name.key.to_vec()),
        token: DynamicToken { lease: roll(), epoch: plan.epoch },
        source: plan.source,
        target: plan.target,
        task: TaskId(roll()),
    }
}

/// Says what would be done.
fn tell(planned: &[(&Arc<ObjectKey>, Plan)]) {
    for (name, plan) in planned.iter().take(LINES_PER_GO) {
        let (tenant, key) = (name.tenant.name(), String::from_utf8_lossy(&name.key));
        let Plan { source, target, .. } = plan;
        tracing::info!(tenant, %key, %source, %target, "hot: a further replica would be made");
    }
    let more = planned.len().saturating_sub(LINES_PER_GO);
    if more > 0 {
        tracing::info!(more, "hot: further replicas of other objects would be made, too");
    }
}

/// A segment name that takes replicas.
#[derive(Clone, Debug)]
struct Place {
    used: u64,
    capacity: u64,
    hosts: Vec<Arc<str>>,
}

impl Place {
    /// Whether it may take so many bytes more.
    fn has_room(&self, bytes: u64) -> bool {
        let used = u128::from(self.used) + u128::from(bytes);
        used * 100 < u128::from(self.capacity) * TARGET_FULL_PERCENT
    }

    /// Millionths in use.
    fn share(&self) -> u128 {
        u128::from(self.used) * 1_000_000 / u128::from(self.capacity.max(1))
    }
}

/// The host of a segment, as its client says it or as readers reach it.
fn host(segment: &Segment) -> Arc<str> {
    if !segment.host_id.is_empty() {
        return Arc::clone(&segment.host_id);
    }
    let host = segment.endpoint.rsplit_once(':').map_or(&*segment.endpoint, |(host, _)| host);
    Arc::from(host)
}

/// The segments that take replicas, by name.
fn places(state: &State) -> BTreeMap<Arc<str>, Place> {
    let mut places = BTreeMap::<Arc<str>, Place>::new();
    let ok = state.segments().iter().filter(|(_, mounted)| mounted.status == SegmentStatus::Ok);
    for (_, mounted) in ok {
        let name = Arc::clone(&mounted.segment.name);
        let empty = || Place { used: 0, capacity: 0, hosts: Vec::new() };
        let place = places.entry(name).or_insert_with(empty);
        place.used = place.used.saturating_add(mounted.allocator.used_bytes());
        place.capacity = place.capacity.saturating_add(mounted.segment.size);
        let host = host(&mounted.segment);
        if !place.hosts.contains(&host) {
            place.hosts.push(host);
        }
    }
    places
}

/// What to copy of a hot object, if it can and may have a further replica. The target counts as taken.
fn plan(
    (state, now): (&State, Millis),
    places: &mut BTreeMap<Arc<str>, Place>,
    name: &ObjectKey,
    rules: &DynamicSettings,
) -> Option<Plan> {
    let tenant = state.tenant_idx(Some(&name.tenant))?;
    let at = state.view().table.locate(table_hash(&name.tenant, &name.key), tenant, &name.key)?;
    let is_resting = state.dynamic().rest(at).is_some_and(|until| until > now);
    let is_reserved = state.dynamic().reservation(at).is_some_and(|known| known.expires > now);
    if is_resting || is_reserved || state.has_transfer(at) {
        return None;
    }
    let look = |object: &Object| look_at(state, object, rules.replicas_max);
    let (segments, size, epoch) = state.view().table.peek(at, look).flatten()?;
    let source = segments.iter().filter_map(|segment| state.segments().get(*segment));
    let source = source.min_by_key(|mounted| score(&name.key, &mounted.segment.name))?;
    let from = host(&source.segment);
    let is_held = |name: &Arc<str>| {
        let mut named = state.segments().named(name);
        named.any(|(segment, _)| holds(state, at, segment))
    };
    let free = places.iter().filter(|(name, place)| place.has_room(size) && !is_held(name));
    let best = free.min_by_key(|(target, place)| {
        let is_near = place.hosts.contains(&from);
        (is_near, place.share(), score(&name.key, target))
    });
    let target = best.map(|(target, _)| Arc::clone(target))?;
    if let Some(place) = places.get_mut(&target) {
        place.used = place.used.saturating_add(size);
    }
    Some(Plan { epoch, source: Arc::clone(&source.segment.name), target })
}

/// Whether a replica of the object lies on a segment, finished or not.
fn holds(state: &State, object: ObjectRef, segment: SegmentIdx) -> bool {
    let holds = |object: &Object| {
        object.replicas.iter().any(|replica| replica.place.segment() == Some(segment))
    };
    state.view().table.peek(object, holds) == Some(true)
}

/// Where the object can be read in memory, its bytes, and when it was written; `None` if it is being written
/// or has as many replicas as it may have.
fn look_at(
    state: &State,
    object: &Object,
    replicas_max: u64,
) -> Option<(Vec<SegmentIdx>, u64, u64)> {
    let directory = state.view().directory();
    let is_in_memory = |kind| kind == ReplicaKind::Memory;
    let readable = object.replicas.iter().filter(|replica| {
        is_in_memory(replica.place.kind()) && replica.is_complete() && directory.is_valid(replica)
    });
    let segments: Vec<SegmentIdx> =
        readable.filter_map(|replica| replica.place.segment()).collect();
    let may_have_more = !segments.is_empty() && (segments.len() as u64) < replicas_max;
    (may_have_more && !object.is_processing).then_some((segments, object.size, object.put_start.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(used: u64, capacity: u64) -> Place {
        Place { used, capacity, hosts: Vec::new() }
    }

    #[test]
    fn a_target_stays_below_its_bound_with_the_new_replica() {
        assert!(place(0, 100).has_room(84));
        assert!(!place(0, 100).has_room(85));
        assert!(!place(80, 100).has_room(5));
        assert!(!place(u64::MAX, u64::MAX).has_room(u64::MAX));
    }

    #[test]
    fn the_host_is_what_the_client_says_or_where_readers_connect_to() {
        let segment = |host_id: &str, endpoint: &str| Segment {
            id: crate::model::SegmentId::default(),
            name: Arc::from("s"),
            base: 1,
            size: 1,
            endpoint: Arc::from(endpoint),
            protocol: Arc::from("tcp"),
            host_id: Arc::from(host_id),
        };
        assert_eq!(&*host(&segment("east", "h:1")), "east");
        assert_eq!(&*host(&segment("", "h:1")), "h");
        assert_eq!(&*host(&segment("", "[::1]:1")), "[::1]");
        assert_eq!(&*host(&segment("", "h")), "h");
    }
}
