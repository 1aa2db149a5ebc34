//! Which segments an object goes to, and in which order they are tried.
//!
//! Pure functions over a [`Pool`]: they know places of names and whether a try succeeded, nothing
//! of objects, segments or addresses. Guards: each replica goes to another name; equal seed, names
//! and answers give equal places, so every node that applies the entry decides alike (ratios are
//! compared by cross-multiplication, never as floats). Rule: behaviour 6.2 and 6.3; local order is
//! in `names.rs`.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::Rng;
use crate::model::ErrorCode;

/// Names that a random sweep visits (behaviour 6.2).
const SWEEP_MAX: usize = 100;

/// Names that are scored for each missing replica (behaviour 6.3).
const SAMPLES_PER_REPLICA: usize = 6;

/// How names are chosen after the preferred ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Strategy {
    /// A sweep from a random name.
    Random,
    /// As [`Strategy::Random`], but the caller's preferred list ends with all names, nearest first.
    LocalFirst,
    /// The emptiest of a random sample, by memory.
    FreeRatioFirst,
    /// The emptiest of a random sample, by the owner's local disk.
    SsdFreeRatioFirst,
}

impl Strategy {
    /// The strategy of a flag value; every unknown name means [`Strategy::Random`] (behaviour 6.2).
    pub fn parse(name: &str) -> Self {
        match name {
            "local_first" => Strategy::LocalFirst,
            "free_ratio_first" => Strategy::FreeRatioFirst,
            "ssd_free_ratio_first" => Strategy::SsdFreeRatioFirst,
            _ => Strategy::Random,
        }
    }

    /// Whether names near the writer are appended to the preferred list (behaviour 6.1).
    pub fn is_local(self, replicas: u64, prefer_same_node: bool) -> bool {
        replicas == 1 && (self == Strategy::LocalFirst || prefer_same_node)
    }
}

/// Free space of a name as a fraction; `total` 0 counts as full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeRatio {
    /// Free part, at most `total`.
    pub free: u64,
    /// The whole.
    pub total: u64,
}

impl FreeRatio {
    /// What is not known to be used counts as wholly free (behaviour 6.3, ssd variant).
    pub const ALL_FREE: FreeRatio = FreeRatio { free: 1, total: 1 };

    /// Orders by ratio, exactly.
    pub fn compare(self, other: FreeRatio) -> Ordering {
        let scaled = |a: FreeRatio, b: FreeRatio| match a.total {
            0 => 0,
            _ => u128::from(a.free) * u128::from(b.total.max(1)),
        };
        scaled(self, other).cmp(&scaled(other, self))
    }
}

/// What can be allocated from, as the strategies see it. Places are those of the list of names.
pub trait Pool {
    /// What a successful try yields.
    type Space;

    /// Number of names.
    fn names(&self) -> usize;

    /// Number of segments of a name.
    fn members(&self, name: usize) -> usize;

    /// Free space of a name: by memory, or by its owner's disk if the strategy says so.
    fn free_ratio(&self, name: usize, strategy: Strategy) -> FreeRatio;

    /// Tries one segment of a name.
    fn try_allocate(&mut self, name: usize, member: usize) -> Option<Self::Space>;
}

/// A replica's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed<S> {
    /// Place of the name.
    pub name: usize,
    /// Which of its segments.
    pub member: usize,
    /// What the pool gave.
    pub space: S,
}

/// Finds space for up to `replicas` replicas, each on another name; `preferred` names come first,
/// in order (places out of range and repetitions are skipped).
///
/// Returns at least one, and fewer than asked if no more could be had. The caller frees what it
/// does not accept. Errors: `InvalidParams` if `replicas` is 0, `NoAvailableHandle` if nothing
/// could be had.
pub fn place<P: Pool>(
    strategy: Strategy,
    replicas: u64,
    preferred: &[usize],
    rng: &mut Rng,
    pool: &mut P,
) -> Result<Vec<Placed<P::Space>>, ErrorCode> {
    if replicas == 0 {
        return Err(ErrorCode::InvalidParams);
    }
    let wanted = usize::try_from(replicas).unwrap_or(usize::MAX);
    let mut search = Search { wanted, used: BTreeSet::new(), found: Vec::new(), rng, pool };
    match strategy {
        Strategy::Random | Strategy::LocalFirst if search.pool.names() == 1 => search.attempt(0),
        Strategy::Random | Strategy::LocalFirst => {
            search.try_each(preferred.iter().copied());
            search.sweep();
        }
        Strategy::FreeRatioFirst | Strategy::SsdFreeRatioFirst => {
            search.try_each(preferred.iter().copied());
            search.try_emptiest(strategy);
            search.sweep();
        }
    }
    if search.found.is_empty() {
        return Err(ErrorCode::NoAvailableHandle);
    }
    Ok(search.found)
}

/// Allocates from one name: its segments as a ring from a random one, first success.
pub fn allocate_on<P: Pool>(name: usize, rng: &mut Rng, pool: &mut P) -> Option<Placed<P::Space>> {
    let members = pool.members(name);
    // A single segment needs no draw, and most names have one.
    let first = if members > 1 { rng.below(members) } else { 0 };
    ring(first, members, members).find_map(|member| {
        let space = pool.try_allocate(name, member)?;
        Some(Placed { name, member, space })
    })
}

/// `count` consecutive places from `first`, wrapping at `len`.
fn ring(first: usize, count: usize, len: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |step| (first + step) % len.max(1))
}

struct Search<'a, P: Pool> {
    wanted: usize,
    used: BTreeSet<usize>,
    found: Vec<Placed<P::Space>>,
    rng: &'a mut Rng,
    pool: &'a mut P,
}

impl<P: Pool> Search<'_, P> {
    fn is_done(&self) -> bool {
        self.found.len() >= self.wanted
    }

    fn attempt(&mut self, name: usize) {
        if name >= self.pool.names() || self.used.contains(&name) {
            return;
        }
        if let Some(placed) = allocate_on(name, self.rng, self.pool) {
            self.found.push(placed);
            if !self.is_done() {
                self.used.insert(name);
            }
        }
    }

    fn try_each(&mut self, names: impl Iterator<Item = usize>) {
        for name in names {
            if self.is_done() {
                return;
            }
            self.attempt(name);
        }
    }

    fn sweep(&mut self) {
        let names = self.pool.names();
        if self.is_done() || names == 0 {
            return;
        }
        let start = self.rng.below(names);
        self.try_each(ring(start, names.min(SWEEP_MAX), names));
    }

    fn try_emptiest(&mut self, strategy: Strategy) {
        let names = self.pool.names();
        if self.is_done() || names == 0 {
            return;
        }
        let missing = self.wanted - self.found.len();
        let count = missing.saturating_mul(SAMPLES_PER_REPLICA).min(names);
        let start = self.rng.below(names);
        let mut sample: Vec<(FreeRatio, usize)> = ring(start, count, names)
            .filter(|name| !self.used.contains(name))
            .map(|name| (self.pool.free_ratio(name, strategy), name))
            .collect();
        // Stable: names that are equally free stay in ring order.
        sample.sort_by(|(a, _), (b, _)| b.compare(*a));
        self.try_each(sample.into_iter().map(|(_, name)| name));
    }
}

#[cfg(test)]
mod tests;
