//! `mooncake-ha segment`: look at segments, empty them, take them away.

use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value as Json, json};

use super::table::table;
use super::{Target, bytes, encoded, exit_codes, field, number, rows, word};

const EXAMPLES: &str = concat!(
    "Examples:
  mooncake-ha segment list
  mooncake-ha segment drain 10.0.0.7:12345 --target 10.0.0.8:12345
  mooncake-ha segment job 17-23
  mooncake-ha segment unmount 10.0.0.7:12345 --grace 30s

",
    exit_codes!()
);

/// Look at segments, empty them, take them away
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct SegmentArgs {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Every segment, whatever its status
    List,
    /// Have the objects on segments moved to others; the segments stay mounted
    Drain {
        /// Names of the segments to empty
        #[arg(required = true, value_name = "SEGMENT")]
        segments: Vec<String>,
        /// Segments to move to; without it any other
        #[arg(long = "target", value_name = "SEGMENT")]
        targets: Vec<String>,
        /// Objects that are moved at once
        #[arg(long, value_name = "N")]
        max_concurrency: Option<u64>,
    },
    /// How far a drain job is
    Job {
        /// As `drain` printed it
        job_id: String,
        /// Stop the job instead; its segments receive objects again
        #[arg(long)]
        cancel: bool,
    },
    /// Take segments away together with the copies on them
    Unmount {
        /// Name or id
        segment: String,
        /// Let readers go on for so long, while nothing new is placed there
        #[arg(long, value_name = "TIME", value_parser = duration)]
        grace: Option<Duration>,
    },
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    crate::config::parse_duration_ms(text).map(Duration::from_millis)
}

/// Runs the command; answers the exit code.
pub(super) fn command(args: &SegmentArgs) -> u8 {
    let target = &args.target;
    match &args.action {
        Action::List => target.finish(target.get("/get_segments_detail"), list),
        Action::Drain { segments, targets, max_concurrency } => {
            let mut body = json!({ "segments": segments });
            if let Some(body) = body.as_object_mut() {
                if !targets.is_empty() {
                    body.insert("target_segments".into(), json!(targets));
                }
                if let Some(most) = max_concurrency {
                    body.insert("max_concurrency".into(), json!(most));
                }
            }
            let body = body.to_string();
            let page = target.expect("POST", "/api/v1/drain_jobs", body.as_bytes());
            target.finish(page, |page| {
                format!("job {} is {}\n", word(page, "job_id"), word(page, "status"))
            })
        }
        Action::Job { job_id, cancel } => {
            let query = format!("?job_id={}", encoded(job_id));
            let page = match cancel {
                true => target.expect("POST", &format!("/api/v1/drain_jobs/cancel{query}"), b""),
                false => target.get(&format!("/api/v1/drain_jobs/query{query}")),
            };
            target.finish(page, job)
        }
        Action::Unmount { segment, grace } => {
            let grace = grace.map(|grace| format!("&grace_ms={}", grace.as_millis()));
            let grace = grace.unwrap_or_default();
            let path = format!("/api/v1/segments/unmount?segment={}{grace}", encoded(segment));
            target.finish(target.expect("POST", &path, b""), unmounted)
        }
    }
}

fn list(page: &Json) -> String {
    let segments: Vec<[String; 6]> = rows(page, "segments")
        .iter()
        .map(|row| {
            [
                word(row, "segment_name"),
                word(row, "status"),
                bytes(number(row, "allocator_used_bytes")),
                bytes(number(row, "size_bytes")),
                word(row, "client_id"),
                word(row, "segment_id"),
            ]
        })
        .collect();
    table(["segment", "status", "used", "size", "client", "id"], &segments)
}

fn job(page: &Json) -> String {
    if field(page, "succeeded_units").is_null() {
        return format!("job {} is {}\n", word(page, "job_id"), word(page, "status"));
    }
    format!(
        "job {} is {}: {} moved ({}), {} active, {} blocked, {} failed\n{}",
        word(page, "job_id"),
        word(page, "status_name"),
        number(page, "succeeded_units"),
        bytes(number(page, "migrated_bytes")),
        number(page, "active_units"),
        number(page, "blocked_units"),
        number(page, "failed_units"),
        match field(page, "message").as_str() {
            Some(message) if !message.is_empty() => format!("{}\n", super::shown(message)),
            _ => String::new(),
        },
    )
}

fn unmounted(page: &Json) -> String {
    let row = |row: &Json| {
        let name = word(row, "segment");
        format!("{name} of client {} is on its way out\n", word(row, "client_id"))
    };
    rows(page, "unmounted").iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drain_job_is_told_as_created_and_as_it_goes_on() {
        let created = json!({"job_id": "1-2", "status": "CANCELED"});
        assert_eq!(job(&created), "job 1-2 is CANCELED\n");
        let running = json!({"job_id": "1-2", "status": 1, "status_name": "RUNNING",
            "succeeded_units": 3, "migrated_bytes": 2048, "active_units": 1, "blocked_units": 0,
            "failed_units": 2, "message": "m"});
        let text = "job 1-2 is RUNNING: 3 moved (2.0 KiB), 1 active, 0 blocked, 2 failed\nm\n";
        assert_eq!(job(&running), text);
    }

    #[test]
    fn segments_are_listed_with_their_use() {
        let page = json!({"total_segments": 1, "segments": [{"segment_name": "h:1",
            "status": "OK", "allocator_used_bytes": 512, "size_bytes": 1024, "client_id": "1-2",
            "segment_id": "3-4"}]});
        let text = list(&page);
        assert!(text.ends_with("h:1      OK      512 B  1.0 KiB  1-2     3-4\n"), "{text}");
    }
}
