//! Scenarios L, C25 and D14 to D16: patterns and replica clear.

use mooncake_ha::model::ErrorCode;

use super::calls::*;
use crate::support::node::{Caller, TestNode, copies, pinned, plain};

const MIB: u64 = 1 << 20;
const TTL: &[&str] = &["--default_kv_lease_ttl=200"];

/// Thirteen assorted keys.
const KEYS: [&str; 13] = [
    "test_key_1",
    "test_key_22",
    "test_key_x",
    "prod/key",
    "prod-key-7",
    "a.log",
    "logs/today",
    "short",
    "shorter",
    "data.json",
    "chunk-1",
    "my chunk",
    "config_key",
];

async fn stocked(node: &TestNode) -> Caller {
    let writer = node.owner(1, MIB).await;
    for key in KEYS {
        writer.put(key, &plain()).await;
    }
    writer
}

#[tokio::test]
async fn l1_a_pattern_is_searched_for_in_every_key() {
    let node = TestNode::start(TTL).await;
    let writer = stocked(&node).await;
    let count = async |pattern| find(&writer, pattern).await.unwrap().len();
    assert_eq!(count("^test_key_").await, 3);
    assert_eq!(count("^test_key_\\d+$").await, 2);
    assert_eq!(count("key").await, 6);
    assert_eq!(count("\\.log$").await, 1);
    assert_eq!(count("^prod|\\.json$").await, 3);
    assert_eq!(count("^short$").await, 1);
    assert_eq!(count("").await, 13);
    assert_eq!(count("nothing").await, 0);
}

#[tokio::test]
async fn found_keys_are_leased_and_unfinished_ones_left_out() {
    let node = TestNode::start(TTL).await;
    let writer = node.owner(1, MIB).await;
    let other = node.owner(2, MIB).await;
    writer.put("k1", &copies(2)).await;
    writer.put("k2", &in_group("g")).await;
    writer.put("j", &in_group("g")).await;
    writer.start("k3", 1024, &plain()).await.unwrap();
    let found = find(&other, "^k").await.unwrap();
    assert_eq!(found, [("k1".to_owned(), 2), ("k2".to_owned(), 1)]);
    for key in ["k1", "k2", "j"] {
        assert_eq!(writer.remove(key, false).await, refused(ErrorCode::ObjectHasLease), "{key}");
    }
}

#[tokio::test]
async fn l2_a_pattern_removes_what_it_finds() {
    let node = TestNode::start(TTL).await;
    let writer = stocked(&node).await;
    assert_eq!(remove_by_regex(&writer, "nothing", false).await, Ok(0));
    assert_eq!(remove_by_regex(&writer, "^test_key_", false).await, Ok(3));
    assert_eq!(remove_by_regex(&writer, "/|\\d$", false).await, Ok(4));
    assert_eq!(remove_by_regex(&writer, "chunk|config", false).await, Ok(2));
    assert_eq!(node.keys(), 4);
    assert_eq!(remove_by_regex(&writer, ".*", false).await, Ok(4));
    assert_eq!(node.keys(), 0);
}

#[tokio::test]
async fn leased_keys_need_force_and_unfinished_ones_always_stay() {
    let node = TestNode::start(TTL).await;
    let writer = node.owner(1, MIB).await;
    for key in ["a", "b"] {
        writer.put(key, &plain()).await;
    }
    writer.start("open", 1, &plain()).await.unwrap();
    assert!(writer.exists("a").await);
    assert_eq!(remove_by_regex(&writer, "", false).await, Ok(1));
    assert_eq!(remove_by_regex(&writer, "", true).await, Ok(1));
    assert_eq!(node.keys(), 1);
}

#[tokio::test]
async fn c25_pins_do_not_protect_from_a_pattern() {
    let node = TestNode::start(TTL).await;
    let writer = node.owner(1, MIB).await;
    for n in 0..300 {
        writer.put(&format!("k{n}"), &pinned(Some(60_000))).await;
    }
    assert_eq!(node.pins(), 300);
    assert_eq!(remove_by_regex(&writer, "^k", false).await, Ok(300));
    assert_eq!((node.pins(), node.keys()), (0, 0));
    node.assert_sound();
}

