//! What clients asked and were told, in one order, with unknown outcomes kept as such.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::time::Time;

/// A client of the run.
pub type ClientNo = u32;

/// A range of a client's memory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Its segment.
    pub endpoint: Arc<str>,
    /// First byte.
    pub address: u64,
    /// Bytes.
    pub size: u64,
}

/// What was asked of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Start a put.
    PutStart,
    /// Start an upsert.
    UpsertStart,
    /// End a write with this number as its checksum.
    End(u64),
    /// Take a write back.
    Revoke,
    /// Remove the object.
    Remove,
    /// Where is it?
    Get,
    /// Is it readable?
    Exist,
}

/// What was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Done; for `Exist`: it is.
    Yes,
    /// It is not readable.
    No,
    /// The object of the write with that number.
    Seen(u64),
    /// There is no such key.
    NotFound,
    /// There is one already.
    Exists,
    /// Nothing of it is readable.
    NotReady,
    /// Somebody may be reading.
    Leased,
    /// Refused for another reason, by its number.
    Refused(i32),
    /// No answer came.
    Unknown,
}

/// A call about one key.
#[derive(Clone, Debug)]
pub struct Op {
    /// Who.
    pub client: ClientNo,
    /// Number of the event with which it began.
    pub begun: u64,
    /// Number of the event with which it ended; `u64::MAX` if its outcome is unknown.
    pub ended: u64,
    /// Simulated time at its begin, ms.
    pub begun_ms: u64,
    /// And at its end.
    pub ended_ms: u64,
    /// What was asked.
    pub act: Act,
    /// What was told.
    pub told: Told,
}

/// A soft pin that was asked for and acknowledged.
#[derive(Clone, Debug)]
pub struct PinClaim {
    /// The key.
    pub key: String,
    /// Its length.
    pub ttl_ms: u64,
    /// State time that had passed before the write was ended.
    pub not_before: u64,
    /// State time when it was known to be.
    pub not_after: u64,
}

/// A reader was promised that this memory stays as it is.
#[derive(Clone, Debug)]
pub struct Promise {
    /// Of which key.
    pub key: String,
    /// Where.
    pub place: Place,
    /// Since when the reader knows it, ms.
    pub from_ms: u64,
    /// Until when, ms.
    pub until_ms: u64,
    /// An upsert may have put another object into the place of what was read.
    pub may_be_replaced: bool,
}

/// Memory that readers of a key were told and that an upsert in place took from them: whoever takes
/// that upsert back frees it at once, whatever is promised. No other call may.
#[derive(Clone, Debug)]
struct Freed {
    place: Place,
    /// Readers who began later were told of it anew, ms; `u64::MAX` while that is not known.
    until_ms: u64,
}

/// Everything that clients did.
#[derive(Default)]
pub struct Log {
    /// Calls by key.
    pub ops: BTreeMap<String, Vec<Op>>,
    /// Where the object of each write lies, as its writer was told.
    pub places: BTreeMap<u64, Place>,
    /// Soft pins by the number of their write.
    pub pins: BTreeMap<u64, PinClaim>,
    /// Promises that may still hold.
    pub promises: Vec<Promise>,
    /// Writes whose clients still wait for the answer, one a client.
    out: BTreeMap<ClientNo, (String, Begun, Act)>,
    /// Until when an upsert of a key may have replaced what readers saw of it, ms.
    upserts: BTreeMap<String, u64>,
    /// Memory that may have been freed by taking back an upsert in place.
    freed: BTreeMap<String, Vec<Freed>>,
    /// Answers that contradict each other, found while they came.
    pub findings: Vec<String>,
    /// Greatest state time seen on any node.
    pub state_ms: u64,
    /// Descriptors compared with those of their writer.
    pub places_checked: u64,
    /// Placements and removals compared with what was promised to readers.
    pub promises_checked: u64,
    /// Promises that ended early because an upsert in place was taken back.
    pub promises_void: u64,
    /// Calls with an answer.
    pub answered: u64,
    /// Calls without.
    pub unknown: u64,
    /// Numbers given to writes.
    pub writes: u64,
}

/// The history of a run. Clones are the same one.
#[derive(Clone, Default)]
pub struct History {
    /// What was done.
    pub log: Arc<Mutex<Log>>,
    time: Time,
    /// Whether clients only read.
    is_lull: Arc<AtomicBool>,
}

/// A call that has begun.
#[derive(Clone, Copy)]
pub struct Begun {
    at: u64,
    at_ms: u64,
    /// Greatest state time seen before it.
    pub state_ms: u64,
}

/// Findings that are kept; more say nothing new.
const FINDINGS_MAX: usize = 20;

/// How much earlier than told a promise may end: clocks that are slewed run up to a hundredth too
/// fast, and answers are counted in whole milliseconds.
const GRACE_MS: u64 = 3;

impl History {
    /// An empty one.
    pub fn new(time: Time) -> Self {
        History { log: Arc::default(), time, is_lull: Arc::default() }
    }

