//! Redis as the index: the peer's keys, one step a change, and a catalog over it that loses no snapshot.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use mooncake_ha::backup::open_index;
use mooncake_ha_snapshot::codec::manifest::Descriptor;
use mooncake_ha_snapshot::store::LocalStore;
use mooncake_ha_snapshot::{Catalog, Image, Limits, SnapshotId, encode_image};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use super::{json, servers, snapshot};
use crate::support::{Master, eventually};

const HOUR_MS: u64 = 3_600_000;

fn id(hour: u64) -> SnapshotId {
    SnapshotId::at(1_795_976_860_639 + hour * HOUR_MS)
}

#[test]
fn the_index_lies_under_the_peers_keys_and_points_back_when_the_latest_goes() {
    let Some(server) = servers::redis() else { return };
    let index = open_index(&format!("127.0.0.1:{}", server.port), "c{x}/").unwrap();
    assert_eq!((index.latest().unwrap(), index.ids().unwrap()), (None, vec![]));
    index.publish(id(0)).unwrap();
    index.publish(id(1)).unwrap();
    index.publish(id(1)).unwrap();
    assert_eq!((index.latest().unwrap(), index.ids().unwrap()), (Some(id(1)), vec![id(1), id(0)]));

    let client = redis::Client::open(format!("redis://127.0.0.1:{}", server.port)).unwrap();
    let mut connection = client.get_connection().unwrap();
    let key = |name: &str| format!("mooncake-store/{{c_x_}}/snapshot/{name}");
    let latest: String = redis::cmd("GET").arg(key("latest")).query(&mut connection).unwrap();
    assert_eq!(latest, id(1).to_string());
    let oldest: Vec<String> =
        redis::cmd("ZRANGE").arg(key("index")).arg(0).arg(0).query(&mut connection).unwrap();
    assert_eq!(oldest, [id(0).to_string()]);

    index.publish(id(0)).unwrap();
    index.remove(id(0)).unwrap();
    assert_eq!(index.latest().unwrap(), Some(id(1)));
    index.remove(id(1)).unwrap();
    assert_eq!((index.latest().unwrap(), index.ids().unwrap()), (None, vec![]));
}

#[test]
fn a_catalog_over_an_index_that_was_lost_still_lists_every_snapshot() {
    let Some(mut server) = servers::redis() else { return };
    let dir = tempfile::tempdir().unwrap();
    let index = open_index(&format!("127.0.0.1:{}", server.port), "c").unwrap();
    let store = Arc::new(LocalStore::open(dir.path()).unwrap());
    let catalog = Catalog::new(store, "c", Limits::default()).with_index(index);
    let payloads = encode_image(&Image::default()).unwrap();
    let publish = |hour| catalog.publish(id(hour), &payloads, &Descriptor::default());
    (0..3).for_each(|hour| publish(hour).unwrap());
    assert_eq!(catalog.latest().unwrap().unwrap().id, id(2));
    assert!(!dir.path().join("mooncake_master_snapshot/c/latest.txt").exists());

    // It keeps nothing on disk, so a restart forgets everything.
    server.kill();
    assert!(publish(3).is_err());
    server.start_again();
    assert_eq!(catalog.latest().unwrap(), None);
    assert_eq!(catalog.list().unwrap().len(), 4);
    assert_eq!(catalog.retire(1, 0).unwrap(), Default::default(), "without a latest all stay");
    publish(4).unwrap();
    let retired = catalog.retire(2, id(5).instant_ms().unwrap()).unwrap();
    assert_eq!(retired.old, [id(2), id(1), id(0)]);
    assert_eq!(catalog.latest().unwrap().unwrap().id, id(4));
}

#[test]
fn a_node_and_the_tools_follow_the_index() {
    let Some(server) = servers::redis() else { return };
    let (dir, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let address = format!("redis://127.0.0.1:{}", server.port);
    let path = format!("--snapshot_local_path={}", root.path().display());
    let index = format!("--snapshot_catalog_store_connstring={address}");
    let kind = "--snapshot_catalog_store_type=redis";
    let flags = ["--enable_snapshot", "--snapshot_interval_seconds=1", &path, kind, &index];
    let master = Master::ours(dir.path(), &flags);
    eventually("one was taken", || master.count("master_snapshot_success") >= 1);
    drop(master);
    let root = root.path().display().to_string();
    let listed = json(&["list", &root, "--redis", &address], &[]);
    assert_eq!(listed["latest"], listed["snapshots"][0]["id"], "{listed}");
    assert_eq!(json(&["list", &root], &[])["latest"], serde_json::Value::Null);
    let (code, _, err) = snapshot(&["list", &root, "--redis", "redis://127.0.0.1:1"], &[]);
    assert!(code == 3 && err.contains("Redis at 127.0.0.1:1"), "{code} {err}");
}

/// A certificate for the loopback address, with its key and the authority that has signed it, in files.
fn certified(dir: &Path) -> [PathBuf; 3] {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let names = vec!["127.0.0.1".to_owned()];
    let cert = CertificateParams::new(names).unwrap().signed_by(&key, &authority).unwrap();
    let files = ["cert.pem", "key.pem", "ca.pem"].map(|name| dir.join(name));
    for (file, text) in files.iter().zip([cert.pem(), key.serialize_pem(), authority.pem()]) {
        std::fs::write(file, text).unwrap();
    }
    files
}

#[test]
fn an_index_behind_tls_is_used_if_its_authority_is_trusted_and_refused_if_not() {
    let (dir, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let [cert, key, authority] = certified(dir.path());
    let Some(server) = servers::redis_by_tls(&cert, &key) else { return };
    let address = format!("rediss://127.0.0.1:{}", server.port);
    let trust = [("SSL_CERT_FILE".to_owned(), authority.display().to_string())];
    let path = format!("--snapshot_local_path={}", root.path().display());
    let index = format!("--snapshot_catalog_store_connstring={address}");
    let kind = "--snapshot_catalog_store_type=redis";
    let flags = ["--enable_snapshot", "--snapshot_interval_seconds=1", &path, kind, &index];
    let master = Master::ours_with(dir.path(), &flags, &trust);
    eventually("one was taken", || master.count("master_snapshot_success") >= 1);
    drop(master);
    let root = root.path().display().to_string();
    let listed = json(&["list", &root, "--redis", &address], &trust);
    assert_eq!(listed["latest"], listed["snapshots"][0]["id"], "{listed}");
    // Whom the system trusts has not signed it.
    let (code, _, err) = snapshot(&["list", &root, "--redis", &address], &[]);
    assert!(code == 3 && err.contains("certificate"), "{code} {err}");
    let plain = address.replace("rediss", "redis");
    let (code, _, err) = snapshot(&["list", &root, "--redis", &plain], &trust);
    assert!(code == 3 && err.contains("Redis at 127.0.0.1"), "{code} {err}");
}
