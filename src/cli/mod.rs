//! The command line: which command, what it prints, how it ends.
//!
//! stdout is the result, stderr is the talk. Guards the exit codes (`docs/errors.md`): 0 good, 1 failed
//! or found something, 2 wrong usage, 3 cannot read. `serve` reads its flags itself, because they keep the
//! peer's forms; the other commands are clap's.

mod bench;
mod cluster;
mod drill;
mod help;
mod interface;
mod logging;
mod operate;
mod progress;
mod serve;
mod snapshot;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub use help::{serve_help, settings_markdown};

/// It went well.
pub const EXIT_OK: u8 = 0;
/// It failed while running.
pub const EXIT_FAILURE: u8 = 1;
/// The command line, the environment or the configuration file is wrong.
pub const EXIT_USAGE: u8 = 2;
/// What a tool was to look at cannot be read.
pub const EXIT_UNREADABLE: u8 = 3;

/// A Raft-replicated drop-in for the master of Mooncake Store.
#[derive(Debug, Parser)]
#[command(name = "mooncake-ha", version, disable_help_subcommand = true, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a node until SIGTERM or ctrl-C
    #[command(disable_help_flag = true)]
    Serve,
    /// Measure a master, this one or another
    Bench(bench::Bench),
    /// Look at a cluster, or change it
    Cluster(cluster::Cluster),
    /// Look at catalog snapshots, or have a running node take one
    Snapshot(snapshot::SnapshotArgs),
    /// Break a cluster on purpose and tell what clients saw
    Drill(drill::Drill),
    #[command(flatten)]
    Operate(operate::Operate),
    /// Print the version
    Version,
    /// Print this help, or that of a command
    Help {
        /// The command
        command: Option<String>,
    },
}

const EXAMPLES: &str = "Examples:
  mooncake-ha serve
  mooncake-ha serve --rpc_port=50051 --data_dir=/var/lib/mooncake-ha
  mooncake-ha serve --help
  mooncake-ha cluster status --admin=127.0.0.1:9003
  mooncake-ha object list --prefix model-a/
  mooncake-ha pin list --due 5m
  mooncake-ha snapshot verify /backup/mooncake
  mooncake-ha bench run exist,get,put --address=127.0.0.1:50051
  mooncake-ha drill run leader-kill --rounds 3 --report out.html";

/// Runs the program with the arguments `args`, the first of which is its own name.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    ExitCode::from(run(args.into_iter().collect()))
}

fn run(args: Vec<OsString>) -> u8 {
    let first = args.get(1).and_then(|text| text.to_str());
    match first {
        None => print(&top_help()),
        Some("serve") => serve::command(args.into_iter().skip(2)),
        Some(flag) if is_serve_flag(flag) => {
            usage(&format!("{flag} belongs to a command: mooncake-ha serve {flag} ..."))
        }
        Some(_) => match Cli::try_parse_from(args) {
            Ok(cli) => other(cli.command),
            Err(error) => clap_exit(&error),
        },
    }
}

fn other(command: Command) -> u8 {
    match command {
        Command::Version => print(&format!("{}\n", version_line())),
        Command::Help { command: None } => print(&top_help()),
        Command::Help { command: Some(name) } if name == "serve" => print(&serve_help()),
        Command::Help { command: Some(name) } => match Cli::try_parse_from(["", &name, "--help"]) {
            Ok(_) => print(&top_help()),
            Err(error) => clap_exit(&error),
        },
        Command::Bench(bench) => bench::command(&bench),
        Command::Cluster(cluster) => cluster::command(&cluster),
        Command::Drill(args) => drill::command(args),
        Command::Operate(operate) => operate::command(&operate),
        Command::Snapshot(args) => snapshot::command(args),
        Command::Serve => serve::command(std::iter::empty()),
    }
}

/// One line that names program and version.
pub fn version_line() -> String {
    concat!("mooncake-ha ", env!("CARGO_PKG_VERSION")).to_owned()
}

fn top_help() -> String {
    <Cli as clap::CommandFactory>::command().render_help().to_string()
}

/// Whether the first argument is a flag that only `serve` knows; an easy slip for users of the peer.
fn is_serve_flag(argument: &str) -> bool {
    let name = argument.trim_start_matches('-').split('=').next().unwrap_or_default();
    let is_own = matches!(name, "help" | "h" | "version" | "V" | "");
    argument.starts_with('-') && !is_own
}

fn clap_exit(error: &clap::Error) -> u8 {
    // clap chooses the stream itself: help and version to stdout, refusals to stderr.
    let _ = error.print();
    if error.use_stderr() { EXIT_USAGE } else { EXIT_OK }
}

/// Writes a result to stdout. A reader that went away (`| head`) is no failure.
fn print(text: &str) -> u8 {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => EXIT_FAILURE,
        _ => EXIT_OK,
    }
}

/// Writes a refusal of the command line to stderr.
fn usage(sentence: &str) -> u8 {
    complain(sentence);
    EXIT_USAGE
}

fn complain(sentence: &str) {
    let _ = writeln!(std::io::stderr(), "mooncake-ha: {sentence}");
}
