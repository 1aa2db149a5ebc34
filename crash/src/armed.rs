//! Points that do something: see the head of `lib.rs`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};

use crate::{ARM, Point, SYNCED};

/// Where a test says what is to happen.
struct Wired {
    arm: PathBuf,
    synced: Option<PathBuf>,
    /// How often the armed point was reached.
    hits: AtomicU64,
    /// Numbers of files in the making.
    copies: AtomicU64,
}

fn wired() -> Option<&'static Wired> {
    static WIRED: OnceLock<Option<Wired>> = OnceLock::new();
    let wire = || {
        let arm = PathBuf::from(std::env::var_os(ARM)?);
        let synced = std::env::var_os(SYNCED).map(PathBuf::from);
        Some(Wired { arm, synced, hits: AtomicU64::new(0), copies: AtomicU64::new(0) })
    };
    WIRED.get_or_init(wire).as_ref()
}

impl Wired {
    /// Whether this is the moment to die.
    fn is_due(&self, point: Point) -> bool {
        let Ok(text) = fs::read_to_string(&self.arm) else { return false };
        let mut words = text.split_whitespace();
        if words.next() != Some(point.name()) {
            return false;
        }
        let wanted = words.next().and_then(|hit| hit.parse().ok()).unwrap_or(1);
        self.hits.fetch_add(1, Ordering::Relaxed) + 1 == wanted
    }
}

fn die() -> ! {
    // Nothing of this process runs any more when the kernel has it; until then this thread goes no further.
    let _ = kill_process(getpid(), Signal::KILL);
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

pub(crate) fn reach(point: Point) {
    if wired().is_some_and(|wired| wired.is_due(point)) {
        die();
    }
}

pub(crate) fn tear<R>(point: Point, bytes: &[u8], write: impl FnOnce(&[u8]) -> R) {
    if wired().is_some_and(|wired| wired.is_due(point)) {
        write(bytes.get(..bytes.len() / 2).unwrap_or_default());
        die();
    }
}

pub(crate) fn syncing<E>(path: &Path, sync: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
    let Some((wired, dir)) = wired().and_then(|wired| Some((wired, wired.synced.as_ref()?))) else {
        return sync();
    };
    let name = path.file_name().unwrap_or_default();
    let number = wired.copies.fetch_add(1, Ordering::Relaxed);
    let copy = dir.join(format!("{number}.copying"));
    // Before the sync, for what is written while it goes on may or may not be on the disk.
    let copied = fs::copy(path, &copy);
    sync()?;
    if copied.and_then(|_| fs::rename(&copy, dir.join(name))).is_err() {
        eprintln!("what was synced of {} could not be kept for the test", path.display());
        die();
    }
    Ok(())
}
