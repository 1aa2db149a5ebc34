//! A real ZeroMQ subscriber as a process, and what it has been told.
//!
//! Its Python is named by `MOONCAKE_ZMQ_PYTHON`, else looked for where `./verify` puts it. With
//! `MOONCAKE_REQUIRE_SERVERS=1` (the gate) a missing one is a failure.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::thread;

use parking_lot::Mutex;
use serde_json::Value as Json;

use crate::support::{eventually, venv};

/// An event, as its fields in the order sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub fields: Vec<(String, Json)>,
}

impl Event {
    pub fn field(&self, name: &str) -> &Json {
        &self.fields.iter().find(|(found, _)| found == name).expect(name).1
    }

    pub fn names(&self) -> Vec<&str> {
        self.fields.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// Such as `+key`, or `-key disk`.
    pub fn terse(&self) -> String {
        let sign = if self.field("event_type") == "stored" { '+' } else { '-' };
        let medium = if self.field("medium") == "cpu" { "" } else { " disk" };
        format!("{sign}{}{medium}", self.field("object_key").as_str().unwrap())
    }
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub sequence: u64,
    pub timestamp: u64,
    pub events: Vec<Event>,
}

/// A subscriber; ends with the test.
pub struct Subscriber {
    child: Child,
    _open: ChildStdin,
    lines: Arc<Mutex<Vec<Json>>>,
}

impl Subscriber {
    /// Subscribes to everything at these ports; `None` if there is no ZeroMQ here.
    pub fn start(ports: &[u16]) -> Option<Self> {
        let hosts: Vec<_> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        Subscriber::start_at(&hosts)
    }

    /// The same at these hosts and ports.
    pub fn start_at(hosts: &[String]) -> Option<Self> {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap_or(Path::new("target"));
        let python = env::var_os("MOONCAKE_ZMQ_PYTHON")
            .map_or_else(|| target.join("zmq-subscriber/bin/python"), PathBuf::from);
        if !python.exists() {
            let is_required = env::var("MOONCAKE_REQUIRE_SERVERS").as_deref() == Ok("1");
            assert!(!is_required, "the ZeroMQ subscriber is required");
            venv::skip("the ZeroMQ subscriber is not installed");
            return None;
        }
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/client/subscriber.py");
        let mut child = Command::new(python)
            .arg(script)
            .args(hosts.iter().map(|host| format!("tcp://{host}")))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let open = child.stdin.take().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap()).lines();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&lines);
        thread::spawn(move || {
            for line in out.map_while(Result::ok) {
                heard.lock().push(serde_json::from_str(&line).unwrap());
            }
        });
        let subscriber = Subscriber { child, _open: open, lines };
        eventually("the subscriber runs", || !subscriber.lines.lock().is_empty());
        Some(subscriber)
    }

    /// Every message so far, repeated ones included, in the order heard.
    pub fn heard(&self) -> Vec<Message> {
        let lines = self.lines.lock();
        lines.iter().skip(1).map(message).collect()
    }

    /// Every message once, by number. A repeated one must say the same.
    pub fn known(&self) -> BTreeMap<u64, Message> {
        let mut known = BTreeMap::new();
        for message in self.heard() {
            let before = known.insert(message.sequence, message.clone());
            assert!(before.is_none_or(|before| before == message), "told otherwise: {message:?}");
        }
        known
    }

    /// Every event once, in order.
    pub fn events(&self) -> Vec<String> {
        self.known().values().flat_map(|message| &message.events).map(Event::terse).collect()
    }

    /// The keys in memory after everything that was heard; each comes before it goes, and only once.
    pub fn keys(&self) -> BTreeSet<String> {
        let mut keys = BTreeSet::new();
        for event in self.events() {
            let (sign, key) = event.split_at(1);
            let is_change =
                if sign == "+" { keys.insert(key.to_owned()) } else { keys.remove(key) };
            assert!(is_change, "{event}");
        }
        keys
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn message(line: &Json) -> Message {
    let number = |name: &str| line[name].as_u64().unwrap();
    assert_eq!(number("rank"), 0);
    let event = |event: &Json| {
        let pairs = event.as_array().unwrap().iter();
        let field = |pair: &Json| (pair[0].as_str().unwrap().to_owned(), pair[1].clone());
        Event { fields: pairs.map(field).collect() }
    };
    let events = line["events"].as_array().unwrap().iter().map(event).collect();
    Message { sequence: number("sequence"), timestamp: number("timestamp"), events }
}
