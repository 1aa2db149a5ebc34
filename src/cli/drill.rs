//! `mooncake-ha drill ...`: breaks a cluster on purpose and tells what clients saw.
//!
//! Guards the exit code: 0 only if nothing was found, 1 for findings or a drill that could not be held, 2 for a
//! command line that asks for what must not be. What is done and judged is the room `drill`'s.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Subcommand};

use super::{EXIT_FAILURE, complain, print, usage};
use crate::drill::report::{self, Report};
use crate::drill::scenarios::{self, Reach, SCENARIOS, Scenario};
use crate::drill::{Settings, Target};

/// A machine has room for so many nodes and clients.
const NODES_MAX: u64 = 5;
const CLIENTS_MAX: i64 = 500;
const ROUNDS_MAX: i64 = 10_000;

/// What to drill.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  mooncake-ha drill run leader-kill --rounds 10
  mooncake-ha drill run all --report drill.html --json drill.json
  mooncake-ha drill run steady --target 10.0.0.1:9003,10.0.0.2:9003,10.0.0.3:9003

Exit codes: 0 nothing was lost, 1 findings or a drill that could not be held, 2 wrong usage.")]
pub(super) struct Drill {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the scenarios
    List,
    /// Play a scenario, or all of them
    Run(Run),
}

#[derive(Debug, Args)]
struct Run {
    /// Names of scenarios, or all
    #[arg(required = true)]
    names: Vec<String>,
    /// How often each scenario breaks things
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=ROUNDS_MAX))]
    rounds: u32,
    /// Clients that write; one more reads at each node
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=CLIENTS_MAX))]
    clients: u32,
    /// Nodes of the drill's own: 1, 3 or 5
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=NODES_MAX))]
    nodes: u64,
    /// A running cluster instead: admin ports (--metrics_port) of its nodes, separated by commas
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    target: Vec<String>,
    /// Play also scenarios that disturb a running cluster
    #[arg(long, requires = "target")]
    yes: bool,
    /// Write the report as JSON to a file, or with - to stdout instead of the text
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write one self-contained page with timelines
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Keep logs and data of the nodes if something is found
    #[arg(long)]
    keep: bool,
    /// Say nothing while the drill runs
    #[arg(long)]
    quiet: bool,
    /// The program from which rolling-upgrade begins; without it that is this one
    #[arg(long, value_name = "PROGRAM")]
    from: Option<PathBuf>,
    /// A further flag of each node, such as --flag=--durability=async; may be repeated
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    flag: Vec<String>,
}

/// Runs the command; answers the exit code.
pub(super) fn command(drill: Drill) -> u8 {
    match drill.action {
        Action::List => print(&list()),
        Action::Run(run) => match chosen(&run.names) {
            Ok(chosen) => hold(&chosen, &run),
            Err(sentence) => usage(&sentence),
        },
    }
}

fn list() -> String {
    let width = SCENARIOS.iter().map(|scenario| scenario.name.len()).max().unwrap_or(0);
    let line = |scenario: &Scenario| {
        let reach = match scenario.reach {
            Reach::Anywhere => " [also on a running cluster]",
            Reach::Asks => " [on a running cluster with --yes]",
            Reach::OwnNodes => "",
        };
        format!("{:width$}  {}{reach}\n", scenario.name, scenario.what)
    };
    SCENARIOS.iter().map(line).collect()
}

/// The scenarios of those names; all that can be played here if it is `all`. Errors: a name is unknown.
fn chosen(names: &[String]) -> Result<Vec<&'static Scenario>, String> {
    if names == ["all"] {
        let is_possible = |scenario: &&Scenario| match scenario.disk.possible() {
            Ok(()) => true,
            Err(why) => {
                complain(&format!("{} is left out: {why}", scenario.name));
                false
            }
        };
        return Ok(SCENARIOS.iter().filter(is_possible).collect());
    }
    let find = |name: &String| {
        scenarios::find(name).ok_or_else(|| {
            format!("there is no scenario {name:?}; `mooncake-ha drill list` names them")
        })
    };
    names.iter().map(find).collect()
}

