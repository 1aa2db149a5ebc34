//! Random histories: no overlap, no gap, nothing lost, and a restored copy that cannot be told
//! apart.

use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};

use super::*;

#[derive(Clone, Debug)]
enum Op {
    Allocate(u64),
    /// Gives back the live allocation at this place, modulo their number.
    Free(usize),
}

fn histories() -> impl Strategy<Value = (u64, Vec<Op>)> {
    let sizes = prop_oneof![1..64_u64, 1..5000_u64, 1..200_000_u64, Just(0_u64)];
    let op = prop_oneof![
        3 => sizes.prop_map(Op::Allocate),
        2 => any::<usize>().prop_map(Op::Free),
    ];
    let capacities = prop_oneof![1..4096_u64, 1..(1_u64 << 22), Just(6_u64 << 30)];
    (capacities, proptest::collection::vec(op, 0..300))
}

/// A live allocation and what it was asked for.
#[derive(Clone, Copy, Debug)]
struct Live {
    got: Allocation,
    bytes: u64,
    owner: u32,
}

fn apply(allocator: &mut OffsetAllocator, live: &mut Vec<Live>, op: &Op, owner: u32) {
    match *op {
        Op::Allocate(bytes) => {
            let bound = allocator.largest_free_upper_bound();
            let got = allocator.allocate(bytes, owner);
            assert!(got.is_none() || (bytes > 0 && bytes <= bound));
            live.extend(got.map(|got| Live { got, bytes, owner }));
        }
        Op::Free(place) if !live.is_empty() => {
            let gone = live.swap_remove(place % live.len());
            assert_eq!(allocator.free(gone.got.node), Ok(gone.bytes));
            let again = NotAllocated { node: gone.got.node };
            assert_eq!(allocator.free(gone.got.node), Err(again));
        }
        Op::Free(_) => {}
    }
}

fn compare(allocator: &OffsetAllocator, live: &[Live]) {
    assert_eq!(allocator.check(), []);
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for live in live {
        let start = allocator.address(live.got);
        ranges.push((start, start + live.bytes));
        assert_eq!(allocator.owner(live.got.node), Some(live.owner));
    }
    ranges.sort_unstable();
    assert!(ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0));
    let end = allocator.base() + allocator.capacity();
    assert!(ranges.first().is_none_or(|first| first.0 >= allocator.base()));
    assert!(ranges.last().is_none_or(|last| last.1 <= end));
    let by_address = allocator.used_by_address();
    let starts = by_address.map(|used| allocator.address_of(used.offset_units));
    assert!(starts.eq(ranges.iter().map(|range| range.0)));
    assert_eq!(allocator.used_bytes(), live.iter().map(|l| l.bytes).sum::<u64>());
    assert_eq!(allocator.used_count(), live.len() as u64);
    assert_eq!(allocator.used().count(), live.len());
}

