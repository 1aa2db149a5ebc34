//! The replicated state machine.

pub mod deadlines;