fn hold(chosen: &[&'static Scenario], run: &Run) -> u8 {
    if run.nodes.is_multiple_of(2) {
        return usage("--nodes must be odd: an even number survives no more losses than one less");
    }
    if let Some(from) = &run.from {
        if !chosen.iter().any(|scenario| scenario.is_upgrade) {
            return usage("--from is the program from which rolling-upgrade begins; play that one");
        }
        if !from.is_file() {
            return usage(&format!("--from {}: there is no such program", from.display()));
        }
    }
    let settings = match settings(run) {
        Ok(settings) => settings,
        Err(error) => return fail(&error),
    };
    for scenario in chosen {
        if let Err(error) = crate::drill::allowed(scenario, &settings) {
            return usage(&format!("{error:#}"));
        }
    }
    match played(chosen, &settings).and_then(|report| tell(&report, run)) {
        Ok(code) => code,
        Err(error) => fail(&error),
    }
}

fn fail(error: &anyhow::Error) -> u8 {
    complain(&format!("{error:#}"));
    EXIT_FAILURE
}

fn settings(run: &Run) -> anyhow::Result<Settings> {
    let target =
        (!run.target.is_empty()).then(|| Target { admins: run.target.clone(), is_agreed: run.yes });
    Ok(Settings {
        program: std::env::current_exe().context("find this program's own file")?,
        from: run.from.clone(),
        nodes: usize::try_from(run.nodes)?,
        flags: run.flag.clone(),
        rounds: run.rounds,
        clients: run.clients,
        target,
        keeps: run.keep,
        is_quiet: run.quiet,
    })
}

/// Plays the scenarios; a drill that is interrupted leaves no node behind.
fn played(chosen: &[&'static Scenario], settings: &Settings) -> anyhow::Result<Report> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("drill")
        .build()
        .context("start worker threads")?;
    runtime.block_on(async {
        use tokio::signal::unix::{SignalKind, signal};
        // Both before anything is started, or an early signal would leave nodes behind.
        let mut terminated = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
        let mut interrupted = signal(SignalKind::interrupt()).context("listen for SIGINT")?;
        tokio::select! {
            report = crate::drill::run(chosen, settings) => report,
            _ = interrupted.recv() => anyhow::bail!("interrupted; nothing was judged"),
            _ = terminated.recv() => anyhow::bail!("terminated; nothing was judged"),
        }
    })
}

fn tell(report: &Report, run: &Run) -> anyhow::Result<u8> {
    if let Some(path) = &run.report {
        write(path, &report::page(report))?;
    }
    let printed = match &run.json {
        Some(path) => {
            let json = serde_json::to_string_pretty(report).context("write the report as JSON")?;
            if path == Path::new("-") {
                print(&format!("{json}\n"))
            } else {
                write(path, &format!("{json}\n"))?;
                print(&report::text(report))
            }
        }
        None => print(&report::text(report)),
    };
    Ok(if report.is_good { printed } else { EXIT_FAILURE })
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_means_every_scenario_and_an_unknown_name_is_refused() {
        let plain = SCENARIOS.iter().filter(|one| one.disk.possible().is_ok()).count();
        assert_eq!(chosen(&["all".into()]).unwrap().len(), plain);
        assert!(chosen(&["leader-kill".into(), "nosuch".into()]).unwrap_err().contains("nosuch"));
    }

    #[test]
    fn the_list_says_what_may_be_played_on_a_running_cluster() {
        let list = list();
        assert_eq!(list.lines().count(), SCENARIOS.len());
        let line = |name: &str| list.lines().find(|line| line.starts_with(name)).unwrap();
        assert!(line("steady").contains("running cluster]"));
        assert!(line("leader-transfer").contains("--yes"));
        assert!(!line("leader-kill").contains("running cluster"));
    }
}
