//! What a correct cluster allows: judges histories after the fact, without talking to anybody.
//!
//! `register` looks at each key by itself, `places` at memory, `pins` at deadlines. Nothing is guessed: what is
//! neither certain nor impossible is allowed.

mod pins;
mod places;
mod register;

pub use pins::{PinSample, check_pins};
pub use places::check_places;
pub use register::check_keys;

use std::collections::{BTreeMap, BTreeSet};

use super::history::{ClientHistory, KeyNo, Read, Write, Written};
use super::moment::Moment;

/// How much was looked at, for the report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Looked {
    /// Keys that were written.
    pub keys: u64,
    /// Acknowledged writes and removals.
    pub acknowledged: u64,
    /// Writes whose outcome stayed unknown.
    pub unknown: u64,
    /// Reads that were answered and judged.
    pub reads: u64,
    /// Pairs of reader's and writer's place that were compared.
    pub places: u64,
    /// Soft pins whose deadline was followed.
    pub pins: u64,
    /// Times that all pins were looked at.
    pub pin_looks: u64,
    /// Pairs of nodes whose states were compared at the same entry.
    pub images: u64,
}

/// Memory that is gone with its clients: what lay there may be absent, and its pins with it.
#[derive(Clone, Debug, Default)]
pub struct Gone {
    /// Since when.
    pub from: Moment,
    /// Endpoints of their segments.
    pub endpoints: BTreeSet<String>,
}

impl Gone {
    /// Whether what a write has put there may be absent at that moment.
    fn allows(&self, write: &Write, at: Moment) -> bool {
        let Written::Object { place: Some(place), .. } = &write.written else { return false };
        at >= self.from && self.endpoints.contains(&*place.endpoint)
    }
}

/// Writes and reads of one key, in order of their begin.
#[derive(Debug, Default)]
pub struct KeyHistory<'h> {
    /// By its one writer.
    pub writes: Vec<&'h Write>,
    /// By everybody.
    pub reads: Vec<&'h Read>,
}

/// Histories of clients, sorted by key.
pub fn by_key(clients: &[ClientHistory]) -> BTreeMap<KeyNo, KeyHistory<'_>> {
    let mut keys: BTreeMap<KeyNo, KeyHistory<'_>> = BTreeMap::new();
    for client in clients {
        for write in &client.writes {
            keys.entry(write.key).or_default().writes.push(write);
        }
        for read in &client.reads {
            keys.entry(read.key).or_default().reads.push(read);
        }
    }
    for key in keys.values_mut() {
        key.writes.sort_by_key(|write| write.begun);
        key.reads.sort_by_key(|read| (read.begun, read.ended));
    }
    keys
}
