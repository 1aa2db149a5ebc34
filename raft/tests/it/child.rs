//! This test binary once more, as a node that is about to be killed.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use mooncake_ha_raft::{Config, Durability};

use crate::support::{Member, add, single};

const DIR: &str = "RAFT_CHILD_DIR";
const ACKS: &str = "RAFT_CHILD_ACKS";
const FIRST: &str = "RAFT_CHILD_FIRST";
const ASYNC: &str = "RAFT_CHILD_ASYNC";
const LOG_ONLY: &str = "RAFT_CHILD_LOG_ONLY";

/// How the killed node is set up: small, so that it compacts and purges all the time.
pub fn config(dir: &Path) -> Config {
    let mut config = single(dir);
    config.snapshot_log_bytes = 96 << 10;
    config.log_keep_bytes = 32 << 10;
    config.log_cache_bytes = 16 << 10;
    config
}

/// Not a test of its own: does nothing unless it was started as a child.
#[test]
fn child_adds_numbers_until_it_is_killed() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let first: u64 = std::env::var(FIRST).unwrap().parse().unwrap();
    let mut config = config(Path::new(&dir));
    if std::env::var(ASYNC).is_ok() {
        config.durability = Durability::Async;
    }
    if std::env::var(LOG_ONLY).is_ok() {
        config.snapshot_log_bytes = 1 << 40;
    }
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(run(config, first));
}

async fn run(config: Config, first: u64) {
    let member = Arc::new(Member::open(config).await);
    let acks = std::env::var(ACKS).unwrap();
    let acks = std::fs::OpenOptions::new().append(true).create(true).open(acks).unwrap();
    let acks = Arc::new(acks);
    let tasks: Vec<_> = (0..8)
        .map(|task| {
            let (member, acks) = (Arc::clone(&member), Arc::clone(&acks));
            tokio::spawn(async move {
                for number in (first + task..).step_by(8) {
                    let padding = (number as usize * 97) % 3000;
                    member.node.propose(add(number, padding)).await.unwrap();
                    // One write each: a reader sees whole lines, in the order of their writing.
                    (&*acks).write_all(format!("{number}\n").as_bytes()).unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

fn command(dir: &Path, acks: &Path, first: u64) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "child::child_adds_numbers_until_it_is_killed", "--nocapture"])
        .env(DIR, dir)
        .env(ACKS, acks)
        .env(FIRST, first.to_string())
        .stdout(Stdio::null());
    command
}

/// Starts the child; `acks` gets a line for each acknowledged number.
pub fn start(dir: &Path, acks: &Path, first: u64, durability: Durability) -> Child {
    let mut command = command(dir, acks, first);
    if durability == Durability::Async {
        command.env(ASYNC, "1");
    }
    command.spawn().unwrap()
}

/// Starts it without raft snapshots, under a shim that keeps a journal.
pub fn start_log_only(dir: &Path, acks: &Path, (shim, journal): (&Path, &Path)) -> Child {
    let mut command = command(dir, acks, 0);
    command.env(LOG_ONLY, "1").env("LD_PRELOAD", shim).env("RAFT_SHIM_JOURNAL", journal);
    command.spawn().unwrap()
}

/// Numbers acknowledged so far; a last line without its end does not count.
pub fn acked(acks: &Path) -> Vec<u64> {
    let Ok(file) = std::fs::File::open(acks) else { return Vec::new() };
    let mut lines = Vec::new();
    let mut reader = BufReader::new(file);
    let mut line = String::new();
    while reader.read_line(&mut line).unwrap() > 0 {
        if let Some(number) = line.strip_suffix('\n') {
            lines.push(number.parse().unwrap());
        }
        line.clear();
    }
    lines
}
