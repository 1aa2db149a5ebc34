//! Three real processes, killed one by one and all at once, under load.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use mooncake_ha_raft::Config;

use crate::child::acked;
use crate::support::{Member, add, eventually};

const ID: &str = "RAFT_MEMBER_ID";
const DIR: &str = "RAFT_MEMBER_DIR";
const ADDRS: &str = "RAFT_MEMBER_ADDRS";
/// Kills played.
const ROUNDS: usize = 9;

fn config(id: u64, dir: &Path, addrs: &BTreeMap<u64, String>) -> Config {
    let mut config = Config::new(id, "test", dir.join(format!("data-{id}")));
    config.listen = Some(addrs[&id].parse().unwrap());
    config.peers = addrs.clone();
    config.snapshot_log_bytes = 256 << 10;
    config.log_keep_bytes = 64 << 10;
    config.log_cache_bytes = 32 << 10;
    config
}

fn parse(addrs: &str) -> BTreeMap<u64, String> {
    (1..).zip(addrs.split(',').map(str::to_owned)).collect()
}

/// Not a test of its own: does nothing unless it was started as a member.
#[test]
fn member_adds_numbers_while_it_leads() {
    let Ok(id) = std::env::var(ID) else { return };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let dir = std::env::var(DIR).unwrap();
    let addrs = parse(&std::env::var(ADDRS).unwrap());
    runtime.block_on(run(id.parse().unwrap(), Path::new(&dir), &addrs));
}

async fn run(id: u64, dir: &Path, addrs: &BTreeMap<u64, String>) {
    let member = Arc::new(Member::open(config(id, dir, addrs)).await);
    let acks = dir.join(format!("acks-{id}"));
    let acks = std::fs::OpenOptions::new().append(true).create(true).open(acks).unwrap();
    let acks = Arc::new(acks);
    // Numbers of no other member and no other life of this one.
    let first = (id << 56) | (u64::from(std::process::id()) << 24);
    let tasks: Vec<_> = (0..4)
        .map(|task| {
            let (member, acks) = (Arc::clone(&member), Arc::clone(&acks));
            tokio::spawn(async move {
                for number in (first + task..).step_by(4) {
                    match member.node.propose(add(number, 700)).await {
                        Ok(_) => (&*acks).write_all(format!("{number}\n").as_bytes()).unwrap(),
                        Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

fn start(id: u64, dir: &Path, addrs: &BTreeMap<u64, String>) -> Child {
    let addrs: Vec<&str> = addrs.values().map(String::as_str).collect();
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "processes::member_adds_numbers_while_it_leads", "--nocapture"])
        .env(ID, id.to_string())
        .env(DIR, dir)
        .env(ADDRS, addrs.join(","))
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// Acknowledged numbers by the member that acknowledged them.
fn all_acked(dir: &Path) -> BTreeMap<u64, Vec<u64>> {
    (1..=3).map(|id| (id, acked(&dir.join(format!("acks-{id}"))))).collect()
}

fn count(dir: &Path) -> usize {
    all_acked(dir).values().map(Vec::len).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_when_members_are_killed_one_by_one_or_all_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let bound: Vec<_> =
        (0..3).map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let addrs: BTreeMap<u64, String> =
        (1..).zip(bound.iter().map(|l| l.local_addr().unwrap().to_string())).collect();
    drop(bound);
    let mut members: BTreeMap<u64, Child> =
        (1..=3).map(|id| (id, start(id, dir, &addrs))).collect();
    for round in 0..ROUNDS {
        let before = all_acked(dir);
        let enough = count(dir) + 200;
        eventually("the cluster works", || count(dir) > enough).await;
        let after = all_acked(dir);
        let grown = |id: &u64| after[id].len() - before[id].len();
        let leader = (1..=3).max_by_key(grown).unwrap();
        let victims: Vec<u64> = match round % 3 {
            0 => vec![leader],
            1 => vec![leader % 3 + 1],
            _ => vec![1, 2, 3],
        };
        for id in &victims {
            let member = members.get_mut(id).unwrap();
            member.kill().unwrap();
            member.wait().unwrap();
        }
        for id in victims {
            members.insert(id, start(id, dir, &addrs));
        }
    }
    for member in members.values_mut() {
        member.kill().unwrap();
        member.wait().unwrap();
    }
    let acked: BTreeSet<u64> = all_acked(dir).into_values().flatten().collect();
    let mut opened = Vec::new();
    for id in 1..=3 {
        opened.push(Member::open(config(id, dir, &addrs)).await);
    }
    for member in &opened {
        let lacks = || acked.iter().find(|number| !member.machine.has(**number));
        eventually("everything acknowledged is there", || lacks().is_none()).await;
        assert_eq!(member.node.status().log_blobs, 0);
    }
    println!("{} acknowledged, none lost", acked.len());
    for member in opened {
        member.node.shutdown().await;
    }
}
