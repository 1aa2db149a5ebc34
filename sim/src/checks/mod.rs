//! What is compared: answers with each other, states with each other, states with answers.

pub mod linear;
pub mod states;
