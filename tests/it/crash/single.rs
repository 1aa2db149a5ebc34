//! Crash points of a node on its own: log and vote, raft snapshots, catalog snapshots.

use std::path::Path;
use std::sync::Arc;

use mooncake_ha_crash::Point;
use mooncake_ha_snapshot::catalog::{CLUSTER_ID_DEFAULT, Catalog, SnapshotId};
use mooncake_ha_snapshot::store::LocalStore;
use mooncake_ha_snapshot::{Limits, RestoreOptions, Survival, restore};
use tempfile::TempDir;

use super::Tour;
use super::image::{self, Cut};
use super::ledger::Ledger;
use super::victim::Victim;
use crate::support::wall_ms;

/// Log and vote. The first few are passed when a node starts.
pub const LOG_TOUR: &[Point] = &[
    Point::LogCreated,
    Point::LogCreatedSynced,
    Point::VoteBegins,
    Point::VoteWritten,
    Point::VoteSynced,
    Point::LogAppendBegins,
    Point::LogAppended,
    Point::LogCommittedWritten,
    Point::LogFlushBegins,
    Point::LogFlushed,
    Point::LogSynced,
    Point::LogMarkRaised,
    Point::PurgeBegins,
    Point::PurgeWritten,
    Point::PurgeRowsDeleted,
    Point::PurgeFlushed,
];

/// The log of a node that does not sync every append.
pub const JOURNAL_TOUR: &[Point] = &[
    Point::LogAppendBegins,
    Point::JournalBegins,
    Point::JournalTorn,
    Point::JournalNoted,
    Point::LogAppended,
    Point::LogFlushed,
    Point::JournalSettled,
    Point::PurgeRowsDeleted,
    Point::VoteWritten,
];

/// How many of them are passed at the start.
const STARTING: usize = 5;

/// Raft snapshots and catalog snapshots.
pub const FILES_TOUR: &[Point] = &[
    Point::SnapshotBegins,
    Point::SnapshotTorn,
    Point::SnapshotWritten,
    Point::SnapshotSynced,
    Point::SnapshotRenamed,
    Point::SnapshotNamed,
    Point::SnapshotOldRemoved,
    Point::CatalogBegins,
    Point::CatalogTorn,
    Point::CatalogWritten,
    Point::CatalogSynced,
    Point::CatalogRenamed,
    Point::CatalogNamed,
    Point::CatalogDeleted,
];

/// No log is kept behind a raft snapshot, so every one of them purges.
const NO_LOG: &str = "--raft_log_keep_bytes=0";

fn is_purge(point: Point) -> bool {
    use Point::{PurgeBegins, PurgeFlushed, PurgeRowsDeleted, PurgeWritten};
    matches!(point, PurgeBegins | PurgeWritten | PurgeRowsDeleted | PurgeFlushed)
}

/// Starts a node, checks it against the ledger, and leaves it running.
fn start(victim: &mut Victim, ledger: &mut Ledger) {
    victim.start();
    victim.until_serving();
    ledger.check(&victim.address());
}

fn first_start(victim: &mut Victim, ledger: &mut Ledger) {
    victim.start();
    victim.until_serving();
    ledger.turn_to(&victim.address());
    ledger.mount();
    ledger.write();
    assert!(ledger.len() > 0);
}

#[test]
fn a_node_killed_or_without_power_at_any_point_of_its_log_and_vote_loses_nothing() {
    let dir = TempDir::new().unwrap();
    let mut tour = Tour::of(LOG_TOUR);
    let mut ledger = Ledger::new();
    let mut victim = Victim::new(&dir.path().join("node"), &[NO_LOG]);
    first_start(&mut victim, &mut ledger);
    for (at, point) in LOG_TOUR.iter().copied().enumerate() {
        if at < STARTING {
            victim.kill();
            victim.arm(point, 1);
            victim.start();
            victim.until_dead(point, |_| ());
        } else {
            victim.arm(point, 1 + at as u32 % 3);
            victim.until_dead(point, |victim| {
                ledger.write();
                if is_purge(point) {
                    victim.http().try_send("POST", "/api/v1/cluster/snapshot");
                }
            });
        }
        tour.visited(point);
        for cut in [Cut::Lost, Cut::Torn] {
            let after = dir.path().join(format!("{}-{cut:?}", point.name()));
            after_power_cut(&after, &victim, &mut ledger, cut);
        }
        start(&mut victim, &mut ledger);
    }
    tour.end();
}

