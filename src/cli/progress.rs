//! A line on stderr that shows how far long work is; nothing where stderr is no terminal.

use std::io::{IsTerminal, Write};

/// Columns of the bar.
const BAR_COLUMNS: u64 = 24;

/// The line; it is wiped when this goes.
pub(super) struct Progress {
    what: &'static str,
    total: u64,
    done: u64,
    is_shown: bool,
}

impl Progress {
    /// Work of `total` steps.
    pub fn new(what: &'static str, total: u64) -> Self {
        let progress = Progress { what, total, done: 0, is_shown: std::io::stderr().is_terminal() };
        progress.draw("");
        progress
    }

    /// One step is done; `next` names what comes.
    pub fn step(&mut self, next: &str) {
        self.done = self.done.saturating_add(1);
        self.draw(next);
    }

    fn draw(&self, next: &str) {
        if self.is_shown {
            let mut stderr = std::io::stderr().lock();
            // A terminal that went away is no reason to stop the work.
            let _ = write!(stderr, "\r\x1b[K{}", line(self.what, self.done, self.total, next));
            let _ = stderr.flush();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_shown {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

fn line(what: &str, done: u64, total: u64, next: &str) -> String {
    let filled = done.min(total).saturating_mul(BAR_COLUMNS).checked_div(total);
    let filled = filled.unwrap_or_default() as usize;
    let rest = (BAR_COLUMNS as usize).saturating_sub(filled);
    format!("{what} [{}{}] {done}/{total} {next}", "#".repeat(filled), ".".repeat(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_fills_with_the_work() {
        assert_eq!(line("w", 0, 2, "a"), format!("w [{}] 0/2 a", ".".repeat(24)));
        assert_eq!(line("w", 2, 2, ""), format!("w [{}] 2/2 ", "#".repeat(24)));
        assert!(line("w", 0, 0, "").contains("0/0"));
    }
}
