//! `mooncake-ha pin`: which soft pins are in force and when they end.

use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::Value as Json;

use super::segment::duration;
use super::table::table;
use super::{Target, exit_codes, key, number, rows, span, word};

const EXAMPLES: &str = concat!(
    "Examples:
  mooncake-ha pin list
  mooncake-ha pin list --due 5m --limit 1000

",
    exit_codes!()
);

/// Look at soft pins
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct PinArgs {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Soft pins in the order in which they end
    List {
        /// Only those that end within this time
        #[arg(long, value_name = "TIME", value_parser = duration)]
        due: Option<Duration>,
        /// At most so many
        #[arg(long, default_value_t = 100)]
        limit: usize,
    },
}

/// Runs the command; answers the exit code.
pub(super) fn command(args: &PinArgs) -> u8 {
    let Action::List { due, limit } = &args.action;
    let due = due.map(|due| format!("&within_ms={}", due.as_millis())).unwrap_or_default();
    let page = args.target.get(&format!("/api/v1/soft_pins?limit={limit}{due}"));
    args.target.finish(page, list)
}

fn list(page: &Json) -> String {
    let now = number(page, "now_ms");
    let pins: Vec<[String; 4]> = rows(page, "pins")
        .iter()
        .map(|row| {
            let deadline = number(row, "deadline_ms");
            let left = span(deadline.saturating_sub(now));
            [left, deadline.to_string(), word(row, "tenant"), key(row)]
        })
        .collect();
    let shown = pins.len();
    let text = table(["ends in", "deadline ms", "tenant", "key"], &pins);
    format!("{text}{shown} of {} active pins\n", number(page, "active"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pins_are_listed_with_the_time_that_is_left() {
        let page = serde_json::json!({"active": 9, "now_ms": 1_000, "pins": [
            {"tenant": "default", "key": "k", "deadline_ms": 62_000}]});
        let text = list(&page);
        assert!(text.contains("1m1s     62000        default  k\n1 of 9 active pins\n"), "{text}");
    }
}
