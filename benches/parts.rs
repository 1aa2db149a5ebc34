//! Micro-benchmarks of the parts that a call goes through: codec, table, deadline index, allocator, apply.
//!
//! `cargo bench --bench parts [FILTER]`. One iteration of a row named `_128` is a batch of 128 items.

#![expect(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use std::cell::RefCell;
use std::sync::Arc;

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use mooncake_ha::alloc::{OffsetAllocator, Strategy};
use mooncake_ha::model::{
    ClientId, Deadline, Millis, Object, ObjectRef, PinRequest, ReplicaSelect, Segment, SegmentId,
    Tenant, Ttl, Uuid,
};
use mooncake_ha::state::command::{
    Command, End, EndItem, Entry, KEYS_PER_COMMAND_MAX, Key, Remove, Stamp, Start, StartItem,
    WriteConfig, WriteRules,
};
use mooncake_ha::state::deadlines::DeadlineIndex;
use mooncake_ha::state::table::table_hash;
use mooncake_ha::state::{State, encode};
use mooncake_ha::wire::calls::BatchGetReplicaList;
use mooncake_ha::wire::requests::KeysRequest;
use mooncake_ha::wire::{RequestHead, decode_request, encode_request};

/// Items of a batch.
const BATCH: u64 = 128;

/// Objects in the store, pins in the index, allocations on the segment.
const SIZES: [u64; 2] = [10_000, 1_000_000];

/// Bytes of an object.
const VALUE_BYTES: u64 = 4_096;

/// Before the first command.
const START: Millis = Millis(1_000_000);

fn main() {
    divan::main();
}

fn key(number: u64) -> Vec<u8> {
    format!("bench-{number:015}").into_bytes()
}

fn keys(numbers: impl Iterator<Item = u64>) -> Vec<Vec<u8>> {
    numbers.map(key).collect()
}

/// Numbers below `limit` that jump about, the same in each run.
fn scattered(limit: u64) -> impl Iterator<Item = u64> {
    (0_u64..).map(move |step| step.wrapping_mul(0x9e37_79b9_7f4a_7c15) % limit)
}

fn client() -> ClientId {
    ClientId(Uuid { first: 1, second: 2 })
}

fn start(numbers: impl Iterator<Item = u64>, pin: PinRequest) -> Command {
    let item = |number| StartItem { key: Key(key(number)), size: VALUE_BYTES, group: None };
    Command::PutStart(Start {
        client: client(),
        tenant: None,
        items: numbers.map(item).collect(),
        config: WriteConfig {
            replica_num: 1,
            pin,
            is_hard_pinned: false,
            data_type: 0,
            preferred: Vec::new(),
            is_same_node_preferred: false,
            host_id: Arc::from(""),
        },
        rules: WriteRules {
            discard_timeout_ms: 30_000,
            release_timeout_ms: 600_000,
            strategy: Strategy::Random,
        },
    })
}

fn end(numbers: impl Iterator<Item = u64>) -> Command {
    let item = |number| EndItem { key: Key(key(number)), checksum: None };
    let items = numbers.map(item).collect();
    Command::PutEnd(End { client: client(), tenant: None, items, select: ReplicaSelect::All })
}

fn remove(numbers: impl Iterator<Item = u64>) -> Command {
    Command::Remove(Remove { tenant: None, keys: numbers.map(|number| Key(key(number))).collect() })
}

fn entry(commands: Vec<Command>) -> Entry {
    Entry { stamp: Stamp { now: START, seed: 7 }, commands }
}

/// A state with sixteen segments and so many objects.
fn state(objects: u64, pin: PinRequest) -> State {
    let mut state = State::default();
    let size = (objects + 1_000_000) * VALUE_BYTES / 8;
    for number in 1..=16 {
        let segment = Segment {
            id: SegmentId(Uuid { first: number, second: 3 }),
            name: Arc::from(format!("segment-{number}")),
            base: number << 40,
            size,
            endpoint: Arc::from(format!("segment-{number}")),
            protocol: Arc::from("tcp"),
            host_id: Arc::from(""),
        };
        state.apply_entry(&entry(vec![Command::MountSegment { segment, client: client() }]));
    }
    for first in (0..objects).step_by(BATCH as usize) {
        let batch = || first..(first + BATCH).min(objects);
        state.apply_entry(&entry(vec![start(batch(), pin), end(batch())]));
    }
    assert_eq!(state.totals().keys, objects);
    state
}

