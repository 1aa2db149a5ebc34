//! The scenarios: what each does, what it shows, and where it may be played.

mod clock;
mod crash;
mod crowd;
mod disk;
mod members;
mod partition;
mod pause;
mod restore;
mod soak;
mod upgrade;

use std::time::Duration;

use super::disk::DiskKind;
use super::stage::Stage;

/// Time for which the load runs undisturbed around a fault.
const CALM: Duration = Duration::from_millis(1_500);

/// Where a scenario may be played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Also on a running cluster: it breaks nothing.
    Anywhere,
    /// On a running cluster only if the operator says yes.
    Asks,
    /// Only on nodes that the drill has started itself.
    OwnNodes,
}

/// Which scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Play {
    Steady,
    LeaderTransfer,
    LeaderKill,
    LeaderStop,
    LeaderPause,
    FollowerKill,
    RollingRestart,
    RollingUpgrade,
    ClockStep,
    ColdRestart,
    Minority,
    MajorityLoss,
    FollowerPartition,
    LeaderPartition,
    OneWayPartition,
    LostNodeReplace,
    DiskFull,
    SlowDisk,
    CorruptLog,
    ThunderingClients,
    ClientMassExpiry,
    Restore,
    CorruptSnapshotFallback,
    Soak,
}

/// A scenario.
#[derive(Debug)]
pub struct Scenario {
    /// On the command line.
    pub name: &'static str,
    /// What it does, in a line.
    pub what: &'static str,
    /// What it shows if it finds nothing.
    pub shows: &'static str,
    /// Where it may be played.
    pub reach: Reach,
    /// Whether the nodes reach each other through relays that can be cut.
    pub has_links: bool,
    /// What the nodes' data lies on.
    pub disk: DiskKind,
    /// Whether the nodes take catalog snapshots.
    pub has_catalog: bool,
    /// Whether the nodes have wall clocks that can be stepped.
    pub has_clocks: bool,
    /// Whether the nodes begin with another program, if one is given.
    pub is_upgrade: bool,
    /// Keys of each writer at most: beyond, names of removed keys are used again. `None` is as many as it likes.
    pub keys_each_max: Option<u32>,
    /// Further flags of the nodes.
    pub flags: &'static [&'static str],
    /// New leaders that each round must bring, or the scenario has shown nothing.
    pub elections: u32,
    play: Play,
}

impl Scenario {
    const fn new(
        name: &'static str,
        play: Play,
        what: &'static str,
        shows: &'static str,
    ) -> Scenario {
        Scenario {
            name,
            what,
            shows,
            reach: Reach::OwnNodes,
            has_links: false,
            disk: DiskKind::Plain,
            has_catalog: false,
            has_clocks: false,
            is_upgrade: false,
            keys_each_max: None,
            flags: &[],
            elections: 0,
            play,
        }
    }

    const fn reach(self, reach: Reach) -> Scenario {
        Scenario { reach, ..self }
    }

    const fn linked(self) -> Scenario {
        Scenario { has_links: true, ..self }
    }

    const fn disk(self, disk: DiskKind) -> Scenario {
        Scenario { disk, ..self }
    }

    const fn catalog(self) -> Scenario {
        // Clients keep their memory and write nothing between snapshot and loss, so everything may be kept.
        Scenario { has_catalog: true, ..self }.flags(&["--restore_survival=complete"])
    }

    const fn clocks(self) -> Scenario {
        Scenario { has_clocks: true, ..self }
    }

    const fn upgrade(self) -> Scenario {
        Scenario { is_upgrade: true, ..self }
    }

