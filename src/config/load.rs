//! Settings in layers: built-in default < configuration file < environment < command line.
//!
//! Guards the order, and that whatever is ignored is said: flags that are not built yet in one warning,
//! flags without meaning in one line a reason, unknown names in a file or in the environment.

use std::collections::BTreeMap;
use std::path::Path;

use super::args::{self, Assignment, Question};
use super::error::ConfigError;
use super::flags::{self, Status};
use super::sections::Config;
use super::{file, validate};

/// Prefix of settings in the environment: `MOONCAKE_HA_RPC_PORT`.
pub const ENV_PREFIX: &str = "MOONCAKE_HA_";

/// What a start is told.
#[derive(Debug, PartialEq, Eq)]
pub enum Loaded {
    /// Settings to start with.
    Settings(Box<Settings>),
    /// Help or version was asked; nothing else was looked at.
    Question(Question),
}

/// Settings, and what is to be said about them.
#[derive(Debug, PartialEq, Eq)]
pub struct Settings {
    /// The settings.
    pub config: Config,
    /// Warnings, one line each.
    pub warnings: Vec<String>,
    /// Where each given setting came from, for one line in the log.
    pub sources: Vec<String>,
}

/// Reads all layers. `args` are those after `serve`; `env` is the whole environment.
///
/// Errors: see [`ConfigError`]; nothing is started or created.
pub fn load(
    args: &[String],
    env: impl IntoIterator<Item = (String, String)>,
) -> Result<Loaded, ConfigError> {
    let parsed = args::parse(args)?;
    if let Some(question) = parsed.question {
        return Ok(Loaded::Question(question));
    }
    let mut unknown = Vec::new();
    let env = from_env(env, &mut unknown);
    let config_path = |layer: &[Assignment]| {
        layer.iter().rev().find(|one| one.spec.name == "config_path").map(|one| one.value.clone())
    };
    let path = config_path(&parsed.assignments).or_else(|| config_path(&env)).unwrap_or_default();
    let file = match path.as_str() {
        "" => Vec::new(),
        path => from_file(Path::new(path), &mut unknown)?,
    };
    let mut loader = Loader::default();
    for (title, layer) in [("file", &file), ("environment", &env), ("flags", &parsed.assignments)] {
        loader.apply(title, layer)?;
    }
    validate::validate(&loader.config)?;
    Ok(Loaded::Settings(Box::new(loader.finish(unknown))))
}

/// The settings among the variables of the environment; unknown ones are added to `unknown`.
fn from_env(
    env: impl IntoIterator<Item = (String, String)>,
    unknown: &mut Vec<String>,
) -> Vec<Assignment> {
    let mut layer = Vec::new();
    for (variable, value) in env {
        let Some(name) = variable.strip_prefix(ENV_PREFIX) else { continue };
        if is_service_link(name, &value) {
            continue;
        }
        match flags::find(&name.to_ascii_lowercase()) {
            Some(spec) => layer.push(Assignment { spec, place: variable, value }),
            None => unknown.push(variable),
        }
    }
    layer
}

/// Whether Kubernetes made the variable for a service called `mooncake-ha`: its `MOONCAKE_HA_PORT` says
/// `tcp://10.0.0.1:50051`, and taking it for a setting would keep every such pod from starting.
fn is_service_link(name: &str, value: &str) -> bool {
    let is_url = value.starts_with("tcp://") || value.starts_with("udp://");
    let is_part = ["_TCP", "_UDP", "SERVICE_"].iter().any(|part| name.contains(part));
    let is_setting = flags::find(&name.to_ascii_lowercase()).is_some();
    (is_url && name.ends_with("PORT")) || (is_part && !is_setting)
}

/// The settings in the file; unknown keys are added to `unknown`.
fn from_file(path: &Path, unknown: &mut Vec<String>) -> Result<Vec<Assignment>, ConfigError> {
    let mut by_name: BTreeMap<&str, String> = BTreeMap::new();
    let mut layer = Vec::new();
    for (key, value) in file::read(path)? {
        let place = format!("{key} in {}", path.display());
        match flags::find_file_key(&key) {
            Some(spec) if spec.name == "config_path" => unknown.push(place),
            Some(spec) => {
                if let Some(other) = by_name.insert(spec.name, key.clone()) {
                    let problem = format!("{other} and {key} are one setting; give it once");
                    return Err(ConfigError::File { path: path.to_owned(), problem });
                }
                layer.push(Assignment { spec, place, value });
            }
            None => unknown.push(place),
        }
    }
    Ok(layer)
}

#[derive(Default)]
struct Loader {
    config: Config,
    warnings: Vec<String>,
    sources: Vec<String>,
    meaningless: BTreeMap<&'static str, Vec<&'static str>>,
}

impl Loader {
    /// Stores one layer, in table order so that `rpc_port` wins over `port`; of one flag the last counts.
    fn apply(&mut self, title: &str, layer: &[Assignment]) -> Result<(), ConfigError> {
        let mut names = Vec::new();
        for spec in flags::all() {
            // By name, not by address: a constant may lie at several addresses in an optimised build.
            let given = layer.iter().filter(|one| one.spec.name == spec.name);
            for (count, one) in given.enumerate() {
                self.store(one)?;
                if count == 0 {
                    names.push(spec.name);
                }
            }
        }
        if !names.is_empty() {
            self.sources.push(format!("{title}: {}", names.join(", ")));
        }
        Ok(())
    }

    fn store(&mut self, one: &Assignment) -> Result<(), ConfigError> {
        let spec = one.spec;
        let place = || one.place.clone();
        if let Status::Refused(instead) = spec.status {
            return Err(ConfigError::NotSupported { place: place(), instead: instead.into() });
        }
        let warning = spec.set(&mut self.config, &one.value).map_err(|limit| {
            let value = if spec.is_secret { "the value".into() } else { shown(&one.value) };
            ConfigError::BadValue { place: place(), value, limit }
        })?;
        self.warnings.extend(warning);
        if let Status::Meaningless(reason) = spec.status {
            let names = self.meaningless.entry(reason).or_default();
            if !names.contains(&spec.name) {
                names.push(spec.name);
            }
        }
        Ok(())
    }

    fn finish(mut self, unknown: Vec<String>) -> Settings {
        for (reason, names) in self.meaningless {
            self.warnings.push(format!("accepted without effect: {} ({reason})", names.join(", ")));
        }
        if !unknown.is_empty() {
            let names = unknown.join(", ");
            self.warnings.push(format!("unknown settings are ignored: {names}"));
        }
        let raft = &self.config.raft;
        let voters = raft.peers.len();
        if voters > 0 && voters.is_multiple_of(2) && !raft.is_joining {
            self.warnings.push(format!(
                "peers names {voters} nodes: if all of them vote, they survive no more losses than {} \
                 would; use 1, 3 or 5",
                voters - 1
            ));
        }
        Settings { config: self.config, warnings: self.warnings, sources: self.sources }
    }
}

/// A value in a message: quoted, and cut where it would flood the line.
fn shown(value: &str) -> String {
    const SHOWN_CHARS_MAX: usize = 80;
    let mut cut: String = value.chars().take(SHOWN_CHARS_MAX).collect();
    if cut.len() < value.len() {
        cut.push_str("...");
    }
    format!("{cut:?}")
}

#[cfg(test)]
mod tests;
