//! Points of the program at which a test kills it: around every write, sync and rename of the raft log, the
//! vote, raft snapshots and catalog snapshots.
//!
//! Guards: without the feature `armed`, which only tests switch on, a point is nothing at all. With it
//! a process dies where the file that [`ARM`] names tells it to, by SIGKILL of itself, so it is surely there.
//! A power cut is played by the test; for that the process keeps, in the directory that [`SYNCED`] names,
//! what the disk surely holds of each file that is synced through [`syncing`].

#[cfg(feature = "armed")]
mod armed;

use std::path::Path;

/// The environment variable with the path of the file that arms a point: `NAME HIT`, counted from 1 since the
/// file is there. It is looked at whenever a point is reached, so a running process can be armed.
pub const ARM: &str = "MOONCAKE_HA_CRASH_AT";
/// The environment variable with the directory for what is synced.
pub const SYNCED: &str = "MOONCAKE_HA_CRASH_SYNCED";

macro_rules! points {
    ($($point:ident $name:literal $what:literal,)*) => {
        /// A point. `docs/testing.md` says which test visits which.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Point {
            $(#[doc = $what] $point,)*
        }

        impl Point {
            /// All of them.
            pub const ALL: &'static [Point] = &[$(Point::$point,)*];

            /// How the file that arms it calls it.
            pub fn name(self) -> &'static str {
                match self {
                    $(Point::$point => $name,)*
                }
            }
        }
    };
}

points! {
    LogCreated "log-created" "The log is opened; neither its file nor its name is synced.",
    LogCreatedSynced "log-created-synced" "Both are synced.",
    LogAppendBegins "log-append-begins" "Entries are about to be handed to the store.",
    LogAppended "log-appended" "They are.",
    LogCommittedWritten "log-committed-written" "Where a restart goes on applying is handed to the store.",
    JournalBegins "log-journal-begins" "Entries and where a restart goes on are about to be noted in the journal.",
    JournalTorn "log-journal-torn" "Half of that is written.",
    JournalNoted "log-journal-noted" "All of it is, and nobody was answered.",
    JournalSettled "log-journal-settled" "The store has what was noted, and the journal does not know.",
    LogFlushBegins "log-flush-begins" "What the store was handed is about to be written to its file.",
    LogFlushed "log-flushed" "It is, and not synced.",
    LogSynced "log-synced" "It is synced; the mark still says less.",
    LogMarkRaised "log-mark-raised" "The mark says so, and nobody was answered.",
    VoteBegins "vote-begins" "A vote is about to be handed to the store.",
    VoteWritten "vote-written" "It is.",
    VoteSynced "vote-synced" "It is on the disk, and nobody knows of it.",
    TruncateBegins "log-truncate-begins" "Entries are about to be taken back.",
    TruncateMarkLowered "log-truncate-mark-lowered" "The mark says less, and they are still there.",
    Truncated "log-truncated" "The store was told to take them back.",
    PurgeBegins "log-purge-begins" "The start of the log is about to move.",
    PurgeWritten "log-purge-written" "It has moved; what lies before it is still there.",
    PurgeRowsDeleted "log-purge-rows-deleted" "The store was told to delete some of that.",
    PurgeFlushed "log-purge-flushed" "That is written.",
    SnapshotBegins "raft-snapshot-begins" "The file of a raft snapshot is made, and empty.",
    SnapshotTorn "raft-snapshot-torn" "Half of a write to it is done.",
    SnapshotWritten "raft-snapshot-written" "All is written and nothing is synced.",
    SnapshotSynced "raft-snapshot-synced" "The file is synced and has no name yet.",
    SnapshotRenamed "raft-snapshot-renamed" "It has its name, which is not synced.",
    SnapshotNamed "raft-snapshot-named" "Its name is synced; the one before is still there.",
    SnapshotOldRemoved "raft-snapshot-old-removed" "The one before is removed.",
    ReceivedPart "raft-snapshot-part-received" "A part of a raft snapshot of another node is written.",
    ReceivedAll "raft-snapshot-received" "All parts are written and nothing is synced.",
    ReceivedSynced "raft-snapshot-received-synced" "The file is synced and not installed.",
    CatalogBegins "catalog-file-begins" "A file of a catalog snapshot is about to be written.",
    CatalogTorn "catalog-file-torn" "Half of it is written.",
    CatalogWritten "catalog-file-written" "All of it is written and nothing is synced.",
    CatalogSynced "catalog-file-synced" "It is synced and has no name yet.",
    CatalogRenamed "catalog-file-renamed" "It has its name, which is not synced.",
    CatalogNamed "catalog-file-named" "Its name is synced.",
    CatalogDeleted "catalog-files-deleted" "Files of an old catalog snapshot are gone; that is not synced.",
}

/// The program is at a point. Does not come back if the point is armed.
#[inline(always)]
pub fn reach(point: Point) {
    #[cfg(feature = "armed")]
    armed::reach(point);
    #[cfg(not(feature = "armed"))]
    let _ = point;
}

/// Some bytes are about to be written: if the point is armed, half of them are, and that is the end.
#[inline(always)]
pub fn tear<R>(point: Point, bytes: &[u8], write: impl FnOnce(&[u8]) -> R) {
    #[cfg(feature = "armed")]
    armed::tear(point, bytes, write);
    #[cfg(not(feature = "armed"))]
    let _ = (point, bytes, write);
}

/// Syncs a file. What it held when that began is kept for a test that cuts the power.
///
/// # Errors
/// Those of `sync`.
#[inline(always)]
pub fn syncing<E>(path: &Path, sync: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
    #[cfg(feature = "armed")]
    return armed::syncing(path, sync);
    #[cfg(not(feature = "armed"))]
    {
        let _ = path;
        sync()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_point_has_a_name_of_its_own() {
        let names: BTreeSet<_> = Point::ALL.iter().map(|point| point.name()).collect();
        assert_eq!(names.len(), Point::ALL.len());
    }

    #[test]
    fn a_point_that_nobody_has_armed_changes_nothing() {
        reach(Point::LogAppended);
        tear(Point::CatalogTorn, b"bytes", |_| panic!("half of it was written"));
        assert_eq!(syncing(Path::new("nothing"), || Err("told")), Err("told"));
    }
}
