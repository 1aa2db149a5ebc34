//! SIGKILL and restart of the master at random moments under the load of a stock client.
//!
//! After every restart and at the end: no acknowledged key is lost, no byte is wrong, no pin
//! deadline has moved, and the allocator's books agree with the objects.

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::support::{
    Bench, Feature, LoadOptions, LoadReport, Master, Placed, StockClient, eventually,
};

const KILLS: u64 = 8;
const PIN_TTL_MS: u64 = 3_600_000;

#[test]
fn eight_kills_under_puts_and_pins_lose_nothing() {
    let load = LoadOptions { pin_every: 2, pin_ttl_ms: PIN_TTL_MS, ..LoadOptions::new("p", 11) };
    storm(&[Feature::Durable], &["--durability=sync"], load);
}

#[test]
fn eight_kills_under_puts_batches_and_removals_lose_nothing() {
    let load = LoadOptions {
        pin_every: 3,
        pin_ttl_ms: PIN_TTL_MS,
        batch_share: 0.2,
        remove_share: 0.3,
        ..LoadOptions::new("r", 12)
    };
    storm(&[Feature::Durable], &["--durability=async"], load);
}

#[test]
fn eight_kills_under_upserts_lose_nothing() {
    let load = LoadOptions {
        pin_every: 2,
        pin_ttl_ms: PIN_TTL_MS,
        upsert_share: 0.4,
        remove_share: 0.1,
        ..LoadOptions::new("u", 13)
    };
    storm(&[Feature::Durable, Feature::Upsert], &["--durability=sync"], load);
}

#[test]
fn eight_kills_under_large_values_lose_nothing() {
    let load = LoadOptions {
        size_max: 8 << 20,
        pin_every: 4,
        pin_ttl_ms: PIN_TTL_MS,
        remove_share: 0.5,
        gap_seconds: 0.02,
        ..LoadOptions::new("l", 14)
    };
    storm(&[Feature::Durable], &["--durability=sync"], load);
}

fn storm(features: &[Feature], flags: &[&str], load: LoadOptions) {
    let Some(mut bench) = Bench::needing(features, flags) else { return };
    let mut rng = StdRng::seed_from_u64(load.seed);
    let _owner = bench.client("owner", 384);
    let mut loader = bench.client("loader", 384);
    loader.load_start(&load);
    let mut deadlines = Deadlines::default();
    for _ in 0..KILLS {
        let enough = loader.load_acknowledged() + rng.random_range(20..250);
        eventually("the load goes on", || loader.load_acknowledged() >= enough);
        deadlines.see(&bench.master);
        bench.master.kill();
        bench.master.start_again();
        deadlines.see(&bench.master);
    }
    let report = loader.load_stop();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    assert!(report.refused_writes().is_empty(), "{:?}", report.counts);
    assert!(report.lost_answers() > 0, "no call met a dead master: {:?}", report.counts);

    let mut reader = bench.client("reader", 0);
    let verified = reader.verify(&report.records);
    assert!(verified.findings.is_empty(), "{:?}", verified.findings);
    deadlines.see(&bench.master);
    deadlines.agree_with(&report);
    assert_books_agree(&bench.master, &mut reader, &report);
}

/// Every deadline that was ever shown, by key.
#[derive(Default)]
struct Deadlines {
    first: BTreeMap<String, u64>,
    last: BTreeMap<String, u64>,
}

impl Deadlines {
    /// A deadline that was shown before is the same now.
    fn see(&mut self, master: &Master) {
        self.last = master.soft_pins().into_iter().collect();
        for (key, deadline) in &self.last {
            let first = self.first.entry(key.clone()).or_insert(*deadline);
            assert_eq!(first, deadline, "the deadline of {key} moved");
        }
    }

    /// Every acknowledged pin is active, with a deadline counted from its write.
    fn agree_with(&self, report: &LoadReport) {
        for (key, record) in report.certain() {
            let Some((earliest, latest)) = record.pin else { continue };
            let deadline = self.last.get(key).copied();
            let right = deadline.is_some_and(|deadline| (earliest..=latest).contains(&deadline));
            assert!(right, "pin of {key}: {deadline:?} is not in {earliest}..={latest}");
        }
        for key in self.last.keys() {
            let record = report.records.get(key).unwrap_or_else(|| panic!("{key}: never put"));
            assert!(!record.seeds.is_empty(), "{key} is pinned although it was removed");
        }
    }
}

/// Live sizes add up to the gauge, no two live ranges overlap, and all space comes back.
fn assert_books_agree(master: &Master, reader: &mut StockClient, report: &LoadReport) {
    let keys: Vec<String> = report.records.keys().cloned().collect();
    assert_eq!(allocated(master), live_bytes(master, &keys));
    let placed: Vec<Placed> =
        reader.batch_replicas(&keys).into_iter().flat_map(|(_, copies)| copies).collect();
    assert_no_overlap(placed);
    assert!(reader.remove_all(true) > 0);
    assert_eq!(allocated(master), live_bytes(master, &keys));
}

/// Allocated bytes without those of discarded replicas, which are held back for a while.
fn allocated(master: &Master) -> u64 {
    master.count("master_allocated_bytes") - master.count("master_put_start_discarded_staging_size")
}

fn live_bytes(master: &Master, keys: &[String]) -> u64 {
    keys.iter()
        .filter_map(|key| master.object(key))
        .map(|object| object["size"].as_u64().unwrap_or_else(|| panic!("no size in {object}")))
        .sum()
}

fn assert_no_overlap(mut placed: Vec<Placed>) {
    placed.sort();
    for pair in placed.windows(2) {
        let [a, b] = pair else { continue };
        assert!(
            a.endpoint != b.endpoint || a.address + a.size <= b.address,
            "overlap of {a:?} and {b:?}"
        );
    }
}
