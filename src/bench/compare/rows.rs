//! The rows of the comparison: what each measures, in which scene, and what is asked of this master.
//!
//! Names are stable: scripts may select and read rows by them (`docs/performance.md`).

/// A store and what is done to it; it yields the values of some rows for one master.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scene {
    /// Single calls and batches on the smaller store.
    Calls,
    /// The writes among them, with every write on disk before it is answered; this master only.
    SyncCalls,
    /// The larger store: memory, batches, a client that leaves, removal of all.
    Million,
    /// Puts with one live client, and with many.
    Clients,
    /// Reads while writing.
    Writing,
    /// Empty segments.
    Mount,
    /// The watermark is crossed.
    Evict,
    /// The client that owns all memory dies.
    OwnerDies,
    /// All objects with soft pins that end together.
    Pins,
    /// Long keys.
    LongKeys,
    /// Long keys with soft pins.
    LongPins,
    /// A catalog snapshot with large segments.
    Snapshot,
    /// Killed and started again.
    ColdStart,
}

impl Scene {
    /// In the order in which they are played: what is asked for most and takes least comes first.
    pub const ALL: [Scene; 13] = [
        Scene::Calls,
        Scene::SyncCalls,
        Scene::Mount,
        Scene::Million,
        Scene::Writing,
        Scene::Clients,
        Scene::Evict,
        Scene::OwnerDies,
        Scene::Pins,
        Scene::LongKeys,
        Scene::LongPins,
        Scene::ColdStart,
        Scene::Snapshot,
    ];

    /// Whether it needs the larger store.
    pub fn is_large(self) -> bool {
        !matches!(
            self,
            Scene::Calls | Scene::SyncCalls | Scene::Mount | Scene::Writing | Scene::Clients
        )
    }
}

/// What is asked of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    /// This master's value is at most this part of the other's.
    Ratio(f64),
    /// This master's value is at most this.
    Most(f64),
    /// This master's value is at least this.
    Least(f64),
    /// Nothing; the row is there to be read.
    None,
}

/// One row.
#[derive(Clone, Copy, Debug)]
pub struct RowSpec {
    /// Its stable name.
    pub name: &'static str,
    /// What is measured.
    pub what: &'static str,
    /// Of the values.
    pub unit: &'static str,
    /// Where it is measured.
    pub scene: Scene,
    /// The row whose value of the other master this one is compared with, if not its own.
    pub beside: Option<&'static str>,
    /// The row whose value is taken away from this one's.
    pub less: Option<&'static str>,
    /// What is asked.
    pub target: Target,
}

const fn row(
    name: &'static str,
    unit: &'static str,
    scene: Scene,
    target: Target,
    what: &'static str,
) -> RowSpec {
    RowSpec { name, what, unit, scene, beside: None, less: None, target }
}

const fn beside(other: &'static str, row: RowSpec) -> RowSpec {
    RowSpec { beside: Some(other), ..row }
}

const fn less(other: &'static str, row: RowSpec) -> RowSpec {
    RowSpec { less: Some(other), ..row }
}

/// Microseconds of server CPU.
const CPU: &str = "us CPU";
const PER_SECOND: &str = "1/s";
const MS: &str = "ms";
const BYTES: &str = "B";

