//! What goes wrong, and when: one seed, one sequence of faults.

use rand::Rng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;

use crate::net::{Host, Weather};

/// Of a hundred faults so many are made of several steps.
const USURPS_PERCENT: u32 = 10;
/// By then what clients had under way is on all nodes, if all is well.
const SETTLE_MS: u64 = 300;

/// Something that happens to the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Links are cut, each in one direction, for so many ms.
    Cut { kind: &'static str, links: Vec<(Host, Host)>, ms: u64 },
    /// A node dies after so many polls and starts again after so many ms.
    Crash { host: Host, kind: Death, polls: u32, ms: u64 },
    /// Clients only read for so many ms.
    Lull { ms: u64 },
    /// A connection is reset.
    Reset,
    /// The next so many answers to forwarded calls are broken off by a reset.
    BreakAnswers { count: u32 },
    /// The network gets worse for so many ms.
    Storm { weather: Weather, ms: u64 },
    /// A disk is full for so many ms.
    DiskFull { host: Host, ms: u64 },
    /// A disk answers reads with errors for so many ms.
    ReadErrors { host: Host, ms: u64 },
    /// Each write takes `slow_ms` longer for so many ms.
    SlowDisk { host: Host, slow_ms: u64, ms: u64 },
    /// Somebody sets the wall clock.
    ClockStep { host: Host, by_ms: i64 },
    /// The leader hands over.
    Transfer,
    /// A raft snapshot is made now.
    Snapshot { host: Host },
    /// A follower loses its disk, is removed and added anew.
    Replace { host: Host },
}

/// How a node ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// The process is killed; its machine closes what was open.
    Killed,
    /// The power is cut; peers hear of it.
    PowerCut,
    /// The power is cut and nobody answers for it.
    Silent,
}

impl Fault {
    /// Its kind, for the counts.
    pub fn kind(&self) -> &'static str {
        match self {
            Fault::Cut { kind, .. } => kind,
            Fault::Crash { kind: Death::Killed, .. } => "kill",
            Fault::Crash { kind: Death::PowerCut, .. } => "power_cut",
            Fault::Crash { kind: Death::Silent, .. } => "power_cut_silent",
            Fault::Lull { .. } => "lull",
            Fault::Reset => "reset",
            Fault::BreakAnswers { .. } => "answers_broken_off",
            Fault::Storm { .. } => "storm",
            Fault::DiskFull { .. } => "disk_full",
            Fault::ReadErrors { .. } => "read_errors",
            Fault::SlowDisk { .. } => "slow_disk",
            Fault::ClockStep { .. } => "clock_step",
            Fault::Transfer => "leader_transfer",
            Fault::Snapshot { .. } => "raft_snapshot",
            Fault::Replace { .. } => "node_replaced",
        }
    }
}

/// Chooses faults.
pub struct Nemesis {
    /// Its dice.
    pub dice: SmallRng,
    /// The nodes.
    pub hosts: Vec<Host>,
    /// Longest pause between two faults, ms.
    pub pause_max_ms: u64,
}

impl Nemesis {
    /// How long until the next one.
    pub fn pause_ms(&mut self) -> u64 {
        self.dice.random_range(20..=self.pause_max_ms)
    }

    fn host(&mut self) -> Host {
        let chosen = self.dice.random_range(0..self.hosts.len());
        self.hosts.get(chosen).copied().unwrap_or(1)
    }

    /// What goes wrong next, each after so many ms. `leader` is who seems to lead.
    pub fn choose(&mut self, leader: Option<Host>) -> Vec<(u64, Fault)> {
        if self.dice.random_range(0..100) < USURPS_PERCENT {
            return self.usurp(leader);
        }
        vec![(0, self.choose_one(leader))]
    }

    fn choose_one(&mut self, leader: Option<Host>) -> Fault {
        let host = self.host();
        let ms = self.dice.random_range(50..4_000);
        match self.dice.random_range(0..100) {
            0..14 => self.cut(leader, ms),
            14..22 => self.gate(leader),
            22..36 => self.crash(leader),
            36..40 => Fault::Reset,
            40..52 => Fault::BreakAnswers { count: self.dice.random_range(4..20) },
            52..58 => {
                let delay_max_ms = self.dice.random_range(5..120);
                let loss_ppm = self.dice.random_range(0..60_000);
                Fault::Storm { weather: Weather { delay_max_ms, loss_ppm }, ms }
            }
            58..61 => Fault::DiskFull { host, ms },
            61..64 => Fault::ReadErrors { host, ms },
            64..71 => Fault::SlowDisk { host, slow_ms: self.dice.random_range(5..1_500), ms },
            71..78 => Fault::ClockStep { host, by_ms: self.step() },
            78..86 => Fault::Transfer,
            86..97 => Fault::Snapshot { host },
            _ => Fault::Replace { host },
        }
    }

