//! The store as the RFC and the behaviour notes describe it, in lists.
//!
//! Nothing here knows of allocators, indexes, entries or fences. Memory is a list of ranges: where the master
//! puts something is believed after checking that the place is free; that there was no place is believed unless
//! there plainly was one. Numbers in comments name sections of the behaviour notes.

mod aiming;
mod copying;
mod evicting;
mod reading;
mod rooms;
mod tasks;
mod writing;

use std::collections::{BTreeMap, BTreeSet};

use super::act::{Act, DORMANT, DORMANT_BYTES, KEEPER};
use super::look::{Seen, SeenCopy};
use super::perform::Heard;

/// What went otherwise than the model says.
pub type Followed = Result<(), String>;

pub mod code {
    //! Error numbers of the wire.
    pub const INTERNAL: i32 = -1;
    pub const SEGMENT_NOT_FOUND: i32 = -101;
    pub const SEGMENT_EXISTS: i32 = -102;
    pub const NO_SPACE: i32 = -200;
    pub const PARAMS: i32 = -600;
    pub const CLIENT: i32 = -601;
    pub const WRITE: i32 = -700;
    pub const NOT_READY: i32 = -703;
    pub const NOT_FOUND: i32 = -704;
    pub const EXISTS: i32 = -705;
    pub const LEASED: i32 = -706;
    pub const HAS_TASK: i32 = -708;
    pub const NO_TASK: i32 = -709;
    pub const REPLICA_NOT_FOUND: i32 = -710;
    pub const GONE: i32 = -712;
    pub const STATUS: i32 = -1010;
    pub const TASK_NOT_FOUND: i32 = -1400;
    pub const TASK_LIMIT: i32 = -1401;
}

/// The greatest instant of the peer's clock in milliseconds.
const LAST_INSTANT: u64 = i64::MAX as u64 / 1_000_000;

/// A client that a new leader has not heard keeps its segments for so long.
const UNHEARD_GRACE: u64 = 150_000;

/// The settings of a deployment; times in milliseconds.
#[derive(Clone, Debug)]
pub struct Rules {
    pub lease: u64,
    pub pin_default: u64,
    pub pin_max: u64,
    pub discard: u64,
    pub release: u64,
    pub client_ttl: u64,
    pub tasks_pending: usize,
    pub tasks_running: usize,
    pub tasks_finished: usize,
    pub task_pending_timeout: u64,
    pub task_running_timeout: u64,
    pub evict_ppm: u64,
    pub high_ppm: u64,
    pub allows_pinned: bool,
    /// Of placement; the model does not care which.
    pub strategy: u8,
}

impl Default for Rules {
    fn default() -> Self {
        Rules {
            lease: 3_000,
            pin_default: 9_000,
            pin_max: 100_000,
            discard: 6_000,
            release: 14_000,
            client_ttl: 40_000,
            tasks_pending: 3,
            tasks_running: 2,
            tasks_finished: 2,
            task_pending_timeout: 20_000,
            task_running_timeout: 30_000,
            evict_ppm: 300_000,
            high_ppm: 80_000,
            allows_pinned: true,
            strategy: 0,
        }
    }
}

/// One copy of an object.
#[derive(Clone, Debug)]
pub struct Copy {
    pub id: u64,
    pub room: u8,
    pub address: u64,
    pub is_done: bool,
    /// A copy or move fills it, not the object's writer.
    pub is_target: bool,
}

/// A soft-pin request that waits for its write.
#[derive(Clone, Debug)]
pub struct Wish {
    pub action: u8,
    pub ttl: u64,
    pub eligible: Vec<u64>,
}

/// An open copy or move.
#[derive(Clone, Debug)]
pub struct Transfer {
    pub by: u8,
    pub is_move: bool,
    pub source: u64,
    pub targets: Vec<u64>,
    pub started: u64,
}

/// An object.
#[derive(Clone, Debug)]
pub struct Thing {
    pub tenant: u8,
    pub by: u8,
    pub size: u64,
    pub began: u64,
    pub copies: Vec<Copy>,
    pub is_open: bool,
    pub wish: Option<Wish>,
    pub deadline: Option<u64>,
    pub lease: u64,
    pub group: String,
    pub is_hard: bool,
    pub checksum: Option<u64>,
    pub transfer: Option<Transfer>,
    /// It was copied or moved or lost copies, so the evictor may look at it late.
    pub is_odd: bool,
}

impl Thing {
    pub fn has_done(&self) -> bool {
        self.copies.iter().any(|copy| copy.is_done)
    }

    /// Whether it is a member of that group of that tenant.
    fn is_of(&self, tenant: u8, group: &str) -> bool {
        !group.is_empty() && self.tenant == tenant && self.group == group
    }

    pub fn is_all_done(&self) -> bool {
        self.copies.iter().all(|copy| copy.is_done)
    }

    fn is_pinned(&self, now: u64) -> bool {
        self.deadline.is_some_and(|deadline| now < deadline)
    }

