//! A digest of everything that happens in a run, in order: two runs of one seed have the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// FNV's prime; any odd number with bits all over would do.
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// The digest so far. Clones are the same one.
#[derive(Clone, Default)]
pub struct Trace(Arc<(AtomicU64, AtomicU64)>);

impl Trace {
    /// Something has happened.
    pub fn note(&self, at: u64, what: u64, detail: u64) {
        let mut digest = self.0.0.load(Ordering::Relaxed);
        for word in [at, what, detail] {
            digest = (digest.rotate_left(23) ^ word).wrapping_mul(PRIME);
        }
        self.0.0.store(digest, Ordering::Relaxed);
        self.0.1.fetch_add(1, Ordering::Relaxed);
    }

    /// The digest.
    pub fn digest(&self) -> u64 {
        self.0.0.load(Ordering::Relaxed)
    }

    /// How much has happened.
    pub fn events(&self) -> u64 {
        self.0.1.load(Ordering::Relaxed)
    }
}
