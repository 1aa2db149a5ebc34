//! The project's text files, and the part of a Rust file that is neither comment nor test.

use std::path::{Path, PathBuf};

/// Folders that hold no text of the project.
const SKIPPED: [&str; 5] = ["target", ".git", "fixtures", "corpus", "__pycache__"];

/// A text file of the project.
pub struct SourceFile {
    /// Path from the root of the project, with `/`.
    pub path: String,
    /// Its text.
    pub text: String,
}

impl SourceFile {
    /// Whether the file is Rust.
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Whether the whole file is test code.
    pub fn is_test(&self) -> bool {
        let path = &self.path;
        path.starts_with("tests/") || path.contains("/tests/") || path.ends_with("/tests.rs")
    }

    /// All lines with their numbers.
    pub fn lines(&self) -> Vec<(usize, &str)> {
        (1..).zip(self.text.lines()).collect()
    }

    /// Lines with their numbers, without comments and without items under `#[cfg(test)]`.
    pub fn code(&self) -> Vec<(usize, &str)> {
        let mut lines = self.text.lines().enumerate();
        let mut code = Vec::new();
        while let Some((at, line)) = lines.next() {
            let trimmed = line.trim_start();
            if trimmed == "#[cfg(test)]" {
                // Formatted code ends an item in the column in which it began.
                let indent = line.len() - trimmed.len();
                lines.by_ref().find(|(_, line)| {
                    line.len() - line.trim_start().len() == indent && line.ends_with([';', '}'])
                });
            } else if !trimmed.starts_with("//") {
                code.push((at + 1, line));
            }
        }
        code
    }
}

/// The root of the project.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every text file of the project, in order of path.
pub fn all() -> Vec<SourceFile> {
    let mut paths = Vec::new();
    walk(root(), &mut paths);
    paths.sort();
    let files = paths.into_iter().filter_map(|path| {
        let text = std::fs::read_to_string(&path).ok()?;
        let path = path.strip_prefix(root()).unwrap().to_str().unwrap().replace('\\', "/");
        Some(SourceFile { path, text })
    });
    files.collect()
}

/// Every Rust file of the project.
pub fn rust() -> Vec<SourceFile> {
    all().into_iter().filter(SourceFile::is_rust).collect()
}

fn walk(dir: &Path, paths: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() {
            if !SKIPPED.contains(&name.as_str()) {
                walk(&path, paths);
            }
        } else if is_text(&name) {
            paths.push(path);
        }
    }
}

fn is_text(name: &str) -> bool {
    let kinds = [".rs", ".md", ".toml", ".py", ".yaml", ".yml"];
    kinds.iter().any(|kind| name.ends_with(kind)) || matches!(name, "verify" | "run" | ".gitignore")
}
