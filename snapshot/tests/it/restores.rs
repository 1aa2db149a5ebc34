//! Restores of real snapshots: who survives, with what pin, and what the report says.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use mooncake_ha_snapshot::catalog::CLUSTER_ID_DEFAULT;
use mooncake_ha_snapshot::store::LocalStore;
use mooncake_ha_snapshot::{
    Catalog, DropReason, Image, Limits, Outcome, RestoreOptions, Restored, Survival, restore,
};

use crate::fixtures::fixtures;

/// 2026-11-29, when the fixtures were made.
const FIXTURE_DAY_MS: u64 = 1_795_976_700_000;

/// The catalog of a fixture.
pub fn open(fixture: &str) -> Catalog {
    open_at(&fixtures().join(fixture))
}

/// The catalog below a root.
pub fn open_at(root: &Path) -> Catalog {
    let store = LocalStore::open_existing(root).unwrap();
    Catalog::new(Arc::new(store), CLUSTER_ID_DEFAULT, Limits::default())
}

fn restore_at(fixture: &str, now_ms: u64, survival: Survival) -> Restored {
    restore(&open(fixture), &RestoreOptions { now_ms, survival, only: None }).unwrap()
}

/// Soft-pin deadlines by key.
pub fn pins(image: &Image) -> BTreeMap<String, Option<u64>> {
    image.objects().map(|(_, object)| (key(&object.name.key), object.soft_pin_ms)).collect()
}

