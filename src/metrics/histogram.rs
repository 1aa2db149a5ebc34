//! Sizes and times by bucket, counted without a lock: two additions a value.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Microseconds, from a fast apply to a stuck disk.
const LATENCY_US_BOUNDS: &[u64] = &[
    10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000,
    1_000_000, 10_000_000,
];

/// Commands in one entry.
const BATCH_BOUNDS: &[u64] = &[1, 2, 4, 8, 16, 32, 64, 128, 256];

/// Values by size: how many were at most each bound, and their sum.
#[derive(Debug)]
pub struct Histogram {
    /// Ascending.
    bounds: &'static [u64],
    /// One a bound and one for larger values. Each value is counted in exactly one.
    buckets: Box<[AtomicU64]>,
    sum: AtomicU64,
}

/// A histogram at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistogramView {
    /// Each bound with the number of values at most that large; ascending.
    pub up_to: Vec<(u64, u64)>,
    /// All values.
    pub count: u64,
    /// Their sum.
    pub sum: u64,
}

impl Histogram {
    /// An empty histogram with these ascending bounds.
    pub fn new(bounds: &'static [u64]) -> Self {
        let buckets = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Histogram { bounds, buckets, sum: AtomicU64::new(0) }
    }

    /// A histogram of microseconds.
    pub fn of_latency() -> Self {
        Histogram::new(LATENCY_US_BOUNDS)
    }

    /// A histogram of batch sizes.
    pub fn of_batches() -> Self {
        Histogram::new(BATCH_BOUNDS)
    }

    /// Counts a value.
    pub fn observe(&self, value: u64) {
        let at = self.bounds.partition_point(|bound| *bound < value);
        if let Some(bucket) = self.buckets.get(at) {
            bucket.fetch_add(1, Ordering::Relaxed);
            self.sum.fetch_add(value, Ordering::Relaxed);
        }
    }

    /// Counts a time in microseconds.
    pub fn observe_time(&self, time: Duration) {
        self.observe(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }

    /// What was counted so far. A value that is being counted may be missing in the sum.
    pub fn view(&self) -> HistogramView {
        let mut count = 0;
        let mut counts = self.buckets.iter().map(|bucket| {
            count += bucket.load(Ordering::Relaxed);
            count
        });
        let up_to = self.bounds.iter().copied().zip(counts.by_ref()).collect();
        let rest: u64 = counts.last().unwrap_or_default();
        HistogramView { up_to, count: rest, sum: self.sum.load(Ordering::Relaxed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_counts_in_every_bucket_that_is_at_least_as_large() {
        let histogram = Histogram::new(&[10, 100]);
        for value in [0, 10, 11, 100, 101] {
            histogram.observe(value);
        }
        let view = histogram.view();
        assert_eq!(view.up_to, [(10, 2), (100, 4)]);
        assert_eq!((view.count, view.sum), (5, 222));
    }
}