    /// Whether clients only read from now on.
    pub fn set_lull(&self, is_lull: bool) {
        self.is_lull.store(is_lull, Ordering::Relaxed);
    }

    /// Whether clients only read.
    pub fn is_lull(&self) -> bool {
        self.is_lull.load(Ordering::Relaxed)
    }

    /// A call begins.
    pub fn begin(&self) -> Begun {
        let state_ms = self.log.lock().state_ms;
        Begun { at: self.time.next_event(), at_ms: self.time.ms(), state_ms }
    }

    /// A client's write is on its way: if the client ends before its answer comes, the outcome is unknown.
    pub fn is_out(&self, client: ClientNo, key: &str, begun: Begun, act: Act) {
        self.log.lock().out.insert(client, (key.to_owned(), begun, act));
    }

    /// The client's write has ended, in whatever way.
    pub fn is_back(&self, client: ClientNo) {
        self.log.lock().out.remove(&client);
    }

    /// The clients have ended in the midst of what they did.
    pub fn clients_are_gone(&self) {
        let out = std::mem::take(&mut self.log.lock().out);
        for (client, (key, begun, act)) in out {
            self.end(client, &key, begun, act, Told::Unknown);
        }
    }

    /// It has ended.
    pub fn end(&self, client: ClientNo, key: &str, begun: Begun, act: Act, told: Told) {
        let mut log = self.log.lock();
        let is_known = told != Told::Unknown;
        let ended = if is_known { self.time.next_event() } else { u64::MAX };
        *(if is_known { &mut log.answered } else { &mut log.unknown }) += 1;
        let (begun_ms, ended_ms) = (begun.at_ms, self.time.ms());
        let op = Op { client, begun: begun.at, ended, begun_ms, ended_ms, act, told };
        log.ops.entry(key.to_owned()).or_default().push(op);
    }

    /// A number for a write.
    pub fn number(&self) -> u64 {
        let mut log = self.log.lock();
        log.writes += 1;
        log.writes
    }

    /// A reader was told where the object of write `id` is, for so long.
    pub fn saw(&self, key: &str, id: u64, place: Place, begun: Begun, lease_ms: u64) {
        let now = self.time.ms();
        let mut log = self.log.lock();
        if let Some(told) = log.places.get(&id) {
            let is_same = *told == place;
            let what = format!(
                "{key}: a reader of write {id} was sent to {place:?}, its writer to {told:?}"
            );
            log.places_checked += 1;
            log.note(is_same, what);
        }
        let until_ms = begun.at_ms + (lease_ms - lease_ms / 50).saturating_sub(GRACE_MS);
        log.promises.retain(|promise| promise.until_ms > now);
        let may_be_replaced = log.upserts.get(key).is_some_and(|until| *until >= begun.at_ms);
        let freed = log.freed.get(key).map_or(&[][..], Vec::as_slice);
        let is_void =
            freed.iter().any(|freed| freed.place == place && freed.until_ms >= begun.at_ms);
        log.promises_void += u64::from(is_void);
        if until_ms > now && !is_void {
            let (key, from_ms) = (key.to_owned(), now);
            log.promises.push(Promise { key, place, from_ms, until_ms, may_be_replaced });
        }
    }

    /// An upsert of a key begins: its object may be another from now on.
    pub fn upsert_begins(&self, key: &str) {
        let mut log = self.log.lock();
        let of_key = log.promises.iter_mut().filter(|promise| promise.key == key);
        of_key.for_each(|promise| promise.may_be_replaced = true);
        log.upserts.insert(key.to_owned(), u64::MAX);
    }

    /// It was answered.
    pub fn upsert_began(&self, key: &str) {
        let now = self.time.ms();
        self.log.lock().upserts.insert(key.to_owned(), now);
    }

    /// The writer of an upsert at this place takes it back. If it was one in place, the memory that readers
    /// were promised, and that it has written to since, is free at once (chapters 2.4 and 2.5 of the
    /// behaviour notes); memory of any other upsert was promised to nobody.
    pub fn upsert_is_revoked(&self, key: &str, place: &Place) {
        let mut log = self.log.lock();
        let before = log.promises.len();
        log.promises.retain(|promise| promise.key != key || promise.place != *place);
        log.promises_void += (before - log.promises.len()) as u64;
        let freed = log.freed.entry(key.to_owned()).or_default();
        freed.push(Freed { place: place.clone(), until_ms: u64::MAX });
    }

    /// That was answered.
    pub fn upsert_was_revoked(&self, key: &str, place: &Place) {
        let now = self.time.ms();
        let mut log = self.log.lock();
        let freed = log.freed.get_mut(key).map_or(&mut [][..], Vec::as_mut_slice);
        let of_place = freed.iter_mut().filter(|freed| freed.place == *place);
        of_place.for_each(|freed| freed.until_ms = freed.until_ms.min(now));
    }

