//! Segment space: which addresses an object gets, exactly as the peer would give them.
//!
//! `offset` manages one segment, `strategy` chooses among segments, `random` is the only source of
//! chance and is seeded by the entry. All of it runs while an entry is applied, so it *is part of
//! the entry format*: integers only, no clock, no hash order. Guards: used and free ranges tile the
//! segment; a restored allocator answers every later request exactly as the saved one would. Leaves
//! objects, replicas and segment status to the state; it knows an owner only as a number.

mod audit;
mod bins;
mod fault;
mod names;
mod offset;
mod random;
mod raw;
mod rebuild;
mod strategy;
mod table;
#[cfg(test)]
mod tests;

pub use bins::{BINS, NONE, UNITS_MAX};
pub use fault::AllocatorFault;
pub use names::{HostNames, NameList};
pub use offset::{Allocation, NotAllocated, OffsetAllocator, SLOTS_MAX, UsedNode};
pub use random::Rng;
pub use raw::{Handle, RawAllocator, RawNode};
pub use rebuild::{LiveRange, Misfit, Rebuilt, rebuild};
pub use strategy::{FreeRatio, Placed, Pool, Strategy, allocate_on, place};
