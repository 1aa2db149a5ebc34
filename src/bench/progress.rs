//! What a long measurement says meanwhile, on stderr.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How often a line is written; a measurement shorter than this is silent.
const LINE_EVERY: Duration = Duration::from_secs(2);

/// Writes a line now and then until dropped.
#[derive(Debug)]
pub struct Progress {
    done: Arc<AtomicU64>,
    task: tokio::task::AbortHandle,
}

impl Progress {
    /// Starts. `total` is how much there is to do, if that is known.
    pub fn start(what: String, total: Option<u64>) -> Self {
        let done = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&done);
        let task = tokio::spawn(async move {
            loop {
                tokio::time::sleep(LINE_EVERY).await;
                let done = seen.load(Ordering::Relaxed);
                match total {
                    Some(total) => say(&format!("{what}: {done} of {total}")),
                    None => say(&format!("{what}: {done}")),
                }
            }
        });
        Progress { done, task: task.abort_handle() }
    }

    /// The counter to add to.
    pub fn counter(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.done)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Writes one line to stderr. Nobody who closed it is disturbed.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
