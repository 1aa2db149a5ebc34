//! What connections, clients and addresses show, one rule a test.

use std::net::Ipv4Addr;

use super::*;
use crate::model::Uuid;
use crate::wire::encode_request;
use crate::wire::frame::REQUEST_HEAD_BYTES;
use crate::wire::older::calls as older;
use crate::wire::pack::{Dice, Unpack};
use crate::wire::requests::{KeyRequest, PutEndRequest, PutRevokeRequest};
use rand::SeedableRng;

const HOST: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

fn client(number: u64) -> ClientId {
    ClientId(Uuid { first: number, second: 0 })
}

fn body<C: Call>(request: &C::Request<'_>) -> Vec<u8> {
    let mut frame = Vec::new();
    encode_request::<C>(0, request, &mut frame);
    frame.split_off(REQUEST_HEAD_BYTES)
}

fn read(caller: &mut Caller, releases: &Releases) -> Release {
    let body = body::<calls::GetReplicaList>(&KeyRequest { key: b"k", tenant_id: b"" });
    let release = caller.release_for(releases, Some(Function::GetReplicaList), &body);
    caller.sent();
    release
}

fn ping(caller: &mut Caller, releases: &Releases, id: ClientId) {
    caller.release_for(releases, Some(Function::Ping), &body::<calls::Ping>(&id));
    caller.sent();
}

fn older_end(caller: &mut Caller, releases: &Releases, id: ClientId) -> Release {
    let mut end = PutRevokeRequest::<&[u8]>::sample(&mut Dice::seed_from_u64(1));
    end.client_id = id;
    caller.release_for(releases, Some(Function::PutEnd), &body::<older::PutEnd>(&end))
}

fn todays_end(caller: &mut Caller, releases: &Releases, id: ClientId) -> Release {
    let mut end = PutEndRequest::<&[u8]>::sample(&mut Dice::seed_from_u64(1));
    end.client_id = id;
    caller.release_for(releases, Some(Function::PutEnd), &body::<calls::PutEnd>(&end))
}

#[test]
fn a_client_of_which_nothing_is_known_is_what_the_operator_says() {
    for release in [Release::V0312, Release::V0313] {
        let releases = Releases::assuming(release);
        assert_eq!(read(&mut Caller::at(HOST, &releases), &releases), release);
    }
}

#[test]
fn a_request_shows_the_release_of_its_connection_its_client_and_its_address() {
    let releases = Releases::default();
    let mut writer = Caller::at(HOST, &releases);
    assert_eq!(older_end(&mut writer, &releases, client(1)), Release::V0312);
    assert_eq!(read(&mut writer, &releases), Release::V0312);
    // Another connection of the same client, once it has named itself, from wherever.
    let mut second = Caller::at(OTHER, &releases);
    ping(&mut second, &releases, client(1));
    assert_eq!(read(&mut second, &releases), Release::V0312);
    // One that has not named itself.
    assert_eq!(read(&mut Caller::at(HOST, &releases), &releases), Release::V0312);
    // Another client, where all are alike, and where they are not.
    let mut newcomer = Caller::at(HOST, &releases);
    ping(&mut newcomer, &releases, client(2));
    assert_eq!(read(&mut newcomer, &releases), Release::V0312);
    todays_end(&mut Caller::at(HOST, &releases), &releases, client(3));
    let mut newcomer = Caller::at(HOST, &releases);
    ping(&mut newcomer, &releases, client(4));
    assert_eq!(read(&mut newcomer, &releases), Release::V0313);
}

#[test]
fn a_further_connection_is_of_whoever_asked_last_at_its_address() {
    let releases = Releases::default();
    let (mut old, mut new) = (Caller::at(HOST, &releases), Caller::at(HOST, &releases));
    older_end(&mut old, &releases, client(1));
    todays_end(&mut new, &releases, client(2));
    for _ in 0..3 {
        ping(&mut old, &releases, client(1));
        let mut further = Caller::at(HOST, &releases);
        // What others ask before it does makes no difference.
        ping(&mut new, &releases, client(2));
        assert_eq!(read(&mut further, &releases), Release::V0312);
        let mut further = Caller::at(HOST, &releases);
        ping(&mut old, &releases, client(1));
        assert_eq!(read(&mut further, &releases), Release::V0313);
    }
}

#[test]
fn clients_of_both_releases_at_one_address_are_told_apart() {
    let releases = Releases::default();
    let (mut old, mut new) = (Caller::at(HOST, &releases), Caller::at(HOST, &releases));
    for _ in 0..3 {
        assert_eq!(older_end(&mut old, &releases, client(1)), Release::V0312);
        assert_eq!(todays_end(&mut new, &releases, client(2)), Release::V0313);
        assert_eq!(read(&mut old, &releases), Release::V0312);
        assert_eq!(read(&mut new, &releases), Release::V0313);
    }
    for (id, release) in [(client(1), Release::V0312), (client(2), Release::V0313)] {
        let mut again = Caller::at(HOST, &releases);
        ping(&mut again, &releases, id);
        assert_eq!(read(&mut again, &releases), release);
    }
}

/// Releases among which somebody, elsewhere, is an older one.
fn mixed() -> Releases {
    let releases = Releases::default();
    let elsewhere = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 9));
    older_end(&mut Caller::at(elsewhere, &releases), &releases, client(9_999));
    releases
}

