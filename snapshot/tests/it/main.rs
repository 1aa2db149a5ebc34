//! Snapshots of real masters and damaged ones, round trips, restores.

mod damaged;
mod fixtures;
mod real_files;
mod restores;
