//! Where catalog snapshots are kept: S3, Redis, a directory that nodes share; and moving them with the tools.

mod faults;
mod follower;
mod moves;
mod prune;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "s3")]
mod s3;
mod servers;
mod settings;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value as Json;

/// A root that a real master wrote.
fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/snapshots").join(name)
}

/// Exit code, stdout and stderr of `snapshot` with these arguments and variables.
fn snapshot(args: &[&str], env: &[(String, String)]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mooncake-ha"));
    let output = command.arg("snapshot").args(args).envs(env.to_vec()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// The same with `--json`, which must succeed.
fn json(args: &[&str], env: &[(String, String)]) -> Json {
    let (code, out, err) = snapshot(&[args, &["--json"]].concat(), env);
    assert_eq!(code, 0, "{args:?}: {out}{err}");
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{args:?}: {error}: {out}"))
}
