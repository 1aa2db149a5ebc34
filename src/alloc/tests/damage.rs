//! Damaged tables are refused with the fault named, and never make the reader fail otherwise.

use proptest::prelude::{any, prop_assert_eq, prop_oneof, proptest};

use super::super::bins::NONE;
use super::*;

/// The fault of a worn segment's table after one change.
fn fault_of(change: impl FnOnce(&mut RawAllocator, &mut Vec<Handle>)) -> AllocatorFault {
    let allocator = worn();
    let (mut raw, mut handles) = (allocator.raw(), handles(&allocator));
    change(&mut raw, &mut handles);
    OffsetAllocator::from_raw(&raw, handles).unwrap_err()
}

type Change = fn(&mut RawAllocator);

/// First node of the table that `wanted` accepts.
fn node(raw: &mut RawAllocator, wanted: impl Fn(&RawNode) -> bool) -> &mut RawNode {
    raw.nodes.iter_mut().find(|node| wanted(node)).unwrap()
}

fn is_free(node: &RawNode) -> bool {
    !node.used && node.size > 0
}

#[test]
fn head_fields_are_checked_before_anything_is_built() {
    let field = |change: Change| match fault_of(|raw, _| change(raw)) {
        AllocatorFault::BadField { field, .. } => field,
        other => panic!("{other}"),
    };
    assert_eq!(field(|raw| raw.unit_bits = 1), "unit bits");
    assert_eq!(field(|raw| raw.size -= 1), "size");
    assert_eq!(field(|raw| raw.slots += 1), "node rows");
    assert_eq!(field(|raw| raw.stack.truncate(3)), "stack entries");
    assert_eq!(field(|raw| raw.slots_max = u32::MAX), "max slots");
    assert_eq!(field(|raw| raw.slots_max = 5), "slots");
    assert_eq!(field(|raw| raw.free_offset = 9999), "free offset");
}

#[test]
fn the_stack_must_name_each_open_slot_once() {
    let why = |change: Change| match fault_of(|raw, _| change(raw)) {
        AllocatorFault::BadStack { why, .. } => why,
        other => panic!("{other}"),
    };
    assert_eq!(why(|raw| *raw.stack.last_mut().unwrap() = 99_999), "out of range");
    assert_eq!(why(|raw| *raw.stack.last_mut().unwrap() -= 1), "listed twice");
}

#[test]
fn links_sizes_masks_and_sums_are_checked() {
    let cases: [(&str, Change); 10] = [
        ("has a wrong left neighbour", |raw| node(raw, is_free).left = 9999),
        ("has a wrong right neighbour", |raw| node(raw, |n| n.used).right = NONE),
        ("do not tile", |raw| node(raw, is_free).size -= 1),
        ("do not tile", |raw| node(raw, is_free).offset += 1),
        ("is used but stands in a free list", |raw| {
            node(raw, |n| n.used).bin_prev = 1;
        }),
        ("no units", |raw| node(raw, is_free).size = 0),
        ("mask and head differ", |raw| raw.leaf_masks[31] = 1),
        ("group mask differs", |raw| raw.top_mask ^= 1 << 30),
        ("sum free units", |raw| raw.free_units += 1),
        ("sum allocated bytes", |raw| raw.allocated_bytes += 1),
    ];
    for (what, change) in cases {
        let fault = fault_of(|raw, _| change(raw)).to_string();
        assert!(fault.contains(what), "{fault:?} should say {what:?}");
    }
}

#[test]
fn a_free_list_that_runs_in_a_circle_is_refused() {
    let fault = fault_of(|raw, _| {
        let first = *raw.heads.iter().find(|head| **head != NONE).unwrap();
        raw.nodes[first as usize].bin_next = first;
    });
    assert!(matches!(fault, AllocatorFault::BadNode { .. }), "{fault}");
}

