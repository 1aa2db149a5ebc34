//! Power cuts, played from a journal of everything that was written to the log's file.
//!
//! The model is a pessimist's: a write counts only when a whole fdatasync came after it; of later
//! writes each page of 4 KiB made it with one chance in two.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::child;
use crate::support::{Member, eventually};

const PAGE: usize = 4096;
/// Power cuts played.
const IMAGES: u64 = 40;
/// Acknowledgements to gather before the node is killed.
const ACKS_MIN: usize = 600;

enum Event {
    Write { offset: u64, data: Vec<u8> },
    SyncBegins { id: u64 },
    SyncEnds { id: u64 },
    Truncate { length: u64 },
    Ack { number: u64 },
}

/// Compiles the shim; `None` if there is no C compiler, which the build needs anyway.
fn shim(dir: &Path) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/power/shim.c");
    let library = dir.join("shim.so");
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(&library)
        .arg(source)
        .args(["-ldl", "-lpthread"])
        .status();
    compiled.is_ok_and(|status| status.success()).then_some(library)
}

fn events(journal: &Path) -> Vec<Event> {
    let bytes = std::fs::read(journal).unwrap();
    let mut rest = bytes.as_slice();
    let mut events = Vec::new();
    while rest.len() >= 25 {
        let word = |at: usize| u64::from_ne_bytes(rest[at..at + 8].try_into().unwrap());
        let (kind, id, offset, length) = (rest[0], word(1), word(9), word(17) as usize);
        let data = if matches!(kind, b'W' | b'A') { length } else { 0 };
        if rest.len() < 25 + data {
            break;
        }
        let content = rest[25..25 + data].to_vec();
        rest = &rest[25 + data..];
        events.push(match kind {
            b'W' => Event::Write { offset, data: content },
            b'S' => Event::SyncBegins { id },
            b'E' => Event::SyncEnds { id },
            b'T' => Event::Truncate { length: offset },
            b'A' => {
                let text = String::from_utf8(content).unwrap();
                Event::Ack { number: text.trim().parse().unwrap() }
            }
            other => panic!("journal record {other}"),
        });
    }
    events
}

/// A small generator, seeded: a failure can be played again.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

fn put(image: &mut Vec<u8>, offset: usize, data: &[u8]) {
    if image.len() < offset + data.len() {
        image.resize(offset + data.len(), 0);
    }
    image[offset..offset + data.len()].copy_from_slice(data);
}

/// The file as it may look after a power cut right before event `cut`, and what was acknowledged.
fn image(events: &[Event], cut: usize, dice: &mut Dice) -> (Vec<u8>, BTreeSet<u64>) {
    let before = &events[..cut];
    let mut begun = BTreeMap::new();
    let mut safe = 0;
    let mut acked = BTreeSet::new();
    for (at, event) in before.iter().enumerate() {
        match event {
            Event::SyncBegins { id } => drop(begun.insert(*id, at)),
            Event::SyncEnds { id } => safe = begun[id].max(safe),
            Event::Ack { number } => drop(acked.insert(*number)),
            Event::Write { .. } | Event::Truncate { .. } => {}
        }
    }
    let mut image = Vec::new();
    for (at, event) in before.iter().enumerate() {
        match event {
            Event::Write { offset, data } if at < safe => put(&mut image, *offset as usize, data),
            Event::Write { offset, data } => {
                let mut done = 0;
                while done < data.len() {
                    let start = *offset as usize + done;
                    let size = (PAGE - start % PAGE).min(data.len() - done);
                    if dice.roll().is_multiple_of(2) {
                        put(&mut image, start, &data[done..done + size]);
                    }
                    done += size;
                }
            }
            Event::Truncate { length } if at < safe || dice.roll().is_multiple_of(2) => {
                image.resize(*length as usize, 0);
            }
            _ => {}
        }
    }
    (image, acked)
}

fn copy(from: &Path, to: &Path, name: &str) {
    if from.join(name).exists() {
        std::fs::create_dir_all(to.join(name).parent().unwrap()).unwrap();
        std::fs::copy(from.join(name), to.join(name)).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_by_a_power_cut() {
    let dir = tempfile::tempdir().unwrap();
    let Some(shim) = shim(dir.path()) else {
        println!("skipped: no C compiler `cc` to build the write recorder with");
        return;
    };
    let (data, acks) = (dir.path().join("data"), dir.path().join("acks"));
    let journal = dir.path().join("journal");
    // No raft snapshots in this one: the journal follows the log alone.
    let mut process = child::start_log_only(&data, &acks, (&shim, &journal));
    eventually("enough is acknowledged", || child::acked(&acks).len() > ACKS_MIN).await;
    process.kill().unwrap();
    process.wait().unwrap();
    let events = events(&journal);
    let first = events.iter().position(|event| matches!(event, Event::Ack { .. })).unwrap();
    let seed = std::process::id().into();
    println!("seed {seed}, {} events", events.len());
    let mut dice = Dice(seed);
    for round in 0..IMAGES {
        let cut = first + (dice.roll() as usize) % (events.len() - first);
        let (bytes, acked) = image(&events, cut, &mut dice);
        let after = dir.path().join(format!("after-{round}"));
        copy(&data, &after, "identity");
        copy(&data, &after, "log/conf");
        std::fs::write(after.join("log/db"), bytes).unwrap();
        let mut config = child::config(&after);
        config.snapshot_log_bytes = 1 << 40;
        let opened = Member::try_open(config).await;
        let member = opened.unwrap_or_else(|e| panic!("seed {seed} round {round} cut {cut}: {e}"));
        for number in &acked {
            assert!(member.machine.has(*number), "seed {seed} round {round} cut {cut}: {number}");
        }
        member.node.shutdown().await;
        std::fs::remove_dir_all(after).unwrap();
    }
}
