//! Stories of the pure state: commands in, replies out, every invariant checked after each entry.
//!
//! Nothing here has a clock or a socket: time is the stamp. [`world`] makes the stories terse, [`script`] makes
//! random ones. What only the wire shows is left to the integration tests.

mod drain;
mod dynamic;
mod golden;
mod groups;
mod guard;
mod lives;
mod memory;
mod model;
mod presence;
mod restore;
mod script;
mod script_tiers;
mod segments;
mod soft_pin;
mod tenants;
mod tiers;
mod tiers_world;
mod twins;
mod upsert;
mod world;
