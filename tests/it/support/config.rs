//! What a write asks for beside its bytes, as the worker understands it.

use serde::Serialize;

/// A `ReplicateConfig`; fields left out keep the client's own defaults.
#[derive(Clone, Debug, Default, Serialize)]
pub struct WriteConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    replica_num: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    soft_pin: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    soft_pin_ttl_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hard_pin: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    preferred_segment: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group_ids: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data_type: Option<&'static str>,
}

impl WriteConfig {
    /// `count` copies, each on another segment.
    pub fn replicas(count: u64) -> Self {
        WriteConfig { replica_num: Some(count), ..WriteConfig::default() }
    }

    /// A soft pin with the master's default TTL.
    pub fn soft_pin() -> Self {
        WriteConfig { soft_pin: Some("enable"), ..WriteConfig::default() }
    }

    /// A soft pin for `ttl_ms` milliseconds.
    pub fn soft_pin_for(ttl_ms: u64) -> Self {
        WriteConfig { soft_pin_ttl_ms: Some(ttl_ms), ..WriteConfig::soft_pin() }
    }

    /// Takes a soft pin away.
    pub fn no_soft_pin() -> Self {
        WriteConfig { soft_pin: Some("disable"), ..WriteConfig::default() }
    }

    /// Never evicted.
    pub fn hard_pin() -> Self {
        WriteConfig { hard_pin: Some(true), ..WriteConfig::default() }
    }

    /// Members of `groups`, one for each key of the write.
    pub fn groups(groups: &[&str]) -> Self {
        let group_ids = groups.iter().map(|&group| group.to_owned()).collect();
        WriteConfig { group_ids: Some(group_ids), ..WriteConfig::default() }
    }

    /// Prefers the segment named `segment`.
    pub fn on(mut self, segment: &str) -> Self {
        self.preferred_segment = Some(segment.to_owned());
        self
    }

    /// Says what kind of data it is.
    pub fn of_type(mut self, data_type: &'static str) -> Self {
        self.data_type = Some(data_type);
        self
    }
}