    /// After copies were done or lost: whether the write is still open, and its wish can still come true
    /// (RFC "Revoke, preemption").
    pub fn settle(&mut self) {
        self.is_open &= self.copies.iter().any(|copy| !copy.is_done && !copy.is_target);
        let copies = &self.copies;
        let is_waiting = |id: &u64| copies.iter().any(|copy| copy.id == *id && !copy.is_done);
        let can_come_true = self.wish.as_ref().is_some_and(|w| w.eligible.iter().any(is_waiting));
        if !can_come_true {
            self.wish = None;
        }
    }
}

/// Memory that nobody may use until a time.
#[derive(Clone, Debug)]
pub struct Aside {
    pub until: u64,
    pub copy: Copy,
    pub size: u64,
}

/// Where a segment is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Open,
    /// Unmounted at that time.
    Leaving(u64),
    /// Its client was given up; only the cleaning-up is left.
    Ending,
}

/// A mounted segment.
#[derive(Clone, Debug)]
pub struct Room {
    pub owner: u8,
    pub size: u64,
    pub phase: Phase,
    /// Counts mounts.
    pub order: u64,
}

/// Whether eviction has been asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shortage {
    No,
    /// The master forgets that it was asked when it has nothing to evict. What lies on memory that is being
    /// cleaned up is nobody's any more, but it may still count it.
    Perhaps,
    Yes,
}

#[derive(Clone, Debug)]
pub struct Model {
    pub rules: Rules,
    pub now: u64,
    monotonic: u64,
    things: BTreeMap<String, Thing>,
    aside: Vec<Aside>,
    rooms: BTreeMap<u8, Room>,
    mounts: u64,
    /// Known clients, and whether they have re-mounted.
    clients: BTreeMap<u8, bool>,
    /// When the leader heard a client.
    heard: BTreeMap<u8, u64>,
    tasks: Vec<tasks::Task>,
    /// When this leader took over, by both clocks.
    led_since: u64,
    led_since_monotonic: u64,
    /// Whether a write found no room since eviction last helped.
    shortage: Shortage,
    /// The state's time at the last comparison.
    state_time: u64,
    /// How often something was come across.
    pub marks: BTreeMap<&'static str, u64>,
}

pub fn fail<T>(why: impl Into<String>) -> Result<T, String> {
    Err(why.into())
}

pub fn equal<T: PartialEq + std::fmt::Debug>(what: &str, heard: &T, expected: &T) -> Followed {
    if heard == expected {
        return Ok(());
    }
    fail(format!("{what}: heard {heard:?}, expected {expected:?}"))
}

impl Model {
    pub fn new(rules: Rules, now: u64) -> Self {
        let phase = Phase::Leaving(u64::MAX);
        let dormant = Room { owner: KEEPER, size: DORMANT_BYTES, phase, order: 1 };
        Model {
            rules,
            now,
            monotonic: 0,
            things: BTreeMap::new(),
            aside: Vec::new(),
            rooms: [(DORMANT, dormant)].into(),
            mounts: 1,
            clients: BTreeMap::new(),
            heard: BTreeMap::new(),
            tasks: Vec::new(),
            led_since: now,
            led_since_monotonic: 0,
            shortage: Shortage::No,
            state_time: 0,
            marks: BTreeMap::new(),
        }
    }

    fn mark(&mut self, what: &'static str) {
        *self.marks.entry(what).or_default() += 1;
    }

    fn mark_if(&mut self, is_so: bool, what: &'static str) {
        if is_so {
            self.mark(what);
        }
    }

    /// Takes the time over; it never runs backwards (edge 30). A new leader may begin earlier than the last
    /// one ended, if that one's last moments left no trace in the state.
    pub fn tick(&mut self, act: &Act, now: u64, monotonic: u64) -> Followed {
        if now < self.now && !matches!(act, Act::Restart) {
            return fail(format!("time ran back from {} to {now}", self.now));
        }
        (self.now, self.monotonic) = (now, monotonic);
        Ok(())
    }

    /// Does what an act says and compares what was heard of it.
    pub fn follow(&mut self, act: &Act, heard: &Heard) -> Followed {
        match act {
            Act::Pass(_) | Act::SetWall(_) => Ok(()),
            Act::Race(one, other) => self.follow_race((one, other), heard),
            Act::Restart => {
                self.restart();
                Ok(())
            }
            Act::Sweep => {
                self.sweep();
                Ok(())
            }
            Act::Evict => self.evict(heard),
            Act::Start { .. } | Act::End { .. } | Act::Revoke { .. } => self.write(act, heard),
            Act::Read { .. } | Act::Exists { .. } | Act::ReadMatching { .. } => {
                self.read(act, heard)
            }
            Act::Remove { .. }
            | Act::RemoveAll { .. }
            | Act::RemoveMatching { .. }
            | Act::Clear { .. } => self.remove(act, heard),
            Act::Transfer { .. } | Act::EndTransfer { .. } => self.transfer(act, heard),
            Act::MakeTask { .. }
            | Act::Fetch { .. }
            | Act::Complete { .. }
            | Act::QueryTask { .. } => self.task(act, heard),
            act => self.mounts(act, heard),
        }
    }

