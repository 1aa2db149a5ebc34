//! Copies and moves (8.1 to 8.3).

use std::collections::BTreeSet;

use super::super::act::{Act, name_of, name_of_key};
use super::super::perform::{Heard, Spot, Told};
use super::{Followed, Model, Phase, Transfer, code, equal, fail};

impl Model {
    pub(super) fn transfer(&mut self, act: &Act, heard: &Heard) -> Followed {
        match (act, heard) {
            (Act::Transfer { by, key, is_move, from, to }, Heard::Transfer(told)) => {
                let (key, from) = (name_of_key(*key), from.unwrap_or(0));
                if let Err(refused) = self.check_transfer(&key, *is_move, from, to) {
                    return equal("a copy or move", told, &Err(refused));
                }
                self.begin_transfer((*by, &key, *is_move), from, to, told)
            }
            (Act::EndTransfer { by, key, is_move, is_revoke }, Heard::Done(told)) => {
                let (by, is_move) = (by.unwrap_or(1), is_move.unwrap_or(false));
                let answer = self.end_transfer(by, &name_of_key(*key), is_move, *is_revoke);
                equal("the end of a copy or move", told, &vec![answer])
            }
            _ => fail("an answer of another kind"),
        }
    }

    /// Whether a segment name takes new copies.
    pub(super) fn check_target(&self, name: u8) -> Told<()> {
        let mut answer = Err(code::SEGMENT_NOT_FOUND);
        for (_, room) in self.rooms.iter().filter(|(n, _)| name_of(**n) == name) {
            match room.phase {
                Phase::Open => return Ok(()),
                Phase::Leaving(_) => answer = Err(code::STATUS),
                Phase::Ending => {}
            }
        }
        answer
    }

    fn check_transfer(&self, key: &str, is_move: bool, from: u8, to: &[u8]) -> Told<()> {
        if is_move && to.contains(&from) {
            return Err(code::PARAMS);
        }
        to.iter().try_for_each(|name| self.check_target(*name))?;
        let thing = self.things.get(key).ok_or(code::NOT_FOUND)?;
        if thing.transfer.is_some() {
            return Err(code::HAS_TASK);
        }
        let mut sources = thing.copies.iter().filter(|copy| copy.is_done);
        let has_source = sources.any(|copy| name_of(copy.room) == from);
        if has_source { Ok(()) } else { Err(code::REPLICA_NOT_FOUND) }
    }

    fn begin_transfer(
        &mut self,
        (by, key, is_move): (u8, &str, bool),
        from: u8,
        to: &[u8],
        told: &Told<(Spot, Vec<Spot>)>,
    ) -> Followed {
        let Some(thing) = self.things.get(key) else { return fail("no such key") };
        let size = thing.size;
        let held: BTreeSet<u8> = thing.copies.iter().map(|copy| name_of(copy.room)).collect();
        let mut missing: Vec<u8> = Vec::new();
        for name in to.iter().filter(|name| !held.contains(name)) {
            if !missing.contains(name) {
                missing.push(*name);
            }
        }
        let (source, targets) = match told {
            Ok(started) => started,
            Err(code::NO_SPACE) => {
                let is_full = |name: &u8| self.expect_full(*name, size).is_ok();
                let has_full = missing.iter().any(is_full);
                return if has_full { Ok(()) } else { fail("there was room for all targets") };
            }
            Err(other) => return fail(format!("a copy or move was refused with {other}")),
        };
        let is_source = |copy: &&super::Copy| copy.id == source.id && copy.is_done;
        let found = thing.copies.iter().find(is_source);
        if found.is_none_or(|copy| name_of(copy.room) != from || copy.address != source.address) {
            return fail(format!("{source:?} is no copy on the source"));
        }
        let mut placed: Vec<super::Copy> = Vec::new();
        for target in targets {
            placed.push(self.place(target, size, true)?);
        }
        let names: Vec<u8> = placed.iter().map(|copy| name_of(copy.room)).collect();
        equal("names of targets", &names, &missing)?;
        let transfer = Transfer {
            by,
            is_move,
            source: source.id,
            targets: placed.iter().map(|copy| copy.id).collect(),
            started: self.now,
        };
        let Some(thing) = self.things.get_mut(key) else { return fail("no such key") };
        thing.copies.extend(placed);
        (thing.transfer, thing.is_odd) = (Some(transfer), true);
        self.mark(if is_move { "move begun" } else { "copy begun" });
        Ok(())
    }

    fn end_transfer(&mut self, by: u8, key: &str, is_move: bool, is_revoke: bool) -> Told<()> {
        let thing = self.things.get_mut(key).ok_or(code::NOT_FOUND)?;
        let transfer = thing.transfer.as_ref().ok_or(code::NO_TASK)?;
        if transfer.by != by {
            return Err(code::CLIENT);
        }
        if transfer.is_move != is_move {
            return Err(code::PARAMS);
        }
        let transfer = thing.transfer.take().ok_or(code::NO_TASK)?;
        let is_source = |copy: &super::Copy| copy.id == transfer.source;
        let has_source = thing.copies.iter().any(|copy| is_source(copy) && copy.is_done);
        if is_revoke || !has_source {
            thing.copies.retain(|copy| !transfer.targets.contains(&copy.id));
            self.drop_empty();
            self.mark(if is_revoke { "copy revoked" } else { "copy lost its source" });
            return if is_revoke { Ok(()) } else { Err(code::GONE) };
        }
        let mut done = 0;
        for copy in thing.copies.iter_mut().filter(|copy| transfer.targets.contains(&copy.id)) {
            (copy.is_done, copy.is_target) = (true, false);
            done += 1;
        }
        // What could be kept is kept; a move never takes the last copy away.
        let mut others = thing.copies.iter().filter(|copy| !is_source(copy));
        let is_movable = others.any(|copy| copy.is_done);
        if done < transfer.targets.len() || (is_move && !is_movable) {
            return Err(code::GONE);
        }
        self.marks
            .entry(if is_move { "moved" } else { "copied" })
            .and_modify(|n| *n += 1)
            .or_insert(1);
        if is_move {
            let (moved, kept) = std::mem::take(&mut thing.copies).into_iter().partition(is_source);
            thing.copies = kept;
            let (size, moved): (u64, Vec<super::Copy>) = (thing.size, moved);
            for copy in moved {
                self.set_aside(self.now + self.rules.release, copy, size);
            }
        }
        Ok(())
    }
}
