//! Log output: where it goes and how much.
//!
//! One line an event, on stderr or in a daily file. Guards that a file that cannot be written stops the
//! start, and that the libraries underneath do not drown the node's own lines.

use std::path::Path;

use tracing::Level;
use tracing_appender::non_blocking::WorkerGuard;
use tracing_appender::rolling::{RollingFileAppender, Rotation};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, filter::LevelFilter, fmt};

use crate::config::LogConfig;

/// Name of the log file; the day is appended.
const FILE_NAME: &str = "mooncake-ha.log";
/// Libraries that log at every step of their own.
const QUIET: [&str; 5] = ["openraft", "sled", "hyper", "h2", "tonic"];

/// Where the raft library warns at every try to reach a peer that is down, several times a second; the raft crate
/// says once that it cannot be reached.
const REPEATED: [&str; 4] = [
    "openraft::replication",
    "openraft::engine::handler::replication_handler",
    "openraft::core::heartbeat",
    "openraft::core::raft_core",
];

/// Starts logging. The guard flushes the file when it is dropped.
///
/// Errors: the sentence for the operator, if `log_dir` cannot be used or RUST_LOG cannot be read.
pub(super) fn start(config: &LogConfig) -> Result<Option<WorkerGuard>, String> {
    let filter = filter(config)?;
    let is_file = !config.dir.is_empty();
    let stderr_level =
        if is_file && !config.to_stderr { LevelFilter::WARN } else { LevelFilter::TRACE };
    let stderr = fmt::layer().with_writer(std::io::stderr).with_ansi(false).with_target(false);
    let (file, guard) = match is_file {
        true => {
            let (writer, guard) = tracing_appender::non_blocking(open(&config.dir)?);
            let file = fmt::layer().with_writer(writer).with_ansi(false).with_target(false);
            (Some(file), Some(guard))
        }
        false => (None, None),
    };
    let stderr = stderr.with_filter(stderr_level);
    #[cfg(not(feature = "tokio-console"))]
    let started = tracing_subscriber::registry().with(filter).with(stderr).with(file).try_init();
    // The console wants what the filter of the log drops, so here each layer has a filter of its own.
    #[cfg(feature = "tokio-console")]
    let started = tracing_subscriber::registry()
        .with(console_subscriber::spawn())
        .with(stderr.with_filter(filter))
        .with(file.map(|file| file.with_filter(self::filter(config).unwrap_or_default())))
        .try_init();
    started.map_err(|error| format!("logging cannot be started: {error}"))?;
    Ok(guard)
}

fn open(dir: &str) -> Result<RollingFileAppender, String> {
    let refuse = |cause: String| format!("--log_dir: {dir:?} cannot be used: {cause}");
    std::fs::create_dir_all(Path::new(dir)).map_err(|error| refuse(error.to_string()))?;
    RollingFileAppender::builder()
        .rotation(Rotation::DAILY)
        .filename_prefix(FILE_NAME)
        .build(dir)
        .map_err(|error| refuse(error.to_string()))
}

fn filter(config: &LogConfig) -> Result<EnvFilter, String> {
    match std::env::var("RUST_LOG") {
        Ok(text) if !text.trim().is_empty() => {
            EnvFilter::try_new(text).map_err(|error| format!("RUST_LOG cannot be read: {error}"))
        }
        _ => EnvFilter::try_new(directives(config)).map_err(|error| error.to_string()),
    }
}

/// The filter that `v` and `minloglevel` ask for.
fn directives(config: &LogConfig) -> String {
    let level = match (config.level_min, config.verbosity) {
        (2.., _) => Level::ERROR,
        (1, _) => Level::WARN,
        (0, 0) => Level::INFO,
        (0, _) => Level::DEBUG,
    };
    let quiet = level.min(Level::WARN);
    let mut directives = level.to_string();
    for library in QUIET {
        directives.push_str(&format!(",{library}={quiet}"));
    }
    for module in REPEATED {
        directives.push_str(&format!(",{module}=ERROR"));
    }
    directives
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbosity_and_least_level_become_a_filter() {
        let of = |verbosity, level_min| {
            directives(&LogConfig { verbosity, level_min, ..LogConfig::default() })
        };
        let usual = "INFO,openraft=WARN,sled=WARN,hyper=WARN,h2=WARN,tonic=WARN,openraft::replication=ERROR,";
        assert!(of(0, 0).starts_with(usual), "{}", of(0, 0));
        assert!(of(1, 0).starts_with("DEBUG,openraft=WARN"));
        assert!(of(1, 1).starts_with("WARN,"));
        assert!(
            of(0, 2)
                .starts_with("ERROR,openraft=ERROR,sled=ERROR,hyper=ERROR,h2=ERROR,tonic=ERROR")
        );
        assert!(EnvFilter::try_new(of(3, 0)).is_ok());
    }
}
