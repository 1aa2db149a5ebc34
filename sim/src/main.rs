//! Deterministic simulation of a cluster: real nodes, simulated clocks, disks and network, clients
//! that do what comes to their mind, and everything that can go wrong. One seed is one run.
//!
//! A run has one thread and a process of its own, so that nothing of an earlier one shows. Exit
//! codes: 0 nothing was found, 1 something was, 2 the arguments make no sense.

#![recursion_limit = "256"]

mod chance;
mod checks;
mod client;
mod disk;
mod door;
mod hardware;
mod history;
mod members;
mod nemesis;
mod net;
mod node;
mod outcome;
mod restoring;
mod run;
mod series;
mod time;
mod trace;

use std::panic::catch_unwind;
use std::process::ExitCode;

use clap::Parser;
use mooncake_ha::plant::Bug;

use outcome::Outcome;
use run::{Options, Plant, Run};

/// Exit code of a finding.
const FOUND: u8 = 1;

/// Simulates clusters, clients and faults.
#[derive(Parser, Debug)]
#[command(name = "mooncake-ha-sim", version)]
struct Args {
    /// Runs one seed after the other for so many seconds; without it, one seed.
    #[arg(long)]
    seconds: Option<u64>,
    /// The first seed.
    #[arg(long)]
    seed: Option<u64>,
    /// Nodes of each cluster: 3 or 5; without it the seed decides.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=5))]
    nodes: Option<u32>,
    /// Simulated seconds with faults in one run.
    #[arg(long, default_value_t = 30)]
    chaos: u64,
    /// Processes at a time.
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// Plants a bug: skip-gate, lease-after-fence, drop-pending-pins, forward-twice, keep-index.
    #[arg(long, value_parser = parse_plant)]
    plant: Option<Plant>,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// The planted bugs by name.
const PLANTS: [(&str, Plant); 5] = [
    ("skip-gate", Plant::SkipGate),
    ("lease-after-fence", Plant::Master(Bug::LeaseAfterFence)),
    ("drop-pending-pins", Plant::Master(Bug::DropPendingPins)),
    ("forward-twice", Plant::Master(Bug::ForwardTwice)),
    ("keep-index", Plant::Master(Bug::KeepIndex)),
];

fn parse_plant(name: &str) -> Result<Plant, String> {
    let found = PLANTS.iter().find(|(known, _)| *known == name);
    found.map(|(_, plant)| *plant).ok_or_else(|| format!("{name} is no planted bug"))
}

fn main() -> ExitCode {
    let args = Args::parse();
    if args.seconds.is_some() {
        return series::run(&args);
    }
    let seed = args.seed.unwrap_or(1);
    chance::seed(seed);
    let panics = series::count_panics();
    let chaos_ms = args.chaos.saturating_mul(1_000);
    let options = Options { seed, nodes: args.nodes, chaos_ms, plant: args.plant };
    // A panic of the run itself is a finding as one of a node is.
    let lived = catch_unwind(|| Run::new(options).live());
    let mut outcome = lived.unwrap_or_else(|_| Outcome::died(seed));
    outcome.findings.extend(panics.lock().drain(..));
    series::print_one(&outcome, args.json);
    if outcome.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FOUND) }
}
