//! The soft pin of one object: what a request may ask, what is pending, what is committed.
//!
//! Pure transitions only. Each returns a [`PinChange`]; the state's `settle` file turns that into index
//! updates, so the gauge (the index length) cannot drift. Rules: RFC "Proposed semantics", "Object state
//! model", "Revoke, preemption, and processing cleanup"; behaviour spec 3.1 to 3.5.

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::error_code::ErrorCode;
use super::ids::ReplicaId;
use super::time::{Deadline, Millis, Ttl};

/// What a deployment allows (RFC "Master configuration").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PinLimits {
    /// TTL of an ENABLE that names none.
    pub default_ttl: Ttl,
    /// Greatest TTL that a request may name. Invariant: `default_ttl <= max_ttl`.
    pub max_ttl: Ttl,
}

/// What a write asks of the soft pin, after the request rules have been checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PinRequest {
    /// Keep an unexpired committed deadline.
    Preserve,
    /// Start a pin of this length when the write becomes readable; length 0 means ordinary cache.
    Enable(Ttl),
    /// Drop the committed pin when the write becomes readable.
    Disable,
}

/// The wire's action byte. RFC "Write API".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PinAction {
    /// Byte 0, the default.
    Preserve,
    /// Byte 1.
    Enable,
    /// Byte 2.
    Disable,
}

impl PinAction {
    /// The action with this wire number.
    pub fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(PinAction::Preserve),
            1 => Some(PinAction::Enable),
            2 => Some(PinAction::Disable),
            _ => None,
        }
    }
}

impl PinRequest {
    /// Applies the request rules (RFC "Request rules").
    ///
    /// Errors: [`ErrorCode::InvalidParams`] for an unknown action byte, a TTL on anything but ENABLE, or a
    /// TTL above `limits.max_ttl`.
    pub fn parse(action: u8, ttl: Option<Ttl>, limits: &PinLimits) -> Result<Self, ErrorCode> {
        match (PinAction::from_byte(action), ttl) {
            (Some(PinAction::Preserve), None) => Ok(PinRequest::Preserve),
            (Some(PinAction::Disable), None) => Ok(PinRequest::Disable),
            (Some(PinAction::Enable), None) => Ok(PinRequest::Enable(limits.default_ttl)),
            (Some(PinAction::Enable), Some(ttl)) if ttl <= limits.max_ttl => {
                Ok(PinRequest::Enable(ttl))
            }
            _ => Err(ErrorCode::InvalidParams),
        }
    }
}

/// Replicas of a write; nearly always one or two.
pub type Eligible = SmallVec<[ReplicaId; 2]>;

/// A request that waits for its write to become readable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingPin {
    /// What is asked.
    pub request: PinRequest,
    /// The replicas of the write that asked. Invariant: not empty, ascending.
    pub eligible: Eligible,
}

/// The committed deadline before and after a transition.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PinChange {
    /// Committed deadline before.
    pub before: Option<Deadline>,
    /// Committed deadline after.
    pub after: Option<Deadline>,
}

impl PinChange {
    /// No change: `deadline` stays.
    pub fn none(deadline: Option<Deadline>) -> Self {
        PinChange { before: deadline, after: deadline }
    }
}

/// The committed deadline that results when `request` is committed at `now` over `committed`.
///
/// An expired deadline is never carried over (RFC semantics 7); a TTL of 0 is DISABLE (semantics 8).
pub fn commit(committed: Option<Deadline>, request: PinRequest, now: Millis) -> PinChange {
    let unexpired = committed.filter(|deadline| !deadline.is_reached(now));
    let after = match request {
        PinRequest::Preserve => unexpired,
        PinRequest::Disable | PinRequest::Enable(Ttl(0)) => None,
        PinRequest::Enable(ttl) => Some(now.after(ttl)),
    };
    PinChange { before: committed, after }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: PinLimits = PinLimits { default_ttl: Ttl(30), max_ttl: Ttl(100) };

    #[test]
    fn request_rules_accept_and_refuse_as_the_rfc_says() {
        let parse = |action, ttl: Option<u64>| PinRequest::parse(action, ttl.map(Ttl), &LIMITS);
        assert_eq!(parse(0, None), Ok(PinRequest::Preserve));
        assert_eq!(parse(2, None), Ok(PinRequest::Disable));
        assert_eq!(parse(1, None), Ok(PinRequest::Enable(Ttl(30))));
        assert_eq!(parse(1, Some(100)), Ok(PinRequest::Enable(Ttl(100))));
        assert_eq!(parse(1, Some(0)), Ok(PinRequest::Enable(Ttl(0))));
        for (action, ttl) in [(0, Some(1)), (2, Some(1)), (1, Some(101)), (3, None), (255, None)] {
            assert_eq!(parse(action, ttl), Err(ErrorCode::InvalidParams));
        }
    }

    #[test]
    fn commit_replaces_keeps_or_drops_the_deadline() {
        let live = Some(Deadline(50));
        let now = Millis(40);
        assert_eq!(commit(live, PinRequest::Preserve, now).after, live);
        assert_eq!(commit(live, PinRequest::Preserve, Millis(50)).after, None);
        assert_eq!(commit(live, PinRequest::Disable, now).after, None);
        assert_eq!(commit(live, PinRequest::Enable(Ttl(0)), now).after, None);
        assert_eq!(commit(live, PinRequest::Enable(Ttl(5)), now).after, Some(Deadline(45)));
        assert_eq!(commit(None, PinRequest::Enable(Ttl(5)), now).after, Some(Deadline(45)));
    }
}
