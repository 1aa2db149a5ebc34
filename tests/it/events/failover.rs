//! The same events by the same numbers from whoever leads, before and after.

use std::collections::BTreeSet;

use super::store::{Client, Store, publishing};
use super::subscriber::Subscriber;
use crate::cluster::trio::Trio;
use crate::support::{eventually, eventually_within, free_port};

#[test]
fn a_killed_master_goes_on_with_the_next_number_and_tells_the_last_minute_again() {
    let mut store = Store::start(&[]);
    let Some(subscriber) = Subscriber::start(&[store.port]) else { return };
    for n in 0..20 {
        store.client.put(&format!("k{n}"));
    }
    eventually("twenty are told", || subscriber.keys().len() == 20);
    store.master.kill();
    store.master.start_again();
    let client = Client::connect(&store.master.address());
    client.remove("k3");
    client.put("new");
    eventually("it goes on", || subscriber.known().len() == 22);
    assert_eq!(
        subscriber.known().keys().copied().collect::<Vec<_>>(),
        (1..=22).collect::<Vec<_>>()
    );
    assert_eq!(subscriber.keys().len(), 20);
    let again = subscriber.heard().len() - 22;
    assert!(again <= 21, "{again} messages came twice");

    // One who comes late hears the same.
    let late = Subscriber::start(&[store.port]).unwrap();
    eventually("the late one has heard all", || late.known() == subscriber.known());
}

#[test]
fn what_waits_is_bounded_and_the_gap_can_be_seen() {
    let store = Store::start(&["--kv_events_queue_capacity=10"]);
    for n in 0..50 {
        store.client.put(&format!("k{n}"));
    }
    let Some(subscriber) = Subscriber::start(&[store.port]) else { return };
    eventually("the last ten come", || subscriber.known().len() == 10);
    assert_eq!(subscriber.known().keys().next(), Some(&41));
}

#[test]
fn events_that_are_wanted_but_not_placed_are_not_published() {
    let store = Store::start(&["--kv_events_backend_id="]);
    store.client.put("k");
    let status = store.master.http().json("/kv_events/status");
    assert_eq!((&status["enabled"], &status["published_events"]), (&false.into(), &0.into()));
    assert!(std::net::TcpStream::connect(("127.0.0.1", store.port)).is_err());
}

/// Three subscribers' ports, one a node; the flags differ only there, so a proxy of ports is not needed: each node
/// listens on an address of its own.
#[test]
fn a_failover_loses_no_event_and_changes_no_number() {
    let port = free_port();
    let flags: Vec<String> = publishing(port)
        .into_iter()
        .map(|flag| flag.replace("127.0.0.1", "127.0.0.{node}"))
        .collect();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let mut trio = Trio::start(&flags);
    let hosts = [1, 2, 3].map(|node| format!("127.0.0.{node}:{port}"));
    let Some(subscriber) = Subscriber::start_at(&hosts) else { return };

    let mut expected = BTreeSet::new();
    for round in 0..3 {
        let leader = trio.leader();
        let client = Client::connect(&trio.plain(leader));
        if round == 0 {
            client.mount(1);
        }
        for n in 0..30 {
            let key = format!("{round}/{n}");
            client.put(&key);
            expected.insert(key);
        }
        let gone = format!("{round}/7");
        client.remove(&gone);
        expected.remove(&gone);
        if round < 2 {
            // At once: what the subscriber was not told yet, the next leader tells.
            trio.kill(leader);
            trio.start_again(leader);
            trio.settled();
        }
    }
    eventually_within(crate::cluster::trio::ELECTED, "every event is known", || {
        subscriber.known().len() == 93
    });
    assert_eq!(
        subscriber.known().keys().copied().collect::<Vec<_>>(),
        (1..=93).collect::<Vec<_>>()
    );
    assert_eq!(subscriber.keys(), expected);
}
