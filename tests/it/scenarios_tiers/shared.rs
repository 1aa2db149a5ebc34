//! Behaviour 2.1 and 2.3 with `root_fs_dir`: every write has a file, too.

use mooncake_ha::model::ErrorCode as E;
use mooncake_ha::wire::types::{Descriptor, ReplicaType};
use mooncake_ha::wire::{NoArguments, calls as c};

use super::{MIB, kinds, refused};
use crate::support::node::{TestNode, pinned, plain};

const FLAGS: &[&str] = &["--root_fs_dir=/shared", "--cluster_id=cid"];

#[tokio::test]
async fn every_write_has_a_file_that_is_ended_on_its_own() {
    let mut node = TestNode::start(FLAGS).await;
    let a = node.owner(1, MIB).await;
    let told = a.start("key-0", 1024, &plain()).await.unwrap();
    let Descriptor::Disk(file) = &told[1].descriptor else { panic!("{told:?}") };
    assert_eq!((&*file.file_path, file.object_size), (b"/shared/cid/p/l/key-0".as_slice(), 1024));
    assert_eq!(a.end("key-0").await, Ok(()));
    assert_eq!(a.kinds("key-0").await, Ok("M".into()));
    assert_eq!(a.remove("key-0", true).await, refused(E::ReplicaIsNotReady));
    assert_eq!(a.end_with("key-0", ReplicaType::DISK, None).await, Ok(()));
    node.restart().await;
    let a = node.caller(1).await;
    assert_eq!(a.kinds("key-0").await, Ok("MD".into()));
    assert_eq!(a.evict_file("key-0", ReplicaType::DISK).await, Ok(()));
    assert_eq!(a.kinds("key-0").await, Ok("M".into()));
    assert_eq!(a.remove("key-0", true).await, Ok(()));
}

#[tokio::test]
async fn case_07_of_memory_and_file_only_the_first_end_commits() {
    let node = TestNode::start(FLAGS).await;
    let a = node.owner(1, MIB).await;
    a.start("k", 1024, &pinned(Some(60_000))).await.unwrap();
    node.pass(1_000);
    assert_eq!(a.end("k").await, Ok(()));
    let deadline = Some(node.now() + 60_000);
    assert_eq!(node.deadline("k"), deadline);
    for kind in [ReplicaType::MEMORY, ReplicaType::DISK, ReplicaType::DISK] {
        node.pass(1_000);
        assert_eq!(a.end_with("k", kind, None).await, Ok(()));
        assert_eq!((node.deadline("k"), node.pins()), (deadline, 1));
    }
    assert_eq!(a.kinds("k").await, Ok("MD".into()));
}

#[tokio::test]
async fn the_file_alone_commits_a_pin_and_a_revoked_file_leaves_the_memory() {
    let node = TestNode::start(FLAGS).await;
    let a = node.owner(1, MIB).await;
    a.start("k", 1024, &pinned(Some(60_000))).await.unwrap();
    assert_eq!(a.revoke("k", ReplicaType::MEMORY).await, Ok(()));
    assert_eq!(node.pins(), 0);
    assert_eq!(a.end_with("k", ReplicaType::DISK, None).await, Ok(()));
    assert_eq!((a.kinds("k").await, node.pins()), (Ok("D".into()), 1));
    a.start("m", 1024, &plain()).await.unwrap();
    assert_eq!(a.revoke("m", ReplicaType::DISK).await, Ok(()));
    assert_eq!(a.end("m").await, Ok(()));
    assert_eq!(a.remove("m", true).await, Ok(()));
}

#[tokio::test]
async fn batches_and_upserts_have_files_too_and_clients_are_told_the_directory() {
    let node = TestNode::start(FLAGS).await;
    let a = node.owner(1, MIB).await;
    let told = a.batch_start(&["a", "b"], &[10, 20], &plain()).await;
    let told: Vec<String> = told.iter().map(|told| kinds(told.as_ref().unwrap())).collect();
    assert_eq!(told, ["MD", "MD"]);
    assert_eq!(kinds(&a.upsert_start("c", 1024).await.unwrap()), "MD");
    assert_eq!(kinds(&a.upsert_start("c", 1024).await.unwrap()), "MD", "no second file");
    let storage = a.call::<c::GetStorageConfig>(&NoArguments).await.unwrap();
    assert_eq!(&*storage.fsdir, b"/shared/cid");
    assert_eq!(&*a.call::<c::GetFsdir>(&NoArguments).await.unwrap(), b"/shared/cid");
    node.assert_sound();
}
