//! Three nodes under stock clients: what survives the loss of a leader, how long clients
//! notice it, and what an operator can change.

mod busy;
mod catch_up;
mod crash;
mod disks;
mod drain;
mod dynamic;
mod handover;
mod operator;
mod reports;
mod stop;
mod tenants;
mod tiers;
pub mod trio;
mod view;
