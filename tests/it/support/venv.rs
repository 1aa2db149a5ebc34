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

/// The Python with the client of release 0.3.12, named by `MOONCAKE_OLD_CLIENT_PYTHON`; else it is looked for where
/// `./verify` puts it, in `old-client/` of the cargo target directory. It needs a library of CUDA, so it may be missing
/// where the other one is not: then the test says loudly that it shows nothing, unless
/// `MOONCAKE_REQUIRE_OLD_CLIENT=1`.
pub fn find_old() -> Option<Venv> {
    static FOUND: OnceLock<Result<Venv, String>> = OnceLock::new();
    let search = || {
        let named = env::var_os("MOONCAKE_OLD_CLIENT_PYTHON").map(PathBuf::from);
        let venv = look_at(named.unwrap_or_else(|| beside_target("old-client")))?;
        let loads = Command::new(&venv.python).args(["-c", "import mooncake.store"]).output();
        match loads {
            Ok(output) if output.status.success() => Ok(venv),
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
            Err(error) => Err(error.to_string()),
        }
    };
    match FOUND.get_or_init(search) {
        Ok(venv) => Some(venv.clone()),
        Err(why) => {
            let required = env::var("MOONCAKE_REQUIRE_OLD_CLIENT");
            assert_ne!(required.as_deref(), Ok("1"), "the client of 0.3.12 is required: {why}");
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
    let named = env::var_os("MOONCAKE_CLIENT_PYTHON").map(PathBuf::from);
    look_at(named.unwrap_or_else(|| beside_target("stock-client")))
}

fn look_at(python: PathBuf) -> Result<Venv, String> {
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

fn beside_target(folder: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap_or(Path::new("target"));
    target.join(folder).join("bin/python")
}
