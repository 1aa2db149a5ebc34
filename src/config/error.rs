//! Why settings are refused: one sentence each, for the operator.
//!
//! Guards that every refusal names the setting, the value and the limit, and that no secret is printed.
//! All of them end the program with exit code 2 (`docs/errors.md`).

use std::path::PathBuf;

use thiserror::Error;

/// Why settings are refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// A flag that no table row names.
    #[error("unknown flag {given}{}; `mooncake-ha serve --help` lists all", hint(*.nearest))]
    UnknownFlag {
        /// As it was written.
        given: String,
        /// A flag that looks like it.
        nearest: Option<&'static str>,
    },
    /// A flag without the value that it needs.
    #[error("{given} needs a value: {given}=VALUE")]
    NoValue {
        /// As it was written.
        given: String,
    },
    /// An argument that is neither a flag nor a flag's value.
    #[error("unexpected argument {argument:?}{}", after(.flag))]
    UnexpectedArgument {
        /// As it was written.
        argument: String,
        /// The switch before it, if there is one.
        flag: Option<String>,
    },
    /// An argument or variable that is not text.
    #[error("{name} is not valid UTF-8")]
    NotText {
        /// Which one.
        name: String,
    },
    /// A value outside its limit.
    #[error("{place}: {value} is refused; it must be {limit}")]
    BadValue {
        /// The flag, variable or file key, as it was written.
        place: String,
        /// The value, quoted; never a secret.
        value: String,
        /// What it must be.
        limit: String,
    },
    /// A setting that this build refuses whatever its value.
    #[error("{place} is not supported: {instead}")]
    NotSupported {
        /// The flag, variable or file key, as it was written.
        place: String,
        /// What to do instead.
        instead: String,
    },
    /// Two settings that contradict each other.
    #[error("{0}")]
    Conflict(String),
    /// A configuration file that cannot be used.
    #[error("configuration file {}: {problem}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
}

fn hint(nearest: Option<&'static str>) -> String {
    nearest.map(|name| format!(" (is --{name} meant?)")).unwrap_or_default()
}

fn after(flag: &Option<String>) -> String {
    match flag {
        Some(flag) => format!(" after {flag}; a switch takes its value as {flag}=VALUE"),
        None => "; settings are given as --flag=value".to_owned(),
    }
}
