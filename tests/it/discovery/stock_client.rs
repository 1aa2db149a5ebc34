//! The stock client with `etcd://` addresses: set-up, and a leader that comes back elsewhere.

use std::time::Duration;

use super::node::Node;
use crate::support::{Got, Value, WriteConfig, eventually_within, free_port};

/// Calls that begin while nobody listens take more than four seconds each.
const SWITCHED: Duration = Duration::from_secs(40);

#[test]
fn a_client_finds_the_leader_and_follows_it_to_another_address() {
    let mut node = Node::start();
    let master = format!("etcd://127.0.0.1:{}", node.port);
    let Some(mut client) = node.client("a", &master, 16) else { return };
    // Without a segment a client never pings: it has nothing but the watch.
    let mut reader = node.client("reader", &master, 0).unwrap();
    let value = Value::new("k", 10_000);
    assert_eq!(client.put_with(&value, &WriteConfig::soft_pin()), 0);
    assert_eq!(reader.get(&value), Got::Right);

    for round in 0..2 {
        let (old_term, old_address) = (node.term(), node.rpc_address());
        node.kill();
        node.start_again();
        assert!(node.term() > old_term, "term {} after {old_term}", node.term());
        assert_ne!(node.rpc_address(), old_address);
        eventually_within(SWITCHED, "the reader has switched", || reader.get(&value) == Got::Right);
        let next = Value::new(&format!("k{round}"), 5000);
        eventually_within(SWITCHED, "the writer has switched", || client.put(&next) == 0);
        assert_eq!(reader.get(&next), Got::Right);
        assert_eq!(client.get(&value), Got::Right);
    }
}

#[test]
fn an_endpoint_that_is_dead_does_not_keep_a_client_from_the_other_one() {
    let node = Node::start();
    let (dead, alive) = (free_port(), node.port);
    // Kept to the end: a client that is gone leaves a segment behind, and values are placed there, too.
    let mut clients = Vec::new();
    for (name, master) in [
        ("a", format!("etcd://127.0.0.1:{dead};127.0.0.1:{alive}")),
        ("b", format!("etcd://127.0.0.1:{alive},127.0.0.1:{dead}")),
    ] {
        let Some(mut client) = node.client(name, &master, 16) else { return };
        let value = Value::new(name, 1000);
        assert_eq!(client.put(&value), 0);
        assert_eq!(client.get(&value), Got::Right);
        clients.push(client);
    }
}
