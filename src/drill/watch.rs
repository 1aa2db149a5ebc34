//! Looks at every node again and again: who leads, in which term, which soft pins there are.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::AbortHandle;

use super::admin::AdminPort;
use super::checks::PinSample;
use super::history::KeyNo;
use super::load::Doors;
use super::moment::{Moment, Stopwatch};

/// Pause between two looks at roles, and how many of them go by between two looks at the pins.
const LOOK_STEP: Duration = Duration::from_millis(100);
const LOOKS_PER_PINS: u32 = 10;

/// Looks that are kept: five hours and a half. A drill that lasts longer shows its first part.
const LOOKS_MAX: usize = 200_000;
/// Pins of all looks together that are kept; the later ones count, so the first looks are dropped.
const PINS_KEPT_MAX: usize = 4_000_000;

/// One look at one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeLook {
    /// Its index.
    pub node: usize,
    /// Before the question.
    pub begun: Moment,
    /// After the answer, or when it was given up.
    pub ended: Moment,
    /// What it said.
    pub state: NodeState,
}

/// What a node said of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// No answer.
    Silent,
    /// It does not serve clients by itself.
    Standby,
    /// It leads and serves, in this term.
    Serving {
        /// The term in which its leadership was announced; `None` in a cluster of one.
        term: Option<u64>,
    },
}

/// Everything that was seen.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Looks at nodes, in order of their end.
    pub nodes: Vec<NodeLook>,
    /// Looks at pins, in order.
    pub pins: Vec<PinSample>,
    pins_kept: usize,
}

impl Seen {
    fn keep_pins(&mut self, sample: PinSample) {
        self.pins_kept += sample.deadlines.len();
        self.pins.push(sample);
        while self.pins_kept > PINS_KEPT_MAX && self.pins.len() > 1 {
            self.pins_kept -= self.pins.remove(0).deadlines.len();
        }
    }
}

/// Looks for as long as it lives.
#[derive(Debug)]
pub struct Watch {
    run: String,
    stopwatch: Stopwatch,
    doors: Option<Doors>,
    seen: Arc<Mutex<Seen>>,
    // One a node, so that a silent one hides no other.
    tasks: Mutex<Vec<AbortHandle>>,
}

impl Watch {
    /// Starts looking at the nodes. If `doors` are given, they are kept pointing at the node that leads.
    pub fn start(
        nodes: &[AdminPort],
        run: &str,
        stopwatch: Stopwatch,
        doors: Option<Doors>,
    ) -> Self {
        let watch = Watch {
            run: run.to_owned(),
            stopwatch,
            doors,
            seen: Arc::default(),
            tasks: Mutex::default(),
        };
        for (at, node) in nodes.iter().enumerate() {
            watch.add(at, node.clone());
        }
        watch
    }

    /// Looks at one more node, of that index.
    pub fn add(&self, at: usize, node: AdminPort) {
        let look = Look {
            node: at,
            admin: node,
            run: self.run.clone(),
            stopwatch: self.stopwatch.clone(),
            doors: self.doors.clone(),
            seen: Arc::clone(&self.seen),
        };
        self.tasks.lock().push(tokio::spawn(look.repeat()).abort_handle());
    }

    /// The node that serves according to the newest look at each, and its term.
    pub fn leader(&self) -> Option<(usize, Option<u64>)> {
        let seen = self.seen.lock();
        let newest = seen.nodes.iter().rev().take(64);
        let serving = newest.filter_map(|look| match look.state {
            NodeState::Serving { term } => Some((look.node, term)),
            NodeState::Silent | NodeState::Standby => None,
        });
        serving.max_by_key(|(_, term)| *term)
    }

    /// Soft pins at the newest look.
    pub fn pins(&self) -> usize {
        self.seen.lock().pins.last().map_or(0, |sample| sample.deadlines.len())
    }

    /// Stops; answers what was seen.
    pub fn stop(&self) -> Seen {
        self.tasks.lock().drain(..).for_each(|task| task.abort());
        std::mem::take(&mut *self.seen.lock())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.tasks.lock().drain(..).for_each(|task| task.abort());
    }
}

/// Looks at one node.
struct Look {
    node: usize,
    admin: AdminPort,
    run: String,
    stopwatch: Stopwatch,
    doors: Option<Doors>,
    seen: Arc<Mutex<Seen>>,
}

