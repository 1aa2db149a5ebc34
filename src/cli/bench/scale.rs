//! `mooncake-ha bench scale`: how cost grows, as figures and as drawings.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;

use super::{amount, print, runtime, seconds};
use crate::bench::BenchError;
use crate::bench::cores::Cores;
use crate::bench::scale::plot::drawings;
use crate::bench::scale::{ScaleOptions, ScaleReport, scale, table};

/// Bytes of a file of figures at most.
const FIGURES_BYTES_MAX: u64 = 16 << 20;

/// Flags are named in `docs/performance.md`.
#[derive(Debug, Args)]
pub(super) struct Scale {
    /// Shell command that starts the master; {port}, {http_port} and {dir} are filled in
    #[arg(long, value_name = "COMMAND", required_unless_present = "from")]
    start: Option<String>,
    /// Draw figures that were written with --json instead of measuring
    #[arg(long, value_name = "FILE", conflicts_with = "start")]
    from: Option<PathBuf>,
    /// Numbers of objects in the store
    #[arg(long, value_delimiter = ',', default_value = "10k,100k,1m", value_parser = amount)]
    objects: Vec<u64>,
    /// Numbers of connections
    #[arg(long, value_delimiter = ',', default_value = "1,10,100,1000")]
    connections: Vec<usize>,
    /// Objects in the store while connections vary
    #[arg(long, default_value = "100k", value_parser = amount)]
    keys: u64,
    /// Keys of one measurement of puts or removals
    #[arg(long, default_value = "50k", value_parser = amount)]
    writes: u64,
    /// Time of one measurement of reads
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Write drawings into this directory
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command; answers the exit code.
pub(super) fn command(given: &Scale) -> Result<u8, BenchError> {
    let report = match (&given.from, &given.start) {
        (Some(path), _) => read(path)?,
        (None, Some(command)) => measure(given, command)?,
        (None, None) => return Err(BenchError::Usage("give --start or --from".into())),
    };
    if let Some(directory) = &given.svg {
        write(directory, &report)?;
    }
    match given.json {
        true => {
            let json = serde_json::to_string(&report);
            let json = json.map_err(|error| BenchError::Internal(error.to_string()))?;
            Ok(print(&format!("{json}\n")))
        }
        false => Ok(print(&table(&report))),
    }
}

fn measure(given: &Scale, command: &str) -> Result<ScaleReport, BenchError> {
    let options = ScaleOptions {
        command: command.to_owned(),
        objects: given.objects.clone(),
        connections: given.connections.clone(),
        keys: given.keys,
        time: seconds("--seconds", given.seconds)?,
        writes: given.writes,
        cores: Cores::choose(None, None)?,
    };
    runtime(1)?.block_on(scale(&options))
}

fn read(path: &Path) -> Result<ScaleReport, BenchError> {
    let wrong = |why: &dyn std::fmt::Display| {
        BenchError::Usage(format!("--from {}: {why}", path.display()))
    };
    let length = fs::metadata(path).map_err(|error| wrong(&error))?.len();
    if length > FIGURES_BYTES_MAX {
        return Err(wrong(&format!("{length} bytes are too many")));
    }
    let text = fs::read_to_string(path).map_err(|error| wrong(&error))?;
    serde_json::from_str(&text).map_err(|error| wrong(&error))
}

fn write(directory: &Path, report: &ScaleReport) -> Result<(), BenchError> {
    let wrong = |error| BenchError::Usage(format!("--svg {}: {error}", directory.display()));
    fs::create_dir_all(directory).map_err(wrong)?;
    for drawing in drawings(report) {
        fs::write(directory.join(&drawing.file), drawing.svg).map_err(wrong)?;
    }
    Ok(())
}
