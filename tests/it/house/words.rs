//! Words and calls that no file may hold: unfinished work, endings of the process, clocks, paths of one machine.

use super::expect_none;
use super::source::{self, SourceFile};

/// Marks of unfinished or silenced work.
const UNFINISHED: &[&str] =
    &["todo!(", "unimplemented!(", "FIXME", "#[ignore", "#[allow(", "#![allow("];

/// Calls that end the process, beside those that clippy refuses.
const ENDINGS: &[&str] = &["process::exit(", "process::abort(", "unreachable!("];

/// The files that may read time.
const CLOCKS: [&str; 2] = ["src/clock.rs", "raft/src/clock.rs"];

/// Beginnings of paths that exist on one machine only.
const MACHINE_PATHS: &[&str] = &["/home/", "/tmp/", "/root/", "/work/", "/Users/"];

#[test]
fn nothing_is_left_unfinished_or_silenced() {
    expect_none(find(UNFINISHED, |_| true, SourceFile::lines));
}

// clippy refuses unwrap, expect and panic outside tests; these it lets pass.
#[test]
fn only_main_ends_the_process() {
    expect_none(find(ENDINGS, |file| !file.is_test(), SourceFile::code));
}

// clippy refuses every reading of the standard clocks; what is left is who may excuse himself.
#[test]
fn only_the_clock_files_may_read_time() {
    let is_code = |file: &SourceFile| !file.is_test() && !CLOCKS.contains(&file.path.as_str());
    let words = ["clippy::disallowed_methods", "chrono::"];
    expect_none(find(&words, is_code, SourceFile::code));
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
    lines: fn(&SourceFile) -> Vec<(usize, &str)>,
) -> Vec<String> {
    let mut findings = Vec::new();
    for file in source::rust().iter().filter(|file| !file.path.starts_with("tests/it/house")) {
        if !is_wanted(file) {
            continue;
        }
        for (at, line) in lines(file) {
            for word in words.iter().filter(|word| line.contains(**word)) {
                findings.push(format!("{}:{at} says {word:?}", file.path));
            }
        }
    }
    findings
}
