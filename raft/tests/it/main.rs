//! Stories of whole nodes with a counter machine.
#![allow(missing_docs)]

mod single;
mod support;
