//! F1, F6 to F9, C21, C22, C26, edge 34 and public report 3419: what eviction takes and what it leaves.

use std::sync::atomic::Ordering;

use mooncake_ha::model::ErrorCode as E;
use mooncake_ha::wire::types::ReplicateConfig;

use super::refused;
use crate::support::node::{Caller, TestNode, copies, pinned, plain, until};

/// Room for 32 values of 1 KiB.
const ROOM: u64 = 32 << 10;

/// Evict only when a write found no room.
const ON_DEMAND: &[&str] =
    &["--eviction_high_watermark_ratio=1", "--eviction_ratio=0.5", "--default_kv_lease_ttl=5s"];

type Config = ReplicateConfig<&'static [u8]>;

fn hard() -> Config {
    ReplicateConfig { with_hard_pin: true, ..plain() }
}

/// Puts as a client does: again and again until there is room.
async fn put_when_there_is_room(node: &TestNode, client: &Caller, key: &str, config: &Config) {
    until("there is room", async || match client.start(key, 1024, config).await {
        Ok(_) => true,
        Err(error) if error == E::NoAvailableHandle => {
            node.pass(50);
            false
        }
        Err(other) => panic!("{key}: {other:?}"),
    })
    .await;
    client.end(key).await.unwrap();
}

/// Puts until there is no room; returns the keys.
async fn fill(client: &Caller, name: &str, config: &Config) -> Vec<String> {
    let mut keys = Vec::new();
    loop {
        let key = format!("{name}{:03}", keys.len());
        match client.start(&key, 1024, config).await {
            Ok(_) => client.end(&key).await.unwrap(),
            Err(error) if error == E::NoAvailableHandle => return keys,
            Err(other) => panic!("{key}: {other:?}"),
        }
        keys.push(key);
    }
}

/// Which keys are still in the table, without reading them.
fn left(node: &TestNode, keys: &[String]) -> Vec<String> {
    keys.iter().filter(|key| node.has(key)).cloned().collect()
}

/// Lets so much time pass that what was used last may go, and gives the evictor a moment.
async fn settle(node: &TestNode) {
    for _ in 0..10 {
        node.pass(200);
        tokio::time::sleep(std::time::Duration::from_millis(15)).await;
    }
}

#[tokio::test]
async fn f1_more_values_are_written_than_fit() {
    let node = TestNode::start(ON_DEMAND).await;
    let client = node.owner(1, ROOM).await;
    for n in 0..82 {
        put_when_there_is_room(&node, &client, &format!("k{n}"), &plain()).await;
    }
    assert!(client.exists("k81").await);
    assert!(!client.exists("k0").await);
    let stats = node.master().eviction_stats();
    assert!(stats.successful.load(Ordering::Relaxed) >= 2);
    let evicted = stats.evicted_keys.load(Ordering::Relaxed);
    assert_eq!(evicted, 82 - node.keys());
    assert_eq!(stats.evicted_bytes.load(Ordering::Relaxed), evicted * 1024);
    node.assert_sound();
}

#[tokio::test]
async fn f6_f7_the_source_of_a_copy_stays_until_the_copy_is_given_up() {
    let node = TestNode::start(ON_DEMAND).await;
    let (client, other) = (node.owner(1, ROOM).await, node.owner(2, 4 << 20).await);
    let on = |name: &'static str| ReplicateConfig {
        preferred_segments: vec![name.as_bytes()],
        ..plain()
    };
    client.put("source", &on("s1")).await;
    other.copy_start("source", "s1", &["s2"]).await.unwrap();
    let big = 4 << 20;
    for _ in 0..3 {
        assert_eq!(client.start("big", big, &plain()).await.unwrap_err(), E::NoAvailableHandle);
        settle(&node).await;
        assert!(node.has("source"));
    }
    assert_eq!(other.copy_end("source").await, Ok(()));
    other.copy_start("source", "s1", &[]).await.unwrap();
    node.pass(600_000);
    until("the copy is given up", async || node.look(|state| state.transfers().is_empty())).await;
    assert_eq!(client.start("big", big, &plain()).await.unwrap_err(), E::NoAvailableHandle);
    until("the source goes", async || {
        node.pass(100);
        !node.has("source")
    })
    .await;
    assert_eq!(other.copy_end("source").await, refused(E::ObjectNotFound));
    node.assert_sound();
}

