//! Starts, Ends and Revokes of Puts and Upserts (2, 3).

use super::super::act::{
    Act, EMPTY_KEY, How, TENANTS, group_text, name_of, name_of_key, scoped, tenant_of,
};
use super::super::mounts::{base_of, endpoint_of};
use super::super::perform::{Heard, Spot, Told};
use super::{
    Aside, Copy, Followed, LAST_INSTANT, Model, Phase, Shortage, Thing, Wish, code, equal, fail,
};

/// Whether a replica type means memory; every other known one matches nothing here.
fn means_memory(kind: i32) -> bool {
    matches!(kind, 0 | 4)
}

fn is_known(kind: i32) -> bool {
    matches!(kind, 0..=4 | 100)
}

/// What is asked of one key.
struct Asked<'a> {
    by: u8,
    tenant: u8,
    key: String,
    size: u64,
    how: &'a How,
    ttl: u64,
}

impl Model {
    pub(super) fn write(&mut self, act: &Act, heard: &Heard) -> Followed {
        match (act, heard) {
            (Act::Start { by, keys, size, how, is_upsert, .. }, Heard::Started(told)) => {
                equal("answers", &told.len(), &keys.len())?;
                let ttl = self.resolve(how);
                for (key, told) in keys.iter().zip(told) {
                    let is_bad = ttl.is_none() || *key == EMPTY_KEY || *size == 0;
                    if is_bad || (how.group.is_some() && how.has_bad_groups) {
                        equal("a start that breaks a rule", told, &Err(code::PARAMS))?;
                        continue;
                    }
                    let (by, size, ttl) = (*by, *size, ttl.unwrap_or(0));
                    let (tenant, key) = (tenant_of(*key), name_of_key(*key));
                    let asked = Asked { by, tenant, key, size, how, ttl };
                    match is_upsert {
                        false => self.put(&asked, told)?,
                        true => self.upsert(&asked, told)?,
                    }
                    self.note_short(how, told);
                }
                Ok(())
            }
            (Act::End { by, keys, kind, checksum, .. }, Heard::Done(told)) => {
                let by = by.unwrap_or(1);
                let each =
                    keys.iter().map(|key| self.end(by, &name_of_key(*key), *kind, *checksum));
                let expected: Vec<_> = each.collect();
                equal("ends", told, &expected)
            }
            (Act::Revoke { by, keys, kind, .. }, Heard::Done(told)) => {
                let by = by.unwrap_or(1);
                let each = keys.iter().map(|key| self.revoke(by, &name_of_key(*key), *kind));
                let expected: Vec<_> = each.collect();
                equal("revokes", told, &expected)
            }
            _ => fail("an answer of another kind"),
        }
    }

    /// The TTL of a request (3.2), or nothing if it breaks a rule.
    fn resolve(&self, how: &How) -> Option<u64> {
        let ttl = match (how.action, how.ttl) {
            (0 | 2, None) => 0,
            (1, None) => self.rules.pin_default,
            (1, Some(ttl)) if ttl <= self.rules.pin_max => ttl,
            _ => return None,
        };
        (how.copies > 0).then_some(ttl)
    }

    /// Eviction is asked for where it could help (2.2).
    fn note_short(&mut self, how: &How, told: &Told<Vec<Spot>>) {
        if *told == Err(code::NO_SPACE) && self.open_names().len() as u64 >= how.copies {
            self.shortage = Shortage::Yes;
        }
    }

    pub(super) fn open_names(&self) -> std::collections::BTreeSet<u8> {
        let open = self.rooms.iter().filter(|(_, room)| room.phase == Phase::Open);
        open.map(|(n, _)| name_of(*n)).collect()
    }

    /// PutStart (2.1).
    fn put(&mut self, asked: &Asked<'_>, told: &Told<Vec<Spot>>) -> Followed {
        if let Some(old) = self.things.get(&asked.key) {
            if old.has_done() || old.began + self.rules.discard >= self.now {
                return equal("put over a key", told, &Err(code::EXISTS));
            }
            // An unfinished write that is too old; its pin goes with it. Nobody uses its memory before the
            // release timeout of whoever may still be writing it.
            let old = self.things.remove(&asked.key).unwrap_or_else(|| unreachable!());
            self.mark("a zombie was replaced");
            for copy in old.copies {
                let copying = old.transfer.as_ref().map_or(0, |transfer| transfer.started);
                let began = if copy.is_target { copying } else { old.began };
                self.set_aside(began + self.rules.release, copy, old.size);
            }
        }
        let group = asked.how.group.map(group_text).unwrap_or_default();
        self.mark_if(told.is_ok(), "put");
        self.begin(asked, told, group, asked.how.is_hard, None)
    }

