//! Three nodes: election, fail-over, lag, leases, changes of members.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mooncake_ha_raft::{AdminError, Config, ReadError, Role};
use tokio::net::TcpListener;

use crate::cluster::Cluster;
use crate::support::{Member, add, ballast, eventually};

fn plain(_: &mut Config) {}

/// Little log and little memory, so that lagging nodes need the store or a raft snapshot.
fn small(config: &mut Config) {
    config.snapshot_log_bytes = 256 << 10;
    config.log_keep_bytes = 128 << 10;
    config.log_cache_bytes = 32 << 10;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_nodes_elect_one_leader_and_agree() {
    let cluster = Cluster::start(3, plain).await;
    let leader = cluster.leader().await;
    for number in 0..200 {
        cluster.add(number, 100).await;
    }
    assert_eq!(cluster.settle().await, 200);
    for (id, member) in &cluster.members {
        let status = member.node.status();
        assert_eq!(status.leader.as_ref().map(|peer| peer.id), Some(leader));
        assert_eq!(status.members.len(), 3);
        assert_eq!(member.node.read_lease().is_some(), *id == leader);
        if *id != leader {
            let refused = member.node.read_barrier().await.unwrap_err();
            assert!(matches!(refused, ReadError::NotLeader { leader: Some(_) }), "{refused}");
        }
    }
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_cut_off_is_replaced_and_nothing_acknowledged_is_lost() {
    let cluster = Cluster::start(3, plain).await;
    let mut number = 0;
    for _ in 0..3 {
        let old = cluster.leader().await;
        for _ in 0..50 {
            cluster.add(number, 10).await;
            number += 1;
        }
        let others: Vec<u64> = (1..=3).filter(|id| *id != old).collect();
        cluster.links.isolate(old, &others);
        let start = Instant::now();
        let new = cluster.leader_among(&others).await;
        println!("a new leader after {:?}", start.elapsed());
        assert!(cluster.members[&old].node.read_lease().is_none(), "two leases at once");
        assert!(cluster.members[&old].node.read_barrier().await.is_err());
        for _ in 0..50 {
            let proposed = cluster.members[&new].node.propose(add(number, 0)).await;
            if proposed.is_ok() {
                number += 1;
            }
        }
        cluster.links.heal();
        let start = Instant::now();
        let old_node = cluster.members[&old].node.clone();
        eventually("the old leader follows", || {
            matches!(*old_node.watch_role().borrow(), Role::Follower { leader: Some(_), .. })
        })
        .await;
        println!("healed after {:?}", start.elapsed());
    }
    cluster.settle().await;
    for (id, member) in &cluster.members {
        for number in 0..number {
            assert!(member.machine.has(number), "node {id} lacks {number}");
        }
    }
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_heard_but_hears_nobody_is_replaced() {
    let cluster = Cluster::start(3, plain).await;
    let old = cluster.leader().await;
    cluster.add(1, 0).await;
    let others: Vec<u64> = (1..=3).filter(|id| *id != old).collect();
    others.iter().for_each(|id| cluster.links.cut(*id, old));
    let start = Instant::now();
    let new = cluster.leader_among(&others).await;
    println!("a new leader after {:?}", start.elapsed());
    assert!(cluster.members[&old].node.read_lease().is_none(), "two leases at once");
    cluster.members[&new].node.propose(add(2, 0)).await.unwrap();
    cluster.links.heal();
    cluster.add(3, 0).await;
    cluster.settle().await;
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lagging_follower_is_caught_up_by_log() {
    let mut cluster = Cluster::start(3, plain).await;
    let leader = cluster.leader().await;
    let behind = (1..=3).find(|id| *id != leader).unwrap();
    cluster.stop(behind).await;
    for number in 0..300 {
        cluster.add(number, 2000).await;
    }
    cluster.open(behind).await;
    assert_eq!(cluster.settle().await, 300);
    assert_eq!(cluster.members[&behind].node.status().snapshot_bytes, 0, "by log alone");
    cluster.shutdown().await;
}

/// Takes connections to `addr` and closes them; counts them.
async fn closed_door(addr: SocketAddr) -> Arc<AtomicU64> {
    let door = TcpListener::bind(addr).await.unwrap();
    let knocks = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&knocks);
    tokio::spawn(async move {
        while let Ok(knock) = door.accept().await {
            drop(knock);
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    knocks
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_that_is_down_and_lacks_entries_is_looked_for_with_pauses() {
    let mut cluster = Cluster::start_direct(3, plain).await;
    let leader = cluster.leader().await;
    let down = (1..=3).find(|id| *id != leader).unwrap();
    cluster.stop(down).await;
    let knocks = closed_door(cluster.config(down).listen.unwrap()).await;
    cluster.add(0, 0).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = knocks.load(Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let knocks = knocks.load(Ordering::Relaxed) - before;
    // Heartbeats knock seven times a second, appends every 400 ms.
    assert!((5..=60).contains(&knocks), "{knocks} in two seconds");
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_too_far_behind_is_caught_up_by_a_raft_snapshot() {
    let mut cluster = Cluster::start(3, small).await;
    let leader = cluster.leader().await;
    let behind = (1..=3).find(|id| *id != leader).unwrap();
    cluster.add(0, 0).await;
    cluster.stop(behind).await;
    for number in 0..1500 {
        cluster.add(number, 1000).await;
    }
    let node = cluster.members[&leader].node.clone();
    eventually("the log is purged", || node.status().log.purged > Some(500)).await;
    cluster.open(behind).await;
    assert_eq!(cluster.settle().await, 1500);
    let status = cluster.members[&behind].node.status();
    assert!(status.snapshot_bytes > 0);
    // It goes on as an equal member, and comes back from its own disk.
    cluster.stop(behind).await;
    cluster.open(behind).await;
    cluster.add(5000, 0).await;
    assert_eq!(cluster.settle().await, 1501);
    drop(node);
    cluster.shutdown().await;
}

fn no_log(config: &mut Config) {
    small(config);
    config.log_keep_bytes = 1;
}

/// Also gives a transfer up that stands still for a moment.
fn impatient(config: &mut Config) {
    no_log(config);
    config.snapshot_idle = Duration::from_millis(800);
}

/// A follower that is down while its leader gets a raft snapshot of `size` bytes and no log.
async fn overtaken(size: u64, tune: fn(&mut Config)) -> (Cluster, u64) {
    let mut cluster = Cluster::start(3, tune).await;
    let leader = cluster.leader().await;
    let behind = (1..=3).find(|id| *id != leader).unwrap();
    cluster.stop(behind).await;
    let node = cluster.members[&leader].node.clone();
    node.propose(ballast(size)).await.unwrap();
    for number in 0..300 {
        cluster.add(number, 1000).await;
    }
    node.trigger_snapshot().await.unwrap();
    eventually("the log is purged", || node.status().log.purged > Some(100)).await;
    (cluster, behind)
}

/// Counts what is relayed from now on.
fn meter(cluster: &Cluster) -> impl Fn() -> u64 + use<> {
    let links = cluster.links.clone();
    let start = links.relayed.load(Ordering::Relaxed);
    move || links.relayed.load(Ordering::Relaxed) - start
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_transfer_of_a_raft_snapshot_goes_on_where_it_stopped() {
    const SIZE: u64 = 96 << 20;
    let (mut cluster, behind) = overtaken(SIZE, impatient).await;
    let relayed = meter(&cluster);
    cluster.open(behind).await;
    eventually("a quarter of it is sent", || relayed() > SIZE / 4).await;
    cluster.links.isolate(behind, &[1, 2, 3]);
    tokio::time::sleep(Duration::from_millis(1200)).await;
    assert!(cluster.members[&behind].machine.len() < 300, "it was quicker than the cut");
    cluster.links.heal();
    assert_eq!(cluster.settle().await, 300);
    let sent = relayed();
    println!("{sent} bytes sent for {SIZE}");
    assert!(sent < SIZE + SIZE / 3, "{sent} bytes: it began anew");
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chunk_of_a_raft_snapshot_that_was_changed_on_the_way_is_sent_again_alone() {
    const SIZE: u64 = 48 << 20;
    let (mut cluster, behind) = overtaken(SIZE, no_log).await;
    let relayed = meter(&cluster);
    cluster.open(behind).await;
    eventually("half of it is sent", || relayed() > SIZE / 2).await;
    let spoils = Arc::clone(&cluster.links.spoils);
    spoils.store(true, Ordering::Relaxed);
    // The cluster serves meanwhile.
    cluster.add(300, 0).await;
    assert_eq!(cluster.settle().await, 301);
    assert!(!spoils.load(Ordering::Relaxed), "nothing was changed");
    let sent = relayed();
    println!("{sent} bytes sent for {SIZE}");
    assert!(sent < SIZE + SIZE / 3, "{sent} bytes: it began anew");
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sender_that_is_back_before_its_lost_connection_is_noticed_goes_on_where_it_stopped() {
    const SIZE: u64 = 48 << 20;
    let (mut cluster, behind) = overtaken(SIZE, impatient).await;
    let relayed = meter(&cluster);
    let mut config = cluster.config(behind);
    // The receiver would wait for its lost connection much longer than the sender does.
    config.snapshot_idle = Duration::from_secs(600);
    let listener = TcpListener::bind(config.listen.unwrap()).await.unwrap();
    let member = Member::open_on(listener, config).await.unwrap();
    cluster.members.insert(behind, member);
    eventually("half of it is sent", || relayed() > SIZE / 2).await;
    let stalls = Arc::clone(&cluster.links.stalls);
    stalls.store(true, Ordering::Relaxed);
    assert_eq!(cluster.settle().await, 300);
    assert!(!stalls.load(Ordering::Relaxed), "nothing stood still");
    let sent = relayed();
    println!("{sent} bytes sent for {SIZE}");
    assert!(sent < SIZE + SIZE / 3, "{sent} bytes: it began anew");
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_stays_bounded_in_bytes_while_a_follower_is_away() {
    const WRITTEN: u64 = 24 << 20;
    const BOUND: u64 = 1 << 20;
    let mut cluster = Cluster::start(3, small).await;
    let leader = cluster.leader().await;
    let behind = (1..=3).find(|id| *id != leader).unwrap();
    cluster.stop(behind).await;
    let node = cluster.members[&leader].node.clone();
    for number in 0..WRITTEN / 20_000 {
        cluster.add(number, 20_000).await;
        // A log may be over its bound for as long as a snapshot takes, which is the disk's to say.
        if number % 100 == 99 {
            eventually("the log is cut", || node.status().log_bytes < BOUND).await;
        }
    }
    cluster.open(behind).await;
    cluster.settle().await;
    drop(node);
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_nodes_restarted_at_once_come_back_with_everything() {
    let mut cluster = Cluster::start(3, plain).await;
    for number in 0..100 {
        cluster.add(number, 10).await;
    }
    for id in 1..=3 {
        cluster.stop(id).await;
    }
    for id in 1..=3 {
        cluster.open(id).await;
    }
    cluster.add(100, 0).await;
    assert_eq!(cluster.settle().await, 101);
    cluster.shutdown().await;
}

fn long_lease(config: &mut Config) {
    config.heartbeat = Duration::from_millis(100);
    config.election_min = Duration::from_millis(250);
    config.election_max = Duration::from_millis(3000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarted_followers_do_not_elect_while_the_old_leader_may_still_answer_reads() {
    let mut cluster = Cluster::start(3, long_lease).await;
    let old = cluster.leader().await;
    cluster.add(1, 0).await;
    let node = cluster.members[&old].node.clone();
    eventually("the lease is held", || node.read_lease().is_some()).await;
    let others: Vec<u64> = (1..=3).filter(|id| *id != old).collect();
    cluster.links.isolate(old, &others);
    for id in &others {
        cluster.stop(*id).await;
        cluster.open(*id).await;
    }
    assert!(node.read_lease().is_some(), "the restarts were quicker than the lease");
    let both = || {
        let new = cluster.leader_now().filter(|id| *id != old);
        if new.is_some() {
            assert!(node.read_lease().is_none(), "two nodes answer reads");
        }
        new.is_some()
    };
    eventually("another leader", both).await;
    cluster.links.heal();
    drop(node);
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_is_added_promoted_and_another_one_removed() {
    let mut cluster = Cluster::start(3, small).await;
    for number in 0..800 {
        cluster.add(number, 1000).await;
    }
    let listener = cluster.place(4).await;
    let fourth = Member::open_on(listener, cluster.config(4)).await.unwrap();
    cluster.members.insert(4, fourth);
    let leader = cluster.leader().await;
    let node = cluster.members[&leader].node.clone();
    node.add_learner(4, cluster.address(4)).await.unwrap();
    assert_eq!(cluster.settle().await, 800);
    assert!(node.status().members.iter().any(|member| member.id == 4 && !member.voter));
    node.promote(4).await.unwrap();
    node.promote(4).await.unwrap();
    assert!(node.status().members.iter().all(|member| member.voter));
    let refused = node.remove(leader).await.unwrap_err();
    assert!(matches!(refused, AdminError::Refused(_)), "{refused}");
    let gone = (1..=3).find(|id| *id != leader).unwrap();
    node.remove(gone).await.unwrap();
    assert!(node.status().members.iter().all(|member| member.id != gone));
    assert_eq!(node.status().members.len(), 3);
    drop(node);
    cluster.stop(gone).await;
    cluster.add(9000, 0).await;
    assert_eq!(cluster.settle().await, 801);
    // The new voter counts: with one old one gone, the rest still has a quorum.
    let leader = cluster.leader().await;
    let other = (1..=3).find(|id| *id != leader && *id != gone).unwrap_or(4);
    if other != 4 {
        cluster.stop(other).await;
        cluster.add(9001, 0).await;
    }
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_learner_that_never_came_up_is_not_promoted_though_it_lacks_few_entries() {
    let cluster = Cluster::start_direct(3, plain).await;
    let leader = cluster.leader().await;
    let node = cluster.members[&leader].node.clone();
    node.add_learner(4, "127.0.0.1:1").await.unwrap();
    let promoted = tokio::time::timeout(Duration::from_secs(1), node.promote(4)).await;
    assert!(promoted.is_err(), "{promoted:?}");
    assert!(node.members().iter().any(|member| member.id == 4 && !member.voter));
    node.remove(4).await.unwrap();
    drop(node);
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leadership_is_handed_over_on_request_and_on_shutdown() {
    let mut cluster = Cluster::start(3, plain).await;
    let first = cluster.leader().await;
    cluster.add(1, 0).await;
    cluster.settle().await;
    let to = (1..=3).find(|id| *id != first).unwrap();
    let start = Instant::now();
    let peer = cluster.members[&first].node.transfer_leader(Some(to)).await.unwrap();
    println!("handed over in {:?}", start.elapsed());
    assert_eq!(peer.id, to);
    assert_eq!(cluster.leader_among(&[to]).await, to);
    assert!(cluster.members[&first].node.read_lease().is_none());
    cluster.add(2, 0).await;
    cluster.settle().await;
    let start = Instant::now();
    cluster.stop(to).await;
    cluster.add(3, 0).await;
    println!("stopped and served by another in {:?}", start.elapsed());
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_lost_its_disk_is_kept_out_until_it_is_added_anew() {
    let mut cluster = Cluster::start(3, plain).await;
    let leader = cluster.leader().await;
    cluster.add(1, 0).await;
    cluster.settle().await;
    let lost = (1..=3).find(|id| *id != leader).unwrap();
    cluster.stop(lost).await;
    cluster.dirs.insert(lost, tempfile::tempdir().unwrap());
    cluster.open(lost).await;
    cluster.add(2, 0).await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(cluster.members[&lost].machine.len(), 0, "it must not take part");
    cluster.stop(lost).await;
    let leader = cluster.leader().await;
    let node = cluster.members[&leader].node.clone();
    node.remove(lost).await.unwrap();
    cluster.dirs.insert(lost, tempfile::tempdir().unwrap());
    cluster.join(lost).await;
    node.add_learner(lost, cluster.address(lost)).await.unwrap();
    node.promote(lost).await.unwrap();
    assert_eq!(cluster.settle().await, 2);
    drop(node);
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_quorum_nothing_is_acknowledged_and_reads_are_refused() {
    let cluster = Cluster::start(3, plain).await;
    let leader = cluster.leader().await;
    cluster.add(1, 0).await;
    let others: Vec<u64> = (1..=3).filter(|id| *id != leader).collect();
    cluster.links.isolate(leader, &others);
    cluster.links.isolate(others[0], &[others[1]]);
    let node = &cluster.members[&leader].node;
    eventually("the lease runs out", || node.read_lease().is_none()).await;
    let barrier = tokio::time::timeout(Duration::from_secs(5), node.read_barrier()).await;
    assert!(matches!(barrier, Ok(Err(_)) | Err(_)));
    let proposed = tokio::time::timeout(Duration::from_secs(2), node.propose(add(2, 0))).await;
    assert!(matches!(proposed, Ok(Err(_)) | Err(_)), "acknowledged without a quorum");
    cluster.links.heal();
    cluster.add(3, 0).await;
    cluster.settle().await;
    cluster.shutdown().await;
}
