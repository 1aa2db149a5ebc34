//! Bugs that can be planted, so that a test shows that the simulation finds them.
//!
//! Guards that no build but the simulation's has any: without the feature `planted-bugs` the question is
//! answered when compiling, and with it nothing is planted until somebody chooses.

#[cfg(feature = "planted-bugs")]
use std::cell::Cell;

/// A bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A read is answered and promised although the removal of its key is being decided.
    LeaseAfterFence,
    /// A take-over forgets the soft pins that writes in progress have asked for.
    DropPendingPins,
    /// A forwarded write whose answer was lost is sent again.
    ForwardTwice,
    /// A candidate of a restore that fails leaves pins in the deadline index.
    KeepIndex,
}

#[cfg(feature = "planted-bugs")]
thread_local! {
    static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// Plants a bug for everything that runs on this thread.
#[cfg(feature = "planted-bugs")]
pub fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}

/// Whether a bug is planted here.
#[inline(always)]
pub fn is_planted(bug: Bug) -> bool {
    #[cfg(feature = "planted-bugs")]
    let planted = PLANTED.get() == Some(bug);
    #[cfg(not(feature = "planted-bugs"))]
    let planted = {
        let _ = bug;
        false
    };
    planted
}
