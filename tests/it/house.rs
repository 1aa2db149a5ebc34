//! The house rules as tests: form of files, directions between rooms, words, docs, dependencies.
//!
//! Each test walks the sources as text and lists every finding with file and line. A rule lives here only
//! if the compiler and clippy cannot hold it.

mod dependencies;
mod docs;
mod form;
mod pages;
mod rooms;
mod source;
mod words;

/// Fails with all findings, one a line.
#[track_caller]
fn expect_none(findings: Vec<String>) {
    assert!(findings.is_empty(), "{} findings:\n{}", findings.len(), findings.join("\n"));
}