    /// A writer was told where to write: nowhere that is promised, unless it is an upsert of the very object, in
    /// place.
    pub fn placed(&self, key: &str, place: &Place, is_upsert: bool) {
        let now = self.time.ms();
        let mut log = self.log.lock();
        log.promises_checked += 1;
        let end = place.address.saturating_add(place.size);
        let is_broken = |promise: &&Promise| {
            let there = &promise.place;
            let is_in_place = is_upsert && promise.key == key && *there == *place;
            there.endpoint == place.endpoint
                && there.address < end
                && place.address < there.address.saturating_add(there.size)
                && !is_in_place
                && promise.is_running(now)
        };
        let broken = log.promises.iter().find(is_broken).cloned();
        let what = format!("{key} was given {place:?} at {now} ms, which is promised: {broken:?}");
        log.note(broken.is_none(), what);
    }

    /// A key was removed, without force, by a call that began then: not while a reader was promised it.
    pub fn removed(&self, key: &str, begun: Begun) {
        let now = self.time.ms();
        let mut log = self.log.lock();
        log.promises_checked += 1;
        let is_broken = |promise: &&Promise| {
            promise.key == key
                && !promise.may_be_replaced
                && promise.from_ms < begun.at_ms
                && promise.is_running(now)
        };
        let broken = log.promises.iter().find(is_broken).cloned();
        let what = format!("{key} was removed until {now} ms, but it is promised: {broken:?}");
        log.note(broken.is_none(), what);
    }
}

impl Promise {
    fn is_running(&self, now_ms: u64) -> bool {
        self.from_ms < now_ms && now_ms < self.until_ms
    }
}

impl Log {
    /// Keeps a finding unless all is well.
    pub fn note(&mut self, is_well: bool, what: String) {
        if !is_well && self.findings.len() < FINDINGS_MAX {
            self.findings.push(what);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(address: u64) -> Place {
        Place { endpoint: Arc::from("s"), address, size: 10 }
    }

    /// A history in which a reader of `k` was told where it is, for a second, and has been for a while.
    fn promised() -> (History, Time) {
        let time = Time::default();
        let history = History::new(time.clone());
        let begun = history.begin();
        history.saw("k", 1, place(100), begun, 1_000);
        (0..5).for_each(|_| time.tick());
        (history, time)
    }

    fn findings(history: &History) -> usize {
        history.log.lock().findings.len()
    }

    #[test]
    fn a_write_that_was_under_way_when_its_client_ended_may_have_been_done() {
        let history = History::new(Time::default());
        let begun = history.begin();
        history.is_out(1, "k", begun, Act::PutStart);
        history.is_back(1);
        history.end(1, "k", begun, Act::PutStart, Told::Yes);
        let begun = history.begin();
        history.is_out(1, "k", begun, Act::End(7));
        history.is_out(2, "l", begun, Act::Remove);
        history.is_back(2);
        history.clients_are_gone();
        let log = history.log.lock();
        let told = |key: &str| log.ops.get(key).map(|ops| ops.iter().map(|op| op.told).collect());
        assert_eq!(told("k"), Some(vec![Told::Yes, Told::Unknown]));
        assert_eq!(told("l"), None::<Vec<Told>>);
    }

    #[test]
    fn promised_memory_is_given_to_nobody_but_an_upsert_in_place() {
        let (history, time) = promised();
        history.placed("k", &place(100), true);
        history.placed("other", &place(110), false);
        assert_eq!(findings(&history), 0);
        history.placed("k", &place(100), false);
        history.placed("k", &place(105), true);
        history.placed("other", &place(95), true);
        assert_eq!(findings(&history), 3);
        (0..1_000).for_each(|_| time.tick());
        history.placed("other", &place(100), false);
        assert_eq!(findings(&history), 3, "the promise is over");
    }

    #[test]
    fn an_upsert_that_is_taken_back_frees_the_memory_that_it_wrote_to_and_no_other() {
        let (history, _) = promised();
        history.upsert_is_revoked("k", &place(300));
        history.upsert_was_revoked("k", &place(300));
        history.upsert_is_revoked("other", &place(100));
        history.placed("new", &place(100), false);
        assert_eq!(findings(&history), 1, "it had memory of its own, or is another key");

        let (history, time) = promised();
        let late = history.begin();
        history.upsert_is_revoked("k", &place(100));
        history.placed("new", &place(100), false);
        history.upsert_was_revoked("k", &place(100));
        history.saw("k", 1, place(100), late, 1_000);
        time.tick();
        history.placed("new", &place(100), false);
        assert_eq!(findings(&history), 0, "neither who read before nor who hears of it late");
    }

    #[test]
    fn a_promised_key_is_not_removed_unless_it_may_be_another_object() {
        let (history, time) = promised();
        history.removed("other", history.begin());
        assert_eq!(findings(&history), 0);
        history.removed("k", history.begin());
        assert_eq!(findings(&history), 1);
        history.upsert_begins("k");
        history.upsert_began("k");
        time.tick();
        history.removed("k", history.begin());
        assert_eq!(findings(&history), 1);
    }
}
