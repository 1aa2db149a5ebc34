//! Groups: which objects share their read leases and their eviction (behaviour 1.8, 4.2). Derived from the
//! group that each object carries.
//!
//! Apply joins and leaves; readers find a group's members here without the state's lock. Guards: a group
//! lists exactly the objects in the table that carry its number, and exists while it has one. Order of
//! members by reference reaches no decision: whoever decides asks for them in key order.
//!
//! Lock order: a group's lock is a leaf, and no shard lock is taken while it is held.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

use super::State;
use super::table::ObjectTable;
use super::view::View;
use crate::model::{Deadline, GroupIdx, Object, ObjectRef, TenantIdx};

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

/// The members of one group.
#[derive(Debug)]
struct Group {
    name: Arc<[u8]>,
    /// Invariant: not empty while the group is listed.
    members: RwLock<BTreeSet<ObjectRef>>,
    /// Leader-local: every member's read lease reaches at least to here. 0 whenever a member joined since.
    leased_until: AtomicU64,
}

impl Group {
    fn members(&self) -> Vec<ObjectRef> {
        self.members.read().iter().copied().collect()
    }

    /// Raises the read lease of every member, one shard lock at a time. A member that is being removed is
    /// left to its removal: the read comes after it.
    fn lease(&self, own: GroupIdx, until: Deadline, table: &ObjectTable) {
        // A batch of reads has one `until`, so only its first read visits the members.
        if self.leased_until.load(Ordering::Acquire) >= until.0 {
            return;
        }
        let mut is_whole = true;
        for member in self.members() {
            // The slot may have been handed to another object since the members were listed.
            let granted = table.peek(member, |object| match object.group == own {
                true => object.lease.grant(until).is_ok(),
                false => true,
            });
            is_whole &= granted != Some(false);
        }
        if is_whole {
            self.leased_until.fetch_max(until.0, Ordering::AcqRel);
        }
    }
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
        known.members.write().insert(object);
        known.leased_until.store(0, Ordering::Release);
    }

    fn list(&self, group: GroupIdx, name: &Arc<[u8]>) -> Arc<Group> {
        let new = Arc::new(Group {
            name: Arc::clone(name),
            members: RwLock::default(),
            leased_until: AtomicU64::new(0),
        });
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
            members.remove(&object);
            members.is_empty()
        };
        if is_empty && let Some(slot) = self.slots.write().get_mut(group.0 as usize) {
            *slot = None;
        }
    }

    /// Names by number, as they are now.
    pub(super) fn names(&self) -> Vec<Option<Arc<[u8]>>> {
        let name = |slot: &Option<Arc<Group>>| slot.as_ref().map(|group| Arc::clone(&group.name));
        self.slots.read().iter().map(name).collect()
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
            known.lease(group, until, &self.table);
        }
    }

    /// The members of a group with their keys, in key order: the same on every node.
    pub fn group_members(&self, group: GroupIdx) -> Vec<(Box<[u8]>, ObjectRef)> {
        let members = self.groups.get(group).map(|known| known.members()).unwrap_or_default();
        let keyed = members.into_iter().filter_map(|member| {
            let key = self
                .table
                .peek(member, |object| (object.group == group).then(|| object.key.clone()))?;
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
                Some(&listed.name) == name && *listed.members.read() == *members
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

    /// Takes an erased object off its group's list.
    pub(super) fn leave_group(&self, group: GroupIdx, object: ObjectRef) {
        if group != GroupIdx::NONE {
            self.view.groups.leave(group, object);
        }
    }
}
