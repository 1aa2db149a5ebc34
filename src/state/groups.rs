//! Groups: which objects share their read leases and their eviction (behaviour 1.8, 4.2). Derived from the
//! group that each object carries.
//!
//! Apply joins and leaves; readers find a group here without the state's lock. A read of one member leases
//! the group, not its members: whoever removes a member looks at the group's lease, too. So a read costs the
//! same in a group of any size. Guards: a group lists exactly the objects in the table that carry its number,
//! and exists while it has one. Order of members by reference reaches no decision: whoever decides asks for
//! them in key order.
//!
//! Lock order: a group's lock is a leaf; it may be taken under a shard's lock, and no shard lock under it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use parking_lot::RwLock;

use super::State;
use super::view::View;
use crate::model::object::FenceRefused;
use crate::model::{Deadline, GroupIdx, Millis, Object, ObjectRef, TenantIdx};

/// The identity of a group. Two tenants with one group name have two groups.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupName {
    /// The name space.
    pub tenant: TenantIdx,
    /// Arbitrary bytes; empty only for "no group".
    pub name: Arc<[u8]>,
}

impl GroupName {
    /// The name that stands for "no group", with number 0.
    pub fn none() -> Self {
        GroupName { tenant: TenantIdx(0), name: Arc::from([].as_slice()) }
    }
}

/// The members of one group, each with how many had joined when it had.
#[derive(Debug, Default)]
struct Members {
    by_ref: BTreeMap<ObjectRef, u64>,
}

/// One group.
#[derive(Debug)]
struct Group {
    name: Arc<[u8]>,
    /// Invariant: not empty while the group is listed.
    members: RwLock<Members>,
    /// How many objects have joined, those that have left included.
    joins: AtomicU64,
    /// Leader-local: the end of the group's read lease. It holds for those that joined as one of the first
    /// `leased_joins`: a later member was not there to be read.
    leased_until: AtomicU64,
    leased_joins: AtomicU64,
}

impl Group {
    fn new(name: &Arc<[u8]>) -> Self {
        Group {
            name: Arc::clone(name),
            members: RwLock::default(),
            joins: AtomicU64::new(0),
            leased_until: AtomicU64::new(0),
            leased_joins: AtomicU64::new(0),
        }
    }

    fn members(&self) -> Vec<ObjectRef> {
        self.members.read().by_ref.keys().copied().collect()
    }

    /// Raises the read lease of every present member. One that is fenced is left to its removal: the read
    /// comes after it.
    fn lease(&self, until: Deadline) {
        let joins = self.joins.load(Ordering::Acquire);
        let is_known = self.leased_joins.load(Ordering::Acquire) >= joins
            && self.leased_until.load(Ordering::Acquire) >= until.0;
        // The keys of a batch have one `until`, so only the first of them writes.
        if !is_known {
            self.leased_joins.fetch_max(joins, Ordering::AcqRel);
            // Last, because who sees it must see for whom it holds.
            self.leased_until.fetch_max(until.0, Ordering::SeqCst);
        }
    }

    /// The end of the lease as it holds for a member; 0 if there never was one.
    fn lease_end(&self, member: ObjectRef) -> Millis {
        let until = self.leased_until.load(Ordering::SeqCst);
        if until == 0 {
            return Millis(0);
        }
        let joined = self.members.read().by_ref.get(&member).copied();
        let is_covered =
            joined.is_some_and(|joined| joined <= self.leased_joins.load(Ordering::Acquire));
        Millis(if is_covered { until } else { 0 })
    }
}

/// A group at one moment, for a snapshot.
#[derive(Clone, Debug)]
pub(super) struct FrozenGroup {
    /// Its name.
    pub name: Arc<[u8]>,
    /// The end of its read lease; 0 if there never was one.
    pub leased_until: Millis,
}

/// Every group, by number.
#[derive(Debug, Default)]
pub struct GroupIndex {
    slots: RwLock<Vec<Option<Arc<Group>>>>,
}

impl GroupIndex {
    fn get(&self, group: GroupIdx) -> Option<Arc<Group>> {
        self.slots.read().get(group.0 as usize)?.clone()
    }

    fn join(&self, group: GroupIdx, name: &Arc<[u8]>, object: ObjectRef) {
        let known = self.get(group).unwrap_or_else(|| self.list(group, name));
        let mut members = known.members.write();
        let joined = known.joins.fetch_add(1, Ordering::AcqRel) + 1;
        members.by_ref.insert(object, joined);
    }

    fn list(&self, group: GroupIdx, name: &Arc<[u8]>) -> Arc<Group> {
        let new = Arc::new(Group::new(name));
        let mut slots = self.slots.write();
        let at = group.0 as usize;
        if slots.len() <= at {
            slots.resize(at + 1, None);
        }
        if let Some(slot) = slots.get_mut(at) {
            *slot = Some(Arc::clone(&new));
        }
        new
    }

    fn leave(&self, group: GroupIdx, object: ObjectRef) {
        let Some(known) = self.get(group) else { return };
        let is_empty = {
            let mut members = known.members.write();
            members.by_ref.remove(&object);
            members.by_ref.is_empty()
        };
        if is_empty && let Some(slot) = self.slots.write().get_mut(group.0 as usize) {
            *slot = None;
        }
    }

