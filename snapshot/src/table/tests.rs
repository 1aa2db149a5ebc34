//! Tables made new are sound and hold what they were made of.

use super::*;
use proptest::prelude::*;

fn empty(size: u32, count: usize) -> NodeTableImage {
    let old = NodeTableImage {
        size,
        max_capacity: 1 << 20,
        free_storage: 0,
        top_bitmap: 0,
        leaf_bitmaps: [0; LEAF_BITMAP_COUNT],
        bin_heads: [NODE_NONE; BIN_COUNT],
        nodes: vec![NodeImage::VACANT; count],
        free_stack: Vec::new(),
        free_offset: 0,
    };
    rebuild(&old, &[]).unwrap()
}

fn live(offset: u32, size: u32, node: u32) -> LiveNode {
    LiveNode { offset, size, node }
}

#[test]
fn a_table_without_allocations_is_one_free_region() {
    let table = empty(4096, 16);
    assert_eq!(check(&table), Ok(()));
    assert_eq!((table.free_storage, table.free_offset), (4096, 1));
    assert!(holds_exactly(&table, &[]));
}

#[test]
fn allocations_that_overlap_leave_the_space_or_share_a_node_are_refused() {
    let old = empty(100, 16);
    assert!(rebuild(&old, &[live(0, 10, 1), live(9, 10, 2)]).is_err());
    assert!(rebuild(&old, &[live(95, 10, 1)]).is_err());
    assert!(rebuild(&old, &[live(u32::MAX, 10, 1)]).is_err());
    assert!(rebuild(&old, &[live(0, 10, 1), live(20, 10, 1)]).is_err());
    assert!(rebuild(&old, &[live(0, 10, 16)]).is_err());
}

#[test]
fn a_full_table_has_no_free_region() {
    let table = rebuild(&empty(20, 4), &[live(0, 10, 3), live(10, 10, 0)]).unwrap();
    assert_eq!(check(&table), Ok(()));
    assert_eq!((table.free_storage, table.top_bitmap), (0, 0));
}

/// Breaks a sound table.
type Damage = fn(&mut NodeTableImage);

#[test]
fn every_kind_of_damage_is_noticed() {
    let sound = rebuild(&empty(1000, 16), &[live(8, 8, 3), live(24, 104, 0), live(500, 96, 7)]);
    let sound = sound.unwrap();
    assert_eq!(check(&sound), Ok(()));
    let damages: [(&str, Damage); 14] = [
        ("free offset beyond the stack", |table| table.free_offset = 1000),
        ("free offset one less", |table| table.free_offset -= 1),
        ("bin head beyond the table", |table| table.bin_heads[20] = 1_000_000),
        ("bin head on a used node", |table| table.bin_heads[20] = 3),
        ("free storage", |table| table.free_storage += 1),
        ("top bitmap", |table| table.top_bitmap ^= 2),
        ("leaf bitmap", |table| table.leaf_bitmaps[5] ^= 2),
        ("neighbour beyond the table", |table| table.nodes[3].neighbor_next = 99),
        ("neighbour circle", |table| table.nodes[7].neighbor_next = 3),
        ("offset", |table| table.nodes[7].offset += 1),
        ("size", |table| table.nodes[0].size -= 8),
        ("used flag", |table| table.nodes[0].used = false),
        ("stack entry twice", |table| table.free_stack[15] = table.free_stack[14]),
        ("size of the space", |table| table.size += 1),
    ];
    for (name, damage) in damages {
        let mut table = sound.clone();
        damage(&mut table);
        assert!(check(&table).is_err(), "{name}");
    }
}

proptest! {
    #[test]
    fn a_table_made_new_is_sound_and_holds_exactly_the_live_nodes(
        gaps in prop::collection::vec((0_u32..50, 1_u32..200), 0..40),
        seed in any::<u32>(),
    ) {
        let mut offset = 0;
        let mut allocations = Vec::new();
        for (position, (gap, size)) in gaps.iter().enumerate() {
            offset += gap;
            // Distinct indices in a scrambled order: 97 is prime and larger than the list.
            let node = (position as u32 * 13 + seed % 97) % 97;
            allocations.push(live(offset, *size, node));
            offset += size;
        }
        let table = rebuild(&empty(offset + 10, 97), &allocations).unwrap();
        prop_assert_eq!(check(&table), Ok(()));
        prop_assert!(holds_exactly(&table, &allocations));
        prop_assert!(allocations.is_empty() || !holds_exactly(&table, &allocations[1..]));
    }
}
