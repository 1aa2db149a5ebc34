//! A request trace: lines of JSON, read one at a time.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::ReplayOptions;
use crate::bench::BenchError;
use crate::bench::work::BATCH_MAX;

/// Bytes of a line at most.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// Distinct blocks of a trace at most: what a replay remembers of it.
const DISTINCT_MAX: usize = 1 << 24;

/// One request of a trace.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Request {
    /// Milliseconds since the trace began.
    pub timestamp: f64,
    /// The hashes of its prefixes, block by block: equal hashes stand for equal prefixes.
    pub hash_ids: Vec<u64>,
}

/// What a trace holds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Requests.
    pub requests: u64,
    /// Blocks of all requests.
    pub blocks: u64,
    /// Different blocks.
    pub distinct_blocks: u64,
    /// Different blocks that are shared.
    pub shared_blocks: u64,
    /// The share of blocks that a store without an end would hit.
    pub best_hit_rate: f64,
}

/// The requests of a trace, in its order.
#[derive(Debug)]
pub struct Requests {
    lines: BufReader<File>,
    path: String,
    number: u64,
    left: u64,
}

impl Requests {
    /// Opens a trace. Errors: it cannot be opened.
    pub fn open(path: &Path, requests: u64) -> Result<Self, BenchError> {
        let name = path.display().to_string();
        let file = File::open(path);
        let file = file.map_err(|error| BenchError::Usage(format!("trace {name}: {error}")))?;
        Ok(Requests { lines: BufReader::new(file), path: name, number: 0, left: requests })
    }

    /// The next request; `None` at the end.
    ///
    /// Errors: the line is no request, or too long.
    pub fn next(&mut self) -> Result<Option<Request>, BenchError> {
        while self.left > 0 {
            self.number += 1;
            let mut line = Vec::new();
            let mut part = (&mut self.lines).take(LINE_BYTES_MAX);
            let read = part.read_until(b'\n', &mut line);
            if read.map_err(|error| self.wrong(&error.to_string()))? == 0 {
                return Ok(None);
            }
            if line.len() as u64 == LINE_BYTES_MAX {
                return Err(self.wrong("the line is longer than a mebibyte"));
            }
            if line.trim_ascii().is_empty() {
                continue;
            }
            self.left -= 1;
            let parsed = serde_json::from_slice(&line);
            let request: Request = parsed.map_err(|error| self.wrong(&error.to_string()))?;
            if !(request.timestamp.is_finite() && request.timestamp >= 0.0) {
                return Err(self.wrong("a timestamp is a number from 0"));
            }
            if request.hash_ids.len() > BATCH_MAX {
                return Err(self.wrong(&format!("a request has {BATCH_MAX} blocks at most")));
            }
            return Ok(Some(request));
        }
        Ok(None)
    }

    fn wrong(&self, why: &str) -> BenchError {
        BenchError::Usage(format!("trace {}, line {}: {why}", self.path, self.number))
    }
}

/// How many requests have each block, and how many requests and blocks there are.
fn count(options: &ReplayOptions) -> Result<(HashMap<u64, u32>, u64, u64), BenchError> {
    let mut requests = Requests::open(&options.trace, options.requests)?;
    let mut counts: HashMap<u64, u32> = HashMap::new();
    let (mut all, mut blocks) = (0, 0);
    while let Some(request) = requests.next()? {
        all += 1;
        blocks += request.hash_ids.len() as u64;
        for block in request.hash_ids {
            let count = counts.entry(block).or_default();
            *count = count.saturating_add(1);
        }
        if counts.len() > DISTINCT_MAX {
            let why = format!("the trace has more than {DISTINCT_MAX} distinct blocks");
            return Err(BenchError::Usage(format!("{why}; replay a part of it: --requests")));
        }
    }
    Ok((counts, all, blocks))
}

/// What the trace holds. Errors: it cannot be read.
pub fn summarize(options: &ReplayOptions) -> Result<Summary, BenchError> {
    let (counts, requests, blocks) = count(options)?;
    let shared = counts.values().filter(|count| **count >= options.shared_by).count();
    let distinct = counts.len() as u64;
    let repeated = blocks.saturating_sub(distinct);
    Ok(Summary {
        requests,
        blocks,
        distinct_blocks: distinct,
        shared_blocks: shared as u64,
        best_hit_rate: repeated as f64 / blocks.max(1) as f64,
    })
}

/// The shared blocks. Errors: the trace cannot be read.
pub fn shared(options: &ReplayOptions) -> Result<HashSet<u64>, BenchError> {
    let (counts, ..) = count(options)?;
    let shared = counts.into_iter().filter(|(_, count)| *count >= options.shared_by);
    Ok(shared.map(|(block, _)| block).collect())
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::Duration;

    use super::*;

    fn options(text: &str) -> (tempfile::NamedTempFile, ReplayOptions) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let options = ReplayOptions {
            trace: file.path().to_owned(),
            requests: u64::MAX,
            speed: 0.0,
            connections: 1,
            capacity: None,
            block_bytes: 4_096,
            segments: 1,
            shared_by: 2,
            pin_ttl: Duration::from_secs(1),
        };
        (file, options)
    }

    #[test]
    fn a_trace_is_summed_up_and_its_shared_blocks_are_those_of_several_requests() {
        let text = "{\"timestamp\": 0, \"input_length\": 9, \"hash_ids\": [1, 2, 3]}\n\n\
                    {\"timestamp\": 7.5, \"hash_ids\": [1, 2, 4, 5]}\n";
        let (_file, mut options) = options(text);
        let summary = summarize(&options).unwrap();
        assert_eq!((summary.requests, summary.blocks), (2, 7));
        assert_eq!((summary.distinct_blocks, summary.shared_blocks), (5, 2));
        assert!((summary.best_hit_rate - 2.0 / 7.0).abs() < 1e-9);
        assert_eq!(shared(&options).unwrap(), HashSet::from([1, 2]));
        options.requests = 1;
        assert_eq!(summarize(&options).unwrap().blocks, 3);
    }

    #[test]
    fn a_line_that_is_no_request_is_named_with_its_number() {
        for bad in ["{\"timestamp\": 1}", "[]", "{\"timestamp\": -1, \"hash_ids\": []}"] {
            let (_file, options) =
                options(&format!("{{\"timestamp\": 0, \"hash_ids\": []}}\n{bad}\n"));
            let error = summarize(&options).unwrap_err().to_string();
            assert!(error.contains("line 2"), "{error}");
        }
    }

    #[test]
    fn a_line_without_an_end_is_refused_before_it_is_held() {
        let (_file, options) = options(&"1".repeat((LINE_BYTES_MAX + 10) as usize));
        let error = summarize(&options).unwrap_err().to_string();
        assert!(error.contains("longer"), "{error}");
    }
}
