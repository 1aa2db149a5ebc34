//! `mooncake-ha serve`: settings, log, runtime, node.
//!
//! Guards that nothing is started before every setting has been read and checked, and that whatever ends
//! a node ends as one sentence on stderr. What a node does is left to the root's `serve`.

use std::ffi::OsString;

use crate::backup;
use crate::config::{self, Config, ConfigError, Loaded, Question, Settings};

use super::{EXIT_FAILURE, EXIT_OK, EXIT_UNREADABLE, help, interface, logging};
use crate::restore::FirstRestoreError;

/// Runs the command with the arguments after `serve`; answers the exit code.
pub(super) fn command(args: impl Iterator<Item = OsString>) -> u8 {
    match load(args) {
        Ok(Loaded::Question(Question::Help)) => super::print(&help::serve_help()),
        Ok(Loaded::Question(Question::Version)) => {
            super::print(&format!("{}\n", super::version_line()))
        }
        Ok(Loaded::Settings(settings)) => start(*settings),
        Err(error) => super::usage(&error.to_string()),
    }
}

fn load(args: impl Iterator<Item = OsString>) -> Result<Loaded, ConfigError> {
    let args = args.enumerate().map(|(at, argument)| {
        let name = format!("argument {} of serve", at + 1);
        argument.into_string().map_err(|_| ConfigError::NotText { name })
    });
    let args: Vec<String> = args.collect::<Result<_, _>>()?;
    let mut env = Vec::new();
    for (variable, value) in std::env::vars_os() {
        let Ok(variable) = variable.into_string() else { continue };
        if variable.starts_with(config::ENV_PREFIX) {
            let text = value.into_string();
            let name = variable.clone();
            env.push((variable, text.map_err(|_| ConfigError::NotText { name })?));
        }
    }
    config::load(&args, env)
}

fn start(settings: Settings) -> u8 {
    let Settings { mut config, warnings, sources } = settings;
    if let Err(sentence) = interface::resolve(&mut config.rpc) {
        return super::usage(&sentence);
    }
    if let Err(error) = backup::check(&config) {
        return super::usage(&error.to_string());
    }
    if let Some(path) = config.tenants.policy_file()
        && let Err(error) = config::read_policies(&path)
    {
        return super::usage(&error.to_string());
    }
    // Held to the end: dropping it flushes the log file.
    let _log = match logging::start(&config.log) {
        Ok(guard) => guard,
        Err(sentence) => return super::usage(&sentence),
    };
    tracing::info!("{} starting", super::version_line());
    for source in sources {
        tracing::info!("settings from {source}");
    }
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    match run(config) {
        Ok(()) => EXIT_OK,
        Err(error) => {
            // The last word must be heard even if RUST_LOG silences the log.
            match tracing::enabled!(tracing::Level::ERROR) {
                true => tracing::error!("{error:#}"),
                false => super::complain(&format!("{error:#}")),
            }
            // A supervisor must be able to tell "restart it" from "an operator has to look".
            match error.is::<FirstRestoreError>() {
                true => EXIT_UNREADABLE,
                false => EXIT_FAILURE,
            }
        }
    }
}

fn run(config: Config) -> anyhow::Result<()> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = crate::serve::memory::tended(&mut builder)
        .worker_threads(config.rpc.threads(cores))
        .thread_name("mooncake-ha")
        .enable_all()
        .build()
        .map_err(|error| anyhow::anyhow!("worker threads cannot be started: {error}"))?;
    runtime.block_on(crate::serve::run(config))
}