    const fn flags(self, flags: &'static [&'static str]) -> Scenario {
        Scenario { flags, ..self }
    }

    const fn keys_each_max(self, keys: u32) -> Scenario {
        Scenario { keys_each_max: Some(keys), ..self }
    }

    const fn elections(self, elections: u32) -> Scenario {
        Scenario { elections, ..self }
    }

    /// Plays it. Errors: a sentence about what did not come back.
    pub async fn play(&self, stage: &mut Stage) -> anyhow::Result<()> {
        match self.play {
            Play::Steady => steady(stage).await,
            Play::LeaderTransfer => members::leader_transfer(stage).await,
            Play::LeaderKill => crash::leader_kill(stage).await,
            Play::LeaderStop => crash::leader_stop(stage).await,
            Play::LeaderPause => pause::leader_pause(stage).await,
            Play::FollowerKill => crash::follower_kill(stage).await,
            Play::RollingRestart => crash::rolling_restart(stage).await,
            Play::RollingUpgrade => upgrade::rolling_upgrade(stage).await,
            Play::ClockStep => clock::clock_step(stage).await,
            Play::ColdRestart => crash::cold_restart(stage).await,
            Play::Minority => crash::minority(stage).await,
            Play::MajorityLoss => crash::majority_loss(stage).await,
            Play::FollowerPartition => partition::follower_partition(stage).await,
            Play::LeaderPartition => partition::leader_partition(stage).await,
            Play::OneWayPartition => partition::one_way(stage).await,
            Play::LostNodeReplace => members::lost_node_replace(stage).await,
            Play::DiskFull => disk::disk_full(stage).await,
            Play::SlowDisk => disk::slow_disk(stage).await,
            Play::CorruptLog => disk::corrupt_log(stage).await,
            Play::ThunderingClients => crowd::thundering_clients(stage).await,
            Play::Restore => restore::restore(stage).await,
            Play::CorruptSnapshotFallback => restore::corrupt_snapshot_fallback(stage).await,
            Play::Soak => soak::soak(stage).await,
            Play::ClientMassExpiry => crowd::client_mass_expiry(stage).await,
        }
    }
}

