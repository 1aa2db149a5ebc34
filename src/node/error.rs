//! Why a call could not be served here.
//!
//! None of these has a number on the wire: a client has no "not leader" code, so the RPC door forwards,
//! waits, or closes the connection; it never invents an error that the client would hand to its application.

/// Why a call could not be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeError {
    /// Nothing was done here; another node may serve the call.
    #[error("this node does not lead ({hint})")]
    NotLeader {
        /// Where the leader is, as far as this node knows.
        hint: String,
    },
    /// Nothing was done; nobody can serve the call now.
    #[error("the node cannot serve now: {0}")]
    Unavailable(String),
    /// The command was sent to the log and its answer was lost: it may have been done, or be done yet.
    #[error("outcome unknown: {0}")]
    OutcomeUnknown(String),
    /// The command is too large for the log; nothing was done.
    #[error("the request is too large for the log: {0}")]
    TooLarge(String),
}

impl NodeError {
    /// Whether the same call may be sent again without being done twice.
    pub fn is_retryable(&self) -> bool {
        matches!(self, NodeError::NotLeader { .. } | NodeError::Unavailable(_))
    }

    /// The same failure, met after an earlier part of the call was applied: sending the whole call again would
    /// do that part twice, so its outcome counts as unknown.
    pub fn after_progress(self, has_progress: bool) -> Self {
        match has_progress && self.is_retryable() {
            true => NodeError::OutcomeUnknown(format!("only a part of the call was done: {self}")),
            false => self,
        }
    }
}

impl From<mooncake_ha_raft::ProposeError> for NodeError {
    fn from(error: mooncake_ha_raft::ProposeError) -> Self {
        use mooncake_ha_raft::ProposeError as E;
        match error {
            E::NotLeader { .. } => NodeError::NotLeader { hint: error.to_string() },
            E::OutcomeUnknown(why) => NodeError::OutcomeUnknown(why),
            E::Stopped => NodeError::Unavailable(error.to_string()),
            E::TooLarge { .. } => NodeError::TooLarge(error.to_string()),
        }
    }
}

impl From<mooncake_ha_raft::ReadError> for NodeError {
    fn from(error: mooncake_ha_raft::ReadError) -> Self {
        use mooncake_ha_raft::ReadError as E;
        match error {
            E::NotLeader { .. } => NodeError::NotLeader { hint: error.to_string() },
            E::NoQuorum | E::Stopped => NodeError::Unavailable(error.to_string()),
        }
    }
}