mod codec {
    use super::*;

    #[divan::bench]
    fn encode_request_128(bencher: Bencher<'_, '_>) {
        let keys = keys(0..BATCH);
        let mut out = Vec::new();
        bencher.counter(ItemsCount::new(BATCH)).bench_local(|| {
            out.clear();
            let names = keys.iter().map(Vec::as_slice).collect();
            let request = KeysRequest { keys: names, tenant_id: b"default".as_slice() };
            encode_request::<BatchGetReplicaList>(1, black_box(&request), &mut out);
        });
    }

    #[divan::bench]
    fn decode_request_128(bencher: Bencher<'_, '_>) {
        let keys = keys(0..BATCH);
        let names = keys.iter().map(Vec::as_slice).collect();
        let request = KeysRequest { keys: names, tenant_id: b"default".as_slice() };
        let mut frame = Vec::new();
        encode_request::<BatchGetReplicaList>(1, &request, &mut frame);
        bencher.counter(ItemsCount::new(BATCH)).bench_local(|| {
            let (head, _) = RequestHead::parse(black_box(&frame)).unwrap().unwrap();
            let request = decode_request::<BatchGetReplicaList>(head.body(&frame)).unwrap();
            request.keys.len()
        });
    }

    #[divan::bench]
    fn encode_entry_128(bencher: Bencher<'_, '_>) {
        let entry = entry(vec![start(0..BATCH, PinRequest::Preserve)]);
        let bencher = bencher.counter(ItemsCount::new(BATCH));
        bencher.bench_local(|| encode::encode(black_box(&entry)).unwrap());
    }

    #[divan::bench]
    fn decode_entry_128(bencher: Bencher<'_, '_>) {
        let bytes = encode::encode(&entry(vec![start(0..BATCH, PinRequest::Preserve)])).unwrap();
        let bencher = bencher.counter(ItemsCount::new(BATCH));
        bencher.bench_local(|| encode::decode(black_box(&bytes)).unwrap());
    }
}

mod table {
    use super::*;

    #[divan::bench(args = SIZES)]
    fn look_128(bencher: Bencher<'_, '_>, objects: u64) {
        let state = state(objects, PinRequest::Preserve);
        let tenant = state.tenant_idx(None).unwrap();
        let mut numbers = scattered(objects);
        bencher
            .counter(ItemsCount::new(BATCH))
            .with_inputs(|| keys(numbers.by_ref().take(BATCH as usize)))
            .bench_local_refs(|keys| {
                let found = keys.iter().filter(|key| {
                    let hash = table_hash(&Tenant::default(), key);
                    let is_there = |object: Option<&Object>| object.is_some();
                    state.view().table.look(hash, tenant, key, is_there)
                });
                assert_eq!(found.count() as u64, BATCH);
            });
    }

    #[divan::bench(args = SIZES)]
    fn freeze(bencher: Bencher<'_, '_>, objects: u64) {
        let state = state(objects, PinRequest::Preserve);
        bencher.bench_local(|| state.view().table.freeze());
    }
}

mod index {
    use super::*;

    fn filled(pins: u64) -> DeadlineIndex {
        let mut index = DeadlineIndex::new();
        for number in 0..pins {
            index.register(Deadline(number), ObjectRef(u32::try_from(number).unwrap()));
        }
        index
    }

    #[divan::bench(args = SIZES)]
    fn register_and_remove(bencher: Bencher<'_, '_>, pins: u64) {
        let mut index = filled(pins);
        let object = ObjectRef(u32::try_from(pins).unwrap());
        let mut deadline = pins;
        bencher.bench_local(|| {
            deadline += 1;
            index.register(Deadline(deadline), object);
            index.remove(black_box(object))
        });
    }

    #[divan::bench(args = SIZES)]
    fn take_due_128(bencher: Bencher<'_, '_>, pins: u64) {
        let mut index = filled(pins);
        bencher.counter(ItemsCount::new(BATCH)).bench_local(|| {
            let taken = index.take_due(Millis(u64::MAX >> 1), BATCH as usize);
            for (deadline, object) in taken {
                index.register(Deadline(deadline.0 + pins), object);
            }
        });
    }
}

mod allocator {
    use super::*;

