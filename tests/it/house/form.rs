//! Form of a file: length, width, opening, letters, length of its functions.

use super::expect_none;
use super::source::{self, SourceFile};

const FILE_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 70;
/// rustfmt holds code at 100; comments, macros and texts, which it does not break, may run a little over.
const COLUMNS_MAX: usize = 120;

#[test]
fn no_file_is_longer_than_600_lines() {
    let files = source::rust();
    let long = files.iter().filter(|file| file.text.lines().count() > FILE_LINES_MAX);
    expect_none(long.map(|file| file.path.clone()).collect());
}

#[test]
fn no_line_is_wider_than_120_columns() {
    let mut findings = Vec::new();
    for file in source::rust() {
        // A line that is one text or one error sentence has no place to break.
        let is_text = |line: &str| line.starts_with('"') || line.starts_with("#[error(");
        let lines = file.text.lines().enumerate().filter(|(_, line)| !is_text(line.trim_start()));
        let wide = lines.filter(|(_, line)| line.chars().count() > COLUMNS_MAX);
        findings.extend(wide.map(|(at, _)| format!("{}:{}", file.path, at + 1)));
    }
    expect_none(findings);
}

#[test]
fn every_file_opens_by_saying_what_it_is() {
    let files = source::rust();
    let silent = files.iter().filter(|file| !file.text.starts_with("//! "));
    expect_none(silent.map(|file| file.path.clone()).collect());
}

#[test]
fn sources_are_ascii() {
    let mut findings = Vec::new();
    for file in source::all() {
        let lines = file.text.lines().enumerate().filter(|(_, line)| !line.is_ascii());
        findings.extend(lines.map(|(at, _)| format!("{}:{}", file.path, at + 1)));
    }
    expect_none(findings);
}

#[test]
fn no_function_is_longer_than_70_lines() {
    let mut findings = Vec::new();
    for file in source::rust() {
        for (start, name, lines) in functions(&file) {
            if lines > FUNCTION_LINES_MAX {
                findings.push(format!("{}:{start} {name}: {lines} lines", file.path));
            }
        }
    }
    expect_none(findings);
}

/// Functions with first line, name and number of lines. Formatted code closes a body with a brace in the
/// column in which its head began.
fn functions(file: &SourceFile) -> Vec<(usize, &str, usize)> {
    let lines: Vec<&str> = file.text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else { continue };
        let indent = &line[..line.len() - line.trim_start().len()];
        let closing = format!("{indent}}}");
        let length = lines[at..]
            .iter()
            .position(|line| line.trim_end().ends_with(';') || line.starts_with(&closing));
        let is_single = line.trim_end().ends_with('}');
        found.push((
            at + 1,
            name,
            if is_single { 1 } else { body(&lines[at..], &closing, length) },
        ));
    }
    found
}

/// Lines from the head to the closing brace; a head that ends with `;` has no body.
fn body(lines: &[&str], closing: &str, first_end: Option<usize>) -> usize {
    let head_end = lines.iter().position(|line| line.trim_end().ends_with(['{', ';', '}']));
    match head_end.and_then(|end| lines.get(end)) {
        Some(line) if line.trim_end().ends_with(';') => first_end.unwrap_or(0) + 1,
        _ => lines.iter().skip(1).position(|line| line.starts_with(closing)).unwrap_or(0) + 2,
    }
}

fn function_name(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace().peekable();
    while let Some(word) = words.next() {
        match word {
            "fn" => return words.next()?.split(['(', '<']).next(),
            "const" | "async" | "unsafe" | "extern" => {}
            word if word.starts_with("pub") || word == "crate)" => {}
            _ => return None,
        }
    }
    None
}

#[test]
fn functions_are_found_with_their_length() {
    let text = "//! x\n    pub(super) async fn one(\n        a: u8,\n    ) -> u8 {\n        a\n    }\n\
                fn two() {}\ntrait T {\n    fn three(&self);\n}\n";
    let file = SourceFile { path: "x.rs".into(), text: text.into() };
    assert_eq!(functions(&file), [(2, "one", 5), (7, "two", 1), (9, "three", 1)]);
}
