//! Small histories with the verdict that each must get.

use std::sync::Arc;

use super::*;
use crate::drill::history::ClientNo;

const KEY: KeyNo = KeyNo { client: ClientNo(0), number: 0 };

fn place(id: u64) -> Place {
    Place { endpoint: Arc::from("s"), address: id * 100, size: 10 }
}

fn object(id: u64) -> Written {
    let place = Some(place(id));
    Written::Object { id, place, placed: Moment(0), pin_ttl_ms: None }
}

fn write(begun: u64, ended: u64, written: Written, outcome: Outcome) -> Write {
    let (begun, ended) = (Moment(begun), Moment(ended));
    Write { key: KEY, begun, ended, wall_ms: 0, written, outcome }
}

fn read(begun: u64, ended: u64, seen: Seen) -> Read {
    Read { client: ClientNo(9), key: KEY, begun: Moment(begun), ended: Moment(ended), seen }
}

fn saw(id: u64) -> Seen {
    Seen::Object { id: Some(id), place: Some(place(id)), lease_ms: 0 }
}

/// The kinds of findings of a history.
fn verdict(writes: Vec<Write>, reads: Vec<Read>) -> Vec<Kind> {
    let mut client = ClientHistory::new(ClientNo(0), String::new(), Moment(0));
    (client.writes, client.reads) = (writes, reads);
    let mut findings = Findings::default();
    check_keys(&[client], &Gone::default(), "r", &mut Looked::default(), &mut findings);
    findings.told().iter().map(|finding| finding.kind).collect()
}

fn done(begun: u64, ended: u64, written: Written) -> Write {
    write(begun, ended, written, Outcome::Done)
}

fn unknown(begun: u64, ended: u64, written: Written) -> Write {
    write(begun, ended, written, Outcome::Unknown)
}

#[test]
fn an_acknowledged_write_that_cannot_be_read_is_lost() {
    for seen in [Seen::Absent, Seen::NotReady] {
        let found = verdict(vec![done(1, 2, object(1))], vec![read(3, 4, seen.clone())]);
        assert_eq!(found, [Kind::LostWrite]);
        let early = verdict(vec![done(1, 5, object(1))], vec![read(3, 4, seen)]);
        assert_eq!(early, [], "it was not acknowledged yet");
    }
}

#[test]
fn a_removed_key_that_can_be_read_is_back() {
    let writes = || vec![done(1, 2, object(1)), done(3, 4, Written::Removal)];
    assert_eq!(verdict(writes(), vec![read(5, 6, saw(1))]), [Kind::RemovedBack]);
    assert_eq!(verdict(writes(), vec![read(3, 6, saw(1)), read(5, 6, Seen::Absent)]), []);
}

#[test]
fn a_read_that_is_older_than_an_acknowledged_write_is_stale() {
    let writes = || vec![done(1, 2, object(1)), done(3, 4, object(2))];
    assert_eq!(verdict(writes(), vec![read(5, 6, saw(1))]), [Kind::StaleRead]);
    assert_eq!(verdict(writes(), vec![read(4, 6, saw(1)), read(5, 6, saw(2))]), []);
}

#[test]
fn a_read_that_is_older_than_what_another_reader_saw_is_stale() {
    let writes = || vec![done(1, 2, object(1)), done(3, 20, object(2))];
    assert_eq!(verdict(writes(), vec![read(5, 6, saw(2)), read(7, 8, saw(1))]), [Kind::StaleRead]);
    let crossing = vec![read(5, 8, saw(2)), read(7, 9, saw(1))];
    assert_eq!(verdict(writes(), crossing), [], "the reads overlap");
    // The second reader ended first and so binds those that begin after it.
    let crossing = vec![read(5, 12, saw(2)), read(6, 8, saw(2)), read(9, 10, saw(1))];
    assert_eq!(verdict(writes(), crossing), [Kind::StaleRead]);
}

#[test]
fn an_unknown_write_may_have_happened_or_not_but_does_not_unhappen() {
    let writes = || vec![done(1, 2, object(1)), unknown(3, 4, object(2))];
    for seen in [saw(1), saw(2), Seen::NotReady, Seen::Absent] {
        assert_eq!(verdict(writes(), vec![read(9, 10, seen.clone())]), [], "{seen:?}");
    }
    assert_eq!(verdict(writes(), vec![read(5, 6, saw(2)), read(7, 8, saw(1))]), [Kind::StaleRead]);
    let removal = || vec![done(1, 2, object(1)), unknown(3, 4, Written::Removal)];
    assert_eq!(verdict(removal(), vec![read(5, 6, saw(1)), read(7, 8, Seen::Absent)]), []);
}

#[test]
fn a_reader_must_be_sent_where_the_writer_was_sent() {
    let elsewhere = Seen::Object { id: Some(1), place: Some(place(7)), lease_ms: 0 };
    assert_eq!(
        verdict(vec![done(1, 2, object(1))], vec![read(3, 4, elsewhere)]),
        [Kind::WrongPlace]
    );
    assert_eq!(verdict(vec![done(1, 2, object(1))], vec![read(3, 4, saw(8))]), [Kind::WrongPlace]);
    assert_eq!(verdict(vec![done(5, 6, object(1))], vec![read(3, 4, saw(1))]), [Kind::WrongPlace]);
}

#[test]
fn a_refused_write_leaves_what_was_there() {
    let refused = write(3, 4, object(2), Outcome::NotDone);
    let writes = vec![done(1, 2, object(1)), refused];
    assert_eq!(verdict(writes.clone(), vec![read(5, 6, saw(1))]), []);
    assert_eq!(verdict(writes, vec![read(5, 6, saw(2))]), [Kind::WrongPlace]);
}

#[test]
fn what_lay_in_memory_that_is_gone_may_be_absent_from_then_on() {
    let found = |read_at, endpoint: &str| {
        let mut client = ClientHistory::new(ClientNo(0), String::new(), Moment(0));
        client.writes = vec![done(1, 2, object(1))];
        client.reads = vec![read(read_at, read_at + 1, Seen::Absent)];
        let endpoints = [endpoint.to_owned()].into();
        let gone = Gone { from: Moment(10), endpoints };
        let mut findings = Findings::default();
        check_keys(&[client], &gone, "r", &mut Looked::default(), &mut findings);
        findings.count(Kind::LostWrite)
    };
    assert_eq!((found(20, "s"), found(5, "s"), found(20, "t")), (0, 1, 1));
}
