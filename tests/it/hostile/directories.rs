//! Data directories that are full, read-only, in use, or somebody else's; ends in order and without.
//!
//! Real processes. What needs to mount a file system says loudly when it may not.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use nix::mount::{MsFlags, mount, umount};

use mooncake_ha::model::{ClientId, Uuid};
use mooncake_ha::rpc::client::RpcClient;
use mooncake_ha::wire::requests as r;
use mooncake_ha::wire::types::{ObjectMeta, ReplicaType};
use mooncake_ha::wire::{Call, calls};

use crate::support::node::{pinned, segment};
use crate::support::{NodeProcess, last_words};

const CLIENT: ClientId = ClientId(Uuid { first: 1, second: 2 });
const TENANT: &[u8] = b"default";

/// Blocking calls on a connection of its own.
struct Wire {
    runtime: tokio::runtime::Runtime,
    rpc: RpcClient,
}

impl Wire {
    fn to(address: &str) -> Self {
        let builder = &mut tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().build().unwrap();
        let rpc = runtime.block_on(RpcClient::connect(address)).unwrap();
        Wire { runtime, rpc }
    }

    /// `None`: no answer, so the outcome is unknown.
    fn call<C: Call>(&self, request: &C::Request<'_>) -> Option<C::Response> {
        self.runtime.block_on(self.rpc.call::<C>(request)).ok()
    }

    fn mount(&self) {
        let segment = segment(1, "s1", 64 << 20);
        let request = r::MountSegmentRequest { segment, client_id: CLIENT };
        assert_eq!(self.call::<calls::MountSegment>(&request), Some(Ok(())));
    }

    /// Whether the whole write was acknowledged.
    fn put(&self, key: &[u8]) -> bool {
        let start = r::PutStartRequest {
            client_id: CLIENT,
            key,
            slice_length: 100,
            config: pinned(Some(3_600_000)),
            tenant_id: TENANT,
        };
        let object_meta = ObjectMeta { key, object_checksum: None };
        let (client_id, replica_type, tenant_id) = (CLIENT, ReplicaType::ALL, TENANT);
        let end = r::PutEndRequest { client_id, object_meta, replica_type, tenant_id };
        matches!(self.call::<calls::PutStart>(&start), Some(Ok(_)))
            && self.call::<calls::PutEnd>(&end) == Some(Ok(()))
    }

    fn exists(&self, key: &[u8]) -> bool {
        let request = r::KeyRequest { key, tenant_id: TENANT };
        self.call::<calls::ExistKey>(&request) == Some(Ok(true))
    }
}

/// Every file below a directory with its bytes, but for the lock file.
fn contents(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(contents(&path)),
            false if path.ends_with("LOCK") => {}
            false => found.push((path.clone(), fs::read(path).unwrap())),
        }
    }
    found.sort();
    found
}

/// A tmpfs; unmounted when dropped. `None`, said loudly, where this process may not mount.
struct Tmpfs(PathBuf);

impl Tmpfs {
    fn mounted(dir: &Path, options: &str) -> Option<Self> {
        fs::create_dir_all(dir).unwrap();
        match mount(Some("tmpfs"), dir, Some("tmpfs"), MsFlags::empty(), Some(options)) {
            Ok(()) => Some(Tmpfs(dir.to_owned())),
            Err(error) => {
                let test = std::thread::current().name().unwrap_or("?").to_owned();
                let why = format!("SKIPPED, NOTHING SHOWN: {test}: cannot mount a tmpfs: {error}");
                let _ = writeln!(std::io::stderr(), "{why}");
                None
            }
        }
    }

    fn remount(&self, flags: MsFlags, options: &str) {
        let flags = flags | MsFlags::MS_REMOUNT;
        mount(Some("tmpfs"), &self.0, Some("tmpfs"), flags, Some(options)).unwrap();
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = umount(&self.0);
    }
}

