//! What an operator asks of the store through any node's admin port: `object`, `segment`, `client`, `tenant`, `pin`.
//!
//! Guards that all five end alike: the result on stdout as lines or as the node's JSON, a refusal as one sentence on
//! stderr, and the exit codes of `docs/errors.md`. A node that does not lead is asked who does, once; what may be
//! done is decided by the leader.

mod ask;
mod client;
mod object;
mod pin;
mod segment;
mod table;
mod tenant;

use clap::{Args, Subcommand};
use serde_json::Value as Json;

use super::{EXIT_FAILURE, EXIT_UNREADABLE};
use ask::{Ask, Asked};

/// A command about what is in the store.
#[derive(Debug, Subcommand)]
pub(super) enum Operate {
    /// Look at objects, or remove them
    Object(object::ObjectArgs),
    /// Look at segments, empty them, take them away
    Segment(segment::SegmentArgs),
    /// Look at the clients
    Client(client::ClientArgs),
    /// Look at the quotas of tenants, or change them
    Tenant(tenant::TenantArgs),
    /// Look at soft pins
    Pin(pin::PinArgs),
}

/// Runs the command; answers the exit code.
pub(super) fn command(operate: &Operate) -> u8 {
    match operate {
        Operate::Object(args) => object::command(args),
        Operate::Segment(args) => segment::command(args),
        Operate::Client(args) => client::command(args),
        Operate::Tenant(args) => tenant::command(args),
        Operate::Pin(args) => pin::command(args),
    }
}

/// What every command of this kind ends its help with.
macro_rules! exit_codes {
    () => {
        "Exit codes: 0 done, 1 refused or not found, 2 wrong usage, 3 no answer.\n\
         A cluster that wants its admin token is given MOONCAKE_HA_ADMIN_TOKEN."
    };
}
use exit_codes;

/// Whom to ask, and how to print.
#[derive(Debug, Args)]
struct Target {
    /// Admin port of any node
    #[arg(long, global = true, value_name = "URL", default_value = "http://127.0.0.1:9003")]
    admin: String,
    /// Print the answer as JSON
    #[arg(long, global = true)]
    json: bool,
}

/// Why there is no result.
#[derive(Debug)]
enum Failed {
    /// The cluster refused, in its words.
    Refused(String),
    /// No answer came.
    NoAnswer(String),
}

type Answered = Result<Json, Failed>;

impl Target {
    /// Asks for a page and expects it.
    fn expect(&self, method: &'static str, path: &str, body: &[u8]) -> Answered {
        match Ask::new(&self.admin).of_leader(method, path, body) {
            Ok(Asked::Good(page)) => Ok(page),
            Ok(Asked::Refused(why)) => Err(Failed::Refused(why)),
            Err(why) => Err(Failed::NoAnswer(why)),
        }
    }

    fn get(&self, path: &str) -> Answered {
        self.expect("GET", path, b"")
    }

    /// Prints a result; answers the exit code.
    fn finish(&self, answer: Answered, text: impl FnOnce(&Json) -> String) -> u8 {
        match answer {
            Ok(page) if self.json => super::print(&format!("{page}\n")),
            Ok(page) => super::print(&text(&page)),
            Err(Failed::Refused(why)) => {
                super::complain(&why);
                EXIT_FAILURE
            }
            Err(Failed::NoAnswer(why)) => {
                super::complain(&why);
                EXIT_UNREADABLE
            }
        }
    }
}

/// Pages that one listing asks for at most.
const PAGES_MAX: usize = 100_000;

/// All rows of a listing, page by page, up to `limit` of them, as one page. `path` ends where more parameters may
/// follow.
fn paged(target: &Target, path: &str, rows: &str, limit: usize) -> Answered {
    let mut all: Vec<Json> = Vec::new();
    let mut next = None;
    for _ in 0..PAGES_MAX {
        let wanted = limit.saturating_sub(all.len());
        let after = next.as_deref().map(|next| format!("&after={next}")).unwrap_or_default();
        let mut page = target.get(&format!("{path}&limit={wanted}{after}"))?;
        if let Some(Json::Array(some)) = page.get_mut(rows).map(Json::take) {
            all.extend(some);
        }
        next = page.get("next").and_then(Json::as_str).map(str::to_owned);
        if next.is_none() || all.len() >= limit {
            break;
        }
    }
    Ok(serde_json::json!({ "success": true, rows: all, "next": next }))
}

/// A value that can stand in a query, whatever its characters are.
fn encoded(text: &str) -> String {
    let set = percent_encoding::NON_ALPHANUMERIC;
    percent_encoding::utf8_percent_encode(text, set).to_string()
}

/// `&name=value`, or nothing.
fn parameter(name: &str, value: Option<&str>) -> String {
    value.map(|value| format!("&{name}={}", encoded(value))).unwrap_or_default()
}

fn field<'a>(page: &'a Json, name: &str) -> &'a Json {
    page.get(name).unwrap_or(&Json::Null)
}

/// A field as text; `-` if it is not there.
fn word(page: &Json, name: &str) -> String {
    match field(page, name) {
        Json::Null => "-".to_owned(),
        Json::String(text) => shown(text),
        Json::Bool(is_so) => if *is_so { "yes" } else { "no" }.to_owned(),
        other => other.to_string(),
    }
}

/// A text that cannot disturb the terminal or its line.
fn shown(text: &str) -> String {
    let escaped = |c: char| match c.is_control() {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    text.chars().map(escaped).collect()
}

fn number(page: &Json, name: &str) -> u64 {
    field(page, name).as_u64().unwrap_or(0)
}

fn rows<'a>(page: &'a Json, name: &str) -> &'a [Json] {
    field(page, name).as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The key of a row, encoded where it is not text.
fn key(row: &Json) -> String {
    match field(row, "key_encoded").as_str() {
        Some(encoded) => format!("{encoded} (encoded)"),
        None => word(row, "key"),
    }
}

/// Bytes for people.
fn bytes(count: u64) -> String {
    const UNITS: [(&str, u64); 4] =
        [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match UNITS.iter().find(|(_, size)| count >= *size) {
        Some((unit, size)) => {
            let (whole, tenth) = (count / size, count % size * 10 / size);
            format!("{whole}.{tenth} {unit}")
        }
        None => format!("{count} B"),
    }
}

/// A span for people, in its two greatest units.
fn span(ms: u64) -> String {
    let (s, m, h) = (ms / 1_000, ms / 60_000, ms / 3_600_000);
    match (h, m, s) {
        (1.., _, _) => format!("{h}h{}m", m % 60),
        (0, 1.., _) => format!("{m}m{}s", s % 60),
        (0, 0, 10..) => format!("{s}s"),
        _ => format!("{ms}ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_spans_are_for_people() {
        let sizes = [0, 1023, 1024, 1536, (1 << 30) - 1, 5 << 40].map(bytes);
        assert_eq!(sizes, ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1023.9 MiB", "5.0 TiB"]);
        let spans = [0, 9_999, 10_000, 61_000, 3_600_000, 90_060_000].map(span);
        assert_eq!(spans, ["0ms", "9999ms", "10s", "1m1s", "1h0m", "25h1m"]);
    }

    #[test]
    fn a_key_that_is_not_text_is_printed_encoded_and_a_control_character_is_escaped() {
        let row = serde_json::json!({"key": "\u{fffd}", "key_encoded": "%FF"});
        assert_eq!(key(&row), "%FF (encoded)");
        assert_eq!(key(&serde_json::json!({"key": "a\u{1b}[2Jb"})), "a\\u{1b}[2Jb");
    }
}
