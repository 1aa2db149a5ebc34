//! `docs/soft-pin.md` names only tests and files that exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

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

#[test]
fn every_test_and_file_that_the_page_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs/soft-pin.md")).unwrap();
    let mut files = Vec::new();
    sources(&root.join("src"), &mut files);
    sources(&root.join("tests"), &mut files);
    let mut functions = BTreeSet::new();
    for file in &files {
        let text = fs::read_to_string(file).unwrap();
        let named = text.split("fn ").skip(1).filter_map(|rest| rest.split(['(', '<']).next());
        functions.extend(named.map(str::to_owned));
    }
    let is_file = |name: &str| {
        files.iter().any(|file| file.ends_with(name) || file.ends_with(format!("src/{name}")))
            || root.join(name).is_dir()
            || root.join("src").join(name).is_dir()
            || root.join("src/state").join(name).is_dir()
    };
    let (mut tests, mut missing) = (0, Vec::new());
    for name in page.split('`').skip(1).step_by(2) {
        let is_sentence = name.matches('_').count() >= 3;
        let is_path = name.ends_with(".rs") || name.ends_with('/');
        tests += usize::from(is_sentence && !is_path);
        if is_sentence && !is_path && !functions.contains(name) {
            missing.push(name);
        }
        if is_path && !is_file(name.trim_end_matches('/')) {
            missing.push(name);
        }
    }
    assert_eq!(missing, Vec::<&str>::new());
    assert!(tests > 30, "the page names {tests} tests");
}
