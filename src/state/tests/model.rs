//! The state against a small model that was written from the RFC and the behaviour notes, not from the code.
//!
//! The model knows nothing of allocators, indexes or tables: it keeps a list of writes and believes the
//! addresses it is told after checking them. Compared after every command: results, who can read what, pins
//! and their deadlines, bytes in use.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::script::{Script, Step, opening, plain_step};
use super::world::memory;
use crate::model::ids::shard_of;
use crate::model::time::INSTANT_MS_MAX;
use crate::model::{ClientId, ErrorCode, PinRequest, ReplicaSelect, SegmentId};
use crate::state::command::{Command, End, Remove, Revoke, Start, StartItem, Sweep, SweepPins};
use crate::state::table::table_hash;
use crate::state::{Entry, Reply, State};

type Outcome = Result<(), ErrorCode>;
/// Tenant and key.
type Name = (String, Vec<u8>);

#[derive(Clone, Debug)]
struct Copy {
    segment: SegmentId,
    address: u64,
}

#[derive(Clone, Debug)]
struct Write {
    by: ClientId,
    size: u64,
    began: u64,
    copies: Vec<Copy>,
    is_done: bool,
    pending: PinRequest,
    deadline: Option<u64>,
}

#[derive(Clone, Debug)]
struct Room {
    owner: ClientId,
    base: u64,
    size: u64,
    is_ending: bool,
}

#[derive(Debug, Default)]
struct Model {
    now: u64,
    writes: BTreeMap<Name, Write>,
    /// Until when, where, how many bytes from which address.
    set_aside: Vec<(u64, Copy, u64)>,
    rooms: BTreeMap<SegmentId, Room>,
}

impl Model {
    fn is_lost(&self, copy: &Copy) -> bool {
        self.rooms.get(&copy.segment).is_none_or(|room| room.is_ending)
    }

    /// What lay on lost memory is lost for everybody.
    fn forget_lost(&mut self) {
        let rooms = &self.rooms;
        let is_there = |copy: &Copy| rooms.get(&copy.segment).is_some_and(|room| !room.is_ending);
        for write in self.writes.values_mut() {
            write.copies.retain(is_there);
        }
        self.writes.retain(|_, write| !write.copies.is_empty());
        self.set_aside.retain(|(_, copy, _)| is_there(copy));
    }

    fn start(&mut self, state: &State, start: &Start, item: &StartItem, told: &Told) {
        let name = name(start.tenant.as_ref(), &item.key.0);
        if let Some(old) = self.writes.get(&name) {
            if old.is_done || old.began + start.rules.discard_timeout_ms >= self.now {
                assert_eq!(*told, Err(ErrorCode::ObjectAlreadyExists), "{name:?}");
                return;
            }
            let until = old.began + start.rules.release_timeout_ms;
            for copy in old.copies.clone() {
                self.set_aside.push((until, copy, old.size));
            }
            self.writes.remove(&name);
        }
        let Ok(copies) = told else {
            assert_eq!(*told, Err(ErrorCode::NoAvailableHandle), "{name:?}");
            self.expect_no_room(item.size);
            return;
        };
        assert!(!copies.is_empty() && copies.len() <= start.config.replica_num as usize);
        let copies: Vec<Copy> =
            copies.iter().map(|address| self.place(*address, item.size)).collect();
        let places: BTreeSet<_> =
            copies.iter().map(|copy| segment_name(state, copy.segment)).collect();
        assert_eq!(places.len(), copies.len(), "two copies at one place");
        let write = Write {
            by: start.client,
            size: item.size,
            began: self.now,
            copies,
            is_done: false,
            pending: start.config.pin,
            deadline: None,
        };
        self.writes.insert(name, write);
    }

    /// Believes an address if it lies in a room that takes writes and touches nothing that is in use.
    fn place(&self, address: u64, size: u64) -> Copy {
        let holds = |room: &&Room| {
            !room.is_ending && room.base <= address && address + size <= room.base + room.size
        };
        let mut rooms = self.rooms.iter().filter(|(_, room)| holds(room));
        let (segment, _) = rooms.next().unwrap_or_else(|| panic!("{address:#x} is in no room"));
        let touches = |start: u64, bytes: u64| start < address + size && address < start + bytes;
        let mut used = self.used();
        assert!(!used.any(|(copy, bytes)| touches(copy.address, bytes)), "{address:#x} is in use");
        Copy { segment: *segment, address }
    }

