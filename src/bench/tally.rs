//! What a load measured: latencies by operation, and how many items failed with which code.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::BenchError;
use super::work::Operation;
use crate::model::ErrorCode;

/// Significant decimal digits of a latency.
const DIGITS: u8 = 3;

/// The longest latency that is told apart from longer ones.
const LATENCY_MAX: Duration = Duration::from_secs(600);

/// What was measured of one operation.
#[derive(Clone, Debug)]
pub struct OperationTally {
    /// Nanoseconds from when a unit of work was due to its last answer.
    pub latency: Histogram<u64>,
    /// Answers.
    pub calls: u64,
    /// Keys asked for; 1 for a call without keys.
    pub keys: u64,
    /// Items that failed, by number of the code.
    pub failures: BTreeMap<i32, u64>,
}

impl OperationTally {
    fn new() -> Result<Self, BenchError> {
        let limit = u64::try_from(LATENCY_MAX.as_nanos()).unwrap_or(u64::MAX);
        let latency = Histogram::new_with_bounds(1, limit, DIGITS);
        let latency = latency.map_err(|error| BenchError::Internal(error.to_string()))?;
        Ok(OperationTally { latency, calls: 0, keys: 0, failures: BTreeMap::new() })
    }

    /// Items that failed.
    pub fn failed(&self) -> u64 {
        self.failures.values().sum()
    }

    /// The failures for people, such as `3 x OBJECT_NOT_FOUND`; empty if there were none.
    pub fn failure_text(&self) -> String {
        let name = |code: i32| match ErrorCode::from_number(code) {
            Some(code) => code.name().to_owned(),
            None => format!("code {code}"),
        };
        let each = self.failures.iter().map(|(code, count)| format!("{count} x {}", name(*code)));
        each.collect::<Vec<_>>().join(", ")
    }
}

/// What one connection, or all together, measured.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    operations: BTreeMap<Operation, OperationTally>,
}

impl Tally {
    /// What was measured of each operation.
    pub fn iter(&self) -> impl Iterator<Item = (Operation, &OperationTally)> {
        self.operations.iter().map(|(operation, tally)| (*operation, tally))
    }

    fn of(&mut self, operation: Operation) -> Result<&mut OperationTally, BenchError> {
        use std::collections::btree_map::Entry;
        Ok(match self.operations.entry(operation) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(OperationTally::new()?),
        })
    }

    /// Counts a finished unit of work. Errors: none that can occur with the bounds of this file.
    pub fn finish(
        &mut self,
        operation: Operation,
        latency: Duration,
        keys: u64,
    ) -> Result<(), BenchError> {
        let tally = self.of(operation)?;
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX).max(1);
        tally.latency.saturating_record(nanos);
        tally.keys += keys;
        Ok(())
    }

    /// Counts an answer and its failed items.
    pub fn answer(&mut self, operation: Operation, failed: &[i32]) -> Result<(), BenchError> {
        let tally = self.of(operation)?;
        tally.calls += 1;
        for code in failed {
            *tally.failures.entry(*code).or_default() += 1;
        }
        Ok(())
    }

    /// Adds what another connection measured.
    pub fn merge(&mut self, other: Tally) -> Result<(), BenchError> {
        for (operation, theirs) in other.operations {
            let mine = self.of(operation)?;
            let added = mine.latency.add(&theirs.latency);
            added.map_err(|error| BenchError::Internal(error.to_string()))?;
            mine.calls += theirs.calls;
            mine.keys += theirs.keys;
            for (code, count) in theirs.failures {
                *mine.failures.entry(code).or_default() += count;
            }
        }
        Ok(())
    }

    /// Items that failed.
    pub fn failed(&self) -> u64 {
        self.operations.values().map(OperationTally::failed).sum()
    }

    /// Keys of all operations.
    pub fn keys(&self) -> u64 {
        self.operations.values().map(|tally| tally.keys).sum()
    }

    /// Calls of all operations.
    pub fn calls(&self) -> u64 {
        self.operations.values().map(|tally| tally.calls).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_tallies_hold_the_values_of_both() {
        let (mut one, mut other) = (Tally::default(), Tally::default());
        one.answer(Operation::Get, &[-704]).unwrap();
        one.finish(Operation::Get, Duration::from_micros(10), 1).unwrap();
        other.answer(Operation::Get, &[-704, -703]).unwrap();
        other.finish(Operation::Get, Duration::from_millis(10), 2).unwrap();
        one.merge(other).unwrap();
        let (_, tally) = one.iter().next().unwrap();
        assert_eq!((tally.calls, tally.keys, tally.failed()), (2, 3, 3));
        assert_eq!(tally.latency.len(), 2);
        assert!(tally.latency.max() >= 10_000_000);
        let text = tally.failure_text();
        assert!(text.contains("2 x OBJECT_NOT_FOUND"), "{text}");
    }
}
