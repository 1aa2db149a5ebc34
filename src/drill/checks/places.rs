//! No two objects of different keys share memory while both are promised to somebody.
//!
//! An acknowledged object is promised from its placement until its key is written again, and every reader is promised
//! its place for as long as the read lease lasts that came with the answer. Memory of an object that nobody may
//! hold any more is free, and is used again.

use std::collections::BTreeMap;

use super::{KeyHistory, by_key};
use crate::drill::finding::{Findings, Kind};
use crate::drill::history::{ClientHistory, KeyNo, Outcome, Place, Read, Seen, Written};
use crate::drill::moment::Moment;

/// A write with its place and for how long that is promised.
struct Promise<'h> {
    key: KeyNo,
    id: u64,
    place: &'h Place,
    /// When the writer was told the place: from then on it may write there.
    placed: Moment,
    /// From when to when nobody else may be sent there.
    from: Moment,
    until: Moment,
}

/// Looks for two writes of different keys that overlap in memory and in time.
pub fn check_places(clients: &[ClientHistory], run: &str, findings: &mut Findings) {
    let mut segments: BTreeMap<&str, Vec<Promise<'_>>> = BTreeMap::new();
    let keys = by_key(clients);
    for (key, history) in &keys {
        for promise in promises(*key, history) {
            segments.entry(&promise.place.endpoint).or_default().push(promise);
        }
    }
    for promises in segments.values_mut() {
        promises.sort_by_key(|promise| promise.place.address);
        for (at, first) in promises.iter().enumerate() {
            let end = first.place.address.saturating_add(first.place.size);
            let above = promises.iter().skip(at + 1);
            for second in above.take_while(|second| second.place.address < end) {
                check_pair(first, second, run, findings);
            }
        }
    }
}

fn check_pair(a: &Promise<'_>, b: &Promise<'_>, run: &str, findings: &mut Findings) {
    if a.key == b.key {
        return;
    }
    let (early, late) = if a.placed <= b.placed { (a, b) } else { (b, a) };
    if late.placed > early.from && late.placed < early.until {
        let what = format!(
            "{}: {} (write {:#x}) was given memory of {} (write {:#x}) at {:#x} of {}, which was promised \
             from {:.3} to {:.3} s",
            Kind::Overlap.title(),
            late.key.name(run),
            late.id,
            early.key.name(run),
            early.id,
            late.place.address,
            late.place.endpoint,
            early.from.seconds(),
            early.until.seconds(),
        );
        findings.add(Kind::Overlap, late.placed, what);
    }
}

/// The acknowledged writes of a key, each with the time for which it is promised.
fn promises<'h>(key: KeyNo, history: &KeyHistory<'h>) -> Vec<Promise<'h>> {
    let possible = history.writes.iter().filter(|write| write.outcome != Outcome::NotDone);
    let possible: Vec<_> = possible.collect();
    let mut found = Vec::new();
    for (at, write) in possible.iter().enumerate() {
        let Written::Object { id, place: Some(place), placed, .. } = &write.written else {
            continue;
        };
        let next = possible.get(at + 1).map_or(Moment::NEVER, |next| next.begun);
        let is_done = write.outcome == Outcome::Done;
        // Nothing was acknowledged of an unknown write, so only its readers were promised anything.
        let (mut from, mut until) = match is_done {
            true => (*placed, next),
            false => (Moment::NEVER, Moment(0)),
        };
        for (read, lease_ms) in leases(&history.reads, *id) {
            from = from.min(read.ended);
            until = until.max(read.begun.after(lease_ms));
        }
        found.push(Promise { key, id: *id, place, placed: *placed, from, until });
    }
    found
}

/// Reads that have seen the write of that number, with the leases they were given.
fn leases<'h>(reads: &[&'h Read], of: u64) -> impl Iterator<Item = (&'h Read, u64)> {
    reads.iter().filter_map(move |read| match read.seen {
        Seen::Object { id: Some(id), lease_ms, .. } if id == of => Some((*read, lease_ms)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::drill::history::{ClientNo, Write};

    fn key(number: u32) -> KeyNo {
        KeyNo { client: ClientNo(0), number }
    }

    fn put(number: u32, begun: u64, address: u64) -> Write {
        let place = Some(Place { endpoint: Arc::from("s"), address, size: 10 });
        let placed = Moment(begun + 1);
        let id = u64::from(number);
        Write {
            key: key(number),
            begun: Moment(begun),
            ended: Moment(begun + 2),
            wall_ms: 0,
            written: Written::Object { id, place, placed, pin_ttl_ms: None },
            outcome: Outcome::Done,
        }
    }

    fn removal(number: u32, begun: u64) -> Write {
        Write { written: Written::Removal, ..put(number, begun, 0) }
    }

    fn overlaps(writes: Vec<Write>, reads: Vec<Read>) -> u64 {
        let mut client = ClientHistory::new(ClientNo(0), String::new(), Moment(0));
        (client.writes, client.reads) = (writes, reads);
        let mut findings = Findings::default();
        check_places(&[client], "r", &mut findings);
        findings.count(Kind::Overlap)
    }

    #[test]
    fn living_objects_do_not_share_memory_and_neighbours_do_not_either() {
        assert_eq!(overlaps(vec![put(1, 10, 100), put(2, 20, 109)], vec![]), 1);
        assert_eq!(overlaps(vec![put(1, 10, 100), put(2, 20, 110)], vec![]), 0);
    }

    #[test]
    fn the_memory_of_a_removed_object_is_free_unless_a_reader_holds_a_lease() {
        let writes = || vec![put(1, 10, 100), removal(1, 15), put(2, 2_000, 100)];
        assert_eq!(overlaps(writes(), vec![]), 0);
        let read = |lease_ms| Read {
            client: ClientNo(5),
            key: key(1),
            begun: Moment(12),
            ended: Moment(13),
            seen: Seen::Object { id: Some(1), place: None, lease_ms },
        };
        assert_eq!(overlaps(writes(), vec![read(1)]), 0, "over before the second was placed");
        assert_eq!(overlaps(writes(), vec![read(9)]), 1);
    }
}