    fn used(&self) -> impl Iterator<Item = (&Copy, u64)> {
        let written = self.writes.values();
        let written = written.flat_map(|write| write.copies.iter().map(|copy| (copy, write.size)));
        written.chain(self.set_aside.iter().map(|(_, copy, size)| (copy, *size)))
    }

    /// An empty room that is much larger than the write would have taken it.
    fn expect_no_room(&self, size: u64) {
        for (segment, room) in self.rooms.iter().filter(|(_, room)| !room.is_ending) {
            let is_empty = !self.used().any(|(copy, _)| copy.segment == *segment);
            assert!(!is_empty || room.size < 2 * size, "{segment} is empty and takes {size}");
        }
    }

    fn end(&mut self, end: &End, key: &[u8]) -> Outcome {
        let now = self.now;
        let write = self.writes.get_mut(&name(end.tenant.as_ref(), key));
        let write = write.ok_or(ErrorCode::ObjectNotFound)?;
        if write.by != end.client {
            return Err(ErrorCode::IllegalClient);
        }
        let is_meant = is_memory(end.select);
        if write.is_done {
            return if is_meant { Ok(()) } else { Err(ErrorCode::InvalidWrite) };
        }
        if is_meant {
            write.is_done = true;
            write.deadline = match write.pending {
                PinRequest::Enable(ttl) if ttl.0 > 0 => {
                    Some(now.saturating_add(ttl.0).min(INSTANT_MS_MAX))
                }
                _ => None,
            };
        }
        Ok(())
    }

    fn revoke(&mut self, revoke: &Revoke, key: &[u8]) -> Outcome {
        let name = name(revoke.tenant.as_ref(), key);
        let write = self.writes.get(&name).ok_or(ErrorCode::ObjectNotFound)?;
        if write.by != revoke.client {
            return Err(ErrorCode::IllegalClient);
        }
        if write.is_done {
            return Err(ErrorCode::InvalidWrite);
        }
        if is_memory(revoke.select) {
            self.writes.remove(&name);
        }
        Ok(())
    }

    fn remove(&mut self, remove: &Remove, key: &[u8]) -> Outcome {
        let name = name(remove.tenant.as_ref(), key);
        match self.writes.get(&name) {
            None => Err(ErrorCode::ObjectNotFound),
            Some(write) if !write.is_done => Err(ErrorCode::ReplicaIsNotReady),
            Some(_) => {
                self.writes.remove(&name);
                Ok(())
            }
        }
    }

    /// Pins that are due end; of the rest the state says how many it did, the model which those were.
    fn sweep_pins(&mut self, sweep: &Sweep) {
        let until = sweep.pins_until.0.min(self.now);
        for write in self.writes.values_mut() {
            write.deadline = write.deadline.filter(|deadline| *deadline > until);
        }
    }

    /// The same for pins in the order of deadlines and shards.
    fn sweep_some_pins(&mut self, sweep: &SweepPins) {
        let now = self.now;
        for ((tenant, key), write) in &mut self.writes {
            let tenant = crate::model::Tenant::parse(tenant).unwrap();
            let shard = shard_of(table_hash(&tenant, key)) as u16;
            let is_due = |deadline: u64| {
                deadline <= now && (deadline, shard) < (sweep.until.0, sweep.shards)
            };
            write.deadline = write.deadline.filter(|deadline| !is_due(*deadline));
        }
    }

    /// With room for all, everything that is due goes.
    fn sweep_memory(&mut self, sweep: &Sweep) {
        let (now, timeout) = (self.now, sweep.release_timeout_ms);
        self.writes.retain(|_, write| write.is_done || write.began + timeout >= now);
        self.set_aside.retain(|(until, ..)| *until > now);
    }
}

/// Addresses of the replicas that a start was told, or its error.
type Told = Result<Vec<u64>, ErrorCode>;

fn is_memory(select: ReplicaSelect) -> bool {
    matches!(select, ReplicaSelect::All | ReplicaSelect::Memory)
}

fn name(tenant: Option<&crate::model::Tenant>, key: &[u8]) -> Name {
    (tenant.map_or("default", |tenant| tenant.name()).to_owned(), key.to_vec())
}

fn segment_name(state: &State, id: SegmentId) -> String {
    let index = state.segments().index_of(id).unwrap();
    state.segments().get(index).unwrap().segment.name.to_string()
}

