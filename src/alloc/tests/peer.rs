//! What the real master answered and saved, replayed.

use super::super::bins::NONE;
use super::*;

const RECORDED: &str = include_str!("../../../tests/fixtures/alloc/peer_tables.txt");

struct Replay {
    allocator: OffsetAllocator,
    got: Vec<Option<Allocation>>,
    tables: usize,
}

fn numbers(words: &[&str]) -> Vec<u64> {
    let number = |word: &&str| match *word {
        "-" => u64::from(NONE),
        word => word.parse().unwrap(),
    };
    words.iter().map(number).collect()
}

impl Replay {
    fn step(&mut self, words: &[&str]) {
        let rest = numbers(match words[0] {
            "segment" => &words[2..],
            "heads" => &[],
            _ => &words[1..],
        });
        match words[0] {
            "segment" => *self = start(rest[0], rest[1], self.tables),
            "a" => {
                let got = self.allocator.allocate(rest[0], self.got.len() as u32);
                let offset = got.map(|got| self.allocator.address(got) - self.allocator.base());
                let expected = (words[2] != "-").then_some(rest[1]);
                assert_eq!(offset, expected, "allocation {} of {}", self.got.len(), rest[0]);
                self.got.push(got);
            }
            "f" => self.free(rest[0] as usize),
            "free_all" => (0..self.got.len()).for_each(|number| self.free(number)),
            "table" => {
                self.tables += 1;
                let raw = self.allocator.raw();
                let ours = [
                    raw.unit_bits.into(),
                    raw.size.into(),
                    raw.slots.into(),
                    raw.slots_max.into(),
                    raw.free_offset.into(),
                    raw.free_units.into(),
                    raw.allocated_bytes,
                    raw.allocation_count,
                    raw.top_mask.into(),
                ];
                assert_eq!(ours.to_vec(), rest);
                let holding = raw.nodes.iter().filter(|node| node.size > 0).count();
                assert_eq!(holding, raw.free_offset as usize);
                assert_eq!(self.allocator.check(), []);
                self.restore();
            }
            "leaves" => {
                let ours = self.allocator.raw().leaf_masks.map(u64::from);
                assert_eq!(ours.to_vec(), rest);
            }
            "heads" => {
                let heads = (0..).zip(self.allocator.raw().heads);
                let held: Vec<String> = heads
                    .filter(|(_, head)| *head != NONE)
                    .map(|(bin, head): (u32, u32)| format!("{bin}:{head}"))
                    .collect();
                assert_eq!(held, words[1..]);
            }
            "n" => self.compare_node(&rest),
            "stack" => {
                let stack = self.allocator.raw().stack;
                let expected = (rest.len() as u32..stack.len() as u32).map(u64::from);
                let expected: Vec<u64> = rest.iter().copied().chain(expected).collect();
                assert!(stack.into_iter().map(u64::from).eq(expected));
            }
            other => panic!("unknown line {other}"),
        }
    }

    fn free(&mut self, number: usize) {
        if let Some(got) = self.got[number].take() {
            self.allocator.free(got.node).unwrap();
        }
    }

    fn compare_node(&self, rest: &[u64]) {
        let slot = rest[0] as u32;
        let node = self.allocator.nodes.get(slot);
        let bin_prev = if node.is_used() { NONE } else { node.tag };
        let ours = [
            u32::from(node.is_used()),
            node.offset,
            node.size,
            bin_prev,
            node.bin_next,
            node.left,
            node.right,
        ]
        .map(u64::from);
        assert_eq!(ours.to_vec(), rest[1..], "slot {slot}");
    }

    /// Goes on with a restored copy, so that the rest of the recording judges it too.
    fn restore(&mut self) {
        let raw = self.allocator.raw();
        let restored = OffsetAllocator::from_raw(&raw, handles(&self.allocator)).unwrap();
        assert!(restored.raw() == raw);
        self.allocator = restored;
    }
}

fn start(base: u64, size: u64, tables: usize) -> Replay {
    Replay { allocator: OffsetAllocator::new(base, size).unwrap(), got: Vec::new(), tables }
}

#[test]
fn every_address_and_every_saved_table_equals_the_peers() {
    let mut replay = start(1, 1, 0);
    for line in RECORDED.lines() {
        let words: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
        replay.step(&words);
    }
    assert_eq!(replay.tables, 13);
}

#[test]
fn five_thousand_equal_puts_leave_the_figures_that_the_peer_saved() {
    let mut allocator = OffsetAllocator::new(0x7ff2_0000_0000, 32 << 20).unwrap();
    for owner in 0..5000 {
        let got = allocator.allocate(64, owner).unwrap();
        assert_eq!((got.node, got.offset_units), (owner, owner * 64));
    }
    let raw = allocator.raw();
    assert_eq!((raw.slots, raw.slots_max), (8192, 1 << 20));
    assert_eq!((raw.free_offset, raw.free_units), (5001, 33_234_432));
    assert_eq!((raw.allocated_bytes, raw.allocation_count), (320_000, 5000));
}

#[test]
fn unit_sizes_grow_with_the_segment_as_the_peers_do() {
    for (size, unit) in [
        (4_026_531_840, 1),
        (4_026_531_841, 1),
        (4_026_531_842, 2),
        (4 << 30, 2),
        (5 << 30, 2),
        (64 << 30, 32),
        (u64::MAX - 1, 1 << 33),
    ] {
        let allocator = OffsetAllocator::new(1, size).unwrap();
        let expected = if size == 4_026_531_841 { 2 } else { unit };
        assert_eq!(allocator.unit_bytes(), expected, "{size}");
    }
}

#[test]
fn a_free_range_of_exactly_the_size_asked_for_is_not_found_unless_it_is_a_class() {
    let mut allocator = OffsetAllocator::new(4096, 100).unwrap();
    assert_eq!(allocator.largest_free_upper_bound(), 96);
    assert_eq!(allocator.allocate(100, 0), None);
    assert!(allocator.allocate(96, 0).is_some());
    assert_eq!(allocator.largest_free_upper_bound(), 4);
}
