//! `mooncake-ha bench`: that it measures what it says, on small stores, and makes nothing up. What the figures are
//! is no matter of these tests: a development build on a busy machine says nothing about speed.

mod compare;
mod replay;
mod restore;
mod scale;

use std::process::{Command, Output, Stdio};

use serde_json::Value as Json;

/// Runs `mooncake-ha bench ...`.
fn bench(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mooncake-ha"));
    command.arg("bench").args(args).stdin(Stdio::null()).output().unwrap()
}

/// The same with `--json`: exit code and result.
fn json(args: &[&str]) -> (Option<i32>, Json) {
    let output = bench(&[args, &["--json"]].concat());
    let text = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    let result = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}{error}"));
    (output.status.code(), result)
}

/// A command that starts a node of this build.
fn node(flags: &str) -> String {
    let program = env!("CARGO_BIN_EXE_mooncake-ha");
    format!(
        "{program} serve --rpc_port={{port}} --metrics_port={{http_port}} --discovery_port=0 \
         --data_dir={{dir}}/data --durability=async {flags}"
    )
}

/// A row of a result by one of its texts.
fn row<'r>(result: &'r Json, field: &str, value: &str) -> &'r Json {
    let rows = result["rows"].as_array().unwrap();
    rows.iter().find(|row| row[field] == value).unwrap_or_else(|| panic!("no {value}: {result}"))
}
