//! `snapshot take`: has the cluster take a snapshot and waits until it is published.

use std::time::Duration;

use clap::Args;
use serde_json::Value as Json;

use super::Answer;
use super::ask::{self, Admin, Asked};
use crate::clock::{Clock, SystemClock};

const TAKE_EXAMPLE: &str = "Example:
  mooncake-ha snapshot take --admin http://127.0.0.1:9003
  mooncake-ha snapshot take --admin 127.0.0.1:9003 --timeout 1h --json

Exit codes: 0 taken, 1 refused or failed, 2 wrong usage, 3 no answer.";

/// Arguments of `snapshot take`.
#[derive(Debug, Args)]
#[command(after_help = TAKE_EXAMPLE)]
pub(super) struct TakeArgs {
    /// Admin port of a node; one that does not lead sends on to the leader. Its token is taken from
    /// MOONCAKE_HA_ADMIN_TOKEN
    #[arg(long, value_name = "URL")]
    admin: String,
    /// How long to wait; the snapshot goes on after that
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = super::duration)]
    timeout: Duration,
    /// Answer JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(TakeArgs { admin, timeout, json }: &TakeArgs) -> anyhow::Result<Answer> {
    let (clock, mut page) = (SystemClock::default(), "/api/v1/snapshots".to_owned());
    // The node answers in time and gives a number to ask on with, so that no connection stands still.
    loop {
        let left = timeout.saturating_sub(clock.monotonic());
        anyhow::ensure!(!left.is_zero(), "it is not published after {timeout:?}; it goes on");
        let taken: Json = match Admin::new(admin, left).post_to_leader(&page)? {
            Asked::Refused(why) => return Ok(Answer::refused(&why)),
            Asked::Good(mut answer) => serde_json::from_str(&ask::text(&mut answer)?)?,
        };
        match taken.get("number") {
            Some(number) => page = format!("/api/v1/snapshots/outcome?number={number}"),
            None => return Answer::new(*json, &taken, || sentence(&taken), true),
        }
    }
}

fn sentence(taken: &Json) -> String {
    let field = |name: &str| match taken.get(name) {
        Some(Json::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => "?".to_owned(),
    };
    format!(
        "{}: {} objects in {} bytes, up to entry {}, written by node {} in {} ms",
        field("id"),
        field("objects"),
        field("bytes"),
        field("applied_index"),
        field("written_by"),
        field("took_ms")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_is_told_in_one_sentence() {
        let taken = serde_json::json!({
            "id": "20261129_182740_639", "objects": 5, "bytes": 77, "applied_index": 9,
            "written_by": 2, "took_ms": 12,
        });
        assert_eq!(
            sentence(&taken),
            "20261129_182740_639: 5 objects in 77 bytes, up to entry 9, written by node 2 in 12 ms"
        );
    }
}