    /// Within what a clock is allowed to be followed at once it is a drift of little; a step beyond a second is
    /// closed slowly. What lies between would shorten read leases and is nobody's promise.
    fn step(&mut self) -> i64 {
        let sign = if self.dice.random_range(0..2) == 0 { 1 } else { -1 };
        match self.dice.random_range(0..3) {
            0 => sign * self.dice.random_range(0..2),
            1 => sign * self.dice.random_range(2_000..60_000),
            _ => sign * self.dice.random_range(60_000..31_536_000_000),
        }
    }

    fn crash(&mut self, leader: Option<Host>) -> Fault {
        let kinds = [Death::Killed, Death::Killed, Death::PowerCut, Death::Silent];
        let kind = kinds.get(self.dice.random_range(0..4)).copied().unwrap_or(Death::Killed);
        let host = match leader {
            Some(leader) if self.dice.random_range(0..2) == 0 => leader,
            _ => self.host(),
        };
        let is_quick = self.dice.random_range(0..2) == 0;
        let ms = if is_quick {
            self.dice.random_range(1..60)
        } else {
            self.dice.random_range(60..4_000)
        };
        Fault::Crash { host, kind, polls: self.dice.random_range(0..200), ms }
    }

    /// The leader loses one follower, so that this one campaigns as soon as another lets it.
    fn gate(&mut self, leader: Option<Host>) -> Fault {
        let leader = leader.unwrap_or(1);
        let others: Vec<Host> = self.hosts.iter().copied().filter(|host| *host != leader).collect();
        let chosen = self.dice.random_range(0..others.len().max(1));
        let other = others.get(chosen).copied().unwrap_or(leader);
        let links = vec![(leader, other), (other, leader)];
        Fault::Cut { kind: "cut_one_link", links, ms: self.dice.random_range(1_000..6_000) }
    }

    /// As many nodes as the leader can do without lose it, so that they campaign in vain; nobody writes, so that
    /// they lack no entry. Then one of those that confirmed the leader restarts at once, while that is cut off from
    /// all of them and still has its lease: whoever votes now elects a second leader beside the first.
    fn usurp(&mut self, leader: Option<Host>) -> Vec<(u64, Fault)> {
        let leader = leader.unwrap_or(1);
        let mut others: Vec<Host> =
            self.hosts.iter().copied().filter(|host| *host != leader).collect();
        others.shuffle(&mut self.dice);
        let between = |nodes: &[Host]| -> Vec<(Host, Host)> {
            nodes.iter().flat_map(|node| [(leader, *node), (*node, leader)]).collect()
        };
        let campaigning = others.get(..others.len() / 2).unwrap_or_default();
        let after = SETTLE_MS + self.dice.random_range(1_600..3_000);
        let lasts = self.dice.random_range(700..1_500);
        let (first, all) = (between(campaigning), between(&others));
        let first =
            Fault::Cut { kind: "cut_some_links", links: first, ms: after + lasts - SETTLE_MS };
        let mut planned = vec![
            (0, Fault::Lull { ms: after }),
            (SETTLE_MS, first),
            (after, Fault::Cut { kind: "cut_off_leader_at_a_restart", links: all, ms: lasts }),
        ];
        if let Some(host) = others.last().copied() {
            let (polls, ms) = (self.dice.random_range(0..50), self.dice.random_range(1..20));
            planned.push((after, Fault::Crash { host, kind: Death::Killed, polls, ms }));
        }
        planned
    }

    fn cut(&mut self, leader: Option<Host>, ms: u64) -> Fault {
        let mut hosts = self.hosts.clone();
        hosts.shuffle(&mut self.dice);
        let all = |hosts: &[Host]| -> Vec<(Host, Host)> {
            hosts
                .iter()
                .flat_map(|a| hosts.iter().map(|b| (*a, *b)))
                .filter(|(a, b)| a != b)
                .collect()
        };
        let links = all(&hosts);
        let (kind, links): (_, Vec<_>) = match self.dice.random_range(0..6) {
            0 => {
                let one = leader.unwrap_or(1);
                (
                    "cut_off_leader",
                    links.into_iter().filter(|(a, b)| *a == one || *b == one).collect(),
                )
            }
            1 => {
                let half = hosts.len() / 2;
                let (left, right) = hosts.split_at(half);
                let crosses = |a: &Host, b: &Host| left.contains(a) && right.contains(b);
                let parted = links.into_iter().filter(|(a, b)| crosses(a, b) || crosses(b, a));
                ("cut_in_two", parted.collect())
            }
            2 => {
                let one = leader.unwrap_or(1);
                ("cut_leader_deaf", links.into_iter().filter(|(_, b)| *b == one).collect())
            }
            3 => {
                let one = leader.unwrap_or(1);
                ("cut_leader_mute", links.into_iter().filter(|(a, _)| *a == one).collect())
            }
            4 => ("cut_everything", links),
            _ => {
                let dice = &mut self.dice;
                (
                    "cut_at_random",
                    links.into_iter().filter(|_| dice.random_range(0..3) == 0).collect(),
                )
            }
        };
        Fault::Cut { kind, links, ms }
    }
}
