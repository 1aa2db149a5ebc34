//! Docs that are checked against the code: settings, error codes, metrics.
//!
//! `BLESS=1` rewrites the generated part of `docs/config.md` and `docs/errors.md`; without it nothing is
//! ever written.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use mooncake_ha::model::ErrorCode;

use super::expect_none;
use super::source::{self, SourceFile};

const BEGIN: &str = "<!-- generated from the code; BLESS=1 cargo test --test it docs -->\n";
const END: &str = "<!-- end of the generated part -->\n";

#[test]
fn every_setting_is_in_the_docs() {
    check_generated("docs/config.md", &mooncake_ha::cli::settings_markdown());
}

#[test]
fn every_error_code_is_in_the_docs() {
    let mut table = "\n| number | name | retry |\n|---|---|---|\n".to_owned();
    for code in ErrorCode::ALL {
        let retry = if code.is_retryable() { "may help" } else { "no" };
        writeln!(table, "| {} | `{}` | {retry} |", code.number(), code.name()).unwrap();
    }
    check_generated("docs/errors.md", &table);
}

#[test]
fn every_exit_code_is_in_the_docs() {
    let text = std::fs::read_to_string(source::root().join("docs/errors.md")).unwrap();
    for code in
        [mooncake_ha::cli::EXIT_OK, mooncake_ha::cli::EXIT_FAILURE, mooncake_ha::cli::EXIT_USAGE]
    {
        assert!(text.contains(&format!("| {code} |")), "exit code {code} is not in docs/errors.md");
    }
}

#[test]
fn every_metric_is_in_the_docs() {
    let sources = source::all();
    let Some(names) = sources.iter().find(|file| file.path == "src/metrics/names.rs") else {
        return;
    };
    let docs = sources.iter().find(|file| file.path == "docs/metrics.md");
    let docs = docs.map(|file| file.text.as_str()).unwrap_or_default();
    let quoted = names.code().into_iter().flat_map(|(_, line)| line.split('"').skip(1).step_by(2));
    let is_name = |text: &&str| {
        let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        text.contains('_') && text.chars().all(is_word)
    };
    let missing = quoted.filter(is_name).filter(|name| !docs.contains(&format!("`{name}`")));
    expect_none(missing.map(|name| format!("{name} is not in docs/metrics.md")).collect());
}

#[test]
fn every_page_that_the_code_names_exists() {
    let sources = source::all();
    let mut findings = Vec::new();
    for file in sources.iter().filter(|file| file.is_rust() && !file.path.contains("/house")) {
        for (at, line) in file.lines() {
            for (start, _) in line.match_indices("docs/") {
                let is_link = |c: char| c.is_ascii_alphanumeric() || "/.#_-".contains(c);
                let rest = &line[start..];
                let link = rest.split(|c: char| !is_link(c)).next().unwrap().trim_end_matches('.');
                let (page, place) = link.split_once('#').unwrap_or((link, ""));
                if !page.ends_with(".md") {
                    continue;
                }
                let found = sources.iter().find(|file| file.path == page);
                if !found.is_some_and(|page| place.is_empty() || headings(page).contains(place)) {
                    findings.push(format!("{}:{at} names {link}", file.path));
                }
            }
        }
    }
    expect_none(findings);
}

/// The places of a page that a link can name: its headings, in small letters and joined by `-`.
fn headings(page: &SourceFile) -> BTreeSet<String> {
    let headings = page.text.lines().filter(|line| line.starts_with('#'));
    let place = |line: &str| {
        let kept = line.trim_start_matches('#').trim().to_ascii_lowercase();
        let kept =
            kept.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(place).collect()
}

/// Compares the generated part of a document with `wanted`.
fn check_generated(path: &str, wanted: &str) {
    let full = source::root().join(path);
    let text = std::fs::read_to_string(&full).unwrap();
    let start =
        text.find(BEGIN).unwrap_or_else(|| panic!("{path} has no generated part")) + BEGIN.len();
    let end =
        start + text[start..].find(END).unwrap_or_else(|| panic!("{path}: the part has no end"));
    if text[start..end] == *wanted {
        return;
    }
    if std::env::var_os("BLESS").is_some_and(|value| value == "1") {
        let renewed = format!("{}{wanted}{}", &text[..start], &text[end..]);
        std::fs::write(&full, renewed).unwrap();
        return;
    }
    let different = wanted.lines().filter(|line| !text[start..end].lines().any(|old| old == *line));
    panic!(
        "{path} is older than the code; run `BLESS=1 cargo test --test it docs`. Not in it:\n{}",
        different.collect::<Vec<_>>().join("\n")
    );
}
