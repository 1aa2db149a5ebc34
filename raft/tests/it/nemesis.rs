//! Random cuts, one-way cuts and restarts, while reads under the lease are checked for staleness.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mooncake_ha_raft::{Config, Node};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::cluster::Cluster;
use crate::support::{Counter, add};

/// How long the trouble lasts.
const TROUBLE: Duration = Duration::from_secs(12);

type Handles = Arc<Mutex<BTreeMap<u64, (Node<Counter>, Arc<Counter>)>>>;

fn quick(config: &mut Config) {
    config.heartbeat = Duration::from_millis(60);
    config.election_min = Duration::from_millis(200);
    config.election_max = Duration::from_millis(450);
    config.snapshot_log_bytes = 256 << 10;
    config.log_keep_bytes = 64 << 10;
    config.log_cache_bytes = 32 << 10;
}

/// Writes rising numbers through whoever leads; `acked` is the newest acknowledged one.
async fn write(handles: Handles, acked: Arc<AtomicU64>, stop: Arc<AtomicBool>) -> Vec<u64> {
    let mut done = Vec::new();
    let mut number = 1;
    while !stop.load(Ordering::SeqCst) {
        let leaders: Vec<Node<Counter>> = {
            let handles = handles.lock();
            let leads = |node: &Node<Counter>| node.watch_role().borrow().is_ready_leader();
            handles.values().map(|(node, _)| node.clone()).filter(leads).collect()
        };
        // All that believe to lead, the wrong ones too.
        for node in leaders {
            number += 1;
            let proposed = node.propose(add(number, 300));
            let outcome = tokio::time::timeout(Duration::from_millis(500), proposed).await;
            if let Ok(Ok(_)) = outcome {
                acked.store(number, Ordering::SeqCst);
                done.push(number);
            }
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    done
}

/// Reads on all nodes all the time; returns how many reads a lease allowed.
async fn read(handles: Handles, acked: Arc<AtomicU64>, stop: Arc<AtomicBool>, seed: u64) -> u64 {
    let mut reads = 0;
    while !stop.load(Ordering::SeqCst) {
        let nodes: Vec<_> = handles.lock().values().cloned().collect();
        for (node, machine) in nodes {
            let least = acked.load(Ordering::SeqCst);
            if node.read_lease().is_some() {
                reads += 1;
                let newest = machine.state().added.last_key_value().map_or(0, |(last, _)| *last);
                assert!(newest >= least, "seed {seed}: read {newest} after {least} was written");
            }
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    reads
}

fn handles_of(cluster: &Cluster) -> BTreeMap<u64, (Node<Counter>, Arc<Counter>)> {
    let handle = |member: &crate::support::Member| (member.node.clone(), member.machine.clone());
    cluster.members.iter().map(|(id, member)| (*id, handle(member))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_under_the_lease_are_never_stale_whatever_the_network_does() {
    let seed = u64::from(std::process::id());
    println!("seed {seed}");
    let mut dice = StdRng::seed_from_u64(seed);
    let mut cluster = Cluster::start(3, quick).await;
    cluster.leader().await;
    let handles: Handles = Arc::new(Mutex::new(handles_of(&cluster)));
    let (acked, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let writer = tokio::spawn(write(handles.clone(), acked.clone(), stop.clone()));
    let reader = tokio::spawn(read(handles.clone(), acked, stop.clone(), seed));
    let start = Instant::now();
    while start.elapsed() < TROUBLE {
        let one = dice.random_range(1..=3_u64);
        let other = one % 3 + 1;
        match dice.random_range(0..5) {
            0 => cluster.links.isolate(one, &[1, 2, 3]),
            1 => cluster.links.cut(one, other),
            2 => cluster.links.cut(other, one),
            3 => {
                handles.lock().remove(&one);
                cluster.stop(one).await;
                cluster.open(one).await;
                *handles.lock() = handles_of(&cluster);
            }
            _ => cluster.links.heal(),
        }
        tokio::time::sleep(Duration::from_millis(dice.random_range(50..700))).await;
        if dice.random_bool(0.5) {
            cluster.links.heal();
        }
    }
    cluster.links.heal();
    stop.store(true, Ordering::SeqCst);
    let (written, reads) = (writer.await.unwrap(), reader.await.unwrap());
    println!("{} writes, {reads} reads under a lease", written.len());
    assert!(written.len() > 20 && reads > 100, "the trouble was too much to test anything");
    handles.lock().clear();
    cluster.add(u64::MAX >> 2, 0).await;
    cluster.settle().await;
    for (id, member) in &cluster.members {
        let lacks = written.iter().find(|number| !member.machine.has(**number));
        assert_eq!(lacks, None, "seed {seed}: node {id}");
    }
    cluster.shutdown().await;
}
