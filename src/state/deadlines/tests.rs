//! The index against a plain model, and the RFC's edge cases by name.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

const LIMIT: usize = usize::MAX;

fn due(index: &mut DeadlineIndex, now: u64) -> Vec<(u64, u32)> {
    let due = index.take_due(Millis(now), LIMIT);
    due.into_iter().map(|(d, o)| (d.0, o.0)).collect()
}

#[test]
fn a_pin_is_due_at_its_own_millisecond_and_only_once() {
    let mut index = DeadlineIndex::new();
    index.register(Deadline(50), ObjectRef(1));
    assert_eq!(due(&mut index, 49), []);
    assert_eq!(due(&mut index, 50), [(50, 1)]);
    assert_eq!(due(&mut index, 50), []);
    assert_eq!((index.len(), index.heap_len()), (0, 0));
}

#[test]
fn edge_21_a_place_that_is_used_again_is_not_cleared_by_its_former_deadline() {
    let mut index = DeadlineIndex::new();
    index.register(Deadline(10), ObjectRef(7));
    assert_eq!(index.remove(ObjectRef(7)), Some(Deadline(10)));
    index.register(Deadline(30), ObjectRef(7));
    assert_eq!(due(&mut index, 20), []);
    assert_eq!(due(&mut index, 30), [(30, 7)]);
}

#[test]
fn edge_22_a_removed_object_leaves_nothing_that_can_be_due() {
    let mut index = DeadlineIndex::new();
    index.register(Deadline(10), ObjectRef(7));
    index.remove(ObjectRef(7));
    assert_eq!((index.len(), index.next_deadline()), (0, None));
    assert_eq!(due(&mut index, 100), []);
}

#[test]
fn edge_23_a_shorter_deadline_comes_first_and_the_longer_one_is_stale() {
    let mut index = DeadlineIndex::new();
    index.register(Deadline(100), ObjectRef(1));
    index.register(Deadline(40), ObjectRef(1));
    assert_eq!(index.next_deadline(), Some(Deadline(40)));
    assert_eq!(due(&mut index, 40), [(40, 1)]);
    assert_eq!(due(&mut index, 1000), []);
}

#[test]
fn edge_26_an_object_enabled_again_after_it_was_taken_stays_registered() {
    let mut index = DeadlineIndex::new();
    index.register(Deadline(10), ObjectRef(1));
    assert_eq!(due(&mut index, 10), [(10, 1)]);
    index.register(Deadline(90), ObjectRef(1));
    assert!(!index.remove_if(ObjectRef(1), Deadline(10)));
    assert_eq!(index.get(ObjectRef(1)), Some(Deadline(90)));
    assert_eq!(due(&mut index, 90), [(90, 1)]);
}

#[test]
fn edge_32_five_thousand_updates_of_one_key_leave_a_bounded_heap_and_one_due_entry() {
    let mut index = DeadlineIndex::new();
    for update in 1..=5000 {
        index.register(Deadline(update), ObjectRef(3));
        assert!(index.heap_len() <= HEAP_FLOOR);
    }
    assert_eq!(due(&mut index, u64::MAX), [(5000, 3)]);
    assert_eq!(index.heap_len(), 0);
}

#[test]
fn the_same_registration_again_adds_nothing() {
    let mut index = DeadlineIndex::new();
    index.register(Deadline(5), ObjectRef(1));
    index.register(Deadline(5), ObjectRef(1));
    assert_eq!((index.len(), index.heap_len()), (1, 1));
}

#[test]
fn a_deadline_that_returns_after_another_is_emitted_once() {
    let mut index = DeadlineIndex::new();
    for deadline in [5, 9, 5] {
        index.register(Deadline(deadline), ObjectRef(1));
    }
    assert_eq!(due(&mut index, 100), [(5, 1)]);
}

#[test]
fn stale_entries_do_not_count_towards_the_limit() {
    let mut index = DeadlineIndex::new();
    for object in 0..10 {
        index.register(Deadline(1), ObjectRef(object));
        index.register(Deadline(2), ObjectRef(object));
    }
    let taken = index.take_due(Millis(2), 4);
    let objects: Vec<u32> = taken.iter().map(|(_, object)| object.0).collect();
    assert_eq!(objects, [0, 1, 2, 3]);
    assert_eq!(index.take_due(Millis(2), 100).len(), 6);
}

#[test]
fn a_million_pins_cost_at_most_48_bytes_each_and_give_them_back() {
    let mut index = DeadlineIndex::new();
    let pins = 1_000_000;
    for object in 0..pins {
        index.register(Deadline(u64::from(object) + 1), ObjectRef(object));
    }
    assert!(index.bytes() <= 48 * pins as usize, "{}", index.bytes());
    while !index.take_due(Millis(u64::MAX), 10_000).is_empty() {}
    assert!(index.bytes() <= 48 * 2 * HEAP_FLOOR, "{}", index.bytes());
}

/// The place of an object in this shard and slot.
fn place(shard: u32, slot: u32) -> ObjectRef {
    ObjectRef(slot << SHARD_BITS | shard)
}