/// Another node is started on what the power cut leaves; the ledger goes on with the first one.
fn after_power_cut(dir: &Path, victim: &Victim, ledger: &mut Ledger, cut: Cut) {
    let mut after = Victim::new(dir, &[NO_LOG]);
    image::copy(&victim.dir().join("data"), &dir.join("data"));
    let seed = std::process::id().into();
    image::cut_power(&dir.join("data"), &victim.dir().join("synced"), cut, seed);
    println!("{cut:?}, seed {seed}: {}", dir.display());
    after.start();
    after.until_serving();
    ledger.check_aside(&after.address());
    after.kill();
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_node_that_syncs_no_append_and_is_killed_at_any_point_of_its_journal_loses_nothing() {
    let dir = TempDir::new().unwrap();
    let mut tour = Tour::of(JOURNAL_TOUR);
    let mut ledger = Ledger::new();
    let mut victim = Victim::new(&dir.path().join("node"), &[NO_LOG, "--durability=async"]);
    first_start(&mut victim, &mut ledger);
    // Twice: the second time round there is an earlier journal, and one that was just settled.
    for (at, point) in JOURNAL_TOUR.iter().chain(JOURNAL_TOUR).copied().enumerate() {
        let is_vote = point == Point::VoteWritten;
        if is_vote {
            victim.kill();
        }
        victim.arm(point, if is_vote { 1 } else { 1 + at as u32 % 3 });
        if is_vote {
            victim.start();
        }
        victim.until_dead(point, |victim| {
            if is_vote {
                return;
            }
            ledger.write();
            if is_purge(point) {
                victim.http().try_send("POST", "/api/v1/cluster/snapshot");
            }
        });
        tour.visited(point);
        start(&mut victim, &mut ledger);
    }
    tour.end();
}

/// The image is one of a power cut: what was never synced is not in it.
#[test]
fn a_power_cut_takes_from_a_node_that_does_not_sync_what_it_has_acknowledged() {
    let dir = TempDir::new().unwrap();
    let mut ledger = Ledger::new();
    let mut victim = Victim::new(&dir.path().join("node"), &["--durability=async"]);
    first_start(&mut victim, &mut ledger);
    victim.kill();
    image::cut_power(&victim.dir().join("data"), &victim.dir().join("synced"), Cut::Lost, 1);
    victim.start();
    victim.until_serving();
    assert!(!ledger.wrong_at(&victim.address()).is_empty());
}

/// The catalog, and the newest snapshot in it that somebody was told of.
struct Taken {
    catalog: Catalog,
    newest: Option<String>,
}

impl Taken {
    /// Has a node take one.
    fn take(&mut self, victim: &Victim) {
        let Some((200, body)) = victim.http().try_send("POST", "/api/v1/snapshots") else { return };
        let page: serde_json::Value = serde_json::from_str(&body).unwrap();
        self.newest = Some(page["id"].as_str().unwrap().to_owned());
    }

    /// It is listed, and nothing that is listed is damaged.
    fn check(&self) {
        let ids: Vec<SnapshotId> =
            self.catalog.list().unwrap().into_iter().map(|listed| listed.id).collect();
        if let Some(newest) = &self.newest {
            let is_listed = ids.iter().any(|id| id.to_string() == *newest);
            assert!(is_listed, "{newest} was acknowledged; listed are {ids:?}");
        }
        let options = RestoreOptions { now_ms: wall_ms(), survival: Survival::Rfc, only: None };
        for report in restore::verify(&self.catalog, &ids, &options) {
            assert!(report.is_clean(), "{report}");
        }
    }
}

#[test]
fn a_node_killed_at_any_point_of_a_raft_or_catalog_snapshot_loses_neither_state_nor_snapshots() {
    let dir = TempDir::new().unwrap();
    let root = dir.path().join("catalog");
    std::fs::create_dir(&root).unwrap();
    let path = format!("--snapshot_local_path={}", root.display());
    let never = "--snapshot_interval_seconds=100000";
    let flags = ["--enable_snapshot", "--snapshot_retention_count=2", never, &path];
    let mut victim = Victim::new(&dir.path().join("node"), &flags);
    let store = Arc::new(LocalStore::open_existing(&root).unwrap());
    let catalog = Catalog::new(store, CLUSTER_ID_DEFAULT, Limits::default());
    let mut taken = Taken { catalog, newest: None };
    let (mut tour, mut ledger) = (Tour::of(FILES_TOUR), Ledger::new());
    first_start(&mut victim, &mut ledger);
    victim.http().try_send("POST", "/api/v1/cluster/snapshot");
    for point in FILES_TOUR.iter().copied() {
        let is_catalog = point >= Point::CatalogBegins;
        let hits: &[u32] = match point {
            Point::CatalogDeleted => &[1],
            // The first file and the last one, which is the pointer to the whole.
            _ if is_catalog => &[1, 4],
            _ => &[1],
        };
        for hit in hits {
            victim.arm(point, *hit);
            victim.until_dead(point, |victim| {
                ledger.write();
                match is_catalog {
                    true => taken.take(victim),
                    false => drop(victim.http().try_send("POST", "/api/v1/cluster/snapshot")),
                }
            });
            tour.visited(point);
            start(&mut victim, &mut ledger);
            taken.check();
        }
    }
    taken.take(&victim);
    assert!(taken.newest.is_some());
    taken.check();
    tour.end();
}
