//! What the bugs of `plant.rs` do to a state. Nothing calls it in a release.

use super::State;
use crate::model::ids::SHARD_COUNT;
use crate::model::{Deadline, ObjectRef};

/// How much later than now the forgotten pin ends.
const LATER_MS: u64 = 10_000;

impl State {
    /// Writes in progress lose what they have asked of the soft pin.
    pub(super) fn plant_drop_pending(&mut self) {
        for shard in 0..SHARD_COUNT {
            for at in self.view.table.refs_in_shard(shard) {
                let _ = self.edit(at, |object| object.set_pending(None));
            }
        }
    }

    /// A pin of a state that was not taken over stays in the index.
    pub(super) fn plant_kept_index(&mut self) {
        self.deadlines.register(Deadline(self.clock.0.saturating_add(LATER_MS)), ObjectRef(0));
    }
}
