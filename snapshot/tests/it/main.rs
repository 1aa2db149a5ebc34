//! Snapshots of real masters and damaged ones, round trips, restores.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that meets something unexpected shall end"
)]

mod bent_files;
mod consistency;
mod damaged;
mod fixtures;
mod glances;
mod hostile;
mod large;
mod made;
mod real_files;
mod restores;
mod round_trips;