    /// UpsertStart (2.5); differences from the peer: what is refused changes nothing.
    fn upsert(&mut self, asked: &Asked<'_>, told: &Told<Vec<Spot>>) -> Followed {
        let asked_group = asked.how.group.map(group_text);
        let Some(old) = self.things.get(&asked.key) else {
            let group = asked_group.unwrap_or_default();
            return self.begin(asked, told, group, asked.how.is_hard, None);
        };
        if asked_group.as_ref().is_some_and(|group| *group != old.group) {
            return equal("upsert into another group", told, &Err(code::PARAMS));
        }
        if old.transfer.is_some() {
            return equal("upsert of a key being copied", told, &Err(code::HAS_TASK));
        }
        let (is_open, has_done) = (old.is_open, old.has_done());
        if old.size == asked.size && has_done {
            self.mark("rewritten in place");
            return self.rewrite(asked, told);
        }
        if *told == Err(code::NO_SPACE) {
            self.mark("upsert without room");
            return self.expect_no_space(asked);
        }
        let deadline = old.deadline.filter(|deadline| self.now < *deadline);
        let (group, is_hard) = match old.has_done() {
            true => (old.group.clone(), old.is_hard || asked.how.is_hard),
            false => (asked_group.unwrap_or_default(), asked.how.is_hard),
        };
        let old = old.clone();
        self.mark(if has_done { "rewritten elsewhere" } else { "preempted" });
        self.mark_if(deadline.is_some(), "pin inherited");
        equal("an object with nothing readable is being written", &(is_open || has_done), &true)?;
        // The new memory is found while the old is still in use.
        self.begin(asked, told, group, is_hard, deadline)?;
        for copy in old.copies {
            self.set_aside(self.now + self.rules.release, copy, old.size);
        }
        Ok(())
    }

    /// A same-size upsert writes where the object is.
    fn rewrite(&mut self, asked: &Asked<'_>, told: &Told<Vec<Spot>>) -> Followed {
        let Some(thing) = self.things.get_mut(&asked.key) else { return fail("no such key") };
        thing.copies.iter_mut().for_each(|copy| copy.is_done = false);
        let Ok(spots) = told else { return fail("a rewrite in place was refused") };
        let shown: Vec<_> =
            spots.iter().map(|spot| (spot.id, spot.address, spot.is_done)).collect();
        let kept = thing.copies.iter().map(|copy| (copy.id, copy.address, false));
        equal("copies to rewrite", &shown, &kept.collect())?;
        let eligible = thing.copies.iter().map(|copy| copy.id).collect();
        thing.wish = Some(Wish { action: asked.how.action, ttl: asked.ttl, eligible });
        (thing.by, thing.began, thing.is_open) = (asked.by, self.now, true);
        Ok(())
    }

    /// A new object, or one that takes another's key.
    fn begin(
        &mut self,
        asked: &Asked<'_>,
        told: &Told<Vec<Spot>>,
        group: String,
        is_hard: bool,
        deadline: Option<u64>,
    ) -> Followed {
        let Ok(spots) = told else {
            equal("a start", told, &Err(code::NO_SPACE))?;
            return self.expect_no_space(asked);
        };
        let copies = self.place_all(asked, spots)?;
        let eligible = copies.iter().map(|copy| copy.id).collect();
        let wish = Wish { action: asked.how.action, ttl: asked.ttl, eligible };
        let thing = Thing {
            tenant: asked.tenant,
            by: asked.by,
            size: asked.size,
            began: self.now,
            copies,
            is_open: true,
            wish: Some(wish),
            deadline,
            lease: 0,
            group,
            is_hard,
            checksum: None,
            transfer: None,
            is_odd: false,
        };
        self.things.insert(asked.key.clone(), thing);
        let text = asked.key.rsplit('/').next().unwrap_or_default();
        let is_everywhere = |tenant| self.things.contains_key(&scoped(tenant, text));
        let has_all = (0..TENANTS).all(is_everywhere);
        self.mark_if(has_all, "one key of two tenants");
        Ok(())
    }

    fn place_all(&self, asked: &Asked<'_>, spots: &[Spot]) -> Result<Vec<Copy>, String> {
        let mut copies: Vec<Copy> = Vec::new();
        for spot in spots {
            let copy = self.place(spot, asked.size, false)?;
            if copies.iter().any(|other| name_of(other.room) == name_of(copy.room)) {
                return fail("two copies at one place");
            }
            copies.push(copy);
        }
        if copies.is_empty() || copies.len() as u64 > asked.how.copies {
            return fail(format!("{} copies instead of {}", copies.len(), asked.how.copies));
        }
        let names = self.open_names();
        if (copies.len() as u64) < asked.how.copies {
            let is_taken = |name: &u8| copies.iter().any(|copy| name_of(copy.room) == *name);
            let free = names.iter().filter(|name| !is_taken(name));
            free.into_iter().try_for_each(|name| self.expect_full(*name, asked.size))?;
        }
        let preferred = asked.how.preferred.iter().find(|name| names.contains(name));
        if let Some(name) = preferred
            && copies.iter().all(|copy| name_of(copy.room) != *name)
        {
            self.expect_full(*name, asked.size)?;
        }
        Ok(copies)
    }

