//! Words and calls that no file may hold: unfinished work, hidden panics, clocks, paths of one machine.

use super::expect_none;
use super::source::{self, SourceFile};

/// Marks of unfinished or silenced work.
const UNFINISHED: &[&str] =
    &["todo!(", "unimplemented!(", "FIXME", "#[ignore", "#[allow(", "#![allow("];

/// Calls that end the process from library code.
const PANICS: &[&str] = &[".unwrap()", ".expect(", "panic!(", "process::exit(", "unreachable!("];

/// The files that may read time.
const CLOCKS: [&str; 2] = ["src/clock.rs", "raft/src/clock.rs"];

/// Beginnings of paths that exist on one machine only.
const MACHINE_PATHS: &[&str] = &["/home/", "/tmp/", "/root/", "/work/", "/Users/"];

#[test]
fn nothing_is_left_unfinished_or_silenced() {
    expect_none(find(UNFINISHED, |_| true, |file| file.text.lines().enumerate().collect()));
}

#[test]
fn only_tests_may_panic() {
    // A line that says `expect(clippy::` is the documented exception.
    let is_code = |file: &SourceFile| !file.is_test() && !file.path.contains("/examples/");
    let findings =
        find(PANICS, is_code, |file| file.code().into_iter().map(|(at, l)| (at - 1, l)).collect());
    let findings = findings.into_iter().filter(|finding| !is_excused(finding));
    expect_none(findings.collect());
}

/// Whether one of the lines right above says `#[expect(clippy::...)]` with its reason.
fn is_excused(finding: &str) -> bool {
    const LINES_ABOVE: usize = 12;
    let (path, rest) = finding.split_once(':').unwrap();
    let at: usize = rest.split(' ').next().unwrap().parse().unwrap();
    let text = std::fs::read_to_string(source::root().join(path)).unwrap();
    let above = text.lines().skip(at.saturating_sub(LINES_ABOVE + 1)).take(LINES_ABOVE);
    above.into_iter().any(|line| line.contains("expect(") || line.contains("clippy::"))
}

#[test]
fn only_the_clock_files_read_time() {
    let is_code = |file: &SourceFile| {
        !file.is_test() && file.path.contains("src/") && !CLOCKS.contains(&file.path.as_str())
    };
    let calls = ["SystemTime::now", "Instant::now", "chrono::Utc"];
    // tokio's own clock can be paused by a test, so it is no reading of time.
    let mut findings = Vec::new();
    for file in source::rust().iter().filter(|file| is_code(file)) {
        for (at, line) in file.code() {
            let line = line.replace("tokio::time::Instant", "");
            for call in calls.iter().filter(|call| line.contains(**call)) {
                findings.push(format!("{}:{at} says {call:?}", file.path));
            }
        }
    }
    expect_none(findings);
}

#[test]
fn no_file_names_a_path_of_one_machine() {
    let mut findings = Vec::new();
    for file in source::all().iter().filter(|file| !file.path.starts_with("tests/it/house")) {
        for (at, line) in file.text.lines().enumerate() {
            for path in MACHINE_PATHS.iter().filter(|path| line.contains(**path)) {
                findings.push(format!("{}:{} says {path:?}", file.path, at + 1));
            }
        }
    }
    expect_none(findings);
}

/// Lines of the Rust files chosen by `is_wanted` that hold one of `words`; the house is not searched, since
/// it must name them.
fn find(
    words: &[&str],
    is_wanted: impl Fn(&SourceFile) -> bool,
    lines: impl for<'a> Fn(&'a SourceFile) -> Vec<(usize, &'a str)>,
) -> Vec<String> {
    let mut findings = Vec::new();
    for file in source::rust().iter().filter(|file| !file.path.starts_with("tests/it/house")) {
        if !is_wanted(file) {
            continue;
        }
        for (at, line) in lines(file) {
            for word in words.iter().filter(|word| line.contains(**word)) {
                findings.push(format!("{}:{} says {word:?}", file.path, at + 1));
            }
        }
    }
    findings
}
