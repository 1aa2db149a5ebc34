//! Where the fixtures are and how to read one.

use std::fs;
use std::path::{Path, PathBuf};

use mooncake_ha_snapshot::Payloads;

/// Directory of all fixtures.
pub fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/snapshots")
}

/// Names of the undamaged fixtures, in order.
pub fn sound_fixtures() -> Vec<String> {
    let mut names = directories(&fixtures());
    names.retain(|name| name != "corrupted");
    assert!(names.len() >= 16, "fixtures are missing: {names:?}");
    names
}

/// Names of the damaged fixtures, in order.
pub fn damaged_fixtures() -> Vec<String> {
    let names = directories(&fixtures().join("corrupted"));
    assert!(names.len() >= 40, "fixtures are missing: {names:?}");
    names
}

/// Directory of the cluster in a fixture.
pub fn cluster(fixture: &str) -> PathBuf {
    fixtures().join(fixture).join("mooncake_master_snapshot/mooncake_cluster")
}

/// Names of the directories in a directory, in order.
pub fn directories(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap());
    let mut names: Vec<String> = entries
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// The payloads in a snapshot's directory.
pub fn payloads(snapshot: &Path) -> Payloads {
    Payloads {
        metadata: fs::read(snapshot.join("metadata")).unwrap(),
        segments: fs::read(snapshot.join("segments")).unwrap(),
        task_manager: fs::read(snapshot.join("task_manager")).unwrap(),
        extension: None,
    }
}

/// Payloads of every snapshot of every undamaged fixture, with a name for messages.
pub fn sound_payloads() -> Vec<(String, Payloads)> {
    let mut all = Vec::new();
    for fixture in sound_fixtures() {
        for id in directories(&cluster(&fixture)) {
            let payloads = payloads(&cluster(&fixture).join(&id));
            all.push((format!("{fixture}/{id}"), payloads));
        }
    }
    all
}
