//! Three nodes under stock clients: what survives the loss of a leader, and how long clients notice it.

mod crash;
mod handover;
mod trio;
