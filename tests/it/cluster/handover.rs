//! SIGTERM of the leader: it hands over while clients are still served.

use std::time::Duration;

use mooncake_ha::clock::{Clock, SystemClock};

use super::trio::Trio;
use crate::support::{Got, StockClient, Value};

/// Longest call, on a busy machine. An election by timeout alone needs up to a second, and a client that finds
/// its leader's port closed more than four.
const GAP_MAX: Duration = Duration::from_secs(3);

#[test]
fn a_leader_that_is_stopped_in_order_fails_no_call_of_a_client_of_another_node() {
    let mut trio = Trio::start(&[]);
    let address = trio.plain(trio.follower());
    let Some(client) = trio.client("plain", &address, 32) else { return };
    stop_the_leader_under(&mut trio, client);
}

#[test]
fn a_leader_that_is_stopped_in_order_fails_no_call_of_a_client_of_all_nodes() {
    let mut trio = Trio::start(&[]);
    let Some(client) = trio.client("named", &trio.etcd(), 32) else { return };
    stop_the_leader_under(&mut trio, client);
}

fn stop_the_leader_under(trio: &mut Trio, mut client: StockClient) {
    let leader = trio.leader();
    let values = Value::several("k", 10_000, 2_000);
    let mut values = values.iter();
    let mut written = Vec::new();
    let mut longest = Duration::ZERO;
    let mut put = |written: &mut Vec<Value>| {
        let value = values.next().unwrap();
        let clock = SystemClock::default();
        assert_eq!(client.put(value), 0, "{} after {} good ones", value.key, written.len());
        longest = longest.max(clock.monotonic());
        written.push(value.clone());
    };
    (0..20).for_each(|_| put(&mut written));
    std::thread::scope(|scope| {
        let stopping = scope.spawn(|| trio.terminate(leader));
        while !stopping.is_finished() {
            put(&mut written);
        }
        assert!(stopping.join().unwrap().success());
    });
    (0..20).for_each(|_| put(&mut written));
    println!("{} puts; the longest took {longest:?}", written.len());
    assert!(longest < GAP_MAX, "the longest put took {longest:?}");
    assert_ne!(trio.leader(), leader);
    for value in &written {
        assert_eq!(client.get(value), Got::Right, "{}", value.key);
    }
    trio.start_again(leader);
    trio.settled();
    trio.caught_up(leader);
}