proptest! {
    #[test]
    fn ranges_never_overlap_and_all_space_comes_back((capacity, ops) in histories()) {
        let mut allocator = OffsetAllocator::new(4096, capacity).unwrap();
        let fresh = allocator.raw();
        let mut live = Vec::new();
        for (owner, op) in (0..).zip(&ops) {
            apply(&mut allocator, &mut live, op, owner);
        }
        compare(&allocator, &live);
        for gone in live.drain(..) {
            allocator.free(gone.got.node).unwrap();
        }
        compare(&allocator, &live);
        prop_assert_eq!(allocator.raw().free_units, fresh.free_units);
        prop_assert_eq!(allocator.raw().leaf_masks, fresh.leaf_masks);
        prop_assert_eq!(allocator.nodes.iter().count(), 1);
    }

    #[test]
    fn a_restored_allocator_answers_every_later_request_as_the_saved_one(
        (capacity, ops) in histories(),
        cut in 0..300_usize,
    ) {
        let mut saved = OffsetAllocator::new(4096, capacity).unwrap();
        let (before, after) = ops.split_at(cut.min(ops.len()));
        let mut live = Vec::new();
        for (owner, op) in (0..).zip(before) {
            apply(&mut saved, &mut live, op, owner);
        }
        let frozen = saved.clone();
        let raw = frozen.raw();
        let mut restored = OffsetAllocator::from_raw(&raw, handles(&frozen)).unwrap();
        let mut live_restored = live.clone();
        for (owner, op) in (1000..).zip(after) {
            apply(&mut saved, &mut live, op, owner);
            apply(&mut restored, &mut live_restored, op, owner);
        }
        compare(&restored, &live_restored);
        prop_assert!(saved.raw() == restored.raw());
        prop_assert_eq!(handles(&saved), handles(&restored));
        prop_assert!(frozen.raw() == raw, "a frozen copy changed");
    }

    #[test]
    fn a_rebuilt_allocator_keeps_every_range_in_place((capacity, ops) in histories()) {
        let mut allocator = OffsetAllocator::new(4096, capacity).unwrap();
        let mut live = Vec::new();
        for (owner, op) in (0..).zip(&ops) {
            apply(&mut allocator, &mut live, op, owner);
        }
        let ranges: Vec<LiveRange> = live
            .iter()
            .map(|live| LiveRange {
                offset_units: live.got.offset_units,
                requested_bytes: live.bytes,
                owner: live.owner,
            })
            .collect();
        let rebuilt = rebuild(4096, capacity, &ranges).unwrap();
        let mut moved = live.clone();
        for (live, node) in moved.iter_mut().zip(&rebuilt.nodes) {
            live.got.node = node.unwrap();
        }
        compare(&rebuilt.allocator, &moved);
        prop_assert_eq!(rebuilt.allocator.raw().free_units, allocator.raw().free_units);
    }
}

#[test]
fn an_idle_64_gib_segment_costs_a_few_kibibytes() {
    let allocator = OffsetAllocator::new(1 << 40, 64 << 30).unwrap();
    assert_eq!(allocator.raw().slots, 65_536);
    assert_eq!((allocator.nodes.chunks_held(), allocator.stack.chunks_held()), (1, 0));
    assert!(size_of::<super::super::offset::Node>() <= 32);
}

#[test]
fn memory_comes_back_when_everything_is_freed_in_any_order() {
    let mut allocator = OffsetAllocator::new(1 << 40, 1 << 30).unwrap();
    let mut nodes: Vec<u32> =
        (0..100_000).map(|owner| allocator.allocate(4096, owner).unwrap().node).collect();
    assert!(allocator.nodes.chunks_held() > 300);
    let mut rng = Rng::new(5);
    while !nodes.is_empty() {
        let gone = nodes.swap_remove(rng.below(nodes.len()));
        allocator.free(gone).unwrap();
    }
    assert_eq!(allocator.nodes.chunks_held(), 1);
    assert_eq!(allocator.check(), []);
}

#[test]
fn an_owner_can_be_replaced_only_while_the_node_is_used() {
    let mut allocator = worn();
    let node = allocator.used().next().unwrap().node;
    assert_eq!(allocator.set_owner(node, 77), Ok(()));
    assert_eq!(allocator.owner(node), Some(77));
    allocator.free(node).unwrap();
    assert_eq!(allocator.set_owner(node, 1), Err(NotAllocated { node }));
    assert_eq!((allocator.owner(node), allocator.owner(u32::MAX)), (None, None));
}

#[test]
fn a_segment_that_is_empty_or_passes_the_end_of_addresses_is_refused() {
    for (base, capacity) in [(4096, 0), (u64::MAX, 1), (2, u64::MAX)] {
        let fault = AllocatorFault::BadRange { base, capacity };
        assert_eq!(OffsetAllocator::new(base, capacity).unwrap_err(), fault);
    }
}

#[test]
fn requests_of_any_size_are_answered_or_refused() {
    let mut allocator = OffsetAllocator::new(4096, 64 << 30).unwrap();
    for bytes in [0, u64::MAX, u64::MAX - 31, (64 << 30) + 1] {
        assert_eq!(allocator.allocate(bytes, 0), None);
    }
    assert!(allocator.allocate(60 << 30, 0).is_some());
    assert_eq!(allocator.check(), []);
}
