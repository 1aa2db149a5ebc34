//! One run: a cluster, its clients, what goes wrong, and what is looked at meanwhile.
//!
//! Guards the order: each millisecond the network delivers, the nodes live in an order that the
//! dice choose, then the clients; after that the run looks at the states. First faults, then calm:
//! in the calm everything must come right by itself.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mooncake_ha::plant::{self, Bug};
use rand::Rng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use tokio::runtime::{Builder, Runtime};

use crate::chance;
use crate::checks::states::{self, States};
use crate::client::Client;
use crate::door::Caller;
use crate::hardware::Hardware;
use crate::history::History;
use crate::members::{Replacement, Todo};
use crate::nemesis::{Death, Fault, Nemesis};
use crate::net::{Host, Net, Weather};
use crate::node::{Node, Plan, a_millisecond};
use crate::outcome::Outcome;
use crate::restoring::{self, Progress};
use crate::time::{NodeClock, Time};
use crate::trace::Trace;

/// The host of all clients.
const CLIENTS: Host = 100;
/// Clients of a run.
const CLIENT_COUNT: u32 = 3;
/// Clients that only read.
const READER_COUNT: u32 = 2;
/// How long clients wait for an answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long those wait that only read: shorter than a read lease of a leader lasts, so that they still see
/// one leader after they were with another.
const READER_PATIENCE: Duration = Duration::from_millis(150);
/// Soft pins that end while the run goes on, each by an entry of the leader's own.
const SHORT_PINS_MS: RangeInclusive<u64> = 300..=30_000;
/// Soft pins that do not, up to the greatest length there is: then only clients make entries.
const LONG_PINS_MS: RangeInclusive<u64> = 600_000..=86_400_000;
/// Simulated time without faults at the end, ms; by then everybody must agree.
const CALM_MS: u64 = 12_000;
/// Simulated time at the very end without clients.
const STILL_MS: u64 = 4_000;
/// One look at images in so many ms.
const COMPARE_MS: u64 = 250;
/// One walk through a state in so many ms, on average.
const WALK_MS: u32 = 40;
/// Drift of clocks, in parts per million, at most.
const DRIFT_PPM_MAX: i64 = 100;

/// A bug to plant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// A restarted node votes at once.
    SkipGate,
    /// One of the master's own.
    Master(Bug),
}

/// What a run is.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Decides everything else.
    pub seed: u64,
    /// Nodes; `None`: the seed decides.
    pub nodes: Option<u32>,
    /// Simulated time with faults, ms.
    pub chaos_ms: u64,
    /// A planted bug.
    pub plant: Option<Plant>,
}

/// What ends at some time.
enum Ending {
    Cut(Vec<(Host, Host)>),
    Lull,
    Storm,
    Full(Host),
    Unreadable(Host),
    Slow(Host),
}

/// See the file's head.
pub struct Run {
    options: Options,
    time: Time,
    trace: Trace,
    net: Net,
    weather: Weather,
    nodes: Vec<Node>,
    clients: Option<Runtime>,
    history: History,
    nemesis: Nemesis,
    dice: SmallRng,
    states: States,
    faults: BTreeMap<&'static str, u64>,
    next_fault_ms: u64,
    /// Faults that belong to one that has begun, and when.
    planned: Vec<(u64, Fault)>,
    endings: Vec<(u64, Ending)>,
    /// Nodes that are down, and when each starts again.
    starts: BTreeMap<Host, u64>,
    /// How each armed node is to die, and for how long it stays away.
    deaths: BTreeMap<Host, (Death, u64)>,
    /// Nodes whose disk is, or just was, not what it should be.
    excused: BTreeMap<Host, u64>,
    replacement: Option<Replacement>,
    restore: Option<restoring::Shared>,
    restores: u64,
}

