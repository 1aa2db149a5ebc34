//! The master view: which keys name it, what they hold, and under which revision.
//!
//! Every cluster text is answered alike, because a client's text is its own setting and a client that is
//! told "no such key" asks again without a pause. Who waits for a view is in `range` and `watch`.

use super::messages::{KeyValue, ResponseHeader};
use crate::node::Leadership;

const KEY_START: &[u8] = b"mooncake-store/";
const KEY_END: &[u8] = b"/master_view";

/// What a node knows at one moment.
#[derive(Clone, Debug)]
pub(super) struct View {
    /// The announcement, if there ever was one.
    pub leadership: Option<Leadership>,
    /// The node that tells.
    pub node_id: u64,
}

impl View {
    /// The term, or 1 before the first announcement: the revision of an empty etcd. A client resumes a broken
    /// watch from the revision it was told, and 0 would mean "from now", which skips what happened in between.
    pub fn revision(&self) -> i64 {
        self.leadership.as_ref().map_or(1, revision_of)
    }

    /// The term, or 0 before the first announcement.
    pub fn revision_known(&self) -> i64 {
        self.leadership.as_ref().map_or(0, revision_of)
    }

    /// The header of an answer.
    pub fn header(&self) -> ResponseHeader {
        ResponseHeader {
            member_id: self.node_id,
            revision: self.revision(),
            raft_term: self.leadership.as_ref().map_or(0, |known| known.term),
        }
    }

    /// The view under the name the client used; `None` before the first announcement.
    pub fn key_value(&self, key: &[u8]) -> Option<KeyValue> {
        let known = self.leadership.as_ref()?;
        let revision = revision_of(known);
        Some(KeyValue {
            key: key.to_vec(),
            create_revision: revision,
            mod_revision: revision,
            version: 1,
            value: known.rpc_address.as_bytes().to_vec(),
            lease: 0,
        })
    }
}

fn revision_of(leadership: &Leadership) -> i64 {
    i64::try_from(leadership.term).unwrap_or(i64::MAX)
}

/// Whether `key..range_end` begins at a name of the view and holds it. An empty end means the key alone, a
/// zero byte everything from the key on.
pub(super) fn is_asked(key: &[u8], range_end: &[u8]) -> bool {
    let is_in_range = range_end.is_empty() || range_end == [0] || range_end > key;
    is_name(key) && is_in_range
}

/// `mooncake-store/CLUSTER/master_view`, or the older `mooncake-store/master_view`.
fn is_name(key: &[u8]) -> bool {
    key.starts_with(KEY_START) && key.ends_with(KEY_END)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cluster_text_names_the_view_and_nothing_else_does() {
        for key in [
            "mooncake-store/mooncake_cluster/master_view",
            "mooncake-store/mooncake/master_view",
            "mooncake-store/a/b/master_view",
            "mooncake-store//master_view",
            "mooncake-store/master_view",
        ] {
            assert!(is_asked(key.as_bytes(), b""), "{key}");
        }
        for key in [
            "",
            "mooncake-store/",
            "mooncake-store/x/master_view2",
            "/mooncake-store/x/master_view",
            "mooncake-storemaster_view",
            "mooncake/ram/x",
        ] {
            assert!(!is_asked(key.as_bytes(), b""), "{key}");
        }
    }

    #[test]
    fn a_range_that_begins_at_the_view_holds_it_unless_it_is_empty() {
        let key = b"mooncake-store/c/master_view";
        assert!(is_asked(key, b"mooncake-store/c/master_viex"));
        assert!(is_asked(key, b"\0"));
        assert!(!is_asked(key, key));
        assert!(!is_asked(key, b"mooncake-store/"));
        assert!(!is_asked(b"mooncake-store/", b"mooncake-store0"));
    }
}