    /// Names by number and the ends of their leases, as they are now.
    pub(super) fn freeze(&self) -> Vec<Option<FrozenGroup>> {
        let frozen = |group: &Arc<Group>| FrozenGroup {
            name: Arc::clone(&group.name),
            leased_until: Millis(group.leased_until.load(Ordering::Acquire)),
        };
        self.slots.read().iter().map(|slot| slot.as_ref().map(frozen)).collect()
    }

    /// Takes over every group of `other`.
    pub(super) fn replace_with(&self, other: &GroupIndex) {
        *self.slots.write() = std::mem::take(&mut *other.slots.write());
    }

    /// Number of groups.
    pub fn len(&self) -> usize {
        self.slots.read().iter().flatten().count()
    }

    /// Whether there is no group.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl View {
    /// Raises the read lease of every member of a group to `until` at least; nothing for "no group".
    pub fn lease_group(&self, group: GroupIdx, until: Deadline) {
        if group != GroupIdx::NONE
            && let Some(known) = self.groups.get(group)
        {
            known.lease(until);
        }
    }

    /// The end of the read lease that an object has by its group; 0 if there never was one.
    fn group_lease_end(&self, at: ObjectRef, object: &Object) -> Millis {
        match object.group {
            GroupIdx::NONE => Millis(0),
            group => self.groups.get(group).map_or(Millis(0), |known| known.lease_end(at)),
        }
    }

    /// The end of an object's read lease, by itself or by its group; 0 if there never was one. `at` is where
    /// the object is filed.
    pub fn lease_end(&self, at: ObjectRef, object: &Object) -> Millis {
        object.lease.end().max(self.group_lease_end(at, object))
    }

    /// Closes an object to new leases; refused while one is running at `now`, its own or its group's, unless
    /// `force`.
    pub fn fence(
        &self,
        at: ObjectRef,
        object: &Object,
        now: Millis,
        force: bool,
    ) -> Result<(), FenceRefused> {
        // Before, so that a leased object is not closed even for a moment, ...
        if !force && self.group_lease_end(at, object) > now {
            return Err(FenceRefused::Leased);
        }
        object.lease.fence(now, force)?;
        fence(Ordering::SeqCst);
        // ... and after, because a read may have leased the group between. One that comes later finds the
        // fence standing.
        if !force && self.group_lease_end(at, object) > now {
            object.lease.unfence();
            return Err(FenceRefused::Leased);
        }
        Ok(())
    }

    /// The members of a group with their keys, in key order: the same on every node.
    pub fn group_members(&self, group: GroupIdx) -> Vec<(Box<[u8]>, ObjectRef)> {
        let members = self.groups.get(group).map(|known| known.members()).unwrap_or_default();
        let keyed = members.into_iter().filter_map(|member| {
            let key = self
                .table
                .peek(member, |object| (object.group == group).then(|| object.key.boxed()))?;
            Some((key?, member))
        });
        let mut keyed: Vec<_> = keyed.collect();
        keyed.sort_unstable();
        keyed
    }
}

impl State {
    /// The number of a group, counted as one more use. An empty name is no group.
    pub(super) fn acquire_group(&mut self, tenant: TenantIdx, name: &[u8]) -> GroupIdx {
        if name.is_empty() {
            return GroupIdx::NONE;
        }
        GroupIdx(self.groups.acquire(&GroupName { tenant, name: Arc::from(name) }))
    }

    /// Gives one use of a group's number back.
    pub(super) fn release_group(&mut self, group: GroupIdx) {
        if group != GroupIdx::NONE {
            self.groups.release(group.0);
        }
    }

    /// The name of the group of an object; empty if it has none.
    pub fn group_name(&self, object: &Object) -> &[u8] {
        self.groups.name(object.group.0).map(|group| &*group.name).unwrap_or_default()
    }

    /// Compares the listed groups and their use counts with those found on the objects.
    pub(super) fn check_groups(
        &self,
        found: &BTreeMap<GroupIdx, BTreeSet<ObjectRef>>,
    ) -> Vec<String> {
        let mut findings = Vec::new();
        let named = self.view.groups.slots.read().iter().flatten().count();
        if named != found.len() {
            findings.push(format!("{named} groups are listed, objects are in {}", found.len()));
        }
        for (group, members) in found {
            let name = self.groups.name(group.0).map(|name| &name.name);
            let listed = self.view.groups.get(*group);
            let is_exact = listed.as_ref().is_some_and(|listed| {
                Some(&listed.name) == name && listed.members.read().by_ref.keys().eq(members.iter())
            });
            if !is_exact {
                findings.push(format!("{group:?} ({name:?}) does not list its members"));
            }
        }
        let uses: u64 = self.groups.uses().map(|(_, uses)| uses).sum();
        let counted: usize = found.values().map(BTreeSet::len).sum();
        // The number of "no group" is held once, for ever.
        if uses != counted as u64 + 1 {
            findings.push(format!("group numbers have {uses} uses, counted {counted} and one"));
        }
        findings
    }

    /// Lists a filed object with its group.
    pub(super) fn join_group(&self, group: GroupIdx, object: ObjectRef) {
        if group != GroupIdx::NONE
            && let Some(name) = self.groups.name(group.0)
        {
            self.view.groups.join(group, &name.name, object);
        }
    }

    /// Takes an object that is gone off its group's list.
    pub(super) fn leave_group(&self, group: GroupIdx, object: ObjectRef) {
        if group != GroupIdx::NONE {
            self.view.groups.leave(group, object);
        }
    }
}
