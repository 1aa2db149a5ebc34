//! What a node's process uses, looked at again and again: it must not grow while the load stays the same.

use std::path::Path;

use serde::Serialize;

/// Looks that are needed before anything can be said of growth.
pub const LOOKS_MIN: usize = 6;

/// Growth from the middle of a soak to its end that is noise: allocators keep some pages, connections come and go.
const MEMORY_GROWTH_PERCENT_MAX: u64 = 25;
const MEMORY_NOISE_BYTES: u64 = 16 << 20;
const FILES_NOISE: u64 = 32;
const THREADS_NOISE: u64 = 8;

/// What one process uses at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Bytes of memory (resident).
    pub memory: u64,
    /// Open files and connections.
    pub files: u64,
    /// Threads.
    pub threads: u64,
    /// Bytes below its data directory.
    pub disk: u64,
}

impl Usage {
    /// Looks at a process. `None` if it is gone, or this is not Linux.
    pub fn of(pid: u32, data_dir: &Path) -> Option<Self> {
        let process = Path::new("/proc").join(pid.to_string());
        let status = std::fs::read_to_string(process.join("status")).ok()?;
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        let files = std::fs::read_dir(process.join("fd")).ok()?.count() as u64;
        let disk = bytes_below(data_dir);
        Some(Usage { memory: number("VmRSS:")? << 10, files, threads: number("Threads:")?, disk })
    }
}

/// Files that vanish meanwhile count nothing.
fn bytes_below(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
    let bytes = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => bytes_below(&entry.path()),
        Ok(meta) => meta.len(),
        Err(_) => 0,
    };
    entries.map(bytes).sum()
}

/// How a node's usage went, for the report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Course {
    /// Its number.
    pub node: usize,
    /// Looks at it.
    pub looks: usize,
    /// Medians of the middle third.
    pub middle: Usage,
    /// Medians of the last third.
    pub last: Usage,
    /// The most that its data directory held.
    pub disk_max: u64,
}

impl Course {
    /// Of a node whose process was never restarted. `None` if there are too few looks.
    pub fn of(node: usize, looks: &[Usage]) -> Option<Self> {
        if looks.len() < LOOKS_MIN {
            return None;
        }
        let third = looks.len() / 3;
        let middle = medians(looks.get(third..third * 2)?);
        let last = medians(looks.get(third * 2..)?);
        let disk_max = looks.iter().map(|usage| usage.disk).max().unwrap_or(0);
        Some(Course { node, looks: looks.len(), middle, last, disk_max })
    }

    /// What grows, in sentences.
    pub fn findings(&self, disk_bytes_max: u64) -> Vec<String> {
        let Course { node, middle, last, disk_max, .. } = self;
        let memory_max =
            middle.memory + middle.memory * MEMORY_GROWTH_PERCENT_MAX / 100 + MEMORY_NOISE_BYTES;
        let mut findings = Vec::new();
        let mut judge = |what: &str, before: u64, after: u64, max: u64| {
            if after > max {
                findings.push(format!(
                    "{what} of node {node} went from {before} to {after}; at most {max} is noise"
                ));
            }
        };
        judge("bytes of memory", middle.memory, last.memory, memory_max);
        judge("open files", middle.files, last.files, middle.files + FILES_NOISE);
        judge("threads", middle.threads, last.threads, middle.threads + THREADS_NOISE);
        judge("bytes on disk", middle.disk, *disk_max, disk_bytes_max);
        findings
    }
}

fn medians(looks: &[Usage]) -> Usage {
    let median = |field: fn(&Usage) -> u64| {
        let mut values: Vec<u64> = looks.iter().map(field).collect();
        values.sort_unstable();
        values.get(values.len() / 2).copied().unwrap_or(0)
    };
    Usage {
        memory: median(|usage| usage.memory),
        files: median(|usage| usage.files),
        threads: median(|usage| usage.threads),
        disk: median(|usage| usage.disk),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn course(looks: &[(u64, u64)]) -> Course {
        let look = |(memory, files): &(u64, u64)| Usage {
            memory: memory * MIB,
            files: *files,
            threads: 20,
            disk: 5 * MIB,
        };
        Course::of(1, &looks.iter().map(look).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn what_is_warm_and_stays_is_flat_and_what_goes_on_growing_is_not() {
        let flat = [(20, 9), (90, 40), (100, 41), (101, 40), (99, 42), (120, 41)];
        assert_eq!(course(&flat).findings(10 * MIB), Vec::<String>::new());
        let memory = [(20, 9), (60, 9), (100, 9), (140, 9), (180, 9), (220, 9)];
        assert_eq!(course(&memory).findings(10 * MIB).len(), 1);
        let files = [(20, 9), (20, 60), (20, 110), (20, 160), (20, 210), (20, 260)];
        assert_eq!(course(&files).findings(10 * MIB).len(), 1);
        assert_eq!(course(&flat).findings(4 * MIB).len(), 1, "the disk");
    }

    #[test]
    fn a_soak_of_a_few_looks_says_nothing() {
        assert_eq!(Course::of(1, &[Usage::default(); LOOKS_MIN - 1]), None);
    }

    #[test]
    fn this_process_uses_something() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("a")).unwrap();
        std::fs::write(dir.path().join("a/b"), [0; 100]).unwrap();
        let usage = Usage::of(std::process::id(), dir.path()).unwrap();
        assert!(usage.memory > MIB && usage.files > 0 && usage.threads > 0, "{usage:?}");
        assert!(usage.disk >= 100, "{usage:?}");
    }
}
