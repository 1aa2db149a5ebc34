//! What a run has shown: counts, the digest of its trace, findings.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::checks::linear::{self, Verdict};
use crate::checks::states::{States, applied};
use crate::history::History;
use crate::node::Node;
use crate::run::Options;
use crate::time::Time;
use crate::trace::Trace;

/// What a run leaves to be judged.
pub struct Parts<'r> {
    /// Its time.
    pub time: &'r Time,
    /// Its trace.
    pub trace: &'r Trace,
    /// What clients saw.
    pub history: &'r History,
    /// What was seen of states.
    pub states: &'r States,
    /// Faults by kind.
    pub faults: &'r BTreeMap<&'static str, u64>,
    /// The nodes.
    pub nodes: &'r [Node],
}

/// Numbers of a run, or the sums of several.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Runs.
    pub seeds: u64,
    /// Simulated milliseconds.
    pub simulated_ms: u64,
    /// Entries of the log, as far as the furthest node has applied them.
    pub entries: u64,
    /// Packets, crashes and faults in the traces.
    pub events: u64,
    /// Calls that were answered.
    pub answered: u64,
    /// Calls whose outcome is unknown.
    pub unknown: u64,
    /// Keys whose history was put in order.
    pub keys: u64,
    /// Keys for which the search was given up.
    pub undecided: u64,
    /// States walked for their invariants.
    pub walked: u64,
    /// Images compared with that of another node at the same entry.
    pub images: u64,
    /// Soft pins compared with what was acknowledged.
    pub pins: u64,
    /// Descriptors compared with those of their writer.
    pub places: u64,
    /// Placements and removals compared with the read leases promised.
    pub promises: u64,
    /// Read leases that ended early because an upsert in place was taken back.
    pub void_promises: u64,
    /// Moments, a millisecond apart, at which a node could answer reads; two never could.
    pub leases: u64,
    /// Faults by kind.
    pub faults: BTreeMap<String, u64>,
}

/// See the file's head.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// Equal for two runs of one seed.
    pub digest: String,
    /// Numbers.
    pub counts: Counts,
    /// What should not be.
    pub findings: Vec<String>,
}

impl Counts {
    /// Adds those of another run.
    pub fn add(&mut self, other: &Counts) {
        let pairs = [
            (&mut self.seeds, other.seeds),
            (&mut self.simulated_ms, other.simulated_ms),
            (&mut self.entries, other.entries),
            (&mut self.events, other.events),
            (&mut self.answered, other.answered),
            (&mut self.unknown, other.unknown),
            (&mut self.keys, other.keys),
            (&mut self.undecided, other.undecided),
            (&mut self.walked, other.walked),
            (&mut self.images, other.images),
            (&mut self.pins, other.pins),
            (&mut self.places, other.places),
            (&mut self.promises, other.promises),
            (&mut self.void_promises, other.void_promises),
            (&mut self.leases, other.leases),
        ];
        pairs.into_iter().for_each(|(sum, more)| *sum += more);
        for (kind, count) in &other.faults {
            *self.faults.entry(kind.clone()).or_default() += count;
        }
    }
}

impl Outcome {
    /// A run that came to no end.
    pub fn died(seed: u64) -> Self {
        let findings = Vec::new();
        Outcome { seed, digest: String::new(), counts: Counts::default(), findings }
    }

    /// Judges a run.
    pub fn of(options: Options, parts: Parts<'_>) -> Self {
        let log = parts.history.log.lock();
        let mut findings = log.findings.clone();
        let (mut keys, mut undecided) = (0, 0);
        for (key, ops) in &log.ops {
            keys += 1;
            match linear::check(ops) {
                Verdict::Linearizable => {}
                Verdict::Undecided => undecided += 1,
                Verdict::Contradiction(what) => findings.push(format!("{key}: {what}")),
            }
        }
        let entries = parts.nodes.iter().filter_map(Node::master);
        let entries = entries.filter_map(|master| applied(&master)).max().unwrap_or(0);
        let counts = Counts {
            seeds: 1,
            simulated_ms: parts.time.ms(),
            entries,
            events: parts.trace.events(),
            answered: log.answered,
            unknown: log.unknown,
            keys,
            undecided,
            walked: parts.states.walked,
            images: parts.states.compared,
            pins: parts.states.pins,
            places: log.places_checked,
            promises: log.promises_checked,
            void_promises: log.promises_void,
            leases: parts.states.leases,
            faults: parts.faults.iter().map(|(kind, n)| ((*kind).to_owned(), *n)).collect(),
        };
        let digest = format!("{:016x}", parts.trace.digest());
        Outcome { seed: options.seed, digest, counts, findings }
    }
}
