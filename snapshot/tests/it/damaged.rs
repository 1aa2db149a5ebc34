//! Damaged snapshots: each gives the outcome of the real master, or a better one that the table
//! names.
//!
//! `docs/snapshot.md` explains the differences. The base is two good snapshots, the older with 10
//! objects, the newer with 20; the newer is damaged.

use std::fs;
use std::path::Path;

use mooncake_ha_snapshot::{Effect, Outcome, RestoreOptions, RestoreReport, Survival, restore};

use crate::fixtures::{damaged_fixtures, directories, fixtures};
use crate::restores::open;

/// All leases of the base run at this time, except where the damage includes an ended one.
pub const NOW_MS: u64 = 1_795_976_900_000;

/// What a restore must give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// The newer one whole.
    Newer,
    /// The newer one with this many of its 20 objects.
    NewerWith(u64),
    /// The older one.
    Older,
}
use Expected::{Newer, NewerWith, Older};

/// Fixture, our outcome, and the real master's where ours is better.
const OUTCOMES: [(&str, Expected, &str); 44] = [
    ("allocator_bin_head_oob", NewerWith(18), "same objects; its free lists stay broken"),
    ("allocator_free_offset_oob", Newer, "same objects; its free stack stays broken"),
    ("descriptor_missing", Older, ""),
    ("descriptor_newline", Newer, "falls back"),
    ("good", Newer, ""),
    ("latest_empty", Newer, ""),
    ("latest_garbage", Newer, ""),
    ("latest_missing_snapshot", Newer, ""),
    ("latest_newline", Newer, ""),
    ("manifest_bad_proto", Older, ""),
    ("manifest_bad_version", Older, ""),
    ("manifest_missing", Older, ""),
    ("manifest_newline", Newer, ""),
    ("metadata_empty", Older, ""),
    ("metadata_missing", Older, ""),
    ("metadata_truncated_1", Older, ""),
    ("metadata_truncated_half", Older, ""),
    ("object_bad_uuid", NewerWith(19), "same objects; the space is lost"),
    ("object_duplicate_key", Newer, "same objects; frees memory in use"),
    ("object_item_4", NewerWith(19), "falls back"),
    ("object_lease_huge", NewerWith(19), "same objects; the space is lost"),
    ("object_node_oob", NewerWith(19), ""),
    ("object_node_oob_far", NewerWith(19), "crashes"),
    ("object_status_99", NewerWith(19), ""),
    ("object_unknown_segment", NewerWith(19), "same objects; the space is lost"),
    ("object_wrong_type", NewerWith(19), "falls back"),
    ("old_versions_ok", Newer, ""),
    ("segment_draining", Newer, "falls back"),
    ("segment_gracefully_unmounting", Newer, "falls back"),
    ("segment_unmounting", Older, ""),
    ("segments_bitflip", Newer, "same objects; the flipped bit stays"),
    ("segments_empty_map", Older, "restores nothing and calls it success"),
    ("segments_ma_cachelib", Older, ""),
    ("segments_no_ms", Older, "restores nothing and calls it success"),
    ("segments_truncated", Older, ""),
    ("shard_key_str", Older, ""),
    ("shards_is_array", Older, ""),
    ("shards_is_nil", Older, "crashes"),
    ("task_manager_empty", Older, ""),
    ("task_wrong_type_id", Newer, "falls back"),
    ("task_wrong_type_inner", Newer, ""),
    ("zstd_bad_content_checksum", Older, ""),
    ("zstd_content_size_flip", Older, ""),
    ("zstd_no_content_size", Older, ""),
];

/// The fixture that the table cannot hold: two records claim one name.
const SILENT_BITFLIP: &str = "zstd_silent_bitflip";

fn restore_fixture(name: &str) -> RestoreReport {
    let options = RestoreOptions { now_ms: NOW_MS, survival: Survival::Rfc, only: None };
    restore(&open(&format!("corrupted/{name}")), &options).unwrap().report
}

#[test]
fn every_damaged_fixture_gives_its_outcome() {
    let named: Vec<&str> = OUTCOMES.iter().map(|(name, ..)| *name).collect();
    let mut present = damaged_fixtures();
    present.retain(|name| name != SILENT_BITFLIP);
    assert_eq!(named, present, "the table and the directory differ");
    for (name, expected, _) in OUTCOMES {
        let report = restore_fixture(name);
        assert_eq!(report.outcome, Outcome::Restored, "{name}: {report}");
        let restored = report.candidates.last().unwrap();
        let found = match (restored.id.to_string().as_str(), restored.kept.objects) {
            ("20261129_182740_639", 20) => Newer,
            ("20261129_182740_639", kept) => NewerWith(kept),
            ("20261129_182736_634", 10) => Older,
            other => panic!("{name}: {other:?}: {report}"),
        };
        assert_eq!(found, expected, "{name}: {report}");
        if found == Older && report.candidates.len() > 1 {
            assert!(report.candidates[0].failure.is_some(), "{name}");
        }
    }
}

#[test]
fn an_object_whose_name_a_flipped_bit_turned_into_another_is_dropped_and_named() {
    // The real master restores 20 records, of which two have one name and one lies in a wrong
    // shard.
    let report = restore_fixture(SILENT_BITFLIP);
    let candidate = &report.candidates[0];
    assert_eq!((candidate.seen.objects, candidate.kept.objects), (20, 19));
    let finding = &candidate.findings.list[0];
    assert_eq!(
        (finding.effect, finding.key.as_deref()),
        (Effect::ObjectDropped, Some("default/b2"))
    );
}

#[test]
fn a_damaged_snapshot_alone_fails_and_says_why_instead_of_starting_empty() {
    for (name, expected, _) in OUTCOMES {
        if expected != Older || name == "descriptor_missing" {
            continue;
        }
        let directory = tempfile::tempdir().unwrap();
        copy(&fixtures().join("corrupted").join(name), directory.path());
        let cluster = directory.path().join("mooncake_master_snapshot/mooncake_cluster");
        fs::remove_dir_all(cluster.join("20261129_182736_634")).unwrap();
        let options = RestoreOptions { now_ms: NOW_MS, survival: Survival::Rfc, only: None };
        let restored = restore(&crate::restores::open_at(directory.path()), &options).unwrap();
        assert_eq!(restored.report.outcome, Outcome::AllFailed, "{name}");
        assert!(restored.image.is_none(), "{name}");
        let candidate = &restored.report.candidates[0];
        assert!(candidate.failure.as_ref().is_some_and(|why| !why.is_empty()), "{name}");
        let worst = candidate.findings.list.last().unwrap();
        assert_eq!(worst.effect, Effect::CandidateFails, "{name}");
    }
}

fn copy(from: &Path, to: &Path) {
    for name in directories(from) {
        fs::create_dir(to.join(&name)).unwrap();
        copy(&from.join(&name), &to.join(&name));
    }
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        if entry.path().is_file() {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}
