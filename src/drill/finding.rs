//! What a drill must not find.

use std::collections::BTreeMap;

use serde::Serialize;

use super::moment::Moment;

/// Findings that are told one by one; the others are counted.
pub const FINDINGS_MAX: usize = 200;

/// A kind of finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// An acknowledged write cannot be read.
    LostWrite,
    /// A removed key can be read.
    RemovedBack,
    /// A reader saw less than was acknowledged, or seen by another, before it asked.
    StaleRead,
    /// A reader was sent to another place than the writer, or to bytes that nobody wrote under that key.
    WrongPlace,
    /// Two objects share memory while both are promised.
    Overlap,
    /// A soft pin is gone before its time.
    PinLost,
    /// A soft pin ends at another time than before.
    PinMoved,
    /// Two nodes led in one term.
    TwoLeaders,
    /// A client was told that it is not known.
    ForgottenClient,
    /// Two nodes hold different states at the same entry.
    ImagesDiffer,
    /// What a node uses goes on growing under the same load.
    Growth,
    /// Service did not come back in time.
    NoService,
    /// The drill has not shown what it is for.
    NothingShown,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 13] = [
        Kind::LostWrite,
        Kind::RemovedBack,
        Kind::StaleRead,
        Kind::WrongPlace,
        Kind::Overlap,
        Kind::PinLost,
        Kind::PinMoved,
        Kind::TwoLeaders,
        Kind::ForgottenClient,
        Kind::ImagesDiffer,
        Kind::Growth,
        Kind::NoService,
        Kind::NothingShown,
    ];

    /// For people.
    pub fn title(self) -> &'static str {
        match self {
            Kind::LostWrite => "acknowledged writes lost",
            Kind::RemovedBack => "removed keys back",
            Kind::StaleRead => "stale reads",
            Kind::WrongPlace => "reads sent to wrong bytes",
            Kind::Overlap => "objects sharing memory",
            Kind::PinLost => "soft pins lost",
            Kind::PinMoved => "soft pins moved",
            Kind::TwoLeaders => "two leaders in one term",
            Kind::ForgottenClient => "clients forgotten",
            Kind::ImagesDiffer => "nodes with different states",
            Kind::Growth => "nodes that go on growing",
            Kind::NoService => "service not back in time",
            Kind::NothingShown => "nothing shown",
        }
    }
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Of which kind.
    pub kind: Kind,
    /// A sentence with names and numbers.
    pub what: String,
    /// When it was seen, in microseconds since the drill began.
    pub at: Moment,
}

/// Findings, counted by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    counts: BTreeMap<Kind, u64>,
    told: Vec<Finding>,
}

impl Findings {
    /// One more.
    pub fn add(&mut self, kind: Kind, at: Moment, what: impl Into<String>) {
        *self.counts.entry(kind).or_default() += 1;
        if self.told.len() < FINDINGS_MAX {
            self.told.push(Finding { kind, what: what.into(), at });
        }
    }

    /// How many of a kind.
    pub fn count(&self, kind: Kind) -> u64 {
        self.counts.get(&kind).copied().unwrap_or(0)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// The first [`FINDINGS_MAX`].
    pub fn told(&self) -> &[Finding] {
        &self.told
    }
}
