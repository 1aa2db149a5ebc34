//! Snapshots that real masters wrote, through the log into the state: who is there, with which pin.

use mooncake_ha::state::State;
use mooncake_ha::state::restore::RestoreOutcome;
use mooncake_ha_snapshot::{Outcome, Survival};
use serde_json::Value as Json;

use super::fresh::{Fresh, fixture};

/// 2026-11-29, when the fixtures were made.
const FIXTURE_DAY_MS: u64 = 1_795_976_700_000;

#[tokio::test]
async fn the_charter_fixture_survives_key_by_key_as_the_rfc_says() {
    let about = std::fs::read(fixture("charter_soft").join("about.json")).unwrap();
    let about: Json = serde_json::from_slice(&about).unwrap();
    let fresh = Fresh::at(FIXTURE_DAY_MS, &[]).await;
    let report = fresh.restore(&fixture("charter_soft"), Survival::Rfc).await.unwrap();
    assert_eq!(report.outcome, Outcome::Restored, "{report}");
    let expected = about["expect"].as_object().unwrap();
    let survivors = expected.iter().filter(|(_, told)| told["survives_rfc_rule"] == true);
    let mut keys: Vec<&str> = survivors.clone().map(|(key, _)| key.as_str()).collect();
    keys.sort();
    assert_eq!(fresh.keys(), keys);
    let pins = survivors
        .filter_map(|(key, told)| Some((key.clone(), told["soft_pin_after_restore"].as_u64()?)));
    let mut pins: Vec<(String, u64)> = pins.collect();
    pins.sort();
    assert_eq!(fresh.pins(), pins);
    // And so it is after a restart, from the log.
    let fresh = fresh.reopened().await;
    assert_eq!((fresh.keys().len(), fresh.pins()), (keys.len(), pins));
}

#[tokio::test]
async fn pins_of_the_release_that_saves_them_keep_their_deadlines_to_the_millisecond() {
    let root = fixture("soft_pinned_0312");
    let fresh = Fresh::at(FIXTURE_DAY_MS, &[]).await;
    fresh.restore(&root, Survival::Rfc).await.unwrap();
    let text = std::fs::read(root.join("about.json")).unwrap();
    let about: Json = serde_json::from_slice(&text).unwrap();
    let mut names: Vec<&str> =
        about["soft"].as_array().unwrap().iter().map(|key| key.as_str().unwrap()).collect();
    names.sort();
    let pins = fresh.pins();
    assert_eq!(pins.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(), names);
    // A TTL of an hour, from within the seconds before the snapshot was taken.
    let taken_ms = 1_795_976_697_832;
    let hour = 3_600_000;
    for (key, deadline) in &pins {
        assert!((taken_ms + hour - 60_000..taken_ms + hour).contains(deadline), "{key} {deadline}");
    }
    // The same numbers as in the file.
    let image = mooncake_ha_snapshot::restore(
        &super::fresh::catalog(&root),
        &mooncake_ha_snapshot::RestoreOptions {
            now_ms: FIXTURE_DAY_MS,
            survival: Survival::Rfc,
            only: None,
        },
    );
    let (_, image) = image.unwrap().image.unwrap();
    let mut saved: Vec<(String, u64)> = image
        .objects()
        .filter_map(|(_, object)| {
            Some((String::from_utf8_lossy(&object.name.key).into_owned(), object.soft_pin_ms?))
        })
        .collect();
    saved.sort();
    assert_eq!(pins, saved);
    // The first of them ends at its millisecond and not before.
    let first = pins.iter().map(|(_, deadline)| *deadline).min().unwrap();
    let next = fresh.node.machine().next_deadline().unwrap();
    assert_eq!(next.0, first);
}

#[tokio::test]
async fn every_real_snapshot_is_taken_over_whole_when_the_operator_vouches_for_the_memory() {
    for name in [
        "base_pair",
        "disk_replicas",
        "few_keys",
        "grouped",
        "hard_pinned",
        "keys_5k",
        "local_disk",
        "multi_segments",
        "processing",
        "soft_pinned_0313",
        "tasks",
        "tenants",
        "two_successive",
    ] {
        let fresh = Fresh::at(FIXTURE_DAY_MS + 86_400_000, &[]).await;
        let report = fresh.restore(&fixture(name), Survival::Complete).await.unwrap();
        assert_eq!(report.outcome, Outcome::Restored, "{name}: {report}");
        let kept = report.candidates.last().unwrap().kept.objects;
        let (keys, record) = fresh.node.look(|state| {
            let record = state.restore().record().unwrap();
            (state.totals().keys, record.outcome)
        });
        assert_eq!((keys, record), (kept, RestoreOutcome::Restored), "{name}");
        assert!(kept > 0, "{name}");
        // A raft snapshot of it is read back as it was.
        let mut bytes = Vec::new();
        fresh.node.freeze().save(&mut bytes).unwrap();
        let loaded = State::load(&mut bytes.as_slice()).unwrap();
        assert_eq!(loaded.check(), Vec::<String>::new(), "{name}");
    }
}

#[tokio::test]
async fn losing_every_object_to_time_is_told_as_what_it_is() {
    // The peer says "success" with nothing left (public report).
    let fresh = Fresh::at(FIXTURE_DAY_MS + 86_400_000, &[]).await;
    let report = fresh.restore(&fixture("keys_5k"), Survival::Rfc).await.unwrap();
    assert_eq!(report.outcome, Outcome::NothingSurvived);
    let text = report.to_string();
    assert!(text.starts_with("restored without objects: none survived"), "{text}");
    assert!(text.contains("5000 ("), "{text}");
    let record = fresh.node.look(|state| state.restore().record().cloned()).unwrap();
    assert_eq!(record.outcome, RestoreOutcome::NothingSurvived);
    let told: Json = serde_json::from_slice(&record.report.0).unwrap();
    assert_eq!(told["candidates"][0]["dropped"]["lease_and_pin_over"]["objects"], 5000);
}
