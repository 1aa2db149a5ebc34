//! What every client did and saw, with unknown outcomes kept as such.
//!
//! A key has one writer, which gives each of its writes a number of its own; the number travels as the object's
//! checksum, so a reader knows which write it sees. After a write whose outcome is unknown its key is never
//! written again, so an unknown write is always the last one of its key.

use std::sync::Arc;

use serde::Serialize;

use super::moment::Moment;

/// Events of one client; a client that has so many stops.
pub const EVENTS_MAX: usize = 500_000;

/// A client of the drill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct ClientNo(pub u32);

/// A key: its writer, and the how-manieth of that writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyNo {
    /// Who writes it.
    pub client: ClientNo,
    /// Counted from 0.
    pub number: u32,
}

impl KeyNo {
    /// The key as the master knows it.
    pub fn name(self, run: &str) -> String {
        format!("drill/{run}/{}/{}", self.client.0, self.number)
    }

    /// The reverse of [`KeyNo::name`]; `None` for keys of others.
    pub fn parse(name: &str, run: &str) -> Option<Self> {
        let rest = name.strip_prefix("drill/")?.strip_prefix(run)?.strip_prefix('/')?;
        let (client, number) = rest.split_once('/')?;
        Some(KeyNo { client: ClientNo(client.parse().ok()?), number: number.parse().ok()? })
    }
}

/// Where the bytes of a write are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Endpoint of the segment's owner.
    pub endpoint: Arc<str>,
    /// First byte.
    pub address: u64,
    /// Bytes.
    pub size: u64,
}

/// How a write ended for its writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Acknowledged.
    Done,
    /// Refused, or never sent: nothing has changed.
    NotDone,
    /// The answer was lost: it may have happened, or may yet.
    Unknown,
}

/// What a write puts there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// Nothing: it removes the key.
    Removal,
    /// An object.
    Object {
        /// The write's number, which readers see as checksum.
        id: u64,
        /// Where the master said to write; `None` if the writer never heard it.
        place: Option<Place>,
        /// When the writer heard it.
        placed: Moment,
        /// Whether it started a soft pin, and of how many milliseconds.
        pin_ttl_ms: Option<u64>,
    },
}

/// A write from its first call to its last answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Of which key.
    pub key: KeyNo,
    /// Before its first call.
    pub begun: Moment,
    /// After its last answer.
    pub ended: Moment,
    /// Unix milliseconds before its last call, when a pin cannot have started yet.
    pub wall_ms: u64,
    /// What.
    pub written: Written,
    /// How it ended.
    pub outcome: Outcome,
}

/// What a read found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// No such key.
    Absent,
    /// The key is there, nothing of it can be read.
    NotReady,
    /// An object.
    Object {
        /// Its checksum: which write it is. `None` if it has none.
        id: Option<u64>,
        /// Its first readable memory replica.
        place: Option<Place>,
        /// How long the read lease still ran.
        lease_ms: u64,
    },
}

/// A read that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// Who read.
    pub client: ClientNo,
    /// Which key.
    pub key: KeyNo,
    /// Before the call.
    pub begun: Moment,
    /// After the answer.
    pub ended: Moment,
    /// What it found.
    pub seen: Seen,
}

/// A call that got no answer.
#[derive(Clone, Debug)]
pub struct Failed {
    /// Before the call.
    pub begun: Moment,
    /// When it was given up.
    pub ended: Moment,
}

/// Everything one client did.
#[derive(Clone, Debug)]
pub struct ClientHistory {
    /// Who.
    pub client: ClientNo,
    /// For people: what kind of client and where it is connected.
    pub name: String,
    /// Whether it stays with one node, and so has no answers while that one is down.
    pub is_pinned: bool,
    /// In order of their begin.
    pub writes: Vec<Write>,
    /// In order of their begin.
    pub reads: Vec<Read>,
    /// Calls without an answer.
    pub failed: Vec<Failed>,
    /// When it was told by a master that it is not known there.
    pub forgotten: Vec<Moment>,
    /// From when on it worked.
    pub begun: Moment,
    /// Until when it worked.
    pub ended: Moment,
}

impl ClientHistory {
    /// A client that has done nothing yet.
    pub fn new(client: ClientNo, name: String, begun: Moment) -> Self {
        ClientHistory {
            client,
            name,
            is_pinned: false,
            writes: Vec::new(),
            reads: Vec::new(),
            failed: Vec::new(),
            forgotten: Vec::new(),
            begun,
            ended: begun,
        }
    }

    /// Whether it has seen as much as is kept.
    pub fn is_full(&self) -> bool {
        self.writes.len() + self.reads.len() + self.failed.len() >= EVENTS_MAX
    }

    /// Answered calls: begin and end.
    pub fn answered(&self) -> impl Iterator<Item = (Moment, Moment)> + '_ {
        let writes = self.writes.iter().filter(|write| write.outcome != Outcome::Unknown);
        let writes = writes.map(|write| (write.begun, write.ended));
        writes.chain(self.reads.iter().map(|read| (read.begun, read.ended)))
    }

    /// The longest time without the end of an answered call, and when it began.
    pub fn longest_gap(&self) -> (u64, Moment) {
        let mut ends: Vec<Moment> = self.answered().map(|(_, ended)| ended).collect();
        ends.push(self.begun);
        ends.push(self.ended);
        ends.sort_unstable();
        let gaps = ends.iter().zip(ends.iter().skip(1)).map(|(a, b)| (b.since(*a), *a));
        gaps.max_by_key(|(gap, _)| *gap).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_back_from_its_name_and_only_in_its_own_run() {
        let key = KeyNo { client: ClientNo(3), number: 14 };
        assert_eq!(KeyNo::parse(&key.name("r"), "r"), Some(key));
        assert_eq!(KeyNo::parse(&key.name("r"), "s"), None);
        assert_eq!(KeyNo::parse("drill/r/3", "r"), None);
    }

    #[test]
    fn the_longest_gap_counts_from_the_first_moment_to_the_last() {
        let mut history = ClientHistory::new(ClientNo(0), String::new(), Moment(10));
        let key = KeyNo { client: ClientNo(0), number: 0 };
        let read = |begun, ended| Read {
            client: ClientNo(0),
            key,
            begun: Moment(begun),
            ended: Moment(ended),
            seen: Seen::Absent,
        };
        history.reads = vec![read(10, 20), read(20, 95), read(95, 100)];
        history.ended = Moment(110);
        assert_eq!(history.longest_gap(), (75, Moment(20)));
        history.ended = Moment(200);
        assert_eq!(history.longest_gap(), (100, Moment(100)));
    }
}
