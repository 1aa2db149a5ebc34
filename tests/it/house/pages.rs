//! The pages that lead from behaviour to tests, `docs/soft-pin.md` and `docs/testing.md`, name only tests and
//! files that exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::expect_none;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn all_sources() -> Vec<PathBuf> {
    let mut files = Vec::new();
    for room in [
        "src",
        "tests",
        "crash/src",
        "raft/src",
        "raft/tests",
        "sim/src",
        "sim/tests",
        "snapshot/src",
        "snapshot/tests",
    ] {
        sources(&root().join(room), &mut files);
    }
    files
}

/// The names of functions under `#[test]`, `#[tokio::test]` or in a `proptest!`.
fn tests(files: &[PathBuf]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for file in files {
        let text = fs::read_to_string(file).unwrap();
        let behind_mark = text.split("test]\n").skip(1).chain(text.split("test(").skip(1));
        let named = behind_mark.filter_map(|rest| rest.split_once("fn "));
        let name = |(_, rest): (&str, &str)| rest.split(['(', '<']).next().map(str::to_owned);
        names.extend(named.filter_map(name));
    }
    names
}

/// Names between backticks.
fn quoted(page: &str) -> impl Iterator<Item = &str> {
    page.split('`').skip(1).step_by(2)
}

/// Whether a name is a test's sentence, not a file or a symbol.
fn is_sentence(name: &str) -> bool {
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    name.matches('_').count() >= 3 && name.chars().all(is_word)
}

fn is_file(files: &[PathBuf], name: &str) -> bool {
    let name = name.trim_end_matches('/');
    files.iter().any(|file| file.ends_with(name) || file.ends_with(format!("src/{name}")))
        || ["", "src", "src/state"].iter().any(|room| root().join(room).join(name).is_dir())
}

#[test]
fn every_test_and_file_that_a_page_names_exists() {
    let files = all_sources();
    let tests = tests(&files);
    let mut missing = Vec::new();
    for (page, least) in [("docs/soft-pin.md", 60), ("docs/testing.md", 150)] {
        let text = fs::read_to_string(root().join(page)).unwrap();
        let named: BTreeSet<&str> = quoted(&text).filter(|name| is_sentence(name)).collect();
        assert!(named.len() >= least, "{page} names {} tests", named.len());
        let absent = named.into_iter().filter(|name| !tests.contains(*name));
        missing.extend(absent.map(|name| format!("{page}: {name} is no test")));
        let paths = quoted(&text).filter(|name| name.ends_with(".rs") || name.ends_with('/'));
        let absent = paths.filter(|path| !is_file(&files, path));
        missing.extend(absent.map(|path| format!("{page}: {path} does not exist")));
    }
    expect_none(missing);
}

/// The numbers of the scenarios that this project owes: a letter, and those that exist under it.
const SCENARIOS: [(char, &[u32]); 12] = [
    ('A', &[1, 3, 5, 7, 9, 10, 11, 12, 14, 15, 17, 18, 19, 20, 22, 23, 24, 25, 26, 27, 28]),
    ('B', &[1, 3, 4, 5, 6, 9, 11, 12, 13, 14, 15, 16, 17]),
    (
        'C',
        &[
            1, 5, 6, 7, 8, 9, 10, 11, 12, 14, 15, 16, 17, 19, 20, 21, 22, 25, 26, 27, 28, 29, 30,
            31, 33, 34, 35, 36, 37, 38, 39,
        ],
    ),
    ('D', &[1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 14, 15, 16]),
    ('E', &[1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 14, 15, 16, 17, 20, 22, 23, 25]),
    ('F', &[1, 3, 4, 6, 7, 8, 9, 10, 12]),
    ('G', &[1, 2, 3, 4, 5, 6, 8, 9, 10, 11]),
    ('H', &[1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 20]),
    ('I', &[1, 3, 4, 5, 7, 8, 9, 11, 12, 13, 14, 15]),
    ('K', &[1, 2, 3, 4, 5, 6, 7, 8]),
    ('L', &[1, 2, 4, 5, 6]),
    ('M', &[1, 2, 4, 5, 7, 8]),
];

#[test]
fn every_scenario_and_edge_case_has_a_row_with_a_test_or_a_reason() {
    let page = fs::read_to_string(root().join("docs/testing.md")).unwrap();
    let mut rows = BTreeSet::new();
    let mut empty = Vec::new();
    for line in page.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, first, second, ..] = cells[..] else { continue };
        if second.is_empty() {
            empty.push(format!("the row of {first} is empty"));
        }
        rows.extend(first.split(", ").map(str::to_owned));
    }
    let scenarios = SCENARIOS.iter().flat_map(|(letter, numbers)| {
        numbers.iter().map(move |number| format!("{letter}{number}"))
    });
    let cases = (1..=32).map(|case: u32| case.to_string());
    let absent = scenarios.chain(cases).filter(|row| !rows.contains(row));
    empty.extend(absent.map(|row| format!("{row} has no row")));
    expect_none(empty);
}
