//! Public reports on the peer that concern data and memory, as small cases, named by their number there.
//!
//! What a report measured at a million objects is counted here at a few thousand: entries of the log, and the
//! objects that a step touches, do not depend on the speed of the machine.

use std::sync::atomic::Ordering;

use mooncake_ha::model::ErrorCode;
use mooncake_ha::wire::calls as c;
use mooncake_ha::wire::requests::PutEndRequest;
use mooncake_ha::wire::types::{ObjectMeta, ReplicaType, ReplicateConfig};

use super::{TENANT, refused};
use crate::support::node::{Caller, TestNode, copies, pinned, place, plain, segment, until};

const MIB: u64 = 1 << 20;

/// Objects that one step of an unmount drops at most.
const STEP: u64 = 512;

fn on(name: &str) -> ReplicateConfig<&[u8]> {
    ReplicateConfig { preferred_segment: name.as_bytes(), ..plain() }
}

/// Writes `count` objects of one byte to the caller's segment.
async fn fill(caller: &Caller, name: &str, count: u64) {
    let keys: Vec<String> = (0..count).map(|n| format!("{name}-{n}")).collect();
    for keys in keys.chunks(1_000) {
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let sizes = vec![1; keys.len()];
        let started = caller.batch_start(&keys, &sizes, &on(name)).await;
        assert!(started.iter().all(Result::is_ok));
        assert!(caller.batch_end(&keys).await.iter().all(Result::is_ok));
    }
}

fn commands(node: &TestNode) -> u64 {
    node.master().propose_stats().commands.load(Ordering::Relaxed)
}

#[tokio::test]
async fn report_3395_clients_that_die_together_are_taken_out_in_bounded_steps() {
    const OBJECTS: u64 = 3_000;
    let node = TestNode::start(&["--client_ttl=5"]).await;
    let survivor = node.owner(9, MIB).await;
    for n in 1..=3 {
        fill(&node.owner(n, MIB).await, &format!("s{n}"), OBJECTS).await;
    }
    survivor.start("mine", 10, &on("s9")).await.unwrap();
    survivor.end("mine").await.unwrap();
    node.pass(4_000);
    survivor.call::<c::Ping>(&survivor.id).await.unwrap();
    let before = commands(&node);
    node.pass(2_000);
    until("the first is unreadable", async || !survivor.exists("s1-0").await).await;
    // While the dead clients' objects are dropped, others write as ever.
    survivor.start("other", 10, &on("s9")).await.unwrap();
    survivor.end("other").await.unwrap();
    until("their objects are gone", async || node.keys() == 2).await;
    let steps = commands(&node) - before;
    assert!(steps >= 3 * OBJECTS / STEP, "{OBJECTS} objects a client went in {steps} commands");
    assert!(survivor.exists("mine").await && survivor.exists("other").await);
    node.assert_sound();
}

#[tokio::test]
async fn report_3517_a_client_with_many_objects_remounts_without_touching_them() {
    const OBJECTS: u64 = 3_000;
    let node = TestNode::start(&[]).await;
    let owner = node.owner(1, MIB).await;
    fill(&owner, "s1", OBJECTS).await;
    let (before, bytes) = (commands(&node), bytes_proposed(&node));
    assert_eq!(owner.remount(&[segment(1, "s1", MIB)]).await, Ok(()));
    // One small command, and nothing in it that grows with the objects.
    assert_eq!(commands(&node) - before, 1);
    assert!(bytes_proposed(&node) - bytes < 256, "{} bytes", bytes_proposed(&node) - bytes);
    assert_eq!(node.look(|state| state.arrivals().len()), 0, "no object changed");
    owner.start("next", 1, &plain()).await.unwrap();
    assert_eq!(node.keys(), OBJECTS + 1);
    node.assert_sound();
}

fn bytes_proposed(node: &TestNode) -> u64 {
    node.master().propose_stats().bytes.load(Ordering::Relaxed)
}

#[tokio::test]
async fn report_3203_an_end_without_a_start_does_not_complete_the_replica_of_a_copy() {
    let node = TestNode::start(&[]).await;
    let (writer, copier) = (node.owner(1, MIB).await, node.owner(2, MIB).await);
    writer.start("k", 1024, &on("s1")).await.unwrap();
    writer.end("k").await.unwrap();
    copier.copy_start("k", "s1", &["s2"]).await.unwrap();
    let request = PutEndRequest {
        client_id: writer.id,
        object_meta: ObjectMeta { key: &b"k"[..], object_checksum: None },
        replica_type: ReplicaType::ALL,
        tenant_id: TENANT,
    };
    assert_eq!(writer.call::<c::UpsertEnd>(&request).await, refused(ErrorCode::InvalidWrite));
    assert_eq!(writer.end("k").await, refused(ErrorCode::InvalidWrite));
    assert_eq!(writer.places("k").await, ["s1"]);
    assert_eq!(copier.copy_end("k").await, Ok(()));
    assert_eq!(writer.places("k").await, ["s1", "s2"]);
}

