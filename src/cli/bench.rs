//! `mooncake-ha bench ...`: options of the load generator, and its results as text or JSON.
//!
//! Guards that a measurement with failed calls is not taken for a good one: it prints them and ends with 1.

mod compare;
mod replay;
mod restore;
mod scale;

use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::json;

use super::{EXIT_FAILURE, EXIT_OK, EXIT_USAGE, complain, print};
use crate::bench::BenchError;
use crate::bench::drive::Mix;
use crate::bench::keys::KeyShape;
use crate::bench::report;
use crate::bench::run::{RunOptions, run};
use crate::bench::server::{Launch, Server};
use crate::bench::stall::{QUIET_DEFAULT, Scenario, StallOptions, StallRow, stall};
use crate::bench::store::StoreShape;
use crate::bench::work::{BATCH_MAX, Operation, PinWish, WorkShape};

/// What to measure of which master.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Bench {
    #[command(subcommand)]
    action: Action,
}

const EXAMPLES: &str = "Examples:
  mooncake-ha bench run exist,get,put,remove --connections 32 --pid $(pidof mooncake-ha)
  mooncake-ha bench run get,put --batch 128 --connections 4 --depth 2
  mooncake-ha bench run get:4+put:1 --rate 20000 --connections 16 --seconds 10
  mooncake-ha bench stall evict,regex --start 'mooncake-ha serve --rpc_port={port} \\
      --metrics_port={http_port} --data_dir={dir} --durability=async'
  mooncake-ha bench restore --start 'mooncake-ha serve --rpc_port={port} \\
      --metrics_port={http_port} --data_dir={dir}/data'
  mooncake-ha bench compare --quick --against 'mooncake_master --rpc_port={port} \\
      --metrics_port={http_port}'
  mooncake-ha bench replay trace.jsonl --speed 100 --pins both --blocks 20000
  mooncake-ha bench scale --svg plots --start 'mooncake-ha serve --rpc_port={port} ...'";

#[derive(Debug, Subcommand)]
enum Action {
    /// Measure operations: throughput, latency, CPU of the server
    Run(Run),
    /// Measure how long a call waits at most while something large happens
    Stall(Stall),
    /// Measure a catalog snapshot and cold restores from it: time, CPU, memory
    Restore(restore::Restore),
    /// Measure this master and another one in turn: ratios, and whether the targets are met
    Compare(compare::Compare),
    /// Replay a recorded request trace: what a store of some size hits, with soft pins and without
    Replay(replay::Replay),
    /// Measure how cost grows with objects and connections, and draw it
    Scale(scale::Scale),
}

/// Which master.
#[derive(Debug, Args)]
struct Target {
    /// host:port of the master's RPCs
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:50051")]
    address: String,
    /// Its admin pages, such as http://127.0.0.1:9003
    #[arg(long, value_name = "URL")]
    admin: Option<String>,
    /// Process of the master, to know its CPU time and memory
    #[arg(long)]
    pid: Option<u32>,
    /// Start a master with this shell command instead; {port}, {http_port} and {dir} are filled in
    #[arg(long, value_name = "COMMAND")]
    start: Option<String>,
    /// Threads of the load generator
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
}

/// What is put.
#[derive(Debug, Args)]
struct Objects {
    /// Bytes of a key
    #[arg(long, default_value_t = 21)]
    key_bytes: usize,
    /// Bytes of an object
    #[arg(long, default_value_t = 4_096)]
    value_bytes: u64,
}

#[derive(Debug, Args)]
struct Run {
    /// Operations, one after the other: ready, exist, get, put, upsert, remove; or mixes such as get:9+put:1
    #[arg(value_delimiter = ',', required = true)]
    operations: Vec<String>,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    objects: Objects,
    /// Keys that are put first, for reads to choose from
    #[arg(long, default_value = "100k", value_parser = amount)]
    keys: u64,
    /// Keys that put and remove use at most
    #[arg(long, default_value = "100k", value_parser = amount)]
    count: u64,
    /// Keys of one call; 1 uses the calls for single keys
    #[arg(long, default_value_t = 1)]
    batch: usize,
    /// Connections
    #[arg(long, default_value_t = 1)]
    connections: usize,
    /// Calls on their way on each connection
    #[arg(long, default_value_t = 1)]
    depth: usize,
    /// Calls a second of all connections, whatever the server does; without it as many as it answers
    #[arg(long)]
    rate: Option<f64>,
    /// Time of each operation
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Copies of each object
    #[arg(long, default_value_t = 1)]
    replicas: u64,
    /// Soft pin of everything that is put, in milliseconds
    #[arg(long, value_name = "MS")]
    soft_pin_ttl_ms: Option<u64>,
    /// Put so many neighbouring keys into one group
    #[arg(long, default_value_t = 0)]
    group_size: u64,
    /// Clients that own the memory
    #[arg(long, default_value_t = 1)]
    clients: usize,
    /// Memory segments
    #[arg(long, default_value_t = 16)]
    segments: usize,
    /// Bytes of each; without it enough for the keys
    #[arg(long)]
    segment_bytes: Option<u64>,
}