#[tokio::test]
async fn f8_eviction_starts_by_itself_above_the_watermark() {
    let node = TestNode::start(&["--eviction_high_watermark_ratio=0.75"]).await;
    let client = node.owner(1, ROOM).await;
    for n in 0..24 {
        client.put(&format!("k{n}"), &plain()).await;
        node.pass(10);
    }
    settle(&node).await;
    assert_eq!(node.keys(), 24);
    assert_eq!(node.master().eviction_stats().attempted.load(Ordering::Relaxed), 0);
    client.put("k24", &plain()).await;
    until("memory is at the watermark", async || {
        node.pass(50);
        node.keys() <= 24
    })
    .await;
    assert!(!node.has("k0") && node.has("k24"));
    let stats = node.master().eviction_stats();
    until("it is counted", async || stats.successful.load(Ordering::Relaxed) > 0).await;
    node.assert_sound();
}

#[tokio::test]
async fn f9_open_puts_are_not_evicted() {
    let node = TestNode::start(ON_DEMAND).await;
    let client = node.owner(1, ROOM).await;
    for n in 0..4 {
        client.start(&format!("open{n}"), 1024, &plain()).await.unwrap();
    }
    let keys = fill(&client, "k", &plain()).await;
    for n in 0..60 {
        put_when_there_is_room(&node, &client, &format!("more{n}"), &plain()).await;
    }
    assert_eq!(left(&node, &keys), [""; 0]);
    for n in 0..4 {
        assert_eq!(client.end(&format!("open{n}")).await, Ok(()));
    }
    node.assert_sound();
}

#[tokio::test]
async fn c21_c26_pinned_values_stay_while_others_can_go() {
    let node = TestNode::start(ON_DEMAND).await;
    let client = node.owner(1, ROOM).await;
    client.put("hard", &hard()).await;
    for key in ["soft1", "soft2"] {
        client.put(key, &pinned(Some(3_600_000))).await;
    }
    for n in 0..100 {
        put_when_there_is_room(&node, &client, &format!("k{n}"), &plain()).await;
    }
    assert!(node.has("hard") && node.has("soft1") && node.has("soft2"));
    assert_eq!(node.pins(), 2);
    node.assert_sound();
}

#[tokio::test]
async fn c22_soft_pinned_values_go_when_nothing_else_can_and_hard_pinned_never() {
    let node = TestNode::start(ON_DEMAND).await;
    let client = node.owner(1, ROOM).await;
    client.put("hard", &hard()).await;
    for n in 0..80 {
        put_when_there_is_room(&node, &client, &format!("k{n}"), &pinned(Some(3_600_000))).await;
    }
    assert!(node.has("hard") && node.has("k79") && !node.has("k0"));
    assert_eq!(node.pins() as u64, node.keys() - 1);
    node.assert_sound();
}

#[tokio::test]
async fn soft_pinned_values_never_go_if_the_operator_says_so_and_nothing_is_tried_in_vain() {
    let flags = [ON_DEMAND, &["--allow_evict_soft_pinned_objects=false"]].concat();
    let node = TestNode::start(&flags).await;
    let client = node.owner(1, ROOM).await;
    let keys = fill(&client, "k", &pinned(Some(60_000))).await;
    settle(&node).await;
    assert_eq!(client.start("more", 1024, &plain()).await.unwrap_err(), E::NoAvailableHandle);
    settle(&node).await;
    assert_eq!(left(&node, &keys), keys);
    // Edge 34: the peer counts a hundred attempts a second now.
    assert_eq!(node.master().eviction_stats().attempted.load(Ordering::Relaxed), 0);
    node.pass(60_000);
    put_when_there_is_room(&node, &client, "more", &plain()).await;
    assert!(left(&node, &keys).len() < keys.len());
    node.assert_sound();
}

