//! Crash points that only a node of a cluster passes: entries that are taken back, and a raft snapshot that
//! another node sends.

use std::path::Path;
use std::time::Duration;

use mooncake_ha_crash::Point;
use tempfile::TempDir;

use super::Tour;
use super::image::{self, Cut};
use super::ledger::Ledger;
use super::victim::Victim;
use crate::support::{eventually_within, free_port};

/// In the order in which the test comes by.
pub const TOUR: &[Point] = &[
    Point::TruncateBegins,
    Point::TruncateMarkLowered,
    Point::Truncated,
    Point::ReceivedPart,
    Point::ReceivedAll,
    Point::ReceivedSynced,
];

/// Longer than an election and a replay of a small log on a busy machine.
const ELECTED: Duration = Duration::from_secs(30);

fn nodes(dir: &Path) -> Vec<Victim> {
    let peers: Vec<String> = (1..=3).map(|id| format!("{id}=127.0.0.1:{}", free_port())).collect();
    let peers = format!("--peers={}", peers.join(","));
    let node = |id: u32| {
        let id_flag = format!("--node_id={id}");
        Victim::new(&dir.join(id.to_string()), &[&id_flag, &peers, "--raft_log_keep_bytes=0"])
    };
    (1..=3).map(node).collect()
}

/// Which of some nodes serves.
fn leader(nodes: &[Victim], among: &[usize]) -> usize {
    let mut found = None;
    eventually_within(ELECTED, "a node serves", || {
        found = among.iter().copied().find(|at| nodes[*at].serves());
        found.is_some()
    });
    found.unwrap()
}

/// Waits until a node has applied what another one has.
fn until_caught_up(nodes: &[Victim], at: usize, with: usize) {
    let goal = nodes[with].number("/log/applied");
    assert!(goal.is_some());
    eventually_within(ELECTED, "the node catches up", || nodes[at].number("/log/applied") >= goal);
}

/// Two nodes without the third: all is there only if both have it.
fn check_without(nodes: &mut [Victim], down: usize, ledger: &mut Ledger) {
    let rest: Vec<usize> = (0..3).filter(|at| *at != down).collect();
    nodes[down].kill();
    let leads = leader(nodes, &rest);
    ledger.check(&nodes[leads].address());
    nodes[down].start();
}

#[test]
fn a_follower_killed_while_it_takes_entries_back_or_receives_a_snapshot_loses_nothing() {
    let dir = TempDir::new().unwrap();
    let (mut tour, mut ledger) = (Tour::of(TOUR), Ledger::new());
    let mut nodes = nodes(dir.path());
    nodes.iter_mut().for_each(Victim::start);
    let old = leader(&nodes, &[0, 1, 2]);
    ledger.turn_to(&nodes[old].address());
    ledger.mount();
    ledger.write();
    let others: Vec<usize> = (0..3).filter(|at| *at != old).collect();
    others.iter().for_each(|at| until_caught_up(&nodes, *at, old));

    // An entry that only the leader has, and that the next leader knows nothing of.
    others.iter().for_each(|at| nodes[*at].kill());
    let before = nodes[old].number("/log/last");
    ledger.begin_write();
    assert!(nodes[old].number("/log/last") > before, "the leader has an entry of its own");
    nodes[old].kill();
    others.iter().for_each(|at| nodes[*at].start());
    let leads = leader(&nodes, &others);
    ledger.check(&nodes[leads].address());

    for point in &TOUR[..3] {
        nodes[old].arm(*point, 1);
        nodes[old].start();
        nodes[old].until_dead(*point, |_| ());
        tour.visited(*point);
        let (data, synced) = (nodes[old].dir().join("data"), nodes[old].dir().join("synced"));
        image::cut_power(&data, &synced, Cut::Lost, 1);
    }
    nodes[old].start();
    until_caught_up(&nodes, old, leads);
    check_without(&mut nodes, others[0], &mut ledger);

    // The log that it would need is gone.
    let leads = leader(&nodes, &[0, 1, 2]);
    let behind = (leads + 1) % 3;
    let has = nodes[behind].number("/log/last");
    nodes[behind].kill();
    ledger.check(&nodes[leads].address());
    eventually_within(ELECTED, "the log is purged", || {
        ledger.turn_to(&nodes[leads].address());
        ledger.write();
        nodes[leads].http().try_send("POST", "/api/v1/cluster/snapshot");
        nodes[leads].number("/log/purged") > has
    });
    for point in &TOUR[3..] {
        nodes[behind].arm(*point, 1);
        nodes[behind].start();
        nodes[behind].until_dead(*point, |_| ());
        tour.visited(*point);
    }
    nodes[behind].start();
    until_caught_up(&nodes, behind, leads);
    let third = (0..3).find(|at| *at != leads && *at != behind).unwrap();
    check_without(&mut nodes, third, &mut ledger);
    tour.end();
}