#[tokio::test]
async fn report_3414_the_gaps_of_a_fragmented_segment_are_used_after_a_restart() {
    const BLOCK: u64 = 64 << 10;
    // Nothing is to be evicted from a segment that is filled to the brim.
    let mut node = TestNode::start(&["--eviction_high_watermark_ratio=1"]).await;
    let writer = node.owner(1, MIB).await;
    let mut gaps = Vec::new();
    for n in 0..16 {
        let started = writer.start(&format!("k{n}"), BLOCK, &plain()).await.unwrap();
        writer.end(&format!("k{n}")).await.unwrap();
        if n % 2 == 0 {
            gaps.push(place(&started[0]).1);
        }
    }
    for n in (0..16).step_by(2) {
        writer.remove(&format!("k{n}"), false).await.unwrap();
    }
    node.restart().await;
    let writer = node.caller(1).await;
    assert_eq!(node.look(|state| state.segments().memory_usage().0), 8 * BLOCK);
    let mut used = Vec::new();
    for n in 0..8 {
        used.push(place(&writer.start(&format!("new{n}"), BLOCK, &plain()).await.unwrap()[0]).1);
    }
    used.sort_unstable();
    assert_eq!(used, gaps);
    let full = writer.start("full", BLOCK, &plain()).await;
    assert_eq!(full.unwrap_err(), ErrorCode::NoAvailableHandle);
    node.assert_sound();
}

#[tokio::test]
async fn report_3826_no_memory_of_a_live_object_is_handed_out_after_a_restart_and_a_remount() {
    let mut node = TestNode::start(&[]).await;
    let writer = node.owner(1, MIB).await;
    for n in 0..40 {
        writer.start(&format!("old{n}"), 1_000 + n, &pinned(Some(60_000))).await.unwrap();
        writer.end(&format!("old{n}")).await.unwrap();
    }
    for n in (0..40).step_by(3) {
        writer.remove(&format!("old{n}"), false).await.unwrap();
    }
    node.restart().await;
    let writer = node.caller(1).await;
    assert_eq!(writer.remount(&[segment(1, "s1", MIB)]).await, Ok(()));
    let mut ranges = Vec::new();
    for n in 0..40 {
        if let Ok(found) = writer.replicas(&format!("old{n}")).await {
            ranges.push((place(&found.replicas[0]).1, 1_000 + n));
        }
    }
    assert_eq!(ranges.len(), 26);
    for n in 0..200 {
        let started = writer.start(&format!("new{n}"), 900 + n, &plain()).await.unwrap();
        ranges.push((place(&started[0]).1, 900 + n));
    }
    ranges.sort_unstable();
    for pair in ranges.windows(2) {
        assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{pair:?} overlap");
    }
    node.assert_sound();
}

#[tokio::test]
async fn report_849_a_write_whose_client_vanished_frees_its_key_first_and_its_memory_later() {
    let flags = ["--put_start_discard_timeout_sec=3", "--put_start_release_timeout_sec=20"];
    let node = TestNode::start(&flags).await;
    let (vanished, other) = (node.caller(7).await, node.owner(1, MIB).await);
    let started = vanished.start("k", 600_000, &copies(1)).await.unwrap();
    let taken = place(&started[0]).1;
    drop(vanished);
    node.pass(3_001);
    let started = other.start("k", 100_000, &plain()).await.unwrap();
    assert!(place(&started[0]).1 >= taken + 600_000, "the memory may still be written");
    other.end("k").await.unwrap();
    // Leased, so that the eviction for which the next write asks leaves it.
    assert!(other.exists("k").await);
    let large = other.start("large", 600_000, &plain()).await;
    assert_eq!(large.unwrap_err(), ErrorCode::NoAvailableHandle);
    // The object that took the key over is of use while the old memory waits.
    assert!(other.exists("k").await);
    node.pass(17_000);
    until("the memory is used again", async || {
        other.start("large", 600_000, &plain()).await.is_ok()
    })
    .await;
    node.assert_sound();
}