/// All scenarios, in the order in which `drill run all` plays them.
pub const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        "steady",
        Play::Steady,
        "clients work and nothing is broken",
        "the checks hold when nothing happens; on a running cluster, that it keeps what it acknowledges",
    )
    .reach(Reach::Anywhere),
    Scenario::new(
        "leader-transfer",
        Play::LeaderTransfer,
        "leadership is handed to another node",
        "a planned change of the leader loses nothing",
    )
    .reach(Reach::Asks)
    .elections(1),
    Scenario::new(
        "leader-kill",
        Play::LeaderKill,
        "SIGKILL of the leader; it is started again",
        "another node takes over with everything that was acknowledged",
    )
    .elections(1),
    Scenario::new(
        "leader-stop",
        Play::LeaderStop,
        "SIGTERM of the leader; it is started again",
        "a leader that is stopped hands over first",
    )
    .elections(1),
    Scenario::new(
        "leader-pause",
        Play::LeaderPause,
        "SIGSTOP of the leader; it goes on when another leads",
        "a leader that wakes up late serves no stale read and keeps no write of its own",
    )
    .elections(1),
    Scenario::new(
        "follower-kill",
        Play::FollowerKill,
        "SIGKILL of a follower; it is started again",
        "clients of other nodes notice nothing, and the follower catches up",
    ),
    Scenario::new(
        "rolling-restart",
        Play::RollingRestart,
        "SIGTERM and start of each node, the leader last",
        "an upgrade node by node loses nothing",
    )
    .elections(1),
    Scenario::new(
        "rolling-upgrade",
        Play::RollingUpgrade,
        "from --from PROGRAM to this one, node by node, each when it says that it may be stopped, the leader last",
        "two versions work together, and an upgrade loses nothing",
    )
    .upgrade()
    .elections(1),
    Scenario::new(
        "cold-restart",
        Play::ColdRestart,
        "SIGKILL of all nodes at once; all are started again",
        "what was acknowledged is on the disks of a majority",
    ),
    Scenario::new(
        "minority",
        Play::Minority,
        "SIGKILL of as many nodes as may be lost, the leader among them (of 5 with --nodes 5: two)",
        "the rest, which is a majority, takes over with everything that was acknowledged",
    )
    .elections(1),
    Scenario::new(
        "majority-loss-and-return",
        Play::MajorityLoss,
        "SIGKILL of the leader and a follower; both are started again",
        "one node alone acknowledges nothing, and everything is there when the others return",
    ),
    Scenario::new(
        "follower-partition",
        Play::FollowerPartition,
        "a follower is cut off from the other nodes, not from its clients",
        "the majority goes on under its leader, and who comes back has served nothing stale and deposes nobody",
    )
    .linked(),
    Scenario::new(
        "leader-partition",
        Play::LeaderPartition,
        "the leader is cut off from the other nodes, not from its clients",
        "two halves never serve at once, and writes of the lost half are not acknowledged",
    )
    .linked()
    .elections(1),
    Scenario::new(
        "one-way-partition",
        Play::OneWayPartition,
        "what the leader says does not arrive; what the others say to it does",
        "a leader that hears but is not heard gives way",
    )
    .linked()
    .elections(1),
    Scenario::new(
        "lost-node-replace",
        Play::LostNodeReplace,
        "a follower's disk is lost; a new node takes its place",
        "the procedure of the operations page works under load",
    ),
    Scenario::new(
        "restore-from-catalog",
        Play::Restore,
        "a catalog snapshot is taken, all nodes and their disks are lost, new ones start from the snapshot",
        "the worst day's procedure brings back every object, place and pin that the snapshot holds",
    )
    .catalog(),
    Scenario::new(
        "corrupt-snapshot-fallback",
        Play::CorruptSnapshotFallback,
        "the same with two snapshots, of which the newest is damaged",
        "a damaged snapshot is noticed, and the one before it takes its place",
    )
    .catalog(),
    Scenario::new(
        "disk-full",
        Play::DiskFull,
        "the leader's disk runs full; room is made and the node started again",
        "a node that cannot write gives up instead of promising, and the others go on",
    )
    .disk(DiskKind::Small)
    .elections(1),
    Scenario::new(
        "slow-disk",
        Play::SlowDisk,
        "the disk of the leader, then of a follower, stalls for two seconds",
        "no write is acknowledged before it is on the disks of a majority, and none is lost",
    )
    .disk(DiskKind::Stalling),
    Scenario::new(
        "corrupt-log",
        Play::CorruptLog,
        "a byte of a follower's log changes while it is down; later the leader is killed",
        "a damaged log is noticed, and its node neither votes nor serves with what is left",
    )
    .elections(1),
    Scenario::new(
        "clock-step",
        Play::ClockStep,
        "the leader's wall clock steps an hour ahead, the others' an hour back, and one of these takes over",
        "no pin ends early, late or elsewhere, and no lease is broken, whatever the wall clocks do",
    )
    .clocks()
    .elections(1),
    Scenario::new(
        "thundering-clients",
        Play::ThunderingClients,
        "SIGKILL of the leader under a thousand clients",
        "a take-over holds when everybody comes back at once",
    )
    .elections(1),
    Scenario::new(
        "client-mass-expiry",
        Play::ClientMassExpiry,
        "fifty clients with their memory are gone at once",
        "only what lay in their memory is gone, and nobody else waits",
    )
    .flags(&["--client_ttl=8"]),
    Scenario::new(
        "soak",
        Play::Soak,
        "a fault every eight seconds under a load that stays the same",
        "memory, files, threads, log and disk of a node stay what they are, however much goes through it",
    )
    .keys_each_max(500)
    .flags(SOAK_FLAGS),
];

/// A short log, so that it is cut many times in a soak of minutes.
const SOAK_FLAGS: &[&str] = &["--raft_snapshot_log_bytes=2097152", "--raft_log_keep_bytes=1048576"];

/// The scenario of that name.
pub fn find(name: &str) -> Option<&'static Scenario> {
    SCENARIOS.iter().find(|scenario| scenario.name == name)
}

async fn steady(stage: &mut Stage) -> anyhow::Result<()> {
    for _ in 0..stage.rounds {
        stage.calm(CALM * 2).await;
        stage.leader().await?;
    }
    Ok(())
}

/// "round 2 of 3: ", or nothing if there is one only.
fn round(stage: &Stage, number: u32) -> String {
    match stage.rounds {
        1 => String::new(),
        rounds => format!("round {} of {rounds}: ", number + 1),
    }
}
