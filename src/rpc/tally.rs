//! How much of an answer is failure, for the metrics.

use crate::model::ErrorCode;

/// Items of an answer, and those that failed.
pub trait Tally {
    /// `(items, failed)`.
    fn tally(&self) -> (u64, u64);
}

impl<T> Tally for Result<T, ErrorCode> {
    fn tally(&self) -> (u64, u64) {
        (1, u64::from(self.is_err()))
    }
}

impl<T> Tally for Vec<Result<T, ErrorCode>> {
    fn tally(&self) -> (u64, u64) {
        let failed = self.iter().filter(|item| item.is_err()).count();
        (self.len() as u64, failed as u64)
    }
}

impl Tally for i64 {
    fn tally(&self) -> (u64, u64) {
        (1, 0)
    }
}
