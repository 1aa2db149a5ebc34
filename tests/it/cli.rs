//! The program as an operator meets it: what goes to which stream, and how it ends.

mod operate;
mod serve;
mod snapshot;
mod usage;
