//! Damaged snapshots through the whole node: it takes over what the snapshot crate says, and is sound.
//!
//! Which outcome each damage has is the table of `snapshot/tests/it/damaged.rs`.

use std::fs;

use mooncake_ha::restore::{FirstRestoreError, Restorer, before_serving};
use mooncake_ha_snapshot::{Outcome, Survival};

use super::fresh::{Fresh, catalog, cluster_in, copy_of, fixture};

/// All leases of the base run at this time.
const NOW_MS: u64 = 1_795_976_900_000;

fn damaged() -> Vec<String> {
    let entries = fs::read_dir(fixture("corrupted")).unwrap().map(Result::unwrap);
    let dirs = entries.filter(|entry| entry.path().is_dir());
    let mut names: Vec<String> =
        dirs.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    assert!(names.len() >= 40, "{names:?}");
    names
}

#[tokio::test]
async fn every_damaged_snapshot_is_survived_by_the_node() {
    for name in damaged() {
        let fresh = Fresh::at(NOW_MS, &[]).await;
        let root = fixture("corrupted").join(&name);
        let report = fresh.restore(&root, Survival::Rfc).await.unwrap();
        assert_eq!(report.outcome, Outcome::Restored, "{name}: {report}");
        let taken = report.candidates.last().unwrap();
        let (keys, snapshot, bytes) = fresh.node.look(|state| {
            let used = state.segments().iter().map(|(_, m)| m.allocator.used_bytes()).sum::<u64>();
            let record = state.restore().record().unwrap();
            (state.totals().keys, record.snapshot.clone().unwrap(), used)
        });
        assert_eq!((keys, &*snapshot), (taken.kept.objects, &*taken.id.to_string()), "{name}");
        // Nothing leaks: memory in use is that of the objects (the peer loses the space of dropped ones).
        assert_eq!(bytes, taken.kept.bytes, "{name}");
    }
}

#[tokio::test]
async fn one_whose_every_candidate_is_broken_does_not_serve_unless_told() {
    let root = copy_of("corrupted/metadata_empty");
    fs::remove_dir_all(cluster_in(root.path()).join("20261129_182736_634")).unwrap();
    let fresh = Fresh::at(NOW_MS, &["--enable_snapshot_restore"]).await;
    let restorer = Restorer::new(catalog(root.path()), fresh.node.clone());
    let refused = before_serving(&fresh.config, &fresh.node, &restorer).await;
    let Err(FirstRestoreError::AllFailed(report)) = &refused else { panic!("{refused:?}") };
    assert_eq!((report.outcome, report.candidates.len()), (Outcome::AllFailed, 1));
    let words = refused.unwrap_err().to_string();
    for word in ["--restore_or_empty", "snapshot verify", "20261129_182740_639", "docs/operations"]
    {
        assert!(words.contains(word), "{word}: {words}");
    }
    assert!(fresh.node.look(|state| state.restore().record().is_none()));

    let mut told = fresh.config.clone();
    told.snapshot.restore_or_empty = true;
    before_serving(&told, &fresh.node, &restorer).await.unwrap();
    // It is decided: the next start, without the flag, serves.
    let fresh = fresh.reopened().await;
    let restorer = Restorer::new(catalog(root.path()), fresh.node.clone());
    before_serving(&fresh.config, &fresh.node, &restorer).await.unwrap();
}
