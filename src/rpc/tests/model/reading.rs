//! Reads with their leases, and removals on request (4).

use std::collections::BTreeMap;

use super::super::act::{Act, PATTERNS, key_text, name_of, name_of_key, scoped};
use super::super::mounts::endpoint_of;
use super::super::perform::{Heard, Shown, Spot, Told};
use super::{Followed, Model, Thing, code, equal, fail};

/// The keys in which a pattern is found, or nothing if it is none.
fn matching(pattern: u8) -> Option<Vec<String>> {
    let keys = PATTERNS[usize::from(pattern)].1?;
    Some(keys.iter().map(|key| key_text(*key)).collect())
}

fn spots(thing: &Thing) -> Vec<Spot> {
    let done = thing.copies.iter().filter(|copy| copy.is_done);
    let spot = done.map(|copy| Spot {
        id: copy.id,
        endpoint: endpoint_of(copy.room),
        address: copy.address,
        size: thing.size,
        is_done: true,
    });
    spot.collect()
}

impl Model {
    pub(super) fn read(&mut self, act: &Act, heard: &Heard) -> Followed {
        match (act, heard) {
            (Act::Read { keys, .. }, Heard::Shown(told)) => {
                let each = keys.iter().map(|key| self.show(&name_of_key(*key)));
                let expected: Vec<_> = each.collect();
                equal("reads", told, &expected)
            }
            (Act::Exists { keys, .. }, Heard::Flags(told)) => {
                let each = keys.iter().map(|key| self.show(&name_of_key(*key)).is_ok());
                let expected: Vec<_> = each.collect();
                equal("flags", told, &expected)
            }
            (Act::ReadMatching { tenant, pattern }, Heard::Matching(told)) => {
                let expected = matching(*pattern).ok_or(code::PARAMS).map(|keys| {
                    let found = keys.into_iter().filter_map(|key| {
                        let shown = self.show(&scoped(*tenant, &key)).ok()?;
                        Some((key, shown.spots))
                    });
                    found.collect::<BTreeMap<_, _>>()
                });
                equal("matching keys", told, &expected)
            }
            _ => fail("an answer of another kind"),
        }
    }

    /// GetReplicaList: what it answers, and the lease that it grants to the key and its group (edge 7).
    fn show(&mut self, key: &str) -> Told<Shown> {
        let thing = self.things.get(key).ok_or(code::NOT_FOUND)?;
        if !thing.has_done() {
            return Err(code::NOT_READY);
        }
        let (tenant, group, lease) = (thing.tenant, thing.group.clone(), self.rules.lease);
        let shown = Shown { spots: spots(thing), lease, checksum: thing.checksum };
        let until = self.now + lease;
        let is_of_group = |thing: &Thing| thing.is_of(tenant, &group);
        let members = self.things.values().filter(|thing| is_of_group(thing)).count();
        self.mark_if(members > 1, "a group was leased");
        for (name, thing) in &mut self.things {
            if name == key || is_of_group(thing) {
                thing.lease = thing.lease.max(until);
            }
        }
        Ok(shown)
    }

    pub(super) fn remove(&mut self, act: &Act, heard: &Heard) -> Followed {
        match (act, heard) {
            (Act::Remove { keys, force, .. }, Heard::Done(told)) => {
                let each = keys.iter().map(|key| self.remove_one(&name_of_key(*key), *force));
                let expected: Vec<_> = each.collect();
                equal("removals", told, &expected)
            }
            (Act::RemoveAll { tenant, force }, Heard::Count(told)) => {
                let is_meant = |thing: &Thing| tenant.is_none_or(|tenant| thing.tenant == tenant);
                let meant = self.things.iter().filter(|(_, thing)| is_meant(thing));
                let keys: Vec<String> = meant.map(|(key, _)| key.clone()).collect();
                equal("removed", told, &Ok(self.remove_some(&keys, *force)))
            }
            (Act::RemoveMatching { tenant, pattern, force }, Heard::Count(told)) => {
                let keys = matching(*pattern).ok_or(code::PARAMS);
                let expected = keys.map(|keys| {
                    let keys: Vec<String> = keys.iter().map(|key| scoped(*tenant, key)).collect();
                    self.remove_some(&keys, *force)
                });
                equal("removed", told, &expected)
            }
            (Act::Clear { by, keys, name }, Heard::Keys(told)) => {
                let by = by.unwrap_or(1);
                let mut expected = Vec::new();
                for key in keys.iter().map(|key| key_text(*key)) {
                    // The call knows no tenant but the default one.
                    if self.clear(by, &scoped(0, &key), *name) {
                        expected.push(key);
                    }
                }
                equal("cleared", told, &expected)
            }
            _ => fail("an answer of another kind"),
        }
    }

    fn remove_some(&mut self, keys: &[String], force: bool) -> i64 {
        keys.iter().filter(|key| self.remove_one(key, force).is_ok()).count() as i64
    }

    /// Remove (4.4).
    fn remove_one(&mut self, key: &str, force: bool) -> Told<()> {
        let thing = self.things.get(key).ok_or(code::NOT_FOUND)?;
        if !force && self.is_leased(thing) {
            let is_promise = thing.lease <= self.now;
            self.mark(if is_promise { "refused for a promise" } else { "refused for a lease" });
            return Err(code::LEASED);
        }
        if !thing.is_all_done() {
            return Err(code::NOT_READY);
        }
        if thing.transfer.is_some() {
            return Err(code::HAS_TASK);
        }
        self.things.remove(key);
        self.mark("removed");
        Ok(())
    }

    /// BatchReplicaClear of one key: whether it was cleared.
    fn clear(&mut self, by: u8, key: &str, name: Option<u8>) -> bool {
        let Some(thing) = self.things.get(key) else { return false };
        if thing.by != by || self.is_leased(thing) {
            return false;
        }
        let Some(name) = name else {
            let is_cleared = thing.is_all_done();
            if is_cleared {
                self.things.remove(key);
            }
            return is_cleared;
        };
        let source = thing.transfer.as_ref().map(|transfer| transfer.source);
        let Some(thing) = self.things.get_mut(key) else { return false };
        let before = thing.copies.len();
        // What a copy or move reads from stays.
        thing
            .copies
            .retain(|copy| !copy.is_done || name_of(copy.room) != name || Some(copy.id) == source);
        let is_cleared = thing.copies.len() < before;
        thing.settle();
        self.drop_empty();
        self.mark_if(is_cleared, "cleared");
        is_cleared
    }
}