impl Run {
    /// Prepares a run; nothing has happened yet.
    pub fn new(options: Options) -> Self {
        let mut dice = chance::dice(options.seed, 1);
        let (time, trace) = (Time::default(), Trace::default());
        let count = options.nodes.unwrap_or(if dice.random_range(0..4) == 0 { 5 } else { 3 });
        let weather = Weather {
            delay_max_ms: dice.random_range(1..12),
            loss_ppm: if dice.random_range(0..2) == 0 { 0 } else { 2_000 },
        };
        let net_dice = chance::dice(options.seed, 2);
        let net = Net::new(time.clone(), trace.clone(), net_dice, weather);
        let hosts: Vec<Host> = (1..=count).collect();
        let plan = Plan {
            voters: hosts.clone(),
            lease_ms: dice.random_range(100..1_500),
            client_ttl: None,
            snapshot_log_bytes: dice.random_range(4_000..60_000),
            log_keep_bytes: dice.random_range(0..20_000),
            log_cache_bytes: dice.random_range(1_000..50_000),
            event_interval: if dice.random_range(0..2) == 0 { 1 } else { 61 },
        };
        // Rolled whatever is planted: a seed is the same run with a planted bug and without.
        let is_restoring =
            dice.random_range(0..4) == 0 || options.plant == Some(Plant::Master(Bug::KeepIndex));
        let new_node = |host: &Host| {
            let mut dice = chance::dice(options.seed, 500 + u64::from(*host));
            let drift_ppm = dice.random_range(-DRIFT_PPM_MAX..=DRIFT_PPM_MAX);
            let clock = Arc::new(NodeClock::new(time.clone(), drift_ppm));
            Node::new(Arc::new(Hardware::new(options.seed, *host, &net, clock, 0)), plan.clone())
        };
        let nodes = hosts.iter().map(new_node).collect();
        let nemesis = Nemesis {
            dice: chance::dice(options.seed, 3),
            hosts: hosts.clone(),
            pause_max_ms: dice.random_range(200..2_500),
        };
        Run {
            options,
            net,
            weather,
            nodes,
            clients: None,
            history: History::new(time.clone()),
            nemesis,
            states: States::default(),
            faults: BTreeMap::new(),
            next_fault_ms: 1_500,
            planned: Vec::new(),
            endings: Vec::new(),
            starts: hosts.iter().map(|host| (*host, 0)).collect(),
            deaths: BTreeMap::new(),
            excused: BTreeMap::new(),
            replacement: None,
            restore: is_restoring.then(restoring::Shared::default),
            restores: 0,
            time,
            trace,
            dice,
        }
    }

    /// Lives it through.
    pub fn live(mut self) -> Outcome {
        let gate = self.options.plant == Some(Plant::SkipGate);
        for node in &self.nodes {
            node.hardware.skips_gate.store(gate, Ordering::Relaxed);
        }
        plant::plant(match self.options.plant {
            Some(Plant::Master(bug)) => Some(bug),
            _ => None,
        });
        self.net.up(CLIENTS);
        let chaos_ends = self.options.chaos_ms;
        while self.time.ms() < chaos_ends && !self.has_findings() {
            self.restore_if_wanted();
            self.go_wrong();
            self.tick();
        }
        if !self.has_findings() {
            self.calm_down();
        }
        Outcome::of(self.options, self.parts())
    }

