//! What a drill says in the end: numbers for machines, text for people, a page for those who were not there.

mod build;
mod html;
mod svg;
mod text;
mod timeline;

pub use build::{Material, build};
pub use html::page;
pub use text::text;
pub use timeline::{Bucket, ClientLine, Span, Timeline};

use std::collections::BTreeMap;

use serde::Serialize;

use super::checks::Looked;
use super::finding::{Finding, Kind};
use super::moment::Moment;
use super::usage::Course;

/// A whole drill.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Version of the program that drilled.
    pub version: &'static str,
    /// Unix milliseconds at which it began.
    pub began_ms: u64,
    /// Of whom: "3 nodes of its own", or addresses.
    pub cluster: String,
    /// Whether nothing was found.
    pub is_good: bool,
    /// In the order in which they were played.
    pub scenarios: Vec<ScenarioReport>,
}

/// One scenario.
#[derive(Debug, Serialize)]
pub struct ScenarioReport {
    /// Its name.
    pub name: &'static str,
    /// What it did.
    pub what: &'static str,
    /// What it shows if nothing was found.
    pub shows: &'static str,
    /// How often.
    pub rounds: u32,
    /// How long it took, checks included.
    pub seconds: f64,
    /// Whether nothing was found.
    pub is_good: bool,
    /// The longest time that any client was without an answer which may go to any node.
    pub outage: Outage,
    /// How long calls took.
    pub latency: Latencies,
    /// What was looked at.
    pub checked: Looked,
    /// Calls without an answer.
    pub unanswered: u64,
    /// Refused writes by call and code.
    pub refused: BTreeMap<String, u64>,
    /// What was broken and repaired.
    pub faults: Vec<FaultReport>,
    /// Who led.
    pub leaders: Vec<LeaderReport>,
    /// What each client saw.
    pub clients: Vec<ClientReport>,
    /// How many findings of each kind, all kinds.
    pub found: BTreeMap<Kind, u64>,
    /// The first of them.
    pub findings: Vec<Finding>,
    /// How what nodes use went, in a soak.
    pub usage: Vec<Course>,
    /// For the page.
    #[serde(skip)]
    pub timeline: Timeline,
}

/// A time without answers.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Outage {
    /// How long.
    pub longest_ms: u64,
    /// When it began, in milliseconds since the scenario did.
    pub at_ms: u64,
    /// Who saw it.
    pub client: String,
}

/// How long answered calls took, in microseconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Latencies {
    /// Whole writes: start and end, or a removal.
    pub writes: Latency,
    /// Reads.
    pub reads: Latency,
}

/// A distribution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Latency {
    /// Half took at most this long.
    pub p50_us: u64,
    /// 99 of 100 took at most this long.
    pub p99_us: u64,
    /// The slowest.
    pub max_us: u64,
}

/// A fault or a repair.
#[derive(Clone, Debug, Serialize)]
pub struct FaultReport {
    /// Milliseconds since the scenario began.
    pub at_ms: u64,
    /// What was done.
    pub what: String,
    /// Whether it broke something.
    pub is_break: bool,
    /// After how many milliseconds the first write ended well that was begun afterwards.
    pub write_after_ms: Option<u64>,
}

/// A time for which a node was seen to lead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeaderReport {
    /// Its number.
    pub node: usize,
    /// In this term.
    pub term: Option<u64>,
    /// From, in milliseconds since the scenario began.
    pub from_ms: u64,
    /// To.
    pub to_ms: u64,
}

/// What one client saw.
#[derive(Clone, Debug, Serialize)]
pub struct ClientReport {
    /// Who.
    pub name: String,
    /// Whether it stays with one node, and so has no answers while that one is down.
    pub is_pinned: bool,
    /// Calls that were answered.
    pub answered: u64,
    /// Calls that were not.
    pub unanswered: u64,
    /// The longest time without an answer.
    pub longest_gap_ms: u64,
    /// When that began.
    pub gap_at_ms: u64,
}

/// Milliseconds of a moment since the scenario began.
fn since(start: Moment, at: Moment) -> u64 {
    at.since(start) / 1000
}