fn key(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn the_charter_fixture_restores_as_the_rfc_says_key_by_key() {
    let about = std::fs::read(fixtures().join("charter_soft/about.json")).unwrap();
    let about: serde_json::Value = serde_json::from_slice(&about).unwrap();
    let expected = about["expect"].as_object().unwrap();
    let restored = restore_at("charter_soft", FIXTURE_DAY_MS, Survival::Rfc);
    let (_, image) = restored.image.unwrap();
    let found = pins(&image);
    let mut indexed = BTreeSet::new();
    for (key, outcome) in expected {
        let survives = outcome["survives_rfc_rule"].as_bool().unwrap();
        assert_eq!(found.contains_key(key), survives, "{key}");
        if survives {
            let deadline = outcome["soft_pin_after_restore"].as_u64();
            assert_eq!(found[key], deadline, "{key}");
            indexed.extend(deadline.map(|_| key.clone()));
        }
    }
    let index: Vec<&str> = about["soft_index_after_restore"]
        .as_array()
        .unwrap()
        .iter()
        .map(|key| key.as_str().unwrap())
        .collect();
    assert_eq!(indexed.iter().map(String::as_str).collect::<Vec<_>>(), index);
    let report = &restored.report.candidates[0];
    assert_eq!((report.pins_kept, report.pins_expired, report.pins_dropped), (4, 4, 0));
    assert_eq!((report.seen.objects, report.kept.objects), (13, 8));
    assert_eq!(report.dropped[&DropReason::LeaseAndPinOver].objects, 5);
}

#[test]
fn the_lease_rule_gives_what_the_peer_measured() {
    let about = std::fs::read(fixtures().join("charter_soft/about.json")).unwrap();
    let about: serde_json::Value = serde_json::from_slice(&about).unwrap();
    let measured = about["measured_0.3.13.post1"]["keys"].as_array().unwrap();
    let measured: BTreeSet<&str> = measured.iter().map(|key| key.as_str().unwrap()).collect();
    let restored = restore_at("charter_soft", FIXTURE_DAY_MS, Survival::Lease);
    let (_, image) = restored.image.unwrap();
    assert_eq!(pins(&image).keys().map(String::as_str).collect::<BTreeSet<_>>(), measured);
}

#[test]
fn the_complete_rule_keeps_every_complete_object() {
    let restored = restore_at("charter_soft", u64::MAX / 2, Survival::Complete);
    assert_eq!(restored.report.outcome, Outcome::Restored);
    assert_eq!(restored.report.candidates[0].kept.objects, 13);
    let restored = restore_at("processing", u64::MAX / 2, Survival::Complete);
    let report = &restored.report.candidates[0];
    assert_eq!(report.seen.objects, 79);
    assert_eq!(report.dropped[&DropReason::Unfinished].objects, 79 - report.kept.objects);
    assert!(report.kept.objects >= 75);
}

#[test]
fn deadlines_of_the_older_release_are_kept_to_the_millisecond() {
    let (_, image) = restore_at("soft_pinned_0312", FIXTURE_DAY_MS, Survival::Rfc).image.unwrap();
    let found = pins(&image);
    let saved = mooncake_ha_snapshot::decode_image(
        &crate::fixtures::payloads(
            &crate::fixtures::cluster("soft_pinned_0312").join("20261129_182457_832"),
        ),
        &Limits::default(),
    );
    let saved = pins(&saved.unwrap().image);
    for key in ["soft-long-a", "soft-long-b", "soft-leased"] {
        assert!(saved[key].is_some_and(|deadline_ms| deadline_ms > FIXTURE_DAY_MS), "{key}");
        assert_eq!(found[key], saved[key], "{key}");
    }
}

#[test]
fn a_pin_is_over_at_its_own_millisecond() {
    let (_, image) = restore_at("soft_pinned_0312", FIXTURE_DAY_MS, Survival::Rfc).image.unwrap();
    let deadline_ms = pins(&image)["soft-long-a"].unwrap();
    let before = restore_at("soft_pinned_0312", deadline_ms - 1, Survival::Rfc).image.unwrap().1;
    let at = restore_at("soft_pinned_0312", deadline_ms, Survival::Rfc).image.unwrap().1;
    assert!(pins(&before).contains_key("soft-long-a"));
    assert!(!pins(&at).contains_key("soft-long-a"));
}

#[test]
fn losing_every_object_to_time_is_not_called_success() {
    let restored = restore_at("keys_5k", u64::MAX / 2, Survival::Rfc);
    assert_eq!(restored.report.outcome, Outcome::NothingSurvived);
    let report = &restored.report.candidates[0];
    assert_eq!((report.seen.objects, report.kept.objects), (5000, 0));
    assert_eq!(report.dropped[&DropReason::LeaseAndPinOver].objects, 5000);
    let (_, image) = restored.image.unwrap();
    let allocator = image.globals.segments.segments[0].allocator.as_ref().unwrap();
    assert_eq!(allocator.used_bytes, 0);
    assert_eq!(allocator.offset.table.free_storage, allocator.offset.table.size);
    assert!(restored.report.to_string().contains("none survived"), "{}", restored.report);
}

#[test]
fn a_snapshot_without_objects_restores_and_an_empty_root_has_none() {
    assert_eq!(restore_at("empty", 0, Survival::Rfc).report.outcome, Outcome::Restored);
    let directory = tempfile::tempdir().unwrap();
    let store = LocalStore::open(directory.path()).unwrap();
    let catalog = Catalog::new(Arc::new(store), CLUSTER_ID_DEFAULT, Limits::default());
    let options = RestoreOptions { now_ms: 0, survival: Survival::Rfc, only: None };
    assert_eq!(restore(&catalog, &options).unwrap().report.outcome, Outcome::NoSnapshot);
}

#[test]
fn what_survives_is_consistent_and_can_be_saved_again() {
    for fixture in crate::fixtures::sound_fixtures() {
        let (_, image) = restore_at(&fixture, FIXTURE_DAY_MS, Survival::Rfc).image.unwrap();
        let again = mooncake_ha_snapshot::encode_image(&image).unwrap();
        let decoded = mooncake_ha_snapshot::decode_image(&again, &Limits::default()).unwrap();
        assert_eq!(decoded.findings.list, [], "{fixture}");
        assert_eq!(decoded.image, image, "{fixture}");
    }
}