    #[divan::bench(args = SIZES)]
    fn allocate_and_free(bencher: Bencher<'_, '_>, allocations: u64) {
        let size = (allocations + 1_000) * VALUE_BYTES;
        let mut allocator = OffsetAllocator::new(1 << 40, size).unwrap();
        let live: Vec<_> =
            (0..allocations).map(|_| allocator.allocate(VALUE_BYTES, 1).unwrap()).collect();
        // Every other one is free: the common state of a store in use.
        live.iter().step_by(2).for_each(|one| {
            allocator.free(one.node).unwrap();
        });
        bencher.bench_local(|| {
            let one = allocator.allocate(black_box(VALUE_BYTES), 1).unwrap();
            allocator.free(one.node).unwrap()
        });
    }
}

mod apply {
    use super::*;

    fn put_and_remove(bencher: Bencher<'_, '_>, objects: u64, batch: u64, pin: PinRequest) {
        let mut state = state(objects, PinRequest::Preserve);
        let mut next = objects;
        bencher
            .counter(ItemsCount::new(batch))
            .with_inputs(|| {
                next += batch;
                let numbers = || next - batch..next;
                entry(vec![start(numbers(), pin), end(numbers()), remove(numbers())])
            })
            .bench_local_refs(|entry| state.apply_entry(entry));
        assert_eq!(state.totals().keys, objects);
    }

    #[divan::bench(args = SIZES)]
    fn put_and_remove_1(bencher: Bencher<'_, '_>, objects: u64) {
        put_and_remove(bencher, objects, 1, PinRequest::Preserve);
    }

    #[divan::bench(args = SIZES)]
    fn put_and_remove_128(bencher: Bencher<'_, '_>, objects: u64) {
        put_and_remove(bencher, objects, BATCH, PinRequest::Preserve);
    }

    #[divan::bench(args = SIZES)]
    fn put_pinned_and_remove_128(bencher: Bencher<'_, '_>, objects: u64) {
        put_and_remove(bencher, objects, BATCH, PinRequest::Enable(Ttl(3_600_000)));
    }

    /// Keys of one entry: a batch, as many as a command has, and as many as an entry has room for.
    const AFTER_FREEZE: [u64; 3] = [BATCH, 256, 1_536];

    /// One entry that comes first after the table was frozen, and so copies every shard and chunk that it changes.
    fn first_after_freeze(
        bencher: Bencher<'_, '_>,
        keys: u64,
        before: impl Fn(Vec<u64>) -> Vec<Command>,
        measured: impl Fn(Vec<u64>) -> Command,
    ) {
        let objects = 1_000_000;
        let state = RefCell::new(state(objects, PinRequest::Preserve));
        let mut numbers = scattered(objects);
        let in_commands = |numbers: &[u64], commands: &dyn Fn(Vec<u64>) -> Vec<Command>| {
            let some = numbers.chunks(KEYS_PER_COMMAND_MAX);
            entry(some.flat_map(|some| commands(some.to_vec())).collect())
        };
        bencher
            .counter(ItemsCount::new(keys))
            .with_inputs(|| {
                let numbers: Vec<u64> = numbers.by_ref().take(keys as usize).collect();
                state.borrow_mut().apply_entry(&in_commands(&numbers, &before));
                let frozen = state.borrow().view().table.freeze();
                (frozen, in_commands(&numbers, &|some| vec![measured(some)]))
            })
            .bench_local_refs(|(_, entry)| state.borrow_mut().apply_entry(entry));
    }

    fn put(numbers: Vec<u64>) -> Command {
        start(numbers.into_iter(), PinRequest::Preserve)
    }

    #[divan::bench(args = AFTER_FREEZE, sample_size = 1, sample_count = 50)]
    fn put_first_after_freeze(bencher: Bencher<'_, '_>, keys: u64) {
        let before = |numbers: Vec<u64>| vec![remove(numbers.into_iter())];
        first_after_freeze(bencher, keys, before, put);
    }

    #[divan::bench(args = AFTER_FREEZE, sample_size = 1, sample_count = 50)]
    fn end_first_after_freeze(bencher: Bencher<'_, '_>, keys: u64) {
        let before = |numbers: Vec<u64>| vec![remove(numbers.iter().copied()), put(numbers)];
        first_after_freeze(bencher, keys, before, |numbers| end(numbers.into_iter()));
    }

    #[divan::bench(args = AFTER_FREEZE, sample_size = 1, sample_count = 50)]
    fn remove_first_after_freeze(bencher: Bencher<'_, '_>, keys: u64) {
        first_after_freeze(bencher, keys, |_| vec![], |numbers| remove(numbers.into_iter()));
    }
}