    fn parts(&self) -> crate::outcome::Parts<'_> {
        crate::outcome::Parts {
            time: &self.time,
            trace: &self.trace,
            history: &self.history,
            states: &self.states,
            faults: &self.faults,
            nodes: &self.nodes,
        }
    }

    fn has_findings(&self) -> bool {
        !self.history.log.lock().findings.is_empty()
    }

    fn note(&self, is_well: bool, what: String) {
        self.history.log.lock().note(is_well, what);
    }

    /// One millisecond.
    fn tick(&mut self) {
        self.time.tick();
        let now = self.time.ms();
        self.net.deliver();
        self.start_due(now);
        let mut order: Vec<usize> = (0..self.nodes.len()).collect();
        order.shuffle(&mut self.dice);
        for at in order {
            self.step(at, now);
        }
        if let Some(clients) = &self.clients {
            clients.block_on(a_millisecond());
        }
        self.look(now);
    }

    fn start_due(&mut self, now: u64) {
        let out = self.replacement.as_ref().filter(|replacement| replacement.is_out());
        let out = out.map(|replacement| replacement.host);
        for node in &mut self.nodes {
            let host = node.host();
            if Some(host) != out && self.starts.get(&host).is_some_and(|at| *at <= now) {
                self.starts.remove(&host);
                if let Err(error) = node.start() {
                    self.history.log.lock().note(false, format!("node {host}: {error}"));
                }
            }
        }
    }

    fn step(&mut self, at: usize, now: u64) {
        let Some(node) = self.nodes.get_mut(at) else { return };
        let host = node.host();
        if !node.step() {
            let (death, away) = self.deaths.remove(&host).unwrap_or((Death::Killed, 1));
            self.trace.note(now, u64::from(host), 99);
            node.crash(death != Death::Killed, death == Death::Silent);
            self.starts.insert(host, now + away);
            return;
        }
        if let Some(master) = node.master() {
            let clock = master.machine().view().clock().0;
            let mut log = self.history.log.lock();
            log.state_ms = log.state_ms.max(clock);
        }
        if let Some(reason) = node.failure() {
            let is_excused = self.excused.get(&host).is_some_and(|until| *until >= now);
            node.crash(false, false);
            let away = self.dice.random_range(1..1_500);
            self.starts.insert(host, now + away);
            *self.faults.entry("stopped_by_itself").or_default() += 1;
            self.note(is_excused, format!("node {host} stopped by itself at {now} ms: {reason}"));
        }
    }

    fn look(&mut self, now: u64) {
        self.states.look_for_leases(now, &self.nodes, &self.history);
        let is_walked = self.dice.random_range(0..WALK_MS) == 0;
        let chosen = self.dice.random_range(0..self.nodes.len());
        for (at, node) in self.nodes.iter().enumerate() {
            let Some(master) = node.master() else { continue };
            if is_walked && at == chosen {
                self.states.walk(node.host(), &master, &self.history);
            }
            if now.is_multiple_of(COMPARE_MS) {
                self.states.compare(node.host(), &master, &self.history);
            }
        }
    }

    fn leader(&self) -> Option<&Node> {
        let leads = |node: &&Node| node.master().is_some_and(|master| master.leader().is_some());
        let term = |node: &&Node| node.master().and_then(|master| master.leader()).map(|l| l.term);
        self.nodes.iter().filter(leads).max_by_key(term)
    }

    /// Begins a restore while the store is empty; then, or if none is wanted, the clients.
    fn restore_if_wanted(&mut self) {
        if self.clients.is_some() {
            return;
        }
        let progress = self.restore.as_ref().map(|shared| *shared.lock());
        match progress {
            Some(Progress::Running) => {}
            Some(Progress::Idle) if self.restores < 20 => {
                let Some(leader) = self.leader() else { return };
                let (Some(master), Some(shared)) = (leader.master(), self.restore.clone()) else {
                    return;
                };
                *shared.lock() = Progress::Running;
                leader.spawn(restoring::restore(master, self.restores, shared));
                self.restores += 1;
            }
            _ => self.start_clients(),
        }
    }

    fn start_clients(&mut self) {
        let Ok(runtime) = Builder::new_current_thread().enable_time().start_paused(true).build()
        else {
            return;
        };
        let hosts: Vec<Host> = self.nodes.iter().map(Node::host).collect();
        let pause_max_ms = self.dice.random_range(5..60);
        let pin_ms = if self.dice.random_range(0..2) == 0 { SHORT_PINS_MS } else { LONG_PINS_MS };
        for number in 0..CLIENT_COUNT + READER_COUNT {
            let node = hosts.get(number as usize % hosts.len().max(1)).copied().unwrap_or(1);
            let is_reader = number >= CLIENT_COUNT;
            let patience = if is_reader { READER_PATIENCE } else { PATIENCE };
            let client = Client {
                number,
                is_reader,
                nodes: hosts.clone(),
                caller: Caller::new(self.net.clone(), CLIENTS, node, patience),
                history: self.history.clone(),
                dice: chance::dice(self.options.seed, 100 + u64::from(number)),
                pause_max_ms,
                pin_ms: pin_ms.clone(),
                shunned: Default::default(),
            };
            runtime.spawn(client.run());
        }
        self.clients = Some(runtime);
    }

    /// Ends what has lasted long enough, goes on with what takes several steps, begins something new.
    fn go_wrong(&mut self) {
        let now = self.time.ms();
        self.end_faults(now, false);
        self.replace(now);
        if now >= self.next_fault_ms {
            let leader = self.leader().map(Node::host);
            let chosen = self.nemesis.choose(leader);
            // What has several steps is not disturbed by something else in between.
            let last = chosen.iter().map(|(after, _)| *after).max().unwrap_or(0);
            self.planned.extend(chosen.into_iter().map(|(after, fault)| (now + after, fault)));
            self.next_fault_ms = now + last + self.nemesis.pause_ms();
        }
        let planned = std::mem::take(&mut self.planned);
        let (due, rest): (Vec<_>, Vec<_>) = planned.into_iter().partition(|(at, _)| *at <= now);
        self.planned = rest;
        due.into_iter().for_each(|(_, fault)| self.begin(fault, now));
    }

    fn node(&self, host: Host) -> Option<&Node> {
        self.nodes.iter().find(|node| node.host() == host)
    }

    fn begin(&mut self, fault: Fault, now: u64) {
        let kind = fault.kind();
        let is_begun = match fault {
            Fault::Cut { links, ms, .. } => {
                let is_any = !links.is_empty();
                self.endings.push((now + ms, Ending::Cut(links)));
                self.cut();
                is_any
            }
            Fault::Crash { host, kind, polls, ms } => self.arm(host, kind, polls, ms),
            Fault::Lull { ms } => {
                self.history.set_lull(true);
                self.endings.push((now + ms, Ending::Lull));
                true
            }
            Fault::Reset => self.net.reset_one(),
            Fault::BreakAnswers { count } => {
                self.net.break_answers(count);
                true
            }
            Fault::Storm { weather, ms } => {
                self.net.set_weather(weather);
                self.endings.push((now + ms, Ending::Storm));
                true
            }
            Fault::DiskFull { host, ms } => self.break_disk(host, now + ms, Ending::Full(host)),
            Fault::ReadErrors { host, ms } => {
                self.break_disk(host, now + ms, Ending::Unreadable(host))
            }
            Fault::SlowDisk { host, slow_ms, ms } => {
                let node = self.node(host);
                node.inspect(|node| node.hardware.slow_ms.store(slow_ms, Ordering::Relaxed));
                self.endings.push((now + ms, Ending::Slow(host)));
                true
            }
            Fault::ClockStep { host, by_ms } => {
                let node = self.nodes.iter().find(|node| node.host() == host);
                // Once a node: two that nearly cancel out would be followed at once.
                let node = node.filter(|node| node.hardware.clock.wall_off_ms() == 0);
                node.inspect(|node| node.hardware.clock.step_wall(by_ms)).is_some()
            }
            Fault::Transfer => self.transfer(),
            Fault::Snapshot { host } => self.snapshot(host),
            Fault::Replace { host } => self.begin_replacement(host),
        };
        if is_begun {
            self.trace.note(now, 77, kind.len() as u64);
            *self.faults.entry(kind).or_default() += 1;
        }
    }

    /// Cuts what should be cut by now, and mends the rest.
    fn cut(&self) {
        let cut = self.endings.iter().filter_map(|(_, ending)| match ending {
            Ending::Cut(links) => Some(links),
            _ => None,
        });
        self.net.set_cut(cut.flatten().copied().collect());
    }

    fn arm(&mut self, host: Host, kind: Death, polls: u32, ms: u64) -> bool {
        let Some(node) = self.nodes.iter_mut().find(|node| node.host() == host) else {
            return false;
        };
        let is_up = node.is_up();
        if is_up {
            node.arm(polls);
            self.deaths.insert(host, (kind, ms));
        }
        is_up
    }

    fn break_disk(&mut self, host: Host, until: u64, ending: Ending) -> bool {
        let Some(node) = self.nodes.iter().find(|node| node.host() == host) else { return false };
        match ending {
            Ending::Full(_) => node.hardware.set_full(true),
            _ => node.hardware.set_unreadable(true),
        }
        // What was met while it lasted may be told a little later.
        self.excused.insert(host, until + 5_000);
        self.endings.push((until, ending));
        true
    }

    fn transfer(&self) -> bool {
        let Some(leader) = self.leader() else { return false };
        let Some(master) = leader.master() else { return false };
        leader.spawn(async move {
            // Whether it works is shown by who leads.
            let _ = master.raft().transfer_leader(None).await;
        });
        true
    }

    fn snapshot(&self, host: Host) -> bool {
        let Some(node) = self.node(host) else { return false };
        let Some(master) = node.master() else { return false };
        node.spawn(async move {
            let _ = master.raft().trigger_snapshot().await;
        });
        true
    }

    fn begin_replacement(&mut self, host: Host) -> bool {
        let is_leader = self.leader().is_none_or(|leader| leader.host() == host);
        if self.replacement.is_some() || is_leader {
            return false;
        }
        let Some(node) = self.nodes.iter_mut().find(|node| node.host() == host) else {
            return false;
        };
        node.crash(true, true);
        self.deaths.remove(&host);
        self.starts.remove(&host);
        self.replacement = Some(Replacement::new(host));
        true
    }

    fn replace(&mut self, now: u64) {
        let Some(mut replacement) = self.replacement.take() else { return };
        let todo = replacement.go_on(now, self.leader());
        let host = replacement.host;
        if todo == Todo::Restart {
            let options = self.options;
            let net = self.net.clone();
            if let Some(node) = self.nodes.iter_mut().find(|node| node.host() == host) {
                let clock = Arc::clone(&node.hardware.clock);
                node.hardware = Arc::new(Hardware::new(options.seed, host, &net, clock, now));
                let gate = options.plant == Some(Plant::SkipGate);
                node.hardware.skips_gate.store(gate, Ordering::Relaxed);
                node.is_joining = true;
                self.starts.insert(host, now + 1);
            }
        }
        if todo != Todo::Done {
            self.replacement = Some(replacement);
        }
    }

    fn end_faults(&mut self, now: u64, all: bool) {
        let endings = std::mem::take(&mut self.endings);
        let (over, rest): (Vec<_>, Vec<_>) =
            endings.into_iter().partition(|(at, _)| all || *at <= now);
        self.endings = rest;
        for (_, ending) in over {
            match ending {
                Ending::Cut(_) => self.cut(),
                Ending::Lull => self.history.set_lull(false),
                Ending::Storm => self.net.set_weather(self.weather),
                Ending::Full(host) => {
                    self.node(host).inspect(|node| node.hardware.set_full(false));
                }
                Ending::Unreadable(host) => {
                    self.node(host).inspect(|node| node.hardware.set_unreadable(false));
                }
                Ending::Slow(host) => {
                    self.node(host)
                        .inspect(|node| node.hardware.slow_ms.store(0, Ordering::Relaxed));
                }
            }
        }
    }

    /// Nothing goes wrong any more: the cluster must serve again, and all nodes must agree.
    fn calm_down(&mut self) {
        self.end_faults(0, true);
        self.planned.clear();
        self.net.break_answers(0);
        let calm_ends = self.time.ms() + CALM_MS;
        let answered = self.history.log.lock().answered;
        while (self.time.ms() < calm_ends || self.replacement.is_some()) && !self.has_findings() {
            self.restore_if_wanted();
            self.replace(self.time.ms());
            self.tick();
        }
        let is_served = self.history.log.lock().answered > answered;
        self.note(is_served, format!("no call was answered in {CALM_MS} ms without faults"));
        drop(self.clients.take());
        self.history.clients_are_gone();
        let still_ends = self.time.ms() + STILL_MS;
        let agree_ends = still_ends + STILL_MS;
        let is_over = |run: &Self, now| now >= still_ends && run.is_agreed() || now >= agree_ends;
        while !is_over(self, self.time.ms()) && !self.has_findings() {
            self.tick();
        }
        self.agree();
    }

    /// Whether all nodes run and stand at the same entry. The leader's own work goes on, so this comes and goes.
    fn is_agreed(&self) -> bool {
        let positions = self.nodes.iter().map(|node| node.master().map(|m| states::applied(&m)));
        let mut positions: Vec<_> = positions.collect();
        positions.dedup();
        positions.len() == 1 && positions.iter().all(Option::is_some)
    }

    fn agree(&mut self) {
        let mut positions = BTreeMap::new();
        for node in &self.nodes {
            let Some(master) = node.master() else {
                self.note(false, format!("node {} does not run in the end", node.host()));
                continue;
            };
            self.states.walk(node.host(), &master, &self.history);
            self.states.compare(node.host(), &master, &self.history);
            positions.insert(node.host(), states::applied(&master));
        }
        let mut values: Vec<_> = positions.values().collect();
        values.dedup();
        self.note(values.len() <= 1, format!("nodes stand at {positions:?} in the end"));
    }
}
