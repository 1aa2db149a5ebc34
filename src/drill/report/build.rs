//! From what was seen to what is reported: judges, counts, measures.

use crate::drill::checks::{Gone, Looked, check_keys, check_pins, check_places};
use crate::drill::finding::{Findings, Kind};
use crate::drill::history::{ClientHistory, Outcome};
use crate::drill::moment::Moment;
use crate::drill::scenarios::Scenario;
use crate::drill::stage::Fault;
use crate::drill::usage::Course;
use crate::drill::watch::{NodeState, Seen, shared_terms};

use super::{
    ClientReport, FaultReport, Latencies, Latency, LeaderReport, Outage, ScenarioReport, Timeline,
    since,
};

/// What a scenario has left behind.
pub struct Material {
    /// Which.
    pub scenario: &'static Scenario,
    /// How often it broke things.
    pub rounds: u32,
    /// Names keys.
    pub run: String,
    /// When clients began.
    pub start: Moment,
    /// When they were stopped.
    pub end: Moment,
    /// When everything was looked at.
    pub over: Moment,
    /// Clients at work.
    pub clients: Vec<ClientHistory>,
    /// The last look at every key.
    pub last_look: ClientHistory,
    /// Whether keys were there in the last look that it did not get an answer for.
    pub unread: u64,
    /// What the nodes were.
    pub seen: Seen,
    /// What was done to them.
    pub faults: Vec<Fault>,
    /// What was found on the way.
    pub findings: Findings,
    /// When a new cluster took the place of the one before.
    pub reborn: Vec<Moment>,
    /// Memory that is gone with its clients.
    pub gone: Gone,
    /// How what nodes use went.
    pub courses: Vec<Course>,
    /// Whether clients and masters share a clock.
    pub has_one_clock: bool,
    /// Whether clients may have been told that they are not known.
    pub may_forget: bool,
    /// Pairs of nodes whose states were compared.
    pub images: u64,
    /// Refused writes by call and code.
    pub refused: std::collections::BTreeMap<String, u64>,
}

/// Judges and counts.
pub fn build(mut material: Material) -> ScenarioReport {
    let mut looked = Looked { images: material.images, ..Looked::default() };
    let mut findings = std::mem::take(&mut material.findings);
    judge(&material, &mut looked, &mut findings);
    let leaders = leaders(&material);
    judge_meaning(&material, &looked, &leaders, &mut findings);

    let mut timeline = Timeline::new(material.start, material.end);
    timeline.add_clients(material.start, &material.clients);
    timeline.add_nodes(material.start, &material.seen.nodes);
    let pins = material.seen.pins.iter();
    timeline.pins = pins.map(|s| (s.begun.since(material.start), s.deadlines.len())).collect();

    let clients: Vec<ClientReport> =
        material.clients.iter().map(|c| client(c, &material)).collect();
    let free = clients.iter().filter(|client| !client.is_pinned);
    let worst = free.max_by_key(|client| client.longest_gap_ms);
    let outage = worst.map(|client| Outage {
        longest_ms: client.longest_gap_ms,
        at_ms: client.gap_at_ms,
        client: client.name.clone(),
    });
    let scenario = material.scenario;
    ScenarioReport {
        name: scenario.name,
        what: scenario.what,
        shows: scenario.shows,
        rounds: material.rounds,
        seconds: material.over.since(material.start) as f64 / 1e6,
        is_good: findings.is_empty(),
        outage: outage.unwrap_or_default(),
        latency: latencies(&material.clients),
        checked: looked,
        unanswered: material.clients.iter().map(|client| client.failed.len() as u64).sum(),
        faults: material.faults.iter().map(|fault| fault_report(fault, &material)).collect(),
        leaders,
        clients,
        found: Kind::ALL.iter().map(|kind| (*kind, findings.count(*kind))).collect(),
        findings: findings.told().to_vec(),
        refused: material.refused,
        usage: material.courses,
        timeline,
    }
}

