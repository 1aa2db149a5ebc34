//! Three nodes on a network that loses packets: both ways, one way, now and then, or late.
//!
//! In each of these no acknowledged write is lost, no read is stale, no two nodes lead in one term, no soft pin
//! moves, and service is back within three seconds. The figures are printed.

mod net;
mod trial;

use std::time::Duration;

use net::Rule;
use trial::{CLIENTS, Trial};

/// Longer than any lease of a leader, so that another one has served for a while.
const CUT: Duration = Duration::from_millis(3_000);
/// Clients at work without a fault.
const CALM: Duration = Duration::from_millis(700);
/// From the moment when the network is whole again, or a majority by itself, to the first new write that is
/// acknowledged, and to the moment when no client waits any more.
const BACK_MS_MAX: u64 = 3_000;

/// Nothing from `from` arrives at any of `to`.
fn deaf(from: usize, to: &[usize]) -> Vec<Rule> {
    to.iter().map(|to| Rule { from, to: *to, lose: 1.0, ..Rule::default() }).collect()
}

/// Nothing from any of `from` arrives at `to`.
fn mute(from: &[usize], to: usize) -> Vec<Rule> {
    from.iter().map(|from| Rule { from: *from, to, lose: 1.0, ..Rule::default() }).collect()
}

fn both_ways(one: usize, others: &[usize]) -> Vec<Rule> {
    [deaf(one, others), mute(others, one)].concat()
}

/// The other two nodes.
fn others(node: usize) -> [usize; 2] {
    [(node + 1) % 3, (node + 2) % 3]
}

/// Cuts the leader off by rules, waits until another one has served for a while, heals and judges.
fn cut(rules: impl FnOnce(usize) -> Vec<Rule>) {
    let Some(mut trial) = Trial::start() else { return };
    trial.pass(CALM);
    let leader = trial.leader_but(None);
    let cut = trial.now();
    trial.rules(&rules(leader));
    assert_ne!(trial.leader_but(Some(leader)), leader);
    trial.pass(CUT);
    let healed = trial.heal();
    let served = trial.everybody_is_served(healed);
    trial.pass(CALM);
    let verdict = trial.judge();
    assert!(verdict.terms >= 2, "another node has led");
    assert!(verdict.write_after(cut) < BACK_MS_MAX, "the others serve without it");
    assert!(verdict.write_after(healed) < BACK_MS_MAX && served < BACK_MS_MAX);
}

#[test]
fn a_leader_that_is_cut_off_alone_loses_nothing() {
    cut(|leader| {
        let [one, two] = others(leader);
        both_ways(leader, &[one, two, CLIENTS])
    });
}

#[test]
fn a_leader_that_is_cut_off_from_nodes_only_serves_no_stale_read() {
    cut(|leader| both_ways(leader, &others(leader)));
}

#[test]
fn a_leader_that_is_not_heard_gives_way() {
    cut(|leader| deaf(leader, &others(leader)));
}

#[test]
fn a_leader_that_hears_nothing_gives_way() {
    cut(|leader| mute(&others(leader), leader));
}

#[test]
fn a_leader_that_is_cut_off_with_its_clients_acknowledges_nothing_to_them() {
    let Some(mut trial) = Trial::start() else { return };
    let leader = trial.leader_but(None);
    trial.crowd_beside(leader);
    trial.pass(CALM * 3);
    let [one, two] = others(leader);
    trial.rules(&both_ways(leader, &[one, two, CLIENTS]));
    assert_ne!(trial.leader_but(Some(leader)), leader);
    let other_serves = trial.now();
    trial.pass(CUT);
    let before_heal = trial.now();
    let healed = trial.heal();
    let served = trial.everybody_is_served(healed);
    trial.pass(CALM);
    let verdict = trial.judge();
    let count = verdict.crowd_writes(other_serves, before_heal);
    assert_eq!(count, 0, "nothing was acknowledged on the lost side while the other side served");
    assert!(verdict.crowd_write_after(healed) < BACK_MS_MAX, "its clients work again");
    assert!(verdict.write_after(healed) < BACK_MS_MAX && served < BACK_MS_MAX);
}

#[test]
fn a_flapping_link_of_the_leader_loses_nothing() {
    const FLAP: Duration = Duration::from_millis(400);
    let Some(mut trial) = Trial::start() else { return };
    trial.pass(CALM);
    let leader = trial.leader_but(None);
    for _ in 0..8 {
        trial.rules(&both_ways(leader, &others(leader)));
        trial.pass(FLAP);
        trial.heal();
        trial.pass(FLAP);
    }
    let healed = trial.heal();
    let served = trial.everybody_is_served(healed);
    trial.pass(CALM);
    assert!(trial.judge().write_after(healed) < BACK_MS_MAX && served < BACK_MS_MAX);
}

/// Lives with a bad network between the nodes, then judges.
fn endure(rule: Rule) {
    let Some(mut trial) = Trial::start() else { return };
    trial.pass(CALM);
    let pairs = (0..3).flat_map(|from| others(from).map(|to| Rule { from, to, ..rule }));
    let bad = trial.now();
    trial.rules(&pairs.collect::<Vec<_>>());
    trial.pass(CUT * 2);
    let healed = trial.heal();
    let served = trial.everybody_is_served(healed);
    trial.pass(CALM);
    let verdict = trial.judge();
    println!("{} terms", verdict.terms);
    assert!(verdict.write_after(bad) < BACK_MS_MAX, "it serves all the time");
    assert!(verdict.write_after(healed) < BACK_MS_MAX && served < BACK_MS_MAX);
}

#[test]
fn a_delay_of_200_ms_between_nodes_loses_nothing() {
    endure(Rule { delay_ms: 200, ..Rule::default() });
}

#[test]
fn a_loss_of_one_packet_in_ten_between_nodes_loses_nothing() {
    endure(Rule { lose: 0.1, ..Rule::default() });
}