#[tokio::test]
async fn l4_a_bad_pattern_is_refused_and_the_master_goes_on() {
    let node = TestNode::start(TTL).await;
    let writer = stocked(&node).await;
    for bad in ["(", "[", "([", "*", "a{2,1}", "(?<=a)b", "\\1"] {
        assert_eq!(find(&writer, bad).await.unwrap_err(), ErrorCode::InvalidParams, "{bad}");
        let removed = remove_by_regex(&writer, bad, true).await;
        assert_eq!(removed, refused(ErrorCode::InvalidParams), "{bad}");
    }
    assert_eq!(node.keys(), 13);
    assert!(writer.exists("short").await);
}

#[tokio::test]
async fn l6_look_ahead_and_back_references_work() {
    let node = TestNode::start(TTL).await;
    let writer = stocked(&node).await;
    let names = async |pattern| {
        let found = find(&writer, pattern).await.unwrap();
        found.into_iter().map(|(key, _)| key).collect::<Vec<_>>()
    };
    assert_eq!(names("(\\d)\\1").await, ["test_key_22"]);
    assert_eq!(names("^short(?=er)").await, ["shorter"]);
    assert_eq!(names("^(?!test|prod|config).*key").await, Vec::<String>::new());
    assert_eq!(names("^chunk-(?!2)").await, ["chunk-1"]);
}

#[tokio::test]
async fn a_pattern_that_explodes_is_refused_while_others_are_served() {
    let node = TestNode::start(TTL).await;
    let writer = node.owner(1, MIB).await;
    writer.put(&format!("c{}", "a".repeat(200)), &plain()).await;
    let found = find(&writer, "(a|aa)+\\1c$").await;
    assert_eq!(found.unwrap_err(), ErrorCode::InvalidParams);
    assert_eq!(find(&writer, "^ca").await.unwrap().len(), 1);
}

#[tokio::test]
async fn d14_replica_clear_leaves_out_what_it_may_not_touch() {
    let node = TestNode::start(TTL).await;
    let (mine, other) = (node.owner(1, MIB).await, node.caller(2).await);
    for key in ["a", "leased"] {
        mine.put(key, &plain()).await;
    }
    other.put("foreign", &plain()).await;
    mine.start("open", 1, &plain()).await.unwrap();
    assert!(mine.exists("leased").await);
    assert_eq!(clear(&mine, &[], "").await, Vec::<String>::new());
    let all = ["leased", "foreign", "missing", "", "open", "a", "a"];
    assert_eq!(clear(&mine, &all, "").await, ["a"]);
    assert_eq!(node.keys(), 3);
    node.pass(200);
    assert_eq!(clear(&mine, &["leased"], "").await, ["leased"]);
}

#[tokio::test]
async fn d15_clearing_the_only_segment_of_a_key_removes_it() {
    let node = TestNode::start(TTL).await;
    let writer = node.owner(1, MIB).await;
    let _other = node.owner(2, MIB).await;
    writer.put("both", &copies(2)).await;
    assert_eq!(clear(&writer, &["both"], "nowhere").await, Vec::<String>::new());
    assert_eq!(clear(&writer, &["both"], "s1").await, ["both"]);
    assert_eq!(writer.replicas("both").await.unwrap().replicas.len(), 1);
    node.pass(200);
    assert_eq!(clear(&writer, &["both"], "s2").await, ["both"]);
    assert_eq!(writer.replicas("both").await.unwrap_err(), ErrorCode::ObjectNotFound);
    node.assert_sound();
}

#[tokio::test]
async fn d16_a_client_clears_only_its_own_keys() {
    let node = TestNode::start(TTL).await;
    let (mine, other) = (node.owner(1, MIB).await, node.caller(2).await);
    for (caller, key) in [(&mine, "a"), (&mine, "b"), (&other, "c")] {
        caller.put(key, &plain()).await;
    }
    assert_eq!(clear(&mine, &["a", "b", "c"], "").await, ["a", "b"]);
    assert!(other.exists("c").await);
}