    /// Two calls at once must look as if one had come after the other.
    fn follow_race(&mut self, (one, other): (&Act, &Act), heard: &Heard) -> Followed {
        let Heard::Both(of_one, of_other) = heard else { return fail("no race was heard") };
        let in_order = |first: (&Act, &Heard), then: (&Act, &Heard)| {
            let mut model = self.clone();
            model.follow(first.0, first.1)?;
            model.follow(then.0, then.1)?;
            Ok::<Model, String>(model)
        };
        let forwards = in_order((one, of_one), (other, of_other));
        let found = forwards.or_else(|why| {
            let backwards = in_order((other, of_other), (one, of_one));
            backwards.map_err(|also| format!("in no order: {why}; {also}"))
        });
        *self = found?;
        Ok(())
    }

    /// Leases and what was heard die with a leader; what it may have promised to readers holds (4.1).
    fn restart(&mut self) {
        self.things.values_mut().for_each(|thing| thing.lease = 0);
        self.heard.clear();
        self.shortage = Shortage::No;
        (self.led_since, self.led_since_monotonic) = (self.now, self.monotonic);
    }

    /// Whether somebody may be reading an object.
    fn is_leased(&self, thing: &Thing) -> bool {
        thing.lease > self.now || (self.is_promised(thing) && self.now < self.promised_until())
    }

    fn promised_until(&self) -> u64 {
        self.led_since + self.rules.lease
    }

    /// An earlier leader may have shown it.
    fn is_promised(&self, thing: &Thing) -> bool {
        thing.has_done() && thing.began <= self.led_since
    }

    fn is_lost(&self, room: u8) -> bool {
        self.rooms.get(&room).is_none_or(|room| room.phase == Phase::Ending)
    }

    /// What lay on lost memory is lost for everybody (5.6 to 5.8).
    fn forget_lost(&mut self) {
        let lost: BTreeSet<u8> = (0..super::act::SEGMENTS).filter(|n| self.is_lost(*n)).collect();
        for thing in self.things.values_mut() {
            let before = thing.copies.len();
            thing.copies.retain(|copy| !lost.contains(&copy.room));
            thing.is_odd |= thing.copies.len() < before;
            thing.settle();
        }
        self.drop_empty();
        self.aside.retain(|aside| !lost.contains(&aside.copy.room));
    }

    fn drop_empty(&mut self) {
        self.things.retain(|_, thing| !thing.copies.is_empty());
    }

    /// Every range in use: where, from which address, how many bytes.
    fn used(&self) -> impl Iterator<Item = (u8, u64, u64)> {
        let held = self.things.values();
        let held = held.flat_map(|thing| thing.copies.iter().map(|copy| (copy, thing.size)));
        let all = held.chain(self.aside.iter().map(|aside| (&aside.copy, aside.size)));
        all.map(|(copy, size)| (copy.room, copy.address, size))
    }

    /// The model against what the master's state shows.
    pub fn compare(&mut self, seen: &Seen) -> Followed {
        if seen.time < self.state_time || seen.time > self.now {
            return fail(format!("state time went from {} to {}", self.state_time, seen.time));
        }
        self.state_time = seen.time;
        equal("findings", &seen.findings, &Vec::new())?;
        let (known, shown): (Vec<_>, Vec<_>) =
            (self.things.keys().collect(), seen.keys.keys().collect());
        equal("keys", &shown, &known)?;
        for ((key, thing), seen) in self.things.iter().zip(seen.keys.values()) {
            let copies = thing.copies.iter().map(|copy| SeenCopy {
                id: copy.id,
                room: copy.room,
                address: copy.address,
                is_done: copy.is_done,
            });
            let mut copies: Vec<_> = copies.collect();
            copies.sort();
            equal(&format!("copies of {key}"), &seen.copies, &copies)?;
            equal(&format!("{key} is readable"), &seen.is_readable, &thing.has_done())?;
            let active = |deadline: Option<u64>| deadline.filter(|at| self.now < *at);
            let pins = (active(seen.deadline), active(thing.deadline));
            equal(&format!("pin of {key}"), &pins.0, &pins.1)?;
            let leases = (seen.lease > self.now, thing.lease > self.now);
            equal(&format!("{key} is leased"), &leases.0, &leases.1)?;
        }
        equal("used bytes", &seen.used, &self.used().map(|(.., size)| size).sum())?;
        self.compare_gauges(seen)
    }

    /// Objects on memory that is being cleaned up are counted until that is done.
    fn compare_gauges(&self, seen: &Seen) -> Followed {
        if self.rooms.values().any(|room| room.phase == Phase::Ending) {
            return Ok(());
        }
        equal("key gauge", &seen.key_count, &(self.things.len() as u64))?;
        let committed = self.things.values().filter(|thing| thing.deadline.is_some()).count();
        equal("pin gauge", &seen.pins, &(committed as u64))
    }
}
