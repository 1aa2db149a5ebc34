//! Cold restores: real files through the whole node, the first start, the tools, stock clients, three nodes.
//!
//! What a restore keeps of an image is tested in the snapshot crate, what the state does with a staged one in
//! `state::tests`; here it is the whole way from a directory to what clients see.

mod cluster;
mod damaged;
mod first_start;
mod fresh;
mod guard;
mod half_way;
mod peer;
mod public_bugs;
mod real_files;
mod tools;
