//! Finds the Python that has the stock client installed.
//!
//! `MOONCAKE_CLIENT_PYTHON` names it; else it is looked for where `./verify` puts it, in
//! `stock-client/` of the cargo target directory. Without it a test says loudly that it did not
//! run; with `MOONCAKE_REQUIRE_CLIENT=1` (the gate) it fails instead.

use std::env;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// An interpreter that can import the client, and the peer that came with it.
#[derive(Clone, Debug)]
pub struct Venv {
    /// The interpreter.
    pub python: PathBuf,
    /// The peer's own program.
    pub peer_master: PathBuf,
}

/// The client's Python, or `None` after saying that the test is skipped.
///
/// Panics: if there is none although `MOONCAKE_REQUIRE_CLIENT=1`.
pub fn find() -> Option<Venv> {
    static FOUND: OnceLock<Result<Venv, String>> = OnceLock::new();
    match FOUND.get_or_init(search) {
        Ok(venv) => Some(venv.clone()),
        Err(why) => {
            assert_ne!(
                env::var("MOONCAKE_REQUIRE_CLIENT").as_deref(),
                Ok("1"),
                "the stock client is required: {why}"
            );
            skip(why);
            None
        }
    }
}

/// Says past the test harness's capture that the current test shows nothing.
pub fn skip(why: &str) {
    let test = std::thread::current().name().unwrap_or("?").to_owned();
    let _ = writeln!(io::stderr(), "SKIPPED, NOTHING SHOWN: {test}: {why}");
}

fn search() -> Result<Venv, String> {
    let python = env::var_os("MOONCAKE_CLIENT_PYTHON").map_or_else(beside_target, PathBuf::from);
    let find = "import importlib.util as u; \
                print(u.find_spec('mooncake').submodule_search_locations[0])";
    let output = Command::new(&python)
        .args(["-c", find])
        .output()
        .map_err(|e| format!("{}: {e}", python.display()))?;
    let place = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if place.is_empty() {
        return Err(format!("{} has no package mooncake", python.display()));
    }
    Ok(Venv { python, peer_master: Path::new(&place).join("mooncake_master") })
}

fn beside_target() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap_or(Path::new("target"));
    target.join("stock-client/bin/python")
}
