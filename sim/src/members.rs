//! A node that has lost its disk is removed from the cluster and added anew, step by step, each by
//! whoever leads then.

use std::sync::Arc;

use mooncake_ha::node::MasterNode;
use parking_lot::Mutex;

use crate::net::{Host, RAFT, address};
use crate::node::Node;

/// How often a step is tried, each try at most every [`PAUSE_MS`].
const TRIES_MAX: u32 = 400;
/// Milliseconds between two tries.
const PAUSE_MS: u64 = 100;

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Remove,
    Restart,
    AddLearner,
    Promote,
}

/// How a try has ended, once it has.
type Ended = Arc<Mutex<Option<Result<(), String>>>>;

/// A replacement under way.
pub struct Replacement {
    /// Who.
    pub host: Host,
    step: Step,
    tries: u32,
    next_ms: u64,
    /// How the try under way has ended.
    ended: Option<Ended>,
}

/// What the run has to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Todo {
    /// Nothing now.
    Wait,
    /// Give the node an empty disk and start it as one that joins.
    Restart,
    /// It is done, or given up.
    Done,
}

impl Replacement {
    /// Begins.
    pub fn new(host: Host) -> Self {
        Replacement { host, step: Step::Remove, tries: 0, next_ms: 0, ended: None }
    }

    /// Whether the node is out of the cluster, so that it must not start by itself.
    pub fn is_out(&self) -> bool {
        self.step == Step::Restart
    }

    /// Goes on. `leader` is the node that seems to lead.
    pub fn go_on(&mut self, now_ms: u64, leader: Option<&Node>) -> Todo {
        if let Some(ended) = &self.ended {
            let Some(result) = ended.lock().take() else { return Todo::Wait };
            self.ended = None;
            if result.is_ok() {
                return self.advance();
            }
        }
        if self.step == Step::Restart {
            self.step = Step::AddLearner;
            return Todo::Restart;
        }
        if now_ms < self.next_ms {
            return Todo::Wait;
        }
        if self.tries >= TRIES_MAX {
            return Todo::Done;
        }
        (self.tries, self.next_ms) = (self.tries + 1, now_ms + PAUSE_MS);
        let Some(leader) = leader.filter(|leader| leader.host() != self.host) else {
            return Todo::Wait;
        };
        self.ask(leader);
        Todo::Wait
    }

    fn advance(&mut self) -> Todo {
        match self.step {
            Step::Remove => {
                self.step = Step::Restart;
                Todo::Wait
            }
            Step::Restart | Step::AddLearner => {
                self.step = Step::Promote;
                Todo::Wait
            }
            Step::Promote => Todo::Done,
        }
    }

    /// The answer is forgotten if the leader dies before it gives one; then the step is tried again.
    fn ask(&mut self, leader: &Node) {
        let Some(master) = leader.master() else { return };
        let told = Arc::new(Mutex::new(None));
        self.ended = Some(Arc::clone(&told));
        let (step, id) = (self.step, u64::from(self.host));
        let address = address(self.host, RAFT);
        let answer = Answer(told);
        leader.spawn(async move {
            let raft = master.raft();
            let done = match step {
                // An earlier try whose answer was lost may have done it.
                Step::Remove if !is_member(&master, id) => Ok(()),
                Step::Remove => raft.remove(id).await,
                Step::AddLearner | Step::Restart => raft.add_learner(id, &address).await,
                Step::Promote => raft.promote(id).await,
            };
            *answer.0.lock() = Some(done.map_err(|error| error.to_string()));
        });
    }
}

fn is_member(master: &MasterNode, id: u64) -> bool {
    master.status().members.iter().any(|member| member.id == id)
}

/// Tells of a try that died with its leader.
struct Answer(Arc<Mutex<Option<Result<(), String>>>>);

impl Drop for Answer {
    fn drop(&mut self) {
        self.0.lock().get_or_insert(Err("the leader died".to_owned()));
    }
}
