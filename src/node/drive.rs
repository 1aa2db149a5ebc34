//! What a node does of its own accord: it rolls dice for its entries and works in loops while it leads.
//!
//! A test takes both in hand, so that a random history is the same each time and nothing happens between two
//! looks at the state.

/// Where the dice come from, and whether the loops run.
pub struct Drive {
    /// Rolls the seed of an entry.
    pub chance: Box<dyn Fn() -> u64 + Send + Sync>,
    /// Whether the leader's loops run by themselves.
    pub has_loops: bool,
}

impl Default for Drive {
    /// As a serving node is driven.
    fn default() -> Self {
        Drive { chance: Box::new(rand::random), has_loops: true }
    }
}
