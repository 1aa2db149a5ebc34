//! Removes what an expired client left in the HTTP metadata server (behaviour 13.4).
//!
//! A client that dies leaves its description behind, and a new process of the same name would be refused. The
//! server does not decode keys, so a key is removed as it is and as clients encode it.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

use super::MasterNode;
use super::error::NodeError;
use crate::state::command::{Command, ExpiredClient, Key};

/// What clients leave as it is when they encode a key.
pub(super) const ENCODED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

impl MasterNode {
    /// Names of the segments of these clients, if their keys are to be removed.
    pub(super) fn segments_to_clean(&self, expired: &[ExpiredClient]) -> Vec<String> {
        if self.settings().metadata_cleanup.is_none() {
            return Vec::new();
        }
        self.look(|state| {
            let is_theirs = |owner| expired.iter().any(|gone| gone.client == owner);
            let theirs = state.segments().iter().filter(|(_, mounted)| is_theirs(mounted.owner));
            theirs.map(|(_, mounted)| mounted.segment.name.to_string()).collect()
        })
    }

    /// Removes the keys of these segments.
    ///
    /// Errors: the node cannot serve; the keys that are left stay until a client of that name replaces them.
    pub(super) async fn clean_metadata(&self, segments: &[String]) -> Result<(), NodeError> {
        let Some(prefix) = self.settings().metadata_cleanup.clone() else { return Ok(()) };
        if let Some(server) = &self.settings().metadata_server
            && !segments.is_empty()
        {
            super::te_remote::clean(server, &prefix, segments);
            return Ok(());
        }
        for segment in segments {
            for key in keys(&prefix, segment) {
                self.propose(&Command::MetadataDelete { key }).await?;
            }
        }
        Ok(())
    }
}

/// The two keys of a segment.
pub(super) fn plain_keys(prefix: &str, segment: &str) -> [String; 2] {
    ["ram", "rpc_meta"].map(|kind| format!("{prefix}{kind}/{segment}"))
}

/// Every form of the two keys of a segment.
fn keys(prefix: &str, segment: &str) -> Vec<Key> {
    let both = plain_keys(prefix, segment).into_iter().flat_map(|key| {
        let encoded = percent_encode(key.as_bytes(), ENCODED).to_string();
        [key, encoded]
    });
    both.map(|key| Key(key.into_bytes())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_keys_of_a_segment_are_removed_in_both_forms() {
        let keys: Vec<String> = keys("mooncake/", "10.0.0.1:7")
            .into_iter()
            .map(|key| String::from_utf8(key.0).unwrap())
            .collect();
        let expected = [
            "mooncake/ram/10.0.0.1:7",
            "mooncake%2Fram%2F10.0.0.1%3A7",
            "mooncake/rpc_meta/10.0.0.1:7",
            "mooncake%2Frpc_meta%2F10.0.0.1%3A7",
        ];
        assert_eq!(keys, expected);
    }
}