#[tokio::test]
async fn values_whose_memory_a_snapshot_guards_are_not_tried_again_in_every_pass() {
    let node = TestNode::start(ON_DEMAND).await;
    let client = node.owner(1, ROOM).await;
    node.master().begin_snapshot().await.unwrap();
    let keys = fill(&client, "k", &pinned(Some(60_000))).await;
    for _ in 0..20 {
        let refused = client.start("more", 1024, &plain()).await.unwrap_err();
        assert_eq!(refused, E::NoAvailableHandle);
        node.pass(20);
        tokio::time::sleep(std::time::Duration::from_millis(15)).await;
    }
    assert_eq!(left(&node, &keys), keys);
    let tried = node.master().eviction_stats().attempted.load(Ordering::Relaxed);
    assert!((1..=2).contains(&tried), "{tried} passes");
    node.pass(60_000);
    put_when_there_is_room(&node, &client, "more", &plain()).await;
    node.assert_sound();
}

#[tokio::test]
async fn values_that_are_being_read_stay_until_their_leases_end() {
    let node = TestNode::start(ON_DEMAND).await;
    let client = node.owner(1, ROOM).await;
    let keys: Vec<String> = (0..32).map(|n| format!("k{n}")).collect();
    for key in &keys {
        client.put(key, &plain()).await;
        assert!(client.exists(key).await);
    }
    assert_eq!(client.start("more", 1024, &plain()).await.unwrap_err(), E::NoAvailableHandle);
    settle(&node).await;
    assert_eq!(left(&node, &keys), keys);
    assert_eq!(node.master().eviction_stats().attempted.load(Ordering::Relaxed), 0);
    node.pass(5_000);
    put_when_there_is_room(&node, &client, "more", &plain()).await;
    node.assert_sound();
}

#[tokio::test]
async fn report_3419_a_write_that_eviction_cannot_help_does_not_ask_for_it() {
    let node = TestNode::start(ON_DEMAND).await;
    let client = node.owner(1, ROOM).await;
    let keys = fill(&client, "k", &copies(2)).await;
    assert_eq!(client.start("more", 1024, &copies(2)).await.unwrap_err(), E::NoAvailableHandle);
    settle(&node).await;
    assert_eq!(left(&node, &keys), keys);
    put_when_there_is_room(&node, &client, "one", &plain()).await;
    node.assert_sound();
}

/// One copy in a group.
fn in_group(group: &'static str) -> Config {
    ReplicateConfig { group_ids: Some(vec![group.as_bytes()]), ..plain() }
}

#[tokio::test]
async fn g7_the_members_of_a_group_go_together() {
    // One object of thirty-two is asked for; its group goes with it.
    let node =
        TestNode::start(&["--eviction_high_watermark_ratio=1", "--eviction_ratio=0.01"]).await;
    let client = node.owner(1, ROOM).await;
    for key in ["a", "b", "c"] {
        client.put(key, &in_group("g")).await;
        node.pass(1);
    }
    let keys = fill(&client, "k", &plain()).await;
    until("the group goes", async || {
        node.pass(20);
        !node.has("a")
    })
    .await;
    settle(&node).await;
    assert!(!node.has("b") && !node.has("c"));
    assert_eq!(left(&node, &keys), keys);
    node.assert_sound();
}

#[tokio::test]
async fn g8_a_group_with_a_member_that_is_read_stays_and_others_go_instead() {
    let node = TestNode::start(ON_DEMAND).await;
    let client = node.owner(1, ROOM).await;
    client.put("a", &in_group("g")).await;
    client.put("b", &ReplicateConfig { with_hard_pin: true, ..in_group("g") }).await;
    for n in 0..100 {
        assert!(client.exists("b").await);
        put_when_there_is_room(&node, &client, &format!("k{n}"), &plain()).await;
    }
    assert!(node.has("a") && node.has("b"));
    node.assert_sound();
}

#[tokio::test]
async fn g9_a_hard_pinned_member_stays_and_the_other_goes() {
    let node = TestNode::start(ON_DEMAND).await;
    let client = node.owner(1, ROOM).await;
    client.put("a", &in_group("g")).await;
    client.put("b", &ReplicateConfig { with_hard_pin: true, ..in_group("g") }).await;
    for n in 0..60 {
        put_when_there_is_room(&node, &client, &format!("k{n}"), &plain()).await;
    }
    assert!(!node.has("a") && node.has("b"));
    node.assert_sound();
}
