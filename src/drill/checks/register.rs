//! Each key is a register with one writer: every read must fit into one order of all operations.
//!
//! With one writer that order is known but for the moment at which a write takes effect, so linearizability is
//! checked exactly and in one pass: a read may see nothing older than what was acknowledged, or seen by a read
//! that had ended, before it began, and nothing that was not asked for before it ended. The reads are taken in
//! order of their begin and each is given the oldest state that it can have seen, which constrains the later ones
//! least. A write whose outcome is unknown is the last of its key; until the end it may have happened or not, and
//! a write in progress makes its key unreadable.

use std::collections::BTreeMap;

use super::{Gone, KeyHistory, Looked, by_key};
use crate::drill::finding::{Findings, Kind};
use crate::drill::history::{ClientHistory, KeyNo, Outcome, Place, Read, Seen, Write, Written};
use crate::drill::moment::Moment;

/// Judges every read of every key.
pub fn check_keys(
    clients: &[ClientHistory],
    gone: &Gone,
    run: &str,
    looked: &mut Looked,
    findings: &mut Findings,
) {
    for (key, history) in by_key(clients) {
        let register = Register::new(&history);
        looked.keys += u64::from(!history.writes.is_empty());
        for write in &history.writes {
            looked.acknowledged += u64::from(write.outcome == Outcome::Done);
            looked.unknown += u64::from(write.outcome == Outcome::Unknown);
        }
        let judge = Judge { key, run, gone };
        register.check(&judge, &history.reads, looked, findings);
    }
}

/// The writes of a key that may have taken effect; state n is that after the first n of them.
struct Register<'h> {
    writes: Vec<&'h Write>,
}

/// What is judged, and with which allowance.
struct Judge<'j> {
    key: KeyNo,
    run: &'j str,
    gone: &'j Gone,
}

/// For each state that was seen, the first moment at which a read that saw it had ended.
type Floors = BTreeMap<usize, Moment>;

impl<'h> Register<'h> {
    fn new(history: &KeyHistory<'h>) -> Self {
        let is_possible = |write: &&&Write| write.outcome != Outcome::NotDone;
        Register { writes: history.writes.iter().filter(is_possible).copied().collect() }
    }

    fn check(
        &self,
        judge: &Judge<'_>,
        reads: &[&Read],
        looked: &mut Looked,
        findings: &mut Findings,
    ) {
        let mut floors = Floors::new();
        for read in reads {
            looked.reads += 1;
            let low = self.acknowledged(read.begun).max(floor(&floors, read.begun));
            let high = self.asked(read.ended);
            match self.fit(read, low, high) {
                Ok(state) => {
                    looked.places += u64::from(matches!(&read.seen, Seen::Object { .. }));
                    let seen = floors.entry(state).or_insert(read.ended);
                    *seen = read.ended.min(*seen);
                }
                Err(Kind::LostWrite) if self.may_be_gone(judge.gone, low, read.ended) => {}
                Err(kind) => {
                    let name = judge.key.name(judge.run);
                    let what = self.sentence(kind, &name, read, low);
                    findings.add(kind, read.ended, what);
                }
            }
        }
    }

    /// The newest state that was acknowledged before `at`.
    fn acknowledged(&self, at: Moment) -> usize {
        let is_known = |write: &&Write| write.outcome == Outcome::Done && write.ended < at;
        self.writes.iter().rposition(is_known).map_or(0, |index| index + 1)
    }

    /// The newest state that was asked for before `at`.
    fn asked(&self, at: Moment) -> usize {
        self.writes.iter().rposition(|write| write.begun <= at).map_or(0, |index| index + 1)
    }