impl Model {
    /// Does what a command asks, and compares its reply.
    fn follow(&mut self, state: &State, command: &Command, reply: &Reply) {
        match (command, reply) {
            (Command::PutStart(start), Reply::Starts(results)) => {
                for (item, result) in start.items.iter().zip(results) {
                    let told = result.as_ref().map_err(|code| *code);
                    let told = told.map(|all| all.iter().map(|one| memory(one).1).collect());
                    self.start(state, start, item, &told);
                }
            }
            (Command::PutEnd(end), Reply::Results(results)) => {
                let expected = end.items.iter().map(|item| self.end(end, &item.key.0));
                assert_eq!(expected.collect::<Vec<_>>(), *results);
            }
            (Command::PutRevoke(revoke), Reply::Results(results)) => {
                let expected = revoke.keys.iter().map(|key| self.revoke(revoke, &key.0));
                assert_eq!(expected.collect::<Vec<_>>(), *results);
            }
            (Command::Remove(remove), Reply::Results(results)) => {
                let expected = remove.keys.iter().map(|key| self.remove(remove, &key.0));
                assert_eq!(expected.collect::<Vec<_>>(), *results);
            }
            (Command::Sweep(sweep), Reply::Swept(_)) => {
                self.sweep_pins(sweep);
                self.sweep_memory(sweep);
            }
            (Command::SweepPins(sweep), Reply::Swept(_)) => self.sweep_some_pins(sweep),
            _ => self.follow_rooms(state),
        }
    }

    /// Takes over which segments there are; what that does to objects is the model's own affair.
    fn follow_rooms(&mut self, state: &State) {
        let room = |mounted: &crate::state::segment_table::Mounted| Room {
            owner: mounted.owner,
            base: mounted.segment.base,
            size: mounted.segment.size,
            is_ending: !mounted.status.is_readable(),
        };
        let rooms = state.segments().iter().map(|(_, m)| (m.segment.id, room(m)));
        let rooms: BTreeMap<SegmentId, Room> = rooms.collect();
        for (id, room) in &rooms {
            let old = self.rooms.get(id);
            let is_same = old.is_none_or(|old| (old.owner, old.base) == (room.owner, room.base));
            assert!(is_same, "{id} changed hands");
        }
        // A segment that ended and came back within one command would hide its loss; none does.
        self.rooms = rooms;
        self.forget_lost();
    }

    fn compare(&self, state: &State) {
        let directory = state.view().directory();
        let (mut readable, mut pins) = (BTreeSet::new(), BTreeMap::new());
        for shard in state.view().table.freeze() {
            for object in shard.objects() {
                let tenant = state.tenant_name(object.tenant).unwrap().name().to_owned();
                let name = (tenant, object.key.to_vec());
                if directory.exists(object)
                    && let Some(deadline) = object.pin()
                {
                    pins.insert(name.clone(), deadline.0);
                }
                if directory.is_readable(object) {
                    readable.insert(name);
                }
            }
        }
        let done = self.writes.iter().filter(|(_, write)| write.is_done);
        assert_eq!(readable, done.map(|(name, _)| name.clone()).collect());
        let pinned = self.writes.iter().filter_map(|(n, w)| Some((n.clone(), w.deadline?)));
        assert_eq!(pins, pinned.collect());
        let used: u64 = self.used().filter(|(copy, _)| !self.is_lost(copy)).map(|(_, b)| b).sum();
        assert_eq!(state.segments().memory_usage().0, used);
    }
}

/// The sweeps of a script end everything that is due, as the model's do.
fn unbounded(mut entry: Entry) -> Entry {
    for command in &mut entry.commands {
        if let Command::Sweep(sweep) = command {
            sweep.items_max = 1_000;
        }
    }
    entry
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn the_state_answers_as_a_model_written_from_the_rfc(
        steps in prop::collection::vec(plain_step(), 10..100),
    ) {
        let (mut state, mut model, mut script) = (State::default(), Model::default(), Script::default());
        let mut history: Vec<Step> = opening();
        history.extend(steps);
        for step in &history {
            let entry = unbounded(script.entry(step, &state));
            model.now = model.now.max(entry.stamp.now.0);
            for command in &entry.commands {
                // One command an entry, so that the model looks between them.
                let one = Entry { stamp: entry.stamp, commands: vec![command.clone()] };
                let replies = state.apply_entry(&one);
                model.follow(&state, command, &replies[0]);
                model.compare(&state);
            }
        }
    }
}
