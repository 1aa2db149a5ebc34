//! Fills in what an act leaves open: keys on which it can work, and who may do it.

use super::super::act::{
    AIMED, Act, EMPTY_KEY, KEYS_EACH, name_of, name_of_key, scoped, tenant_of,
};
use super::{Model, Phase, Thing};

/// The number of a thing's key, by its name.
fn number(name: &str, thing: &Thing) -> u8 {
    let text = name.strip_prefix(&scoped(thing.tenant, "k"));
    let number = text.and_then(|text| text.parse::<u8>().ok());
    number.map_or(EMPTY_KEY, |number| thing.tenant * KEYS_EACH + number)
}

/// A call names one tenant, so all keys become that of the first.
fn of_one_tenant(keys: &mut [u8]) {
    let tenant = keys.first().map_or(0, |key| tenant_of(*key));
    for key in keys.iter_mut().filter(|key| **key != EMPTY_KEY) {
        *key = tenant * KEYS_EACH + *key % KEYS_EACH;
    }
}

impl Model {
    /// The act with everything in it told.
    pub fn aim(&self, act: &Act) -> Act {
        let mut act = act.clone();
        match &mut act {
            Act::Start { keys, .. } => self.aim_keys(keys, |_| true),
            Act::End { by, keys, .. } | Act::Revoke { by, keys, .. } => {
                self.aim_keys(keys, |thing| thing.is_open);
                *by = by.or_else(|| self.writer(keys));
            }
            Act::Clear { by, keys, .. } => {
                // The call knows no tenant but the default one.
                self.aim_keys(keys, |thing| thing.has_done() && thing.tenant == 0);
                *by = by.or_else(|| self.writer(keys));
            }
            Act::Read { keys, .. } | Act::Exists { keys, .. } | Act::Remove { keys, .. } => {
                self.aim_keys(keys, Thing::has_done);
            }
            Act::Unmount { by, n } | Act::Graceful { by, n, .. } => {
                *by = by.or(Some(self.rooms.get(n).map_or(1, |room| room.owner)));
            }
            Act::Transfer { key, from, to, .. } => {
                *key = self.aim_key(*key, |thing| thing.has_done() && thing.transfer.is_none());
                let lies =
                    self.things.get(&name_of_key(*key)).and_then(|thing| thing.copies.first());
                *from = from.or(Some(lies.map_or(0, |copy| name_of(copy.room))));
                self.aim_names(*key, to);
            }
            Act::EndTransfer { by, key, is_move, .. } => {
                *key = self.aim_key(*key, |thing| thing.transfer.is_some());
                let thing = self.things.get(&name_of_key(*key));
                let open = thing.and_then(|thing| thing.transfer.as_ref());
                *by = by.or(Some(open.map_or(1, |open| open.by)));
                *is_move = is_move.or(Some(open.is_some_and(|open| open.is_move)));
            }
            Act::MakeTask { key, to, .. } => {
                *key = self.aim_key(*key, Thing::has_done);
                self.aim_names(*key, to);
            }
            Act::Fetch { by, .. } if *by == AIMED => {
                *by = self.tasks.iter().find(|task| task.is_waiting()).map_or(1, |t| t.client);
            }
            Act::Complete { by, task, .. } => {
                if *task == AIMED {
                    let open = self.tasks.iter().position(|task| !task.is_over());
                    *task = open.and_then(|at| u8::try_from(at).ok()).unwrap_or(0);
                }
                let task = self.tasks.get(usize::from(*task));
                *by = by.or(Some(task.map_or(1, |task| task.client)));
            }
            Act::Race(one, other) => {
                let (aimed, other_aimed) = (self.aim(one), self.aim(other));
                (**one, **other) = (aimed, other_aimed);
            }
            _ => {}
        }
        act
    }

    fn aim_key(&self, key: u8, suits: impl Fn(&Thing) -> bool) -> u8 {
        if key < AIMED {
            return key;
        }
        let suiting = self.things.iter().filter(|(_, thing)| suits(thing));
        let numbers: Vec<u8> = suiting.map(|(name, thing)| number(name, thing)).collect();
        let at = usize::from(key - AIMED).checked_rem(numbers.len());
        at.map_or(key - AIMED, |at| numbers[at])
    }

    fn aim_keys(&self, keys: &mut [u8], suits: impl Fn(&Thing) -> bool) {
        keys.iter_mut().for_each(|key| *key = self.aim_key(*key, &suits));
        of_one_tenant(keys);
    }

    /// Names of open segments on which a key has no copy.
    fn aim_names(&self, key: u8, names: &mut [u8]) {
        let thing = self.things.get(&name_of_key(key));
        let holds = |name: u8| {
            thing.is_some_and(|thing| thing.copies.iter().any(|copy| name_of(copy.room) == name))
        };
        let open = self.rooms.iter().filter(|(_, room)| room.phase == Phase::Open);
        let free: Vec<u8> = open.map(|(n, _)| name_of(*n)).filter(|name| !holds(*name)).collect();
        for name in names.iter_mut().filter(|name| **name >= AIMED) {
            let at = usize::from(*name - AIMED).checked_rem(free.len());
            *name = at.map_or(*name - AIMED, |at| free[at]);
        }
    }

    fn writer(&self, keys: &[u8]) -> Option<u8> {
        let first = keys.first().and_then(|key| self.things.get(&name_of_key(*key)));
        Some(first.map_or(1, |thing| thing.by))
    }
}
