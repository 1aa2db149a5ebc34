//! Every probe of every decoder, over its seeds and mutations of them: what a machine without a fuzzer can do.
//!
//! The seeds are in `fuzz/corpus/PROBE`; `fuzz/run` looks much further. An input that once did harm becomes a seed.

use std::fs;
use std::path::Path;

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

/// Mutations of each seed.
const MUTATIONS: usize = 40;
/// Longest input.
const BYTES_MAX: usize = 1 << 16;

type Probe = (&'static str, fn(&[u8]));

fn probes() -> Vec<Probe> {
    let own = mooncake_ha::probes::PROBES.iter();
    let raft = mooncake_ha_raft::probes::PROBES.iter();
    own.chain(raft).chain(mooncake_ha_snapshot::PROBES).copied().collect()
}

fn seeds(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
    let mut paths: Vec<_> = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// A few random changes: flipped, replaced, removed, repeated bytes, pieces of another seed.
fn mutated(dice: &mut SmallRng, seeds: &[Vec<u8>], from: &[u8]) -> Vec<u8> {
    let mut bytes = from.to_vec();
    for _ in 0..dice.random_range(1..6) {
        let at = dice.random_range(0..=bytes.len());
        match dice.random_range(0..6) {
            0 | 1 if at < bytes.len() => bytes[at] ^= 1 << dice.random_range(0..8),
            2 if at < bytes.len() => {
                bytes[at] = *[0, 1, 0x7f, 0x80, 0xc1, 0xff].choose(dice).unwrap()
            }
            3 => bytes.truncate(at),
            4 => {
                let end = bytes.len().min(at + dice.random_range(0..32));
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => {
                let other = seeds.choose(dice).unwrap();
                let start = dice.random_range(0..=other.len());
                let end = other.len().min(start + dice.random_range(0..64));
                bytes.splice(at..at, other[start..end].iter().copied());
            }
        }
    }
    bytes.truncate(BYTES_MAX);
    bytes
}

#[test]
fn no_decoder_fails_on_its_seeds_and_mutations_of_them() {
    let mut dice = SmallRng::seed_from_u64(0x5eed);
    for (name, probe) in probes() {
        let seeds = seeds(name);
        assert!(!seeds.is_empty(), "{name} has no seed");
        probe(&[]);
        for seed in &seeds {
            probe(seed);
            for _ in 0..MUTATIONS {
                probe(&mutated(&mut dice, &seeds, seed));
            }
        }
    }
}

#[test]
fn every_folder_of_seeds_belongs_to_a_probe() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    for entry in fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name();
        assert!(probes().iter().any(|(known, _)| name == *known), "{}", name.display());
    }
}