impl Look {
    async fn repeat(self) {
        let mut count: u32 = 0;
        loop {
            let is_serving = self.once().await;
            if is_serving
                && count.is_multiple_of(LOOKS_PER_PINS)
                && let Some(sample) = look_at_pins(&self.admin, &self.run, &self.stopwatch).await
            {
                self.seen.lock().keep_pins(sample);
            }
            count = count.wrapping_add(1);
            tokio::time::sleep(LOOK_STEP).await;
        }
    }

    /// Answers whether the node serves.
    async fn once(&self) -> bool {
        let begun = self.stopwatch.now();
        let health = self.admin.health().await;
        let ended = self.stopwatch.now();
        let leader_address = health.as_ref().and_then(|health| health.leader_address.clone());
        let state = match health {
            None => NodeState::Silent,
            Some(health) if health.service_ready => {
                NodeState::Serving { term: health.view_version }
            }
            Some(_) => NodeState::Standby,
        };
        if let (Some(doors), Some(address)) = (&self.doors, leader_address) {
            doors.set(vec![address]);
        }
        let mut seen = self.seen.lock();
        if seen.nodes.len() < LOOKS_MAX {
            seen.nodes.push(NodeLook { node: self.node, begun, ended, state });
        }
        matches!(state, NodeState::Serving { .. })
    }
}

/// Looks at the pins once.
pub async fn look_at_pins(
    admin: &AdminPort,
    run: &str,
    stopwatch: &Stopwatch,
) -> Option<PinSample> {
    let (begun, wall_ms) = (stopwatch.now(), stopwatch.wall_ms());
    let page = admin.pins().await?;
    // A list that is cut off would look like lost pins.
    if page.pins.len() < page.active {
        return None;
    }
    let own = |pin: &super::admin::PinPage| Some((KeyNo::parse(&pin.key, run)?, pin.deadline_ms));
    Some(PinSample { begun, wall_ms, deadlines: page.pins.iter().filter_map(own).collect() })
}

/// Terms in which more than one node said that it serves: term, and the nodes. Terms before and after a moment of
/// `reborn` are those of different clusters; a look that such a moment falls into may have been answered by either,
/// so it says nothing.
pub fn shared_terms(looks: &[NodeLook], reborn: &[Moment]) -> Vec<(u64, Vec<usize>, Moment)> {
    type Led = BTreeMap<(usize, u64), (Vec<usize>, Moment)>;
    let mut led = Led::new();
    let lives = |at: Moment| reborn.iter().filter(|birth| at > **birth).count();
    for look in looks {
        let life = lives(look.ended);
        if let NodeState::Serving { term: Some(term) } = look.state
            && lives(look.begun) == life
        {
            let (nodes, at) = led.entry((life, term)).or_insert((Vec::new(), look.ended));
            if !nodes.contains(&look.node) {
                nodes.push(look.node);
                *at = look.ended;
            }
        }
    }
    let shared = led.into_iter().filter(|(_, (nodes, _))| nodes.len() > 1);
    shared.map(|((_, term), (nodes, at))| (term, nodes, at)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serving(node: usize, at: u64, term: u64) -> NodeLook {
        let state = NodeState::Serving { term: Some(term) };
        NodeLook { node, begun: Moment(at), ended: Moment(at), state }
    }

    #[test]
    fn two_nodes_that_serve_in_one_term_are_found_and_a_take_over_is_not() {
        let taken_over = [serving(0, 1, 1), serving(1, 2, 2), serving(0, 3, 1)];
        assert_eq!(shared_terms(&taken_over, &[]), []);
        let both = [serving(0, 1, 1), serving(1, 2, 1)];
        assert_eq!(shared_terms(&both, &[]), [(1, vec![0, 1], Moment(2))]);
        assert_eq!(shared_terms(&both, &[Moment(1)]), [], "each in a cluster of its own");
    }

    #[test]
    fn a_look_that_was_under_way_when_a_new_cluster_began_is_held_against_neither() {
        let late = NodeLook { begun: Moment(1), ended: Moment(4), ..serving(0, 4, 1) };
        let looks = [late, serving(1, 5, 1)];
        assert_eq!(shared_terms(&looks, &[Moment(3)]), []);
        assert_eq!(shared_terms(&looks, &[]), [(1, vec![0, 1], Moment(5))]);
    }
}