    /// The oldest state from `low` to `high` that the read can have seen. Errors: there is none.
    fn fit(&self, read: &Read, low: usize, high: usize) -> Result<usize, Kind> {
        match &read.seen {
            Seen::Object { id, place, .. } => self.fit_object(*id, place.as_ref(), low, high),
            Seen::Absent => {
                let absent = (low..=high).find(|state| self.is_absent(*state));
                let open = self.has_unknown(high).then_some(low);
                absent.or(open).ok_or(Kind::LostWrite)
            }
            Seen::NotReady => {
                let is_open = |write: &&&Write| {
                    let is_over = write.outcome == Outcome::Done && write.ended < read.begun;
                    write.begun <= read.ended && !is_over && write.written != Written::Removal
                };
                // The state is that of before or after the write in progress: the older one constrains least.
                self.writes.iter().find(is_open).map(|_| low).ok_or(Kind::LostWrite)
            }
        }
    }

    fn fit_object(
        &self,
        seen: Option<u64>,
        seen_place: Option<&Place>,
        low: usize,
        high: usize,
    ) -> Result<usize, Kind> {
        let is_it = |write: &&Write| matches!(&write.written, Written::Object { id, .. } if Some(*id) == seen);
        let found = self.writes.iter().position(is_it).ok_or(Kind::WrongPlace)?;
        let state = found + 1;
        if state < low {
            let is_removed = self.is_absent(low);
            return Err(if is_removed { Kind::RemovedBack } else { Kind::StaleRead });
        }
        if state > high {
            return Err(Kind::WrongPlace);
        }
        match self.writes.get(found).map(|write| &write.written) {
            Some(Written::Object { place: Some(told), .. }) if seen_place != Some(told) => {
                Err(Kind::WrongPlace)
            }
            _ => Ok(state),
        }
    }

    /// Whether the object of that state lay in memory that is gone.
    fn may_be_gone(&self, gone: &Gone, state: usize, at: Moment) -> bool {
        let write = state.checked_sub(1).and_then(|index| self.writes.get(index));
        write.is_some_and(|write| gone.allows(write, at))
    }

    fn is_absent(&self, state: usize) -> bool {
        match state.checked_sub(1).and_then(|index| self.writes.get(index)) {
            None => true,
            Some(write) => write.written == Written::Removal,
        }
    }

    /// Whether one of the first `high` writes may have left the key in the middle of a write, or without it.
    fn has_unknown(&self, high: usize) -> bool {
        self.writes.iter().take(high).any(|write| write.outcome == Outcome::Unknown)
    }

    fn sentence(&self, kind: Kind, name: &str, read: &Read, low: usize) -> String {
        let expected = match low.checked_sub(1).and_then(|index| self.writes.get(index)) {
            None => "no write".to_owned(),
            Some(write) => match &write.written {
                Written::Removal => format!("its removal at {:.3} s", write.ended.seconds()),
                Written::Object { id, place, .. } => format!(
                    "write {id:#x} at {:.3} s in {}",
                    write.ended.seconds(),
                    place.as_ref().map_or_else(|| "a place unknown".to_owned(), shown)
                ),
            },
        };
        let seen = match &read.seen {
            Seen::Absent => "no such key".to_owned(),
            Seen::NotReady => "nothing readable".to_owned(),
            Seen::Object { id, place, .. } => format!(
                "write {} in {}",
                id.map_or_else(|| "without a number".to_owned(), |id| format!("{id:#x}")),
                place.as_ref().map_or_else(|| "no memory".to_owned(), shown)
            ),
        };
        let title = kind.title();
        format!(
            "{title}: {name} read by client {} from {:.3} to {:.3} s showed {seen}; the last that counts is \
             {expected}",
            read.client.0,
            read.begun.seconds(),
            read.ended.seconds()
        )
    }
}

/// The newest state that a read which ended before `at` has seen.
fn floor(floors: &Floors, at: Moment) -> usize {
    floors.iter().rev().find(|(_, seen)| **seen < at).map_or(0, |(state, _)| *state)
}

fn shown(place: &Place) -> String {
    format!("{} at {:#x}, {} bytes", place.endpoint, place.address, place.size)
}

#[cfg(test)]
mod tests;