#[derive(Debug, Args)]
struct Stall {
    /// evict, owner-dies, idle-dies, regex, unmount, pins, snapshot, raft-snapshot; with --start each on a
    /// fresh master
    #[arg(value_delimiter = ',', required = true)]
    scenarios: Vec<String>,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    objects: Objects,
    /// Objects in the store
    #[arg(long, default_value = "1m", value_parser = amount)]
    count: u64,
    /// The master's client_ttl in seconds
    #[arg(long, default_value_t = 10)]
    client_ttl: u64,
}

/// Runs the command; answers the exit code.
pub(super) fn command(bench: &Bench) -> u8 {
    let done = match &bench.action {
        Action::Run(options) => run_command(options),
        Action::Stall(options) => stall_command(options),
        Action::Restore(options) => restore::command(options),
        Action::Compare(options) => compare::command(options),
        Action::Replay(options) => replay::command(options),
        Action::Scale(options) => scale::command(options),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            complain(&error.to_string());
            if matches!(error, BenchError::Usage(_)) { EXIT_USAGE } else { EXIT_FAILURE }
        }
    }
}

impl Target {
    async fn server(&self) -> Result<Server, BenchError> {
        match &self.start {
            Some(command) => Server::start(Launch { command: command.clone(), core: None }).await,
            None => Ok(Server::running(self.address.clone(), self.admin.clone(), self.pid)),
        }
    }

    fn runtime(&self) -> Result<tokio::runtime::Runtime, BenchError> {
        runtime(self.threads)
    }
}

/// Where the load runs.
fn runtime(threads: usize) -> Result<tokio::runtime::Runtime, BenchError> {
    use tokio::runtime::Builder;
    let mut builder = match threads {
        0 | 1 => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    let runtime = builder.worker_threads(threads.max(1)).enable_all().build();
    runtime.map_err(|error| BenchError::Internal(error.to_string()))
}

/// A number of objects such as `10000`, `10k` or `1m`.
fn amount(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let (digits, factor) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (text.get(..at).unwrap_or_default(), 1_000),
        Some((at, 'm' | 'M')) => (text.get(..at).unwrap_or_default(), 1_000_000),
        _ => (text, 1),
    };
    let number: Option<u64> = digits.parse().ok();
    let number = number.and_then(|number| number.checked_mul(factor));
    number.ok_or_else(|| format!("{text:?} is no number such as 500, 10k or 1m"))
}

/// A time in seconds. Errors: it is no number from 0.
fn seconds(name: &str, value: f64) -> Result<Duration, BenchError> {
    let time = Duration::try_from_secs_f64(value);
    time.map_err(|_| BenchError::Usage(format!("{name} is a number of seconds from 0")))
}

fn mix(text: &str) -> Result<Mix, BenchError> {
    let share = |part: &str| -> Result<(Operation, u64), String> {
        match part.split_once(':') {
            Some((name, share)) => {
                let share = share.parse().map_err(|_| format!("{share:?} is no share"))?;
                Ok((name.parse()?, share))
            }
            None => Ok((part.parse()?, 1)),
        }
    };
    let shares = text.split('+').map(share).collect::<Result<_, _>>();
    Mix::new(shares.map_err(BenchError::Usage)?)
}

