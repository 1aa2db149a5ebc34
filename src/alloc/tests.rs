//! The allocator against the peer's own tables, against a plain model, and against itself restored.

mod damage;
mod model;
mod peer;

use super::{
    Allocation, AllocatorFault, Handle, LiveRange, Misfit, NotAllocated, OffsetAllocator,
    RawAllocator, RawNode, Rng, rebuild,
};

/// All live allocations of `allocator` as handles of a saved table.
fn handles(allocator: &OffsetAllocator) -> Vec<Handle> {
    let used = allocator.used();
    used.map(|used| Handle {
        node: used.node,
        offset_units: used.offset_units,
        requested_bytes: used.requested_bytes,
        owner: used.owner,
    })
    .collect()
}

/// A segment with a history: holes, merged ranges and slots out of order.
fn worn() -> OffsetAllocator {
    let mut allocator = OffsetAllocator::new(0x7000_0000_0000, 1 << 20).unwrap();
    let mut rng = Rng::new(11);
    let mut live = Vec::new();
    for owner in 0..400 {
        if live.len() > 20 && rng.below(5) < 2 {
            let gone = live.swap_remove(rng.below(live.len()));
            allocator.free(gone).unwrap();
        } else if let Some(got) = allocator.allocate(1 + rng.below(5000) as u64, owner) {
            live.push(got.node);
        }
    }
    assert_eq!(allocator.check(), []);
    allocator
}