    /// Believes a place if it is in an open room and touches nothing that is in use.
    pub(super) fn place(&self, spot: &Spot, size: u64, is_target: bool) -> Result<Copy, String> {
        equal("size of a replica", &spot.size, &size)?;
        let (from, to) = (spot.address, spot.address + size);
        let mut open = self.rooms.iter().filter(|(_, room)| room.phase == Phase::Open);
        let found = open.find(|(n, room)| base_of(**n) <= from && to <= base_of(**n) + room.size);
        let Some((&room, _)) = found else {
            return fail(format!("{spot:?} lies in no open segment"));
        };
        equal("endpoint", &spot.endpoint, &endpoint_of(room))?;
        if self.used().any(|(at, start, bytes)| at == room && start < to && from < start + bytes) {
            return fail(format!("{spot:?} lies on memory in use"));
        }
        Ok(Copy { id: spot.id, room, address: spot.address, is_done: false, is_target })
    }

    fn expect_no_space(&self, asked: &Asked<'_>) -> Followed {
        let names = self.open_names();
        names.into_iter().try_for_each(|name| self.expect_full(name, asked.size))
    }

    /// An empty room would have taken it: an allocator rounds up by an eighth at most.
    pub(super) fn expect_full(&self, name: u8, size: u64) -> Followed {
        let open = self.rooms.iter().filter(|(_, room)| room.phase == Phase::Open);
        for (n, room) in open.filter(|(n, _)| name_of(**n) == name) {
            if !self.used().any(|(at, ..)| at == *n) && size <= room.size / 8 * 7 {
                return fail(format!("segment {n} is empty and was not used for {size} bytes"));
            }
        }
        Ok(())
    }

    pub(super) fn set_aside(&mut self, until: u64, copy: Copy, size: u64) {
        self.aside.push(Aside { until, copy, size });
    }

    /// PutEnd (2.3, 3.4).
    fn end(&mut self, by: u8, key: &str, kind: i32, checksum: Option<u64>) -> Told<()> {
        if !is_known(kind) {
            return Err(code::PARAMS);
        }
        let now = self.now;
        let thing = self.things.get_mut(key).ok_or(code::NOT_FOUND)?;
        if thing.by != by {
            return Err(code::CLIENT);
        }
        let is_meant = means_memory(kind);
        if !thing.is_open {
            let is_repeat = is_meant && thing.is_all_done();
            return if is_repeat { Ok(()) } else { Err(code::WRITE) };
        }
        let had_done = thing.has_done();
        let mut change = None;
        let mut done = Vec::new();
        for copy in thing.copies.iter_mut().filter(|copy| is_meant && !copy.is_target) {
            copy.is_done = true;
            done.push(copy.id);
        }
        if let Some(wish) =
            thing.wish.take_if(|wish| !had_done && wish.eligible.iter().any(|id| done.contains(id)))
        {
            let before = thing.deadline;
            thing.deadline = match wish.action {
                0 => thing.deadline.filter(|deadline| now < *deadline),
                1 if wish.ttl > 0 => Some(now.saturating_add(wish.ttl).min(LAST_INSTANT)),
                _ => None,
            };
            change = Some((before, thing.deadline, wish.action));
        }
        if checksum.is_some() || matches!(kind, 0 | 3 | 4) {
            thing.checksum = checksum;
        }
        thing.lease = thing.lease.max(now);
        thing.settle();
        match change {
            Some((Some(_), Some(_), 0)) => self.mark("pin preserved"),
            Some((Some(_), None, _)) => self.mark("pin ended by a write"),
            Some((_, Some(_), 1)) => self.mark("pin begun"),
            _ => {}
        }
        Ok(())
    }

    /// PutRevoke (2.4).
    fn revoke(&mut self, by: u8, key: &str, kind: i32) -> Told<()> {
        if !is_known(kind) {
            return Err(code::PARAMS);
        }
        let thing = self.things.get_mut(key).ok_or(code::NOT_FOUND)?;
        if thing.by != by {
            return Err(code::CLIENT);
        }
        let is_meant = |copy: &Copy| means_memory(kind) && !copy.is_target;
        if !thing.is_open || thing.copies.iter().any(|copy| is_meant(copy) && copy.is_done) {
            return Err(code::WRITE);
        }
        thing.copies.retain(|copy| !is_meant(copy));
        thing.settle();
        self.drop_empty();
        self.mark("revoked");
        Ok(())
    }
}
