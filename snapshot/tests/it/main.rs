//! Snapshots of real masters and damaged ones, round trips, restores.

mod fixtures;
mod real_files;
