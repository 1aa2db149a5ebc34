//! Snapshots of real masters and damaged ones, round trips, restores.

mod damaged;
mod fixtures;
mod hostile;
mod made;
mod real_files;
mod restores;
mod round_trips;
