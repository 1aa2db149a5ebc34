//! `mooncake-ha client`: which clients the store knows.

use clap::{Args, Subcommand};
use serde_json::Value as Json;

use super::table::table;
use super::{Target, bytes, exit_codes, field, number, paged, rows, span, word};

const EXAMPLES: &str = concat!(
    "Examples:
  mooncake-ha client list
  mooncake-ha client list --admin node2:9003 --json

",
    exit_codes!()
);

/// Look at the clients
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct ClientArgs {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Clients with the memory that each gives, and for how long each has been silent
    List {
        /// At most so many
        #[arg(long, default_value_t = 10_000)]
        limit: usize,
    },
}

/// Runs the command; answers the exit code.
pub(super) fn command(args: &ClientArgs) -> u8 {
    let Action::List { limit } = &args.action;
    args.target.finish(paged(&args.target, "/api/v1/clients?", "clients", *limit), list)
}

fn list(page: &Json) -> String {
    let clients: Vec<[String; 7]> = rows(page, "clients")
        .iter()
        .map(|row| {
            let silent = field(row, "silent_ms").as_u64().map(span);
            [
                word(row, "client_id"),
                word(row, "is_alive"),
                silent.unwrap_or_else(|| "-".to_owned()),
                number(row, "segments").to_string(),
                bytes(number(row, "used_bytes")),
                bytes(number(row, "memory_bytes")),
                word(row, "host_id"),
            ]
        })
        .collect();
    table(["client", "alive", "silent", "segments", "used", "memory", "host"], &clients)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_was_not_heard_is_told_so() {
        let page = serde_json::json!({"clients": [{"client_id": "1-2", "is_alive": false,
            "silent_ms": null, "segments": 2, "used_bytes": 0, "memory_bytes": 4096,
            "host_id": ""}]});
        let text = list(&page);
        assert!(text.ends_with("1-2     no     -       2         0 B   4.0 KiB\n"), "{text}");
    }
}
