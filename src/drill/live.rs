//! What a drill tells people while it runs, on stderr: a status line that renews itself on a terminal, plain lines
//! elsewhere.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::AbortHandle;

use super::load::Shared;
use super::moment::Stopwatch;
use super::watch::Watch;

const RENEWAL: Duration = Duration::from_millis(250);
/// Columns of the status line, so that it never wraps.
const COLUMNS_MAX: usize = 118;

/// Where the talk goes. Clones write to the same place.
#[derive(Clone, Debug)]
pub struct Live {
    stopwatch: Stopwatch,
    is_terminal: bool,
    is_quiet: bool,
    /// The status line that stands on the terminal, if one does.
    status: Arc<Mutex<String>>,
}

impl Live {
    /// Talk on stderr; `is_quiet` says nothing at all.
    pub fn new(stopwatch: Stopwatch, is_quiet: bool) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        Live { stopwatch, is_terminal, is_quiet, status: Arc::default() }
    }

    /// Says a line.
    pub fn say(&self, what: &str) {
        if self.is_quiet {
            return;
        }
        let status = self.status.lock();
        let line = format!("{:8.2} s  {what}", self.stopwatch.now().seconds());
        self.write(&match self.is_terminal {
            true => format!("\r\x1b[K{line}\n{status}"),
            false => format!("{line}\n"),
        });
    }

    /// Puts up another status line.
    fn renew(&self, text: String) {
        let mut status = self.status.lock();
        *status = text.chars().take(COLUMNS_MAX).collect();
        self.write(&format!("\r\x1b[K{status}"));
    }

    fn write(&self, text: &str) {
        let mut stderr = std::io::stderr().lock();
        // A terminal that went away is no reason to end a drill.
        let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
    }

    /// Keeps the status line renewed until what it answers is dropped.
    pub fn follow(&self, name: &'static str, shared: Shared, watch: Arc<Watch>) -> Following {
        let live = self.clone();
        let is_needed = self.is_terminal && !self.is_quiet;
        let task = is_needed.then(|| {
            let following = async move {
                loop {
                    live.renew(status_line(name, &live.stopwatch, &shared, &watch));
                    tokio::time::sleep(RENEWAL).await;
                }
            };
            tokio::spawn(following).abort_handle()
        });
        Following { live: self.clone(), task }
    }
}

/// A status line that is being renewed; it is taken down when this is dropped.
#[derive(Debug)]
pub struct Following {
    live: Live,
    task: Option<AbortHandle>,
}

impl Drop for Following {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
            self.live.renew(String::new());
        }
    }
}

fn status_line(name: &str, stopwatch: &Stopwatch, shared: &Shared, watch: &Watch) -> String {
    let now = stopwatch.now();
    let pulse = shared.pulse.now(now);
    let leader = match watch.leader() {
        Some((node, Some(term))) => format!("node {} leads in term {term}", node + 1),
        Some((node, None)) => format!("node {} leads", node + 1),
        None => "nobody leads".to_owned(),
    };
    let waiting = match pulse.waiting {
        0 => String::new(),
        waiting => format!(" ({waiting} waiting)"),
    };
    format!(
        "{name} {:.0} s | {leader} | {} clients{waiting} | {} writes, {} reads, {} unanswered | {} pins",
        now.seconds(),
        pulse.clients,
        pulse.writes,
        pulse.reads,
        pulse.unanswered,
        watch.pins(),
    )
}
