//! State that dies with leadership: the leader's clock, who was heard when, what to sweep next.
//!
//! Built when this node gains leadership and dropped when it loses it. Everything here decides and nothing
//! acts: the loops that propose live in `node::workers`, so each decision can be tested with a clock in hand.

pub mod arrivals;
pub mod clock;
pub mod evictor;
pub mod heat;
pub mod liveness;
pub mod promotion;
pub mod sweeper;

use parking_lot::Mutex;
use std::time::Duration;

use crate::model::{Deadline, Millis, Ttl};
use heat::HeatDesk;
use liveness::Liveness;
use promotion::PromotionDesk;

/// Everything that one term of leadership knows beyond the state.
#[derive(Debug)]
pub struct LeaderContext {
    /// The term that this node leads in.
    pub term: u64,
    /// When this node took over. An object whose write began later was never shown by an earlier leader.
    pub since: Millis,
    /// No older object is removed or evicted before this: the previous leader may have granted read leases up to it.
    pub no_removal_before: Deadline,
    /// Who was heard when.
    pub liveness: Mutex<Liveness>,
    /// Which objects should come back to memory.
    pub promotions: Mutex<PromotionDesk>,
    /// Which objects should have one more replica in memory.
    pub heat: Mutex<HeatDesk>,
}

impl LeaderContext {
    /// A fresh context at take-over. `lease_ttl_max` is the longest read lease that any leader grants.
    pub fn new(
        term: u64,
        now: Millis,
        heard: Duration,
        lease_ttl_max: Ttl,
        client_ttl: Duration,
    ) -> Self {
        LeaderContext {
            term,
            since: now,
            no_removal_before: now.after(lease_ttl_max),
            liveness: Mutex::new(Liveness::new(heard, client_ttl)),
            promotions: Mutex::default(),
            heat: Mutex::default(),
        }
    }
}
