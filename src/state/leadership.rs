//! Who leads, as the log tells it: the address that clients are sent to.
//!
//! A leader announces itself when it serves, so every node knows the same address and term, restarts
//! included. Terms only grow: an announcement that comes late changes nothing (discovery notes, section 7).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// One announcement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leadership {
    /// The term in which the node leads.
    pub term: u64,
    /// The node.
    pub node_id: u64,
    /// Where clients reach it, as `host:port`.
    pub rpc_address: Arc<str>,
    /// Where operators reach it, as `host:port`.
    pub admin_address: Arc<str>,
}

impl Leadership {
    /// Takes a newer announcement over. Returns whether anything changed.
    pub fn follow(known: &mut Option<Leadership>, told: &Leadership) -> bool {
        let is_newer = known.as_ref().is_none_or(|known| told.term > known.term);
        if is_newer {
            *known = Some(told.clone());
        }
        is_newer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_announcement_of_an_older_term_changes_nothing() {
        let told = |term: u64, node_id| Leadership {
            term,
            node_id,
            rpc_address: Arc::from("h:1"),
            admin_address: Arc::from("h:2"),
        };
        let mut known = None;
        assert!(Leadership::follow(&mut known, &told(3, 1)));
        assert!(!Leadership::follow(&mut known, &told(2, 2)));
        assert!(!Leadership::follow(&mut known, &told(3, 1)));
        assert!(Leadership::follow(&mut known, &told(4, 2)));
        assert_eq!(known.map(|known| known.node_id), Some(2));
    }
}
