//! Both stores keep the same promises.

use super::*;

fn stores(directory: &std::path::Path) -> Vec<(&'static str, Box<dyn ObjectStore>)> {
    vec![
        ("local", Box::new(LocalStore::open(&directory.join("root")).unwrap())),
        ("memory", Box::new(MemoryStore::default())),
    ]
}

#[test]
fn what_is_put_can_be_got_listed_replaced_and_deleted() {
    let directory = tempfile::tempdir().unwrap();
    for (name, store) in stores(directory.path()) {
        store.put("a/b/one", b"1").unwrap();
        store.put("a/b/two", b"2").unwrap();
        store.put("a/c", b"3").unwrap();
        store.put("a/b/one", b"11").unwrap();
        assert_eq!(store.get("a/b/one", 10).unwrap(), b"11", "{name}");
        assert_eq!(store.list("a/b").unwrap(), ["a/b/one", "a/b/two"], "{name}");
        assert_eq!(store.list("").unwrap(), ["a/b/one", "a/b/two", "a/c"], "{name}");
        assert!(store.list("nowhere").unwrap().is_empty(), "{name}");
        store.delete("a/b/two").unwrap();
        store.delete("a/b/two").unwrap();
        assert!(store.get("a/b/two", 10).unwrap_err().is_not_found(), "{name}");
        store.delete_prefix("a/b").unwrap();
        store.delete_prefix("a/b").unwrap();
        assert_eq!(store.list("").unwrap(), ["a/c"], "{name}");
    }
}

#[test]
fn keys_cannot_lead_out_of_the_root() {
    let directory = tempfile::tempdir().unwrap();
    for (name, store) in stores(directory.path()) {
        for key in ["", "..", "../x", "a/../../x", "/x", "a//b", "a/./b", "a\\b", "a\0b", "a/"] {
            let is_refused = |error: StoreError| matches!(error, StoreError::BadKey { .. });
            assert!(is_refused(store.put(key, b"x").unwrap_err()), "{name}: put {key:?}");
            assert!(is_refused(store.get(key, 1).unwrap_err()), "{name}: get {key:?}");
            assert!(is_refused(store.delete(key).unwrap_err()), "{name}: delete {key:?}");
            assert!(is_refused(store.delete_prefix(key).unwrap_err()), "{name}: prefix {key:?}");
        }
    }
}

#[test]
fn a_symbolic_link_does_not_lead_out_of_the_root() {
    let directory = tempfile::tempdir().unwrap();
    let store = LocalStore::open(&directory.path().join("root")).unwrap();
    let outside = directory.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("secret"), b"x").unwrap();
    std::os::unix::fs::symlink(&outside, store.root().join("link")).unwrap();
    assert!(store.get("link/secret", 10).is_err());
    assert!(store.put("link/new", b"x").is_err());
    assert!(store.delete_prefix("link").is_err());
    assert!(store.list("").unwrap().is_empty());
    assert!(outside.join("secret").exists() && !outside.join("new").exists());
}

#[test]
fn a_file_beyond_the_limit_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    for (name, store) in stores(directory.path()) {
        store.put("a", b"12345").unwrap();
        assert!(matches!(store.get("a", 4), Err(StoreError::TooLarge { bytes: 5, .. })), "{name}");
        assert_eq!(store.get("a", 5).unwrap(), b"12345", "{name}");
    }
}

#[test]
fn leftovers_of_interrupted_writes_are_no_keys_and_go_with_their_directory() {
    let directory = tempfile::tempdir().unwrap();
    let store = LocalStore::open(directory.path()).unwrap();
    store.put("id/metadata", b"x").unwrap();
    std::fs::write(directory.path().join("id/.unfinished-1-1"), b"half").unwrap();
    assert_eq!(store.list("").unwrap(), ["id/metadata"]);
    store.delete_prefix("id").unwrap();
    assert!(!directory.path().join("id").exists());
}

#[test]
fn old_leftovers_are_swept_and_fresh_ones_and_files_stay() {
    let directory = tempfile::tempdir().unwrap();
    let store = LocalStore::open(directory.path()).unwrap();
    store.put("c/id/metadata", b"x").unwrap();
    let leftover = directory.path().join("c/.unfinished-1-1");
    std::fs::write(&leftover, b"half").unwrap();
    store.sweep("c", 1).unwrap();
    assert!(leftover.exists(), "it is younger than 1970");
    store.sweep("c", u64::MAX).unwrap();
    store.sweep("nowhere", u64::MAX).unwrap();
    assert!(!leftover.exists());
    assert_eq!(store.list("").unwrap(), ["c/id/metadata"]);
}

#[test]
fn an_injected_fault_strikes_once() {
    let store = MemoryStore::default();
    store.inject(StoreFault::PutTears("a".into()));
    store.inject(StoreFault::GetFails("a".into()));
    assert!(store.put("x/a", b"1234").is_err());
    assert!(store.get("x/a", 10).is_err());
    assert_eq!(store.get("x/a", 10).unwrap(), b"12");
    store.put("x/a", b"1234").unwrap();
    assert_eq!(store.get("x/a", 10).unwrap(), b"1234");
}