#[test]
fn pins_of_one_millisecond_are_taken_by_shard_whatever_their_slots() {
    let mut index = DeadlineIndex::new();
    for (shard, slot) in [(2, 0), (1, 9), (1, 3), (3, 1)] {
        index.register(Deadline(5), place(shard, slot));
    }
    index.register(Deadline(4), place(7, 7));
    let taken = index.take_before(Millis(5), 2, Millis(5));
    let places: Vec<ObjectRef> = taken.into_iter().map(|(_, object)| object).collect();
    assert_eq!(places, [place(7, 7), place(1, 3), place(1, 9)]);
    assert_eq!(index.take_before(Millis(9), 0, Millis(4)), [], "state time has not come to it");
    assert_eq!(index.take_before(Millis(9), 0, Millis(5)).len(), 2);
}

#[test]
fn a_bound_holds_about_as_many_pins_as_wanted_and_always_the_first() {
    let mut index = DeadlineIndex::new();
    assert_eq!(index.due_bound(Millis(9), 3), None);
    for shard in 0..100 {
        for slot in 0..10 {
            index.register(Deadline(5), place(shard, slot));
        }
    }
    assert_eq!(index.due_bound(Millis(4), 3), None, "nothing is due yet");
    assert_eq!(index.due_bound(Millis(5), 3), Some((Millis(5), 1)), "one shard at least");
    let mut sweeps = 0;
    while let Some((until, shards)) = index.due_bound(Millis(5), 35) {
        let taken = index.take_before(until, shards, Millis(5)).len();
        assert!((1..=35).contains(&taken), "{taken}");
        sweeps += 1;
    }
    assert_eq!((index.len(), sweeps), (0, 34));
}

#[derive(Clone, Debug)]
enum Op {
    Register(u64, u32),
    Remove(u32),
    RemoveIf(u32, u64),
    TakeDue(u64, usize),
    Rebuild,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        8 => (0..200_u64, 0..40_u32).prop_map(|(d, o)| Op::Register(d, o)),
        2 => (0..40_u32).prop_map(Op::Remove),
        2 => (0..40_u32, 0..200_u64).prop_map(|(o, d)| Op::RemoveIf(o, d)),
        1 => (0..200_u64, 0..6_usize).prop_map(|(now, limit)| Op::TakeDue(now, limit)),
        1 => Just(Op::Rebuild),
    ];
    proptest::collection::vec(op, 0..400)
}

proptest! {
    #[test]
    fn the_index_answers_as_an_ordered_set_would(ops in ops()) {
        let mut index = DeadlineIndex::new();
        let mut model: BTreeMap<u32, u64> = BTreeMap::new();
        for op in ops {
            match op {
                Op::Register(d, o) => {
                    index.register(Deadline(d), ObjectRef(o));
                    model.insert(o, d);
                }
                Op::Remove(o) => {
                    let gone = index.remove(ObjectRef(o));
                    prop_assert_eq!(gone.map(|d| d.0), model.remove(&o));
                }
                Op::RemoveIf(o, d) => {
                    let is_latest = model.get(&o) == Some(&d);
                    prop_assert_eq!(index.remove_if(ObjectRef(o), Deadline(d)), is_latest);
                    if is_latest {
                        model.remove(&o);
                    }
                }
                Op::TakeDue(now, limit) => {
                    let taken = index.take_due(Millis(now), limit);
                    let taken: Vec<_> = taken.into_iter().map(|(d, o)| (d.0, o.0)).collect();
                    let order: BTreeSet<_> = model.iter().map(|(o, d)| (*d, *o)).collect();
                    let due: Vec<_> =
                        order.into_iter().filter(|(d, _)| *d <= now).take(limit).collect();
                    prop_assert_eq!(&taken, &due);
                    for (_, o) in due {
                        model.remove(&o);
                    }
                }
                Op::Rebuild => {
                    let live = index.first_live(LIMIT);
                    index.rebuild(live);
                    prop_assert_eq!(index.heap_len(), model.len());
                }
            }
            let order: BTreeSet<_> = model.iter().map(|(o, d)| (*d, *o)).collect();
            let all: BTreeSet<_> = index.all_live().map(|(d, o)| (d.0, o.0)).collect();
            prop_assert_eq!(&all, &order);
            let mut turned_order: Vec<_> = order.iter().copied().collect();
            turned_order.sort_unstable_by_key(|(d, o)| (*d, turned(*o)));
            let listed = |limit| {
                let live = index.first_live(limit);
                live.into_iter().map(|(d, o)| (d.0, o.0)).collect::<Vec<_>>()
            };
            prop_assert_eq!(&listed(LIMIT), &turned_order);
            prop_assert_eq!(listed(3), turned_order.iter().take(3).copied().collect::<Vec<_>>());
            prop_assert_eq!(index.len(), model.len());
            prop_assert!(index.heap_len() <= HEAP_FLOOR.max(2 * index.len()));
            let first = order.first().map(|(d, _)| Deadline(*d));
            prop_assert_eq!(index.next_deadline(), first);
        }
    }
}
