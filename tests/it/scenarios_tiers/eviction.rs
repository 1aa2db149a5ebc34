//! F10 and behaviour 10.2, "offload on evict": memory runs short, and objects go by way of a disk.

use mooncake_ha::model::ErrorCode as E;

use super::{kinds, scene};
use crate::support::node::{Caller, TestNode, plain, until};

const KIB: u64 = 1 << 10;
/// Room for 8 objects of 128 KiB; eviction starts with the 7th.
const BYTES: u64 = 128 * KIB;
const FLAGS: &[&str] =
    &["--offload_on_evict", "--eviction_high_watermark_ratio=0.8", "--eviction_ratio=0.2"];

async fn put(a: &Caller, key: &str) {
    a.start(key, BYTES, &plain()).await.unwrap();
    a.end(key).await.unwrap();
}

fn used(node: &TestNode) -> u64 {
    node.look(|state| state.segments().memory_usage().0)
}

#[tokio::test]
async fn f10_keys_get_files_instead_of_vanishing_and_an_end_alone_queues_nothing() {
    let (node, a) = scene(FLAGS).await;
    for n in 0..6 {
        put(&a, &format!("k{n}")).await;
        node.pass(200);
    }
    assert_eq!(a.to_offload().await, Vec::<String>::new());
    put(&a, "k6").await;
    let mut queued = Vec::new();
    until("the oldest are queued", async || {
        node.pass(200);
        queued.extend(a.to_offload().await);
        !queued.is_empty()
    })
    .await;
    assert_eq!((queued[0].as_str(), node.keys()), ("k0", 7));
    let size = i64::try_from(BYTES).unwrap();
    let report: Vec<(&str, i64)> = queued.iter().map(|key| (key.as_str(), size)).collect();
    assert_eq!(a.report(&report).await, Ok(()));
    until("their memory goes", async || {
        node.pass(200);
        let more = a.to_offload().await;
        let more: Vec<(&str, i64)> = more.iter().map(|key| (key.as_str(), size)).collect();
        assert_eq!(a.report(&more).await, Ok(()));
        used(&node) <= 6 * BYTES
    })
    .await;
    // Of those whose files are there any may go first: one that was on its way is looked at again a second later.
    let mut left = Vec::new();
    for n in 0..7 {
        left.push(kinds(&a.replicas(&format!("k{n}")).await.unwrap().replicas));
    }
    assert!(left.iter().any(|kinds| kinds == "L"), "{left:?}");
    assert_eq!(node.keys(), 7);
    node.assert_sound();
}

#[tokio::test]
async fn without_a_disk_objects_stay_unless_force_is_allowed() {
    let node = TestNode::start(&[&["--enable_offload"], FLAGS].concat()).await;
    let a = node.owner(1, 1 << 20).await;
    for n in 0..8 {
        put(&a, &format!("k{n}")).await;
    }
    for _ in 0..20 {
        node.pass(500);
        assert_eq!(a.start("more", BYTES, &plain()).await.unwrap_err(), E::NoAvailableHandle);
    }
    assert_eq!(node.keys(), 8);
    let forced = [&["--enable_offload", "--offload_force_evict"], FLAGS].concat();
    let node = TestNode::start(&forced).await;
    let a = node.owner(1, 1 << 20).await;
    for n in 0..8 {
        put(&a, &format!("k{n}")).await;
    }
    until("there is room", async || {
        node.pass(500);
        a.start("more", BYTES, &plain()).await.is_ok()
    })
    .await;
    assert!(node.keys() < 9);
}

#[tokio::test]
async fn force_evicts_what_the_queue_has_no_share_for() {
    let limits = ["--enable_offload", "--offload_force_evict", "--offload_cap_ratio=0"];
    let node = TestNode::start(&[&limits, FLAGS].concat()).await;
    let a = node.owner(1, 1 << 20).await;
    assert_eq!(a.mount_disk(true).await, Ok(()));
    for n in 0..8 {
        put(&a, &format!("k{n}")).await;
        node.pass(200);
    }
    until("memory is freed at once", async || {
        node.pass(200);
        used(&node) <= 6 * BYTES
    })
    .await;
    assert_eq!(a.to_offload().await, Vec::<String>::new());
    assert!(node.keys() < 8);
}
