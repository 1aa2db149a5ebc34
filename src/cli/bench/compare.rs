//! `mooncake-ha bench compare`: this master and another one as ratios.

use clap::Args;

use super::{EXIT_FAILURE, EXIT_OK, amount, print, runtime, seconds};
use crate::bench::BenchError;
use crate::bench::compare::{CompareOptions, ROUNDS_MAX, compare, table};
use crate::bench::cores::Cores;

/// What starts this master unless a command is given.
const OURS: &str = "serve --rpc_port={port} --metrics_port={http_port} --discovery_port=0 \
                    --data_dir={dir}/data --enable_metric_reporting=false {flags}";

/// Flags are named in `docs/performance.md`.
#[derive(Debug, Args)]
pub(super) struct Compare {
    /// Shell command that starts the other master; {port}, {http_port} and {dir} are filled in, {flags} stands
    /// for flags that a scene needs and is appended if it is not there
    #[arg(long, value_name = "COMMAND")]
    against: String,
    /// The same for this one; without it this program
    #[arg(long, value_name = "COMMAND")]
    ours: Option<String>,
    /// Fewer rounds, less than eight minutes
    #[arg(long)]
    quick: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Rows to measure, by name; all without it
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    rows: Vec<String>,
    /// Rounds of every scene instead of five
    #[arg(long)]
    rounds: Option<usize>,
    /// Objects of the smaller store
    #[arg(long, default_value = "100k", value_parser = amount)]
    keys: u64,
    /// Objects of the larger store
    #[arg(long, default_value = "1m", value_parser = amount)]
    objects: u64,
    /// Time of one measurement of reads
    #[arg(long)]
    seconds: Option<f64>,
    /// Clients of the row put-many-clients
    #[arg(long, default_value_t = 512)]
    clients: usize,
    /// Segments of 64 GiB where large ones are mounted
    #[arg(long, default_value_t = 16)]
    large_segments: usize,
    /// Core of the server; without it the first that this process may use
    #[arg(long)]
    server_core: Option<usize>,
    /// Core of the load; without it the second
    #[arg(long)]
    load_core: Option<usize>,
}

fn options(given: &Compare) -> Result<CompareOptions, BenchError> {
    let ours = match &given.ours {
        Some(command) => command.clone(),
        None => format!("{} {OURS}", this_program()?),
    };
    let mut options = match given.quick {
        true => CompareOptions::quick(ours, given.against.clone()),
        false => CompareOptions::thorough(ours, given.against.clone()),
    };
    if given.keys == 0 || given.objects == 0 {
        return Err(BenchError::Usage("--keys and --objects are numbers from 1".into()));
    }
    if let Some(rounds) = given.rounds {
        if rounds == 0 || rounds > ROUNDS_MAX {
            return Err(BenchError::Usage(format!("--rounds is from 1 to {ROUNDS_MAX}")));
        }
        (options.rounds, options.rounds_large) = (rounds, rounds);
    }
    if let Some(time) = given.seconds {
        options.time = seconds("--seconds", time)?;
    }
    options.rows = given.rows.clone();
    (options.keys, options.objects) = (given.keys, given.objects);
    (options.clients, options.large_segments) = (given.clients, given.large_segments);
    options.cores = Cores::choose(given.server_core, given.load_core)?;
    Ok(options)
}

/// This program's path, quoted for the shell.
fn this_program() -> Result<String, BenchError> {
    let path = std::env::current_exe();
    let path = path.map_err(|error| BenchError::Internal(format!("its own path: {error}")))?;
    Ok(format!("'{}'", path.display().to_string().replace('\'', "'\\''")))
}

/// Runs the command; answers the exit code.
pub(super) fn command(given: &Compare) -> Result<u8, BenchError> {
    let options = options(given)?;
    let report = runtime(1)?.block_on(compare(&options))?;
    let code = match given.json {
        true => {
            let json = serde_json::to_string(&report);
            let json = json.map_err(|error| BenchError::Internal(error.to_string()))?;
            print(&format!("{json}\n"))
        }
        false => print(&table(&report)),
    };
    Ok(if code == EXIT_OK && report.is_incomplete() { EXIT_FAILURE } else { code })
}
