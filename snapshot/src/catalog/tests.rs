//! Publishing and retiring, with a store that fails.

use super::*;
use crate::codec::encode_image;
use crate::image::Image;
use crate::store::{MemoryStore, StoreFault};

const HOUR_MS: u64 = 3_600_000;
const START_MS: u64 = 1_795_976_860_639;

fn catalog() -> (Arc<MemoryStore>, Catalog) {
    let store = Arc::new(MemoryStore::default());
    let catalog = Catalog::new(store.clone(), CLUSTER_ID_DEFAULT, Limits::default());
    (store, catalog)
}

/// Publishes an empty snapshot at this hour.
fn publish(catalog: &Catalog, hour: u64) -> Result<SnapshotId, SnapshotError> {
    let now_ms = START_MS + hour * HOUR_MS;
    let id = catalog.next_id(now_ms)?;
    let payloads = encode_image(&Image::default())?;
    let created_ms = now_ms as i64;
    catalog.publish(id, &payloads, &Descriptor { created_ms, ..Descriptor::default() })?;
    Ok(id)
}

#[test]
fn a_published_snapshot_is_latest_listed_and_good() {
    let (_, catalog) = catalog();
    let first = publish(&catalog, 0).unwrap();
    let second = publish(&catalog, 1).unwrap();
    assert_eq!(catalog.latest().unwrap().unwrap().id, second);
    let ids: Vec<SnapshotId> = catalog.list().unwrap().iter().map(|listed| listed.id).collect();
    assert_eq!(ids, [second, first]);
    assert!(catalog.is_good(first) && catalog.is_good(second));
}

#[test]
fn an_id_is_later_than_all_others_although_the_clock_stepped_back() {
    let (_, catalog) = catalog();
    let first = publish(&catalog, 5).unwrap();
    let second = publish(&catalog, 0).unwrap();
    assert!(second > first);
    assert_eq!(catalog.latest().unwrap().unwrap().id, second);
}

#[test]
fn whatever_write_fails_the_latest_snapshot_stays_complete() {
    let files = [
        SnapshotFile::Metadata,
        SnapshotFile::Segments,
        SnapshotFile::TaskManager,
        SnapshotFile::Manifest,
        SnapshotFile::Descriptor,
        SnapshotFile::Latest,
    ];
    for file in files {
        for is_torn in [false, true] {
            let (store, catalog) = catalog();
            let first = publish(&catalog, 0).unwrap();
            let name = file.file_name().to_string();
            store.inject(match is_torn {
                true => StoreFault::PutTears(name),
                false => StoreFault::PutFails(name),
            });
            assert!(publish(&catalog, 1).is_err(), "{file}");
            // A torn pointer counts as none, and the listing has the snapshot.
            let latest = catalog.latest().unwrap().map(|listed| listed.id);
            assert!(latest == Some(first) || (is_torn && file == SnapshotFile::Latest), "{file}");
            assert!(catalog.list().unwrap().iter().any(|listed| listed.id == first));
            let third = publish(&catalog, 2).unwrap();
            assert_eq!(catalog.latest().unwrap().unwrap().id, third);
        }
    }
}

#[test]
fn retiring_keeps_the_newest_and_removes_old_debris() {
    let (store, catalog) = catalog();
    let first = publish(&catalog, 0).unwrap();
    let debris = SnapshotId::at(START_MS + HOUR_MS / 2);
    store.put(&catalog.key(debris, SnapshotFile::Metadata), b"half").unwrap();
    let second = publish(&catalog, 1).unwrap();
    let third = publish(&catalog, 2).unwrap();
    let fresh = SnapshotId::at(START_MS + 2 * HOUR_MS - 1000);
    store.put(&catalog.key(fresh, SnapshotFile::Metadata), b"in the making").unwrap();
    let retired = catalog.retire(2, START_MS + 2 * HOUR_MS).unwrap();
    assert_eq!(retired, Retired { old: vec![first], debris: vec![debris] });
    assert_eq!(catalog.ids().unwrap(), [third, fresh, second]);
    assert_eq!(catalog.retire(2, START_MS + 2 * HOUR_MS).unwrap(), Retired::default());
}