fn run_options(options: &Run) -> Result<RunOptions, BenchError> {
    if options.batch == 0 || options.batch > BATCH_MAX {
        return Err(BenchError::Usage(format!("--batch is from 1 to {BATCH_MAX}")));
    }
    if options.rate.is_some_and(|rate| !rate.is_finite() || rate <= 0.0) {
        return Err(BenchError::Usage("--rate is a number over 0".into()));
    }
    let time = seconds("--seconds", options.seconds)?;
    let named = |text: &String| Ok((text.clone(), mix(text)?));
    let mixes = options.operations.iter().map(named).collect::<Result<_, BenchError>>()?;
    let Objects { key_bytes, value_bytes } = options.objects;
    let objects =
        (options.keys + options.count * options.operations.len() as u64) * options.replicas;
    let mut store =
        StoreShape::for_objects(options.clients, options.segments, objects, value_bytes);
    store.segment_bytes = options.segment_bytes.unwrap_or(store.segment_bytes);
    let pin = options
        .soft_pin_ttl_ms
        .map_or(PinWish::None, |ttl| PinWish::For(Duration::from_millis(ttl)));
    let shape = WorkShape {
        keys: KeyShape::new("bench-", key_bytes)?,
        batch: options.batch,
        is_always_batch: false,
        value_bytes,
        replicas: options.replicas,
        pin,
        group_size: options.group_size,
    };
    Ok(RunOptions {
        mixes,
        shape,
        store,
        keys: options.keys,
        count: options.count,
        connections: options.connections,
        depth: options.depth,
        rate: options.rate,
        time,
    })
}

fn run_command(options: &Run) -> Result<u8, BenchError> {
    let wanted = run_options(options)?;
    let rows = options.target.runtime()?.block_on(async {
        let server = options.target.server().await?;
        run(&server, &wanted).await
    })?;
    let code = match options.target.json {
        true => print(&format!("{}\n", json!({ "rows": rows }))),
        false => print(&report::table(&rows)),
    };
    let has_failed = rows.iter().any(|row| row.failed > 0);
    Ok(if code == EXIT_OK && has_failed { EXIT_FAILURE } else { code })
}

fn stall_command(options: &Stall) -> Result<u8, BenchError> {
    let scenarios = options.scenarios.iter().map(|text| text.parse()).collect::<Result<_, _>>();
    let scenarios: Vec<Scenario> = scenarios.map_err(BenchError::Usage)?;
    if options.target.start.is_none() && scenarios.len() > 1 {
        let why = "several scenarios need a fresh master for each: give --start";
        return Err(BenchError::Usage(why.into()));
    }
    let Objects { key_bytes, value_bytes } = options.objects;
    let client_ttl = Duration::from_secs(options.client_ttl);
    let wanted = StallOptions {
        objects: options.count,
        key_bytes,
        value_bytes,
        client_ttl,
        quiet: QUIET_DEFAULT,
        pins_after: None,
    };
    let mut rows: Vec<StallRow> = Vec::new();
    for scenario in scenarios {
        let row = options.target.runtime()?.block_on(async {
            let server = options.target.server().await?;
            stall(&server, scenario, &wanted).await
        })?;
        if !options.target.json {
            print(&stall_text(&row, rows.is_empty()));
        }
        rows.push(row);
    }
    if options.target.json {
        return Ok(print(&format!("{}\n", json!({ "rows": rows }))));
    }
    Ok(EXIT_OK)
}

const STALL_HEAD: &str = "scenario         objects   whole ms    cpu ms   get max ms (before)   \
                          put max ms (before)   probe late ms (before)\n";

fn stall_text(row: &StallRow, with_head: bool) -> String {
    let (now, before) = (row.meanwhile, row.quiet);
    let cpu = row.server_cpu_ms.map_or("-".to_owned(), |cpu| format!("{cpu:.0}"));
    format!(
        "{}{:<14}{:>10}{:>11.1}{cpu:>10}{:>13.2} ({:>6.2}){:>14.2} ({:>6.2}){:>17.2} ({:>6.2})\n",
        if with_head { STALL_HEAD } else { "" },
        row.scenario,
        row.objects,
        row.whole_ms,
        now.get_max_ms,
        before.get_max_ms,
        now.put_max_ms,
        before.put_max_ms,
        now.own_delay_max_ms,
        before.own_delay_max_ms,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_is_read_with_its_shares_and_an_unknown_operation_is_named() {
        let names: Vec<_> = mix("get:9+put").unwrap().operations().collect();
        assert_eq!(names, [Operation::Get, Operation::Put]);
        let error = mix("get+fetch").unwrap_err().to_string();
        assert!(error.contains("fetch") && error.contains("upsert"), "{error}");
        assert!(mix("get:x").is_err());
    }

    #[test]
    fn amounts_are_read_with_their_unit_and_never_wrap() {
        let read = ["10", "10k", "3M"].map(|text| amount(text).unwrap());
        assert_eq!(read, [10, 10_000, 3_000_000]);
        for bad in ["", "k", "1.5m", "99999999999999999999", "18446744073709551615k"] {
            assert!(amount(bad).is_err(), "{bad}");
        }
    }
}
