//! What scenes share: how a master is started, what was found so far, and what failed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::CompareOptions;
use super::rows::{ROWS, Scene};
use crate::bench::BenchError;
use crate::bench::keys::KeyShape;
use crate::bench::server::{Launch, Server};
use crate::bench::work::{PinWish, WorkShape};
use crate::clock::SystemClock;

/// Bytes of an object: the master keeps no bytes, so any size will do.
pub const VALUE_BYTES: u64 = 4_096;

/// Bytes of a key where nothing else is said.
pub const KEY_BYTES: usize = 21;

/// One of the two masters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// This one.
    Ours,
    /// The one it is compared with.
    Peer,
}

impl Side {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Side::Ours => "ours",
            Side::Peer => "peer",
        }
    }
}

/// The state of a comparison.
#[derive(Debug)]
pub struct Stage<'o> {
    /// What was asked for.
    pub options: &'o CompareOptions,
    /// Of this program.
    pub clock: Arc<SystemClock>,
    /// Puts a second that the other master can do at most, once that is known.
    pub peer_puts: Option<f64>,
    /// How long the larger store took to load.
    pub load_times: BTreeMap<Side, Duration>,
    wanted: BTreeSet<&'static str>,
    found: BTreeMap<(&'static str, Side), Vec<f64>>,
    failures: BTreeMap<(&'static str, Side), String>,
}

impl<'o> Stage<'o> {
    /// Nothing is found yet.
    pub fn new(
        options: &'o CompareOptions,
        wanted: BTreeSet<&'static str>,
        clock: Arc<SystemClock>,
    ) -> Self {
        Stage {
            options,
            clock,
            peer_puts: None,
            load_times: BTreeMap::new(),
            wanted,
            found: BTreeMap::new(),
            failures: BTreeMap::new(),
        }
    }

    /// Whether a row is to be measured.
    pub fn wants(&self, row: &str) -> bool {
        self.wanted.contains(row)
    }

    /// Whether some row needs the scene for this master.
    pub fn is_wanted(&self, scene: Scene, side: &Side) -> bool {
        let is_needed = |row: &super::RowSpec| row.beside.is_none() || *side == Side::Ours;
        ROWS.iter().any(|row| row.scene == scene && self.wants(row.name) && is_needed(row))
    }

    /// Notes a value.
    pub fn note(&mut self, row: &'static str, side: Side, value: f64) {
        self.found.entry((row, side)).or_default().push(value);
    }

    /// Notes why the rows of a scene that have no value of a round have none.
    pub fn failed(&mut self, scene: Scene, side: Side, round: usize, why: &str) {
        for row in ROWS.iter().filter(|row| row.scene == scene) {
            if self.values(row.name, side).len() < round {
                self.failures.entry((row.name, side)).or_insert_with(|| why.to_owned());
            }
        }
    }

    /// The values of a row.
    pub fn values(&self, row: &'static str, side: Side) -> &[f64] {
        self.found.get(&(row, side)).map(Vec::as_slice).unwrap_or_default()
    }

    /// Why a row has fewer values than rounds.
    pub fn failure(&self, row: &'static str, side: Side) -> Option<&str> {
        self.failures.get(&(row, side)).map(String::as_str)
    }

    /// Starts a master with the flags that a scene needs.
    ///
    /// Errors: as [`Server::start`].
    pub async fn start(&self, side: Side, flags: &[&str]) -> Result<Server, BenchError> {
        let ttl = format!("--client_ttl={}", self.options.client_ttl.as_secs());
        let flags = [&[ttl.as_str()], flags].concat().join(" ");
        let (template, durability) = match side {
            Side::Ours => (&self.options.ours, "--durability=async "),
            Side::Peer => (&self.options.peer, ""),
        };
        // The later of two values counts, for both masters.
        let command = with_flags(template, &format!("{durability}{flags}"));
        let core = self.options.cores.map(|cores| cores.server);
        Server::start(Launch { command, core }).await
    }

    /// What all units have in common, with keys of this length.
    ///
    /// Errors: such keys have no room for their number.
    pub fn shape(&self, key_bytes: usize, pin: PinWish) -> Result<WorkShape, BenchError> {
        Ok(WorkShape {
            keys: KeyShape::new("bench-", key_bytes)?,
            batch: 1,
            is_always_batch: false,
            value_bytes: VALUE_BYTES,
            replicas: 1,
            pin,
            group_size: 0,
        })
    }
}

fn with_flags(template: &str, flags: &str) -> String {
    match template.contains("{flags}") {
        true => template.replace("{flags}", flags),
        false => format!("{template} {flags}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_stand_where_they_are_asked_for_or_at_the_end() {
        assert_eq!(with_flags("env {flags} master", "--a=1"), "env --a=1 master");
        assert_eq!(with_flags("master --b", "--a=1"), "master --b --a=1");
    }

    #[test]
    fn a_row_that_is_compared_with_another_needs_its_scene_for_this_master_only() {
        let options = CompareOptions::quick(String::new(), String::new());
        let clock = Arc::new(SystemClock::default());
        let mut stage = Stage::new(&options, ["put-cpu-sync", "put-cpu"].into(), clock);
        let needed = |scene, side| stage.is_wanted(scene, &side);
        assert!(needed(Scene::SyncCalls, Side::Ours) && !needed(Scene::SyncCalls, Side::Peer));
        assert!(needed(Scene::Calls, Side::Peer) && !needed(Scene::Pins, Side::Ours));
        stage.note("get-cpu", Side::Peer, 1.0);
        stage.failed(Scene::Calls, Side::Peer, 1, "first");
        stage.failed(Scene::Calls, Side::Peer, 1, "second");
        assert_eq!(stage.failure("put-cpu", Side::Peer), Some("first"));
        assert_eq!(stage.failure("get-cpu", Side::Peer), None, "it has its value");
        assert_eq!(stage.failure("put-cpu", Side::Ours), None);
    }
}
