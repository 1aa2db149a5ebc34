//! The client's door: frames in, answers out, in order.
//!
//! So far only our own client stands here; it is for tests, benches and drills.