fn judge(material: &Material, looked: &mut Looked, findings: &mut Findings) {
    let run = &material.run;
    let mut all = material.clients.clone();
    all.push(material.last_look.clone());
    check_keys(&all, &material.gone, run, looked, findings);
    check_places(&all, run, findings);
    let one_clock = material.has_one_clock;
    check_pins(&all, &material.seen.pins, &material.gone, one_clock, run, looked, findings);
    for (term, nodes, at) in shared_terms(&material.seen.nodes, &material.reborn) {
        let nodes: Vec<String> = nodes.iter().map(|node| (node + 1).to_string()).collect();
        let what = format!("nodes {} served in term {term}", nodes.join(" and "));
        findings.add(Kind::TwoLeaders, at, what);
    }
    if !material.may_forget {
        for client in &material.clients {
            for at in &client.forgotten {
                let what =
                    format!("{} was told at {:.3} s to mount again", client.name, at.seconds());
                findings.add(Kind::ForgottenClient, *at, what);
            }
        }
    }
    if material.unread > 0 {
        let what = format!("{} keys were not answered in the last look", material.unread);
        findings.add(Kind::NoService, material.over, what);
    }
}

/// A drill that has not seen what it is for must not say that all is well.
fn judge_meaning(
    material: &Material,
    looked: &Looked,
    leaders: &[LeaderReport],
    findings: &mut Findings,
) {
    let mut missing = |what: String| findings.add(Kind::NothingShown, material.over, what);
    if looked.acknowledged == 0 || looked.reads == 0 {
        let (writes, reads) = (looked.acknowledged, looked.reads);
        missing(format!("only {writes} writes and {reads} reads were answered"));
    }
    let mut terms: Vec<u64> = leaders.iter().filter_map(|leader| leader.term).collect();
    terms.sort_unstable();
    terms.dedup();
    let wanted = u64::from(material.scenario.elections) * u64::from(material.rounds);
    let elections = (terms.len() as u64).saturating_sub(1);
    if elections < wanted {
        missing(format!("{elections} changes of the leader were seen instead of {wanted}"));
    }
}

fn client(history: &ClientHistory, material: &Material) -> ClientReport {
    let (gap, at) = history.longest_gap();
    ClientReport {
        name: history.name.clone(),
        is_pinned: history.is_pinned,
        answered: history.answered().count() as u64,
        unanswered: history.failed.len() as u64,
        longest_gap_ms: gap / 1000,
        gap_at_ms: since(material.start, at),
    }
}

fn fault_report(fault: &Fault, material: &Material) -> FaultReport {
    let writes = material.clients.iter().flat_map(|client| &client.writes);
    let good = writes.filter(|write| write.outcome == Outcome::Done && write.begun >= fault.at);
    let first = good.map(|write| write.ended).min();
    FaultReport {
        at_ms: since(material.start, fault.at),
        what: fault.what.clone(),
        is_break: fault.is_break,
        write_after_ms: first.map(|ended| ended.since(fault.at) / 1000),
    }
}

/// Times for which a node was seen to serve in one term.
fn leaders(material: &Material) -> Vec<LeaderReport> {
    let mut found: Vec<LeaderReport> = Vec::new();
    for look in &material.seen.nodes {
        let NodeState::Serving { term } = look.state else { continue };
        let node = look.node + 1;
        let (from_ms, to_ms) =
            (since(material.start, look.begun), since(material.start, look.ended));
        match found.iter_mut().rev().find(|one| one.node == node && one.term == term) {
            Some(known) => known.to_ms = to_ms,
            None => found.push(LeaderReport { node, term, from_ms, to_ms }),
        }
    }
    found
}

fn latencies(clients: &[ClientHistory]) -> Latencies {
    let writes = clients.iter().flat_map(|client| &client.writes);
    let done = writes.filter(|write| write.outcome == Outcome::Done);
    let reads = clients.iter().flat_map(|client| &client.reads);
    Latencies {
        writes: latency(done.map(|write| write.ended.since(write.begun)).collect()),
        reads: latency(reads.map(|read| read.ended.since(read.begun)).collect()),
    }
}

fn latency(mut times: Vec<u64>) -> Latency {
    times.sort_unstable();
    let at = |percent: usize| {
        let index = (times.len() * percent / 100).min(times.len().saturating_sub(1));
        times.get(index).copied().unwrap_or(0)
    };
    Latency { p50_us: at(50), p99_us: at(99), max_us: at(100) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_has_its_middle_its_tail_and_its_end() {
        let wanted = Latency { p50_us: 51, p99_us: 100, max_us: 100 };
        assert_eq!(latency((1..=100).rev().collect()), wanted);
        assert_eq!(latency(Vec::new()), Latency::default());
    }
}
