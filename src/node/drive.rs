//! What a node does of its own accord: it rolls dice for its entries and works in loops while it leads.
//!
//! A test takes both in hand, so that a random history is the same each time and nothing happens between two
//! looks at the state.

use tokio::runtime::Handle;

/// Where the dice come from, whether the loops run, and where the callers do.
pub struct Drive {
    /// Rolls the seed of an entry.
    pub chance: Box<dyn Fn() -> u64 + Send + Sync>,
    /// Whether the leader's loops run by themselves.
    pub has_loops: bool,
    /// The threads that serve calls, if they are others than those that open the node. Commands are packed there:
    /// handing each one to another thread would cost more than all else that is done for it.
    pub callers: Option<Handle>,
}

impl Default for Drive {
    /// As a serving node is driven.
    fn default() -> Self {
        Drive { chance: Box::new(rand::random), has_loops: true, callers: None }
    }
}