#[test]
fn sigterm_ends_with_0_and_sigkill_without_warning_and_both_keep_everything() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let mut node = NodeProcess::start(dir.path(), &data, &[]);
    Wire::to(&node.address()).mount();
    let mut keys: Vec<String> = Vec::new();
    for round in 0..4 {
        let wire = Wire::to(&node.address());
        for n in 0..25 {
            let key = format!("k{round}-{n}");
            assert!(wire.put(key.as_bytes()));
            keys.push(key);
        }
        match round % 2 {
            0 => assert_eq!(node.terminate().code(), Some(0)),
            _ => node.kill(),
        }
        node.start_again();
        let wire = Wire::to(&node.address());
        for key in &keys {
            assert!(wire.exists(key.as_bytes()), "{key} after round {round}");
        }
    }
}

#[test]
fn a_directory_in_use_is_refused_with_the_holders_name_and_the_holder_serves_on() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let node = NodeProcess::start(dir.path(), &data, &[]);
    let wire = Wire::to(&node.address());
    wire.mount();
    assert!(wire.put(b"k"));
    let (code, words) = last_words(dir.path(), &data, &[]);
    assert_eq!(code, Some(1), "{words}");
    let is_named = words.contains(&data.display().to_string());
    assert!(is_named && words.contains("in use by process "), "{words}");
    assert!(wire.exists(b"k") && wire.put(b"l"));
}

#[test]
fn a_directory_of_another_version_or_cluster_is_refused_and_not_touched() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let mut node = NodeProcess::start(dir.path(), &data, &[]);
    let wire = Wire::to(&node.address());
    wire.mount();
    assert!(wire.put(b"k"));
    node.terminate();
    let before = contents(&data);
    let (code, words) = last_words(dir.path(), &data, &["--cluster_id=another"]);
    assert_eq!(code, Some(1), "{words}");
    assert!(words.contains("belongs to cluster"), "{words}");
    assert!(contents(&data) == before, "nothing is touched");
    let identity = data.join("identity");
    let good = fs::read(&identity).unwrap();
    let mut newer = good.clone();
    newer[0] += 1;
    fs::write(&identity, &newer).unwrap();
    let before = contents(&data);
    let (code, words) = last_words(dir.path(), &data, &[]);
    assert_eq!(code, Some(1), "{words}");
    assert!(words.contains("has format 2, this program reads up to 1"), "{words}");
    assert!(contents(&data) == before, "nothing is touched");
    fs::write(&identity, good).unwrap();
    node.start_again();
    assert!(Wire::to(&node.address()).exists(b"k"));
}

#[test]
fn a_read_only_directory_is_a_sentence_and_exit_code_1() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let Some(disk) = Tmpfs::mounted(&data, "size=64m") else { return };
    let mut node = NodeProcess::start(dir.path(), &data, &[]);
    let wire = Wire::to(&node.address());
    wire.mount();
    assert!(wire.put(b"k"));
    node.terminate();
    disk.remount(MsFlags::MS_RDONLY, "size=64m");
    let (code, words) = last_words(dir.path(), &disk.0, &[]);
    assert_eq!(code, Some(1), "{words}");
    let last = words.lines().last().unwrap();
    let is_named = last.contains(&disk.0.display().to_string());
    assert!(is_named && last.contains("Read-only file system"), "{words}");
    disk.remount(MsFlags::empty(), "size=64m");
    node.start_again();
    assert!(Wire::to(&node.address()).exists(b"k"));
    node.terminate();
}

#[test]
fn a_full_disk_stops_the_node_with_its_reason_and_loses_nothing_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let Some(disk) = Tmpfs::mounted(&data, "size=16m") else { return };
    let mut node = NodeProcess::start(dir.path(), &data, &[]);
    let wire = Wire::to(&node.address());
    wire.mount();
    let key = |n: usize| format!("{n}-{}", "k".repeat(100_000)).into_bytes();
    let mut acknowledged = 0;
    while wire.put(&key(acknowledged)) {
        acknowledged += 1;
        assert!(acknowledged < 1_000, "the disk never fills");
    }
    assert!(acknowledged > 10, "{acknowledged}");
    let status = node.wait_for_end();
    assert_eq!(status.code(), Some(1), "{}", node.log());
    let log = node.log();
    assert!(log.contains("No space left on device"), "{log}");
    disk.remount(MsFlags::empty(), "size=256m");
    node.start_again();
    let wire = Wire::to(&node.address());
    for n in 0..acknowledged {
        assert!(wire.exists(&key(n)), "key {n} of {acknowledged}");
    }
    assert!(wire.put(b"after"));
    node.terminate();
}