#[test]
fn where_nobody_is_older_no_closed_connection_spoils_an_answer() {
    let releases = Releases::default();
    for number in 0..5 {
        // A further connection of a client without a segment, and one of a client that pings.
        let mut bare = Caller::at(HOST, &releases);
        assert_eq!(read(&mut bare, &releases), Release::V0313);
        bare.closed(&releases);
        let mut named = Caller::at(HOST, &releases);
        ping(&mut named, &releases, client(number % 2));
        assert_eq!(read(&mut named, &releases), Release::V0313);
        named.closed(&releases);
    }
}

#[test]
fn a_client_that_only_reads_loses_one_answer_and_is_known_when_it_is_heard_again() {
    let releases = mixed();
    let mut first = Caller::at(HOST, &releases);
    ping(&mut first, &releases, client(1));
    assert_eq!(read(&mut first, &releases), Release::V0313);
    first.closed(&releases);
    let mut second = Caller::at(HOST, &releases);
    ping(&mut second, &releases, client(1));
    assert_eq!(read(&mut second, &releases), Release::V0312);
    assert_eq!(read(&mut Caller::at(HOST, &releases), &releases), Release::V0312);
}

#[test]
fn a_client_that_ends_after_a_read_says_nothing_about_others() {
    let releases = mixed();
    for number in 0..5 {
        let mut once = Caller::at(HOST, &releases);
        ping(&mut once, &releases, client(number));
        assert_eq!(read(&mut once, &releases), Release::V0313);
        once.closed(&releases);
    }
    assert_eq!(read(&mut Caller::at(HOST, &releases), &releases), Release::V0313);
}

#[test]
fn a_client_that_goes_on_after_an_answer_can_read_it() {
    let releases = Releases::default();
    let mut first = Caller::at(HOST, &releases);
    ping(&mut first, &releases, client(1));
    read(&mut first, &releases);
    read(&mut first, &releases);
    first.closed(&releases);
    let mut second = Caller::at(HOST, &releases);
    ping(&mut second, &releases, client(1));
    assert_eq!(read(&mut second, &releases), Release::V0313);
}

#[test]
fn a_request_that_was_sent_before_the_answer_proves_nothing() {
    let releases = mixed();
    let mut caller = Caller::at(HOST, &releases);
    ping(&mut caller, &releases, client(1));
    let body = body::<calls::GetReplicaList>(&KeyRequest { key: b"k", tenant_id: b"" });
    // Both are there before either is answered.
    for _ in 0..2 {
        caller.release_for(&releases, Some(Function::GetReplicaList), &body);
    }
    caller.sent();
    caller.closed(&releases);
    let mut second = Caller::at(HOST, &releases);
    ping(&mut second, &releases, client(1));
    assert_eq!(read(&mut second, &releases), Release::V0312);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_closed_for_being_idle_proves_nothing() {
    let releases = Releases::default();
    let mut caller = Caller::at(HOST, &releases);
    ping(&mut caller, &releases, client(1));
    read(&mut caller, &releases);
    tokio::time::advance(CLOSED_SOON_MAX + Duration::from_millis(1)).await;
    caller.closed(&releases);
    let mut second = Caller::at(HOST, &releases);
    ping(&mut second, &releases, client(1));
    assert_eq!(read(&mut second, &releases), Release::V0313);
}

#[test]
fn what_is_remembered_is_bounded() {
    let releases = Releases::default();
    for number in 0..REMEMBERED_MAX as u64 + 10 {
        releases.learn(client(number), Release::V0312, Proof::Sent);
    }
    assert_eq!(releases.known.lock().clients.len(), 10);
}

#[test]
fn a_client_without_a_name_loses_two_answers() {
    let releases = mixed();
    let mut first = Caller::at(HOST, &releases);
    first.release_for(&releases, Some(Function::ServiceReady), &[]);
    assert_eq!(read(&mut first, &releases), Release::V0313);
    first.closed(&releases);
    let mut second = Caller::at(HOST, &releases);
    assert_eq!(read(&mut second, &releases), Release::V0313);
    second.closed(&releases);
    assert_eq!(read(&mut Caller::at(HOST, &releases), &releases), Release::V0312);
    assert_eq!(read(&mut Caller::at(OTHER, &releases), &releases), Release::V0313);
}

#[test]
fn programs_that_read_once_and_end_say_nothing() {
    let releases = mixed();
    for _ in 0..5 {
        let mut once = Caller::at(HOST, &releases);
        once.release_for(&releases, Some(Function::ServiceReady), &[]);
        assert_eq!(read(&mut once, &releases), Release::V0313);
        once.closed(&releases);
    }
}

#[test]
fn a_connection_that_ends_says_nothing_against_what_an_address_has_shown() {
    let releases = Releases::default();
    let mut other = Caller::at(HOST, &releases);
    todays_end(&mut other, &releases, client(1));
    let mut further = Caller::at(HOST, &releases);
    assert_eq!(read(&mut further, &releases), Release::V0313);
    further.closed(&releases);
    assert_eq!(read(&mut Caller::at(HOST, &releases), &releases), Release::V0313);
}
