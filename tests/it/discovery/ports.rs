//! A port that is taken: an error if it was asked for, a warning if it is only the default.

use std::net::TcpListener;
use std::time::Duration;

use mooncake_ha::config::DISCOVERY_PORT_DEFAULT;
use tempfile::TempDir;

use super::node::program;
use crate::support::{eventually_within, free_port};

const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn a_discovery_port_that_was_given_and_is_taken_ends_the_start() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let dir = TempDir::new().unwrap();
    let flag = format!("--discovery_port={port}");
    let mut process = program(dir.path(), "log", &[&flag], free_port());
    process.start();
    let mut status = None;
    eventually_within(PATIENCE, "the node gives up", || {
        status = process.ended();
        status.is_some()
    });
    assert!(!status.unwrap().success());
    let log = process.log();
    let sentence = format!("cannot listen on 127.0.0.1:{port}; choose another --discovery_port");
    assert!(log.contains(&sentence), "{log}");
    assert!(!dir.path().join("data").exists(), "no data was touched");
}

#[test]
fn a_default_port_that_is_taken_leaves_the_node_without_the_door() {
    // Whether this or another test's node has it does not matter.
    let _taken = TcpListener::bind(("127.0.0.1", DISCOVERY_PORT_DEFAULT));
    let dir = TempDir::new().unwrap();
    let mut process = program(dir.path(), "log", &[], free_port());
    process.start();
    eventually_within(PATIENCE, "the node serves", || process.log().contains("serving clients"));
    let log = process.log();
    assert!(log.contains("clients cannot find the leader through this node"), "{log}");
}
