//! Three nodes under stock clients: what survives the loss of a leader, how long clients
//! notice it, and what an operator can change.

mod crash;
mod handover;
mod operator;
mod reports;
pub mod trio;
mod view;