#[test]
fn retiring_never_removes_the_last_good_snapshot() {
    let (store, catalog) = catalog();
    let ids: Vec<SnapshotId> = (0..5).map(|hour| publish(&catalog, hour).unwrap()).collect();
    for bad in &ids[2..] {
        store.put(&catalog.key(*bad, SnapshotFile::Segments), b"damaged").unwrap();
    }
    let retired = catalog.retire(2, START_MS + 5 * HOUR_MS).unwrap();
    assert_eq!(retired.old, [ids[2], ids[0]]);
    assert!(catalog.is_good(ids[1]));
    store.put(&catalog.key(ids[1], SnapshotFile::Segments), b"damaged").unwrap();
    assert_eq!(catalog.retire(2, START_MS + 5 * HOUR_MS).unwrap(), Retired::default());
}

#[test]
fn a_removal_that_fails_half_way_can_be_repeated() {
    let (store, catalog) = catalog();
    let ids: Vec<SnapshotId> = (0..3).map(|hour| publish(&catalog, hour).unwrap()).collect();
    store.inject(StoreFault::DeleteFails("segments".into()));
    assert!(catalog.retire(1, START_MS + 3 * HOUR_MS).is_err());
    catalog.retire(1, START_MS + 3 * HOUR_MS).unwrap();
    assert_eq!(catalog.ids().unwrap(), [ids[2]]);
}

#[test]
fn a_pointer_that_cannot_be_followed_counts_as_none() {
    let (store, catalog) = catalog();
    let id = publish(&catalog, 0).unwrap();
    for text in [&b""[..], b"garbage", b"20990101_000000_000", &[b'x'; 10_000]] {
        store.put(&catalog.latest_key(), text).unwrap();
        assert_eq!(catalog.latest().unwrap(), None, "{}", text.escape_ascii());
    }
    store.put(&catalog.latest_key(), format!(" {id} \n").as_bytes()).unwrap();
    assert_eq!(catalog.latest().unwrap().unwrap().id, id);
}

#[test]
fn a_staged_snapshot_is_invisible_until_it_is_announced() {
    let (_, catalog) = catalog();
    let first = publish(&catalog, 0).unwrap();
    let id = catalog.next_id(START_MS + HOUR_MS).unwrap();
    let payloads = encode_image(&Image::default()).unwrap();
    assert!(!catalog.is_staged(id).unwrap());
    catalog.stage(id, &payloads, &|| true).unwrap();
    assert!(catalog.is_staged(id).unwrap() && !catalog.is_listed(id).unwrap());
    assert_eq!(catalog.latest().unwrap().unwrap().id, first);
    catalog.announce(id, &Descriptor::default(), &|| true).unwrap();
    assert_eq!(catalog.latest().unwrap().unwrap().id, id);
}

#[test]
fn a_snapshot_that_is_given_up_leaves_nothing_behind() {
    let (store, catalog) = catalog();
    let first = publish(&catalog, 0).unwrap();
    let before = store.keys();
    let payloads = encode_image(&Image::default()).unwrap();
    for files in 0..5_u32 {
        let left = std::cell::Cell::new(files);
        let go_on = || left.replace(left.get().saturating_sub(1)) > 0;
        let id = catalog.next_id(START_MS + HOUR_MS).unwrap();
        let given_up = catalog.publish_while(id, &payloads, &Descriptor::default(), &go_on);
        assert!(
            matches!(given_up, Err(SnapshotError::Store(StoreError::GivenUp))),
            "{files}: {given_up:?}"
        );
        assert_eq!(store.keys(), before, "{files}");
    }
    assert_eq!(catalog.latest().unwrap().unwrap().id, first);
}

#[derive(Default)]
struct MemoryIndex(std::sync::Mutex<(Option<SnapshotId>, Vec<SnapshotId>)>);

impl SnapshotIndex for MemoryIndex {
    fn latest(&self) -> Result<Option<SnapshotId>, StoreError> {
        Ok(self.0.lock().unwrap().0)
    }

    fn ids(&self) -> Result<Vec<SnapshotId>, StoreError> {
        Ok(self.0.lock().unwrap().1.clone())
    }

