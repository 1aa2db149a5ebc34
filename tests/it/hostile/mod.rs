//! What a master does with bytes and machines that mean no good, or know no better.
//!
//! Frames: a bad one closes its own connection and no other. Arguments: refused by the RPC layer, the
//! connection goes on. Directories: a node that cannot keep its promises does not start, or stops.

mod announced;
mod arguments;
mod connections;
mod directories;
mod frames;
