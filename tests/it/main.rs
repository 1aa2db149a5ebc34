//! The integration tests: one binary, so that a small machine links once.

mod cli;
mod house;
