//! Settings of snapshots that are wrong end a node before it starts, with exit code 2.

use crate::support::last_words;

#[test]
fn wrong_snapshot_settings_are_wrong_usage() {
    for (flags, part) in [
        (&["--snapshot_object_store_type=ftp"][..], "local or s3"),
        (&["--snapshot_payload_store_type=ftp"], "local or s3"),
        (&["--snapshot_catalog_store_type=etcd"], "redis"),
        (&["--enable_snapshot"], "MOONCAKE_SNAPSHOT_LOCAL_PATH"),
        (&["--enable_snapshot", "--snapshot_payload_backend_type=s3"], "MOONCAKE_AWS_BUCKET_NAME"),
        (
            &["--enable_snapshot", "--snapshot_object_store_type=s3", "--snapshot_s3_root=b"],
            "s3://bucket/prefix",
        ),
        (
            &[
                "--enable_snapshot",
                "--snapshot_local_path=x",
                "--snapshot_catalog_backend_type=redis",
            ],
            "snapshot_catalog_store_connstring",
        ),
        (&["--snapshot_taken_by=nobody"], "auto, leader or follower"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let (code, said) = last_words(dir.path(), &dir.path().join("data"), flags);
        assert!(code == Some(2) && said.contains(part), "{flags:?}: {code:?} {said}");
        assert!(!dir.path().join("data").exists(), "{flags:?}");
    }
}