/// All rows, in the order in which they are shown.
pub const ROWS: &[RowSpec] = &[
    row("exist-cpu", CPU, Scene::Calls, Target::Ratio(0.6), "ExistKey, 32 connections"),
    row("get-cpu", CPU, Scene::Calls, Target::Ratio(0.6), "GetReplicaList, 32 connections"),
    row("exist-rate", PER_SECOND, Scene::Calls, Target::None, "the same, throughput"),
    row("get-rate", PER_SECOND, Scene::Calls, Target::None, "the same, throughput"),
    row("exist-p50", "us", Scene::Calls, Target::Ratio(0.9), "ExistKey, one connection"),
    row("get-p50", "us", Scene::Calls, Target::Ratio(0.9), "GetReplicaList, one connection"),
    row("batch-exist-cpu", CPU, Scene::Calls, Target::Ratio(0.35), "a key of BatchExistKey 128"),
    row("batch-get-cpu", CPU, Scene::Calls, Target::Ratio(0.4), "a key of BatchGetReplicaList 128"),
    row(
        "batch-exist-cpu-1m",
        CPU,
        Scene::Million,
        Target::Ratio(0.35),
        "BatchExistKey, larger store",
    ),
    row("batch-get-cpu-1m", CPU, Scene::Million, Target::Ratio(0.4), "the same of BatchGet"),
    row("put-cpu", CPU, Scene::Calls, Target::Ratio(1.0), "PutStart + PutEnd, 64 connections"),
    row("put-rate", PER_SECOND, Scene::Calls, Target::None, "the same, throughput"),
    beside(
        "put-cpu",
        row("put-cpu-sync", CPU, Scene::SyncCalls, Target::Ratio(1.5), "the same, on disk"),
    ),
    row("batch-put-cpu", CPU, Scene::Calls, Target::Ratio(0.7), "a key of BatchPut 128"),
    row("batch-put-rate", PER_SECOND, Scene::Calls, Target::None, "the same, throughput"),
    beside(
        "batch-put-cpu",
        row("batch-put-cpu-sync", CPU, Scene::SyncCalls, Target::Ratio(1.0), "the same, on disk"),
    ),
    row("remove-cpu", CPU, Scene::Calls, Target::Ratio(1.0), "Remove, 32 connections"),
    row("batch-remove-cpu", CPU, Scene::Calls, Target::Ratio(0.7), "a key of BatchRemove 128"),
    row(
        "put-many-clients",
        "x",
        Scene::Clients,
        Target::Most(1.1),
        "CPU of BatchPut 128 with 512 live clients, times that with one",
    ),
    row(
        "read-p99-writing",
        "us",
        Scene::Writing,
        Target::Ratio(0.8),
        "p99 of gets beside puts at half of the other master's maximum",
    ),
    row("rss-21", BYTES, Scene::Million, Target::Ratio(0.35), "memory an object, keys of 21 B"),
    row("rss-100", BYTES, Scene::LongKeys, Target::Ratio(0.35), "memory an object, keys of 100 B"),
    less(
        "rss-21",
        row("rss-pin-21", BYTES, Scene::Pins, Target::Ratio(0.4), "more for a soft pin, 21 B"),
    ),
    less(
        "rss-100",
        row("rss-pin-100", BYTES, Scene::LongPins, Target::Ratio(0.4), "more for a pin, 100 B"),
    ),
    row(
        "rss-given-back",
        "share",
        Scene::Million,
        Target::Least(0.8),
        "memory of the objects that goes back when all are removed",
    ),
    row(
        "evict-whole",
        MS,
        Scene::Evict,
        Target::Most(150.0),
        "eviction of 5 %, from the watermark",
    ),
    row("evict-stall", MS, Scene::Evict, Target::Most(5.0), "longest call meanwhile"),
    row("pins-cpu", "ms CPU", Scene::Pins, Target::Ratio(0.5), "all soft pins end together"),
    row("pins-stall", MS, Scene::Pins, Target::Most(2.0), "longest get meanwhile"),
    row(
        "idle-leaves-cpu",
        "ms CPU",
        Scene::Million,
        Target::Ratio(0.01),
        "a client that owns nothing leaves",
    ),
    row("owner-dies-whole", MS, Scene::OwnerDies, Target::Most(1_500.0), "the owner of all dies"),
    row("owner-dies-stall", MS, Scene::OwnerDies, Target::Most(10.0), "longest call meanwhile"),
    row("mount-time", MS, Scene::Mount, Target::Ratio(0.5), "a 64 GiB segment is mounted"),
    row("mount-rss", BYTES, Scene::Mount, Target::Ratio(0.2), "resident memory of the segment"),
    row("mount-reserved", BYTES, Scene::Mount, Target::None, "address space of the segment"),
    row(
        "snapshot-large",
        "works",
        Scene::Snapshot,
        Target::Least(1.0),
        "catalog snapshot with 16 segments of 64 GiB: 1 works, 0 fails",
    ),
    row("cold-start", MS, Scene::ColdStart, Target::Ratio(1.0), "killed; to the first answer"),
];

/// Rows that this command cannot measure, and why.
pub const NOT_MEASURED: &[(&str, &str)] = &[
    (
        "three-nodes-sync",
        "the other master has no mode in which an answered write is on several disks; \
         measure a cluster by benches/three_nodes.py",
    ),
    ("objects-10m", "fills 24 GiB with the other master; measure by `bench restore --count 10m`"),
];

/// A row by its name.
pub fn find(name: &str) -> Option<&'static RowSpec> {
    ROWS.iter().find(|row| row.name == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_those_that_rows_lean_on_exist() {
        let names: BTreeSet<_> = ROWS.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), ROWS.len());
        for row in ROWS {
            assert!(row.beside.into_iter().chain(row.less).all(|name| names.contains(name)));
        }
        assert!(NOT_MEASURED.iter().all(|(name, _)| !names.contains(name)));
    }

    #[test]
    fn every_scene_is_played_and_has_a_row() {
        let played: BTreeSet<_> = Scene::ALL.into_iter().collect();
        let needed: BTreeSet<_> = ROWS.iter().map(|row| row.scene).collect();
        assert_eq!(played, needed);
    }

    #[test]
    fn the_page_of_the_rows_names_each() {
        let page = include_str!("../../../docs/performance.md");
        for name in ROWS.iter().map(|row| row.name).chain(NOT_MEASURED.iter().map(|row| row.0)) {
            assert!(page.contains(&format!("`{name}`")), "{name} is not in docs/performance.md");
        }
    }
}
