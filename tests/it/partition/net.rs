//! A network of namespaces, of which any packet can be lost or late.
//!
//! Each place is a network namespace with one card; `tests/net/switch.py` carries frames between the cards by rules
//! that a test sets. Needs root and iproute2. Everything is taken down with [`Net`].

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sched::{CloneFlags, setns};
use nix::unistd::Uid;
use serde_json::json;

use crate::support::venv;

/// What happens to packets from one place to another. Places are counted from 0.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rule {
    pub from: usize,
    pub to: usize,
    /// Share of packets that are lost.
    pub lose: f64,
    pub delay_ms: u64,
}

/// The network.
pub struct Net {
    places: Vec<String>,
    switch: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Net {
    /// A network of `count` places that reach each other; `None` after saying why there is none here.
    ///
    /// Panics: as root with iproute2, if it cannot be made.
    pub fn start(count: usize) -> Option<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        if !Uid::effective().is_root() {
            venv::skip("namespaces need root");
            return None;
        }
        if Command::new("ip").arg("-V").output().is_err() {
            venv::skip("iproute2 (ip) is not installed");
            return None;
        }
        let id = format!("{}x{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let places: Vec<String> = (1..=count).map(|place| format!("mh{id}p{place}")).collect();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/net/switch.py");
        let mut switch = Command::new("python3")
            .arg(script)
            .args(&places)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let orders = switch.stdin.take().unwrap();
        let answers = BufReader::new(switch.stdout.take().unwrap());
        let mut net = Net { places, switch, orders, answers };
        assert_eq!(net.answer(), "ready", "the switch has its devices");
        for (place, number) in net.places.iter().zip(1..) {
            ip(&["netns", "add", place]);
            ip(&[
                "link",
                "set",
                place,
                "netns",
                place,
                "address",
                &format!("02:00:00:00:00:{number:02x}"),
            ]);
            ip(&["-n", place, "addr", "add", &format!("{}/24", address(number - 1)), "dev", place]);
            ip(&["-n", place, "link", "set", "lo", "up"]);
            ip(&["-n", place, "link", "set", place, "up"]);
        }
        Some(net)
    }

    /// Replaces all rules; between places that none names packets go at once.
    pub fn set(&mut self, rules: &[Rule]) {
        let rule = |r: &Rule| json!({"from": r.from + 1, "to": r.to + 1, "lose": r.lose, "delay_ms": r.delay_ms});
        let rules: Vec<_> = rules.iter().map(rule).collect();
        writeln!(self.orders, "{}", json!({"rules": rules})).unwrap();
        assert_eq!(self.answer(), "ok");
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// The words in front of a command that is to run at a place.
    pub fn run_at(&self, place: usize) -> Vec<String> {
        ["ip", "netns", "exec", &self.places[place]].map(str::to_owned).to_vec()
    }

    /// Moves the calling thread, and those that it will start, to a place.
    pub fn enter(&self, place: usize) {
        enter(&self.places[place]);
    }

    /// The name of a place, for [`enter`].
    pub fn name(&self, place: usize) -> String {
        self.places[place].clone()
    }
}

/// Moves the calling thread, and those that it will start, to the place of that name.
pub fn enter(place: &str) {
    let file = File::open(format!("/run/netns/{place}")).unwrap();
    setns(file, CloneFlags::CLONE_NEWNET).unwrap();
}

impl Drop for Net {
    fn drop(&mut self) {
        let _ = self.switch.kill();
        let _ = self.switch.wait();
        for place in &self.places {
            // One that was never made is none to remove.
            let _ = Command::new("ip").args(["netns", "del", place]).output();
        }
    }
}

/// The address of a place in the network.
pub fn address(place: usize) -> String {
    format!("10.77.0.{}", place + 1)
}

fn ip(args: &[&str]) {
    let output = Command::new("ip").args(args).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {args:?}: {error}");
}