#[test]
fn handles_and_used_nodes_must_match_one_to_one() {
    let stray = fault_of(|_, handles| handles[0].offset_units += 1);
    assert!(matches!(stray, AllocatorFault::StrayHandle { .. }), "{stray}");
    let free = fault_of(|raw, handles| {
        handles[0].node = raw.nodes.iter().position(is_free).unwrap() as u32;
    });
    assert!(matches!(free, AllocatorFault::StrayHandle { .. }), "{free}");
    let nowhere = fault_of(|_, handles| handles[0].node = u32::MAX);
    assert!(matches!(nowhere, AllocatorFault::StrayHandle { .. }), "{nowhere}");
    let twice = fault_of(|_, handles| handles.push(handles[0]));
    assert!(matches!(twice, AllocatorFault::TwoHandles { .. }), "{twice}");
    let none = fault_of(|_, handles| handles.truncate(3));
    assert!(matches!(none, AllocatorFault::NoHandle { .. }), "{none}");
    for bytes in [0, 1 << 19, u64::MAX] {
        let size = fault_of(|_, handles| handles[0].requested_bytes = bytes);
        assert!(matches!(size, AllocatorFault::WrongSize { .. }), "{size}");
    }
}

#[test]
fn old_values_in_slots_without_a_node_are_ignored() {
    let allocator = worn();
    let mut raw = allocator.raw();
    let spare = *raw.stack.last().unwrap();
    raw.nodes[spare as usize] =
        RawNode { used: true, offset: 5, size: 5, bin_prev: 5, bin_next: 5, left: 5, right: 5 };
    let restored = OffsetAllocator::from_raw(&raw, handles(&allocator)).unwrap();
    assert!(restored.raw() == allocator.raw());
}

#[test]
fn a_rebuild_reports_what_it_cannot_place() {
    let range =
        |offset_units, requested_bytes, owner| LiveRange { offset_units, requested_bytes, owner };
    let ranges = [
        range(500, 100, 1),
        range(0, 17, 2),
        range(17, 8, 3),
        range(990, 16, 4),
        range(18, 0, 5),
        range(500, 8, 6),
        range(18, 8, 7),
        range(u32::MAX, 8, 8),
    ];
    let rebuilt = rebuild(4096, 1000, &ranges).unwrap();
    let expected = [
        Ok(3),
        Ok(0),
        Err(Misfit::Overlaps { with: 2 }),
        Err(Misfit::OutOfSegment),
        Err(Misfit::BadSize),
        Err(Misfit::Overlaps { with: 1 }),
        Ok(1),
        Err(Misfit::OutOfSegment),
    ];
    assert_eq!(rebuilt.nodes, expected);
    let mut allocator = rebuilt.allocator;
    assert_eq!(allocator.check(), []);
    assert_eq!(allocator.used_bytes(), 125);
    assert_eq!(allocator.allocate(8, 9).unwrap().offset_units, 604);
}

proptest! {
    #[test]
    fn any_single_damage_is_refused_or_leaves_a_consistent_allocator(
        slot in 0..300_usize,
        field in 0..9_usize,
        value in prop_oneof![0..300_u32, any::<u32>()],
    ) {
        let allocator = worn();
        let mut raw = allocator.raw();
        let at = slot % raw.nodes.len();
        let row = &mut raw.nodes[at];
        match field {
            0 => row.used = !row.used,
            1 => row.offset = value,
            2 => row.size = value,
            3 => row.bin_prev = value,
            4 => row.bin_next = value,
            5 => row.left = value,
            6 => row.right = value,
            7 => raw.stack[at] = value,
            _ => raw.heads[at % 256] = value,
        }
        if let Ok(mut restored) = OffsetAllocator::from_raw(&raw, handles(&allocator)) {
            let nodes: Vec<u32> = restored.used().map(|used| used.node).collect();
            for node in nodes {
                restored.free(node).unwrap();
            }
            prop_assert_eq!(restored.check(), []);
        }
    }
}
