//! The state as Raft sees it: bytes in, replies out, frozen handles to a raft snapshot.
//!
//! The node's lock guards everything of the state that readers do not share; apply is its only writer.

use std::io::{Read, Write};
use std::sync::Arc;

use mooncake_ha_raft::{Machine, MachineError};
use parking_lot::RwLock;
use tokio::sync::watch;
use tokio::time::Instant;

use super::feed::Feed;
use crate::leader::arrivals::Arrivals;
use crate::metrics::histogram::Histogram;
use crate::state::image::FrozenState;
use crate::state::leadership::Leadership;
use crate::state::restore::Preloaded;
use crate::state::view::View;
use crate::state::{Reply, State};

/// The replicated store.
#[derive(Debug)]
pub struct StoreMachine {
    state: RwLock<State>,
    /// The same value as the state's, reachable without the lock.
    view: Arc<View>,
    /// What the evictor picks up, if this node leads.
    arrivals: Arrivals,
    /// Follows the state's newest announcement of a leader.
    leadership: watch::Sender<Option<Leadership>>,
    apply_times: Histogram,
    /// What is told of objects coming and going, if anybody is told.
    feed: Option<Arc<Feed>>,
}

impl Default for StoreMachine {
    fn default() -> Self {
        let state = State::default();
        let view = Arc::clone(state.view());
        StoreMachine {
            view,
            state: RwLock::new(state),
            arrivals: Arrivals::default(),
            leadership: watch::Sender::new(None),
            apply_times: Histogram::of_latency(),
            feed: None,
        }
    }
}

impl StoreMachine {
    /// An empty store that puts down what is to be told of objects coming and going.
    pub fn feeding(feed: Option<Arc<Feed>>) -> Self {
        let machine = StoreMachine { feed, ..StoreMachine::default() };
        if machine.feed.is_some() {
            machine.state.write().presence_mut().follow();
        }
        machine
    }

    /// What is to be told, if anybody is told.
    pub fn feed(&self) -> Option<&Arc<Feed>> {
        self.feed.as_ref()
    }

    /// What readers share with apply.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Looks at the state between two entries. Keep it short: apply waits meanwhile.
    pub fn look<R>(&self, look: impl FnOnce(&State) -> R) -> R {
        look(&self.state.read())
    }

    /// Objects on their way to the evictor.
    pub fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }

    /// How long applying an entry took, waiting for readers included.
    pub fn apply_times(&self) -> &Histogram {
        &self.apply_times
    }

    /// Follows the newest announcement of a leader.
    pub fn watch_leadership(&self) -> watch::Receiver<Option<Leadership>> {
        self.leadership.subscribe()
    }

    fn show_leadership(&self, state: &State) {
        self.leadership.send_if_modified(|shown| {
            let is_new = shown.as_ref() != state.leadership();
            if is_new {
                *shown = state.leadership().cloned();
            }
            is_new
        });
    }

    /// Takes what an attempt to restore makes of the state before its last step, which then need not load it.
    pub fn preload(&self, preloaded: Preloaded) {
        self.state.write().preload(preloaded);
    }

    /// The first deadline of the soft-pin index; drops stale registrations on the way.
    pub fn next_deadline(&self) -> Option<crate::model::Deadline> {
        self.state.write().next_deadline()
    }
}

impl Machine for StoreMachine {
    type Reply = Vec<Reply>;
    type Frozen = FrozenState;

    fn apply(&self, index: u64, entry: &[u8]) -> Result<Vec<Reply>, MachineError> {
        let started = Instant::now();
        let mut state = self.state.write();
        let replies = state
            .apply(entry)
            .map_err(|error| MachineError::new(format!("entry {index}: {error}")))?;
        self.arrivals.put(state.arrivals(), state.clock());
        if let Some(feed) = &self.feed {
            let changes = state.presence_mut().take();
            feed.put(state.presence().counts(), state.clock(), changes);
        }
        self.show_leadership(&state);
        self.apply_times.observe_time(started.elapsed());
        Ok(replies)
    }

    fn freeze(&self) -> FrozenState {
        self.state.read().freeze()
    }

    fn save(frozen: FrozenState, to: &mut dyn Write) -> std::io::Result<()> {
        frozen.save(to)
    }

    fn load(&self, from: &mut dyn Read) -> Result<(), MachineError> {
        let loaded = State::load(from).map_err(|error| MachineError::new(error.to_string()))?;
        let mut state = self.state.write();
        state.replace_with(loaded);
        if let Some(feed) = &self.feed {
            feed.clear();
        }
        self.show_leadership(&state);
        Ok(())
    }
}
