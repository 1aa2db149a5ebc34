//! The tool that operators have at hand.
//!
//! `ETCDCTL` names it; else it is looked for in the path. Without it these tests say that they showed nothing.

use std::env;
use std::fs::File;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use super::node::Node;
use crate::support::{eventually_within, venv};

const KEY: &str = "mooncake-store/mooncake_cluster/master_view";
const PATIENCE: Duration = Duration::from_secs(30);

fn etcdctl(port: u16) -> Option<Command> {
    let program = env::var_os("ETCDCTL").unwrap_or_else(|| "etcdctl".into());
    let asked = Command::new(&program).env("ETCDCTL_API", "3").arg("version").output();
    if !asked.is_ok_and(|answer| answer.status.success()) {
        venv::skip("there is no etcdctl");
        return None;
    }
    let mut command = Command::new(program);
    command.env("ETCDCTL_API", "3").arg(format!("--endpoints=127.0.0.1:{port}"));
    Some(command)
}

fn run(node: &Node, args: &[&str]) -> Option<(bool, String)> {
    let Output { status, stdout, stderr } = etcdctl(node.port)?.args(args).output().unwrap();
    Some((status.success(), String::from_utf8([stdout, stderr].concat()).unwrap()))
}

#[test]
fn etcdctl_reads_the_view_and_may_write_nothing() {
    let node = Node::start();
    let address = node.rpc_address();
    let Some(read) = run(&node, &["get", KEY]) else { return };
    assert_eq!(read, (true, format!("{KEY}\n{address}\n")));
    let older = "mooncake-store/master_view";
    let read = run(&node, &["get", "--print-value-only", older]).unwrap();
    assert_eq!(read, (true, format!("{address}\n")));
    assert_eq!(run(&node, &["get", "other"]).unwrap(), (true, String::new()));
    let (_, json) = run(&node, &["get", "-w", "json", KEY]).unwrap();
    assert!(json.contains(&format!("\"create_revision\":{}", node.term())), "{json}");
    let (is_done, text) = run(&node, &["put", KEY, "elsewhere:1"]).unwrap();
    assert!(!is_done && text.contains("only the leader can be looked up"), "{text}");
    let read = run(&node, &["get", "--print-value-only", KEY]).unwrap();
    assert_eq!(read, (true, format!("{address}\n")));
}

#[test]
fn etcdctl_watches_the_view_over_a_restart_of_the_node() {
    let mut node = Node::start();
    let Some(mut command) = etcdctl(node.port) else { return };
    let dir = TempDir::new().unwrap();
    let log = dir.path().join("watch.log");
    let output = File::create(&log).unwrap();
    let first = format!("--rev={}", node.term());
    let started = command.args(["watch", &first, KEY]).stdout(output).stderr(Stdio::null()).spawn();
    let _watching = Killed(started.unwrap());
    let told = |address: &str| {
        let text = std::fs::read_to_string(&log).unwrap();
        text.contains(&format!("PUT\n{KEY}\n{address}\n"))
    };
    eventually_within(PATIENCE, "the watch hears of the first leader", || {
        told(&node.rpc_address())
    });
    node.kill();
    node.start_again();
    eventually_within(PATIENCE, "the watch hears of the next one", || told(&node.rpc_address()));
}

/// A child that does not outlive its test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
