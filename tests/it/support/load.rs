//! Continuous traffic of one client, and what it allows a correct master to answer afterwards.
//!
//! An answer of the library that only says that the connection was lost leaves the outcome unknown:
//! such a write may be there or not, but if it can be read its bytes must be right.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Shape of the traffic.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LoadOptions {
    /// First part of every key.
    pub prefix: String,
    /// Chooses sizes, contents and order.
    pub seed: u64,
    /// Sizes are log-uniform up to this many bytes.
    pub size_max: u64,
    /// Every n-th key is soft-pinned; 0 pins none.
    pub pin_every: u64,
    /// TTL of those pins.
    pub pin_ttl_ms: u64,
    /// Upserts per put.
    pub upsert_share: f64,
    /// Forced removals per put.
    pub remove_share: f64,
    /// Batches of eight keys instead of one put.
    pub batch_share: f64,
    /// Pause after every put.
    pub gap_seconds: f64,
    /// Concurrent callers.
    pub threads: u64,
}

impl LoadOptions {
    /// Puts and gets of up to 64 KiB by two callers.
    pub fn new(prefix: &str, seed: u64) -> Self {
        LoadOptions {
            prefix: prefix.to_owned(),
            seed,
            size_max: 65_536,
            gap_seconds: 0.002,
            threads: 2,
            ..LoadOptions::default()
        }
    }
}

/// What is known about one key.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// Bytes of the value.
    pub size: u64,
    /// Contents that may be read; none: the key was removed.
    pub seeds: Vec<u64>,
    /// The key may be unreadable.
    pub absent: bool,
    /// Earliest and latest deadline that the pin may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pin: Option<(u64, u64)>,
    /// Size of an upsert whose outcome is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_size: Option<u64>,
}

impl Record {
    /// The key was acknowledged with exactly one content.
    pub fn is_certain(&self) -> bool {
        !self.absent
    }
}

/// Something that a correct master does not do.
#[derive(Clone, Debug, Deserialize)]
#[expect(dead_code, reason = "read by the test's reader, through Debug")]
pub struct Finding {
    what: String,
    key: String,
    detail: String,
}

/// A finished (or running) load.
#[derive(Clone, Debug, Deserialize)]
pub struct LoadReport {
    /// By key.
    pub records: BTreeMap<String, Record>,
    /// "put 0", "put -900", "get right" ...: how often.
    pub counts: BTreeMap<String, u64>,
    /// Must be empty.
    pub findings: Vec<Finding>,
}

impl LoadReport {
    /// How often the operation ended like this.
    pub fn count(&self, what: &str) -> u64 {
        self.counts.get(what).copied().unwrap_or(0)
    }

    /// Answers to writes that are neither success nor a lost connection.
    pub fn refused_writes(&self) -> Vec<&String> {
        let fine = ["0", "-900", "-901"];
        self.counts
            .keys()
            .filter(|what| !what.starts_with("get") && !what.starts_with("remove"))
            .filter(|what| !what.split(' ').next_back().is_some_and(|code| fine.contains(&code)))
            .collect()
    }

    /// How many answers were lost with their connection.
    pub fn lost_answers(&self) -> u64 {
        self.counts.iter().filter(|(what, _)| what.ends_with(" -900")).map(|(_, n)| n).sum()
    }

    /// Keys whose presence is certain.
    pub fn certain(&self) -> impl Iterator<Item = (&String, &Record)> {
        self.records.iter().filter(|(_, record)| record.is_certain())
    }
}

/// Result of reading a load's records again.
#[derive(Clone, Debug, Deserialize)]
pub struct Verified {
    /// By verdict.
    pub counts: BTreeMap<String, u64>,
    /// Must be empty.
    pub findings: Vec<Finding>,
}
