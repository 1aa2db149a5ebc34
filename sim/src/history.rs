//! What clients asked and were told, in one order, with unknown outcomes kept as such.

use std::collections::BTreeMap;
use std::sync::Arc;

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
    /// Until when an upsert of a key may have taken its memory from readers, ms: by the protocol it may
    /// write in place, whatever they were promised.
    pub upserts: BTreeMap<String, u64>,
    /// Answers that contradict each other, found while they came.
    pub findings: Vec<String>,
    /// Greatest state time seen on any node.
    pub state_ms: u64,
    /// Descriptors compared with those of their writer.
    pub places_checked: u64,
    /// Placements compared with what was promised to readers.
    pub promises_checked: u64,
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
        History { log: Arc::default(), time }
    }

    /// A call begins.
    pub fn begin(&self) -> Begun {
        let state_ms = self.log.lock().state_ms;
        Begun { at: self.time.next_event(), at_ms: self.time.ms(), state_ms }
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
        let is_upserted = log.upserts.get(key).is_some_and(|until| *until >= begun.at_ms);
        if until_ms > now && !is_upserted {
            log.promises.push(Promise { key: key.to_owned(), place, from_ms: now, until_ms });
        }
    }

    /// An upsert of a key begins: what readers of it were promised is void.
    pub fn upsert_begins(&self, key: &str) {
        let mut log = self.log.lock();
        log.promises.retain(|promise| promise.key != key);
        log.upserts.insert(key.to_owned(), u64::MAX);
    }

    /// It was answered: readers of what comes later are promised something again.
    pub fn upsert_began(&self, key: &str) {
        let now = self.time.ms();
        self.log.lock().upserts.insert(key.to_owned(), now);
    }

    /// A writer was told where to write.
    pub fn placed(&self, key: &str, place: &Place) {
        let now = self.time.ms();
        let mut log = self.log.lock();
        log.promises_checked += 1;
        let end = place.address.saturating_add(place.size);
        let is_broken = |promise: &&Promise| {
            let there = &promise.place;
            there.endpoint == place.endpoint
                && there.address < end
                && place.address < there.address.saturating_add(there.size)
                && promise.key != key
                && promise.from_ms < now
                && now < promise.until_ms
        };
        let broken = log.promises.iter().find(is_broken).cloned();
        let what = format!("{key} was given {place:?} at {now} ms, which is promised: {broken:?}");
        log.note(broken.is_none(), what);
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