    fn publish(&self, id: SnapshotId) -> Result<(), StoreError> {
        let mut held = self.0.lock().unwrap();
        held.0 = Some(id);
        held.1.push(id);
        Ok(())
    }

    fn remove(&self, id: SnapshotId) -> Result<(), StoreError> {
        self.0.lock().unwrap().1.retain(|held| *held != id);
        Ok(())
    }
}

#[test]
fn with_an_index_the_index_names_the_latest_and_forgets_what_is_retired() {
    let store = Arc::new(MemoryStore::default());
    let index = Arc::new(MemoryIndex::default());
    let catalog = Catalog::new(store.clone(), CLUSTER_ID_DEFAULT, Limits::default())
        .with_index(index.clone());
    let ids: Vec<SnapshotId> = (0..3).map(|hour| publish(&catalog, hour).unwrap()).collect();
    assert!(store.keys().iter().all(|key| !key.ends_with("latest.txt")));
    index.publish(SnapshotId::at(START_MS - HOUR_MS)).unwrap();
    index.publish(ids[2]).unwrap();
    let retired = catalog.retire(2, START_MS + 3 * HOUR_MS).unwrap();
    assert_eq!(retired.old, [ids[0]]);
    let mut left = index.ids().unwrap();
    left.sort();
    left.dedup();
    assert_eq!(left, ids[1..], "ids without files go as well");
}

#[test]
fn with_a_backup_directory_what_the_store_refuses_is_kept_and_the_rest_is_tried() {
    let dir = tempfile::tempdir().unwrap();
    let kept = |directory: &str| -> Vec<String> {
        let Ok(files) = std::fs::read_dir(dir.path().join(directory)) else { return Vec::new() };
        let name = |file: std::fs::DirEntry| file.file_name().into_string().unwrap();
        let mut names: Vec<String> = files.map(|file| name(file.unwrap())).collect();
        names.sort();
        names
    };
    let (store, catalog) = catalog();
    let catalog = catalog.with_backup(dir.path().to_owned());
    let first = publish(&catalog, 0).unwrap();
    assert_eq!(kept(UNSAVED_DIRECTORY), Vec::<String>::new());
    for name in ["metadata", "task_manager", "manifest.txt"] {
        store.inject(StoreFault::PutFails(name.into()));
    }
    let before = store.keys();
    assert!(publish(&catalog, 1).is_err());
    assert_eq!(kept(UNSAVED_DIRECTORY), ["manifest.txt", "metadata", "task_manager"]);
    let metadata = dir.path().join(UNSAVED_DIRECTORY).join("metadata");
    assert_eq!(std::fs::read(metadata).unwrap(), encode_image(&Image::default()).unwrap().metadata);
    assert_eq!(store.keys(), before, "an attempt that failed leaves nothing in the store");
    assert_eq!(catalog.latest().unwrap().unwrap().id, first);
    store.inject(StoreFault::PutFails("latest.txt".into()));
    assert!(publish(&catalog, 2).is_err());
    let id = catalog.list().unwrap().first().unwrap().id;
    let latest = dir.path().join(UNSAVED_DIRECTORY).join("latest.txt");
    assert_eq!(std::fs::read_to_string(latest).unwrap(), id.to_string());

    assert_eq!(kept(FETCHED_DIRECTORY), Vec::<String>::new(), "looking is no restore");
    let now_ms = START_MS;
    let options = crate::RestoreOptions { now_ms, survival: crate::Survival::Rfc, only: None };
    crate::restore(&catalog, &options).unwrap();
    let files = ["manifest.txt", "metadata", "segments", "task_manager"];
    let fetched = kept(FETCHED_DIRECTORY);
    assert!(files.iter().all(|file| fetched.iter().any(|kept| kept == file)), "{fetched:?}");
}

#[test]
fn a_backup_directory_that_cannot_be_written_changes_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "in the way").unwrap();
    let (store, catalog) = catalog();
    let catalog = catalog.with_backup(file);
    store.inject(StoreFault::PutFails("segments".into()));
    let error = publish(&catalog, 0).unwrap_err().to_string();
    assert!(error.contains("segments"), "{error}");
    publish(&catalog, 1).unwrap();
}
