//! The simulation itself: it repeats, it finds nothing in what is right and something in what is not.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::process::{Command, Output};

use serde_json::Value;

/// Seconds in which each planted bug must be found.
const SEARCH_SECONDS: &str = "120";

fn sim(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mooncake-ha-sim")).args(words).output().unwrap()
}

fn json(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn one_seed_is_one_run() {
    for seed in ["3", "4", "5"] {
        let words = ["--seed", seed, "--chaos", "10", "--json"];
        let (first, second) = (json(&sim(&words)), json(&sim(&words)));
        assert!(first["counts"]["events"].as_u64().unwrap() > 1_000, "{first}");
        assert_eq!(first, second, "seed {seed}");
    }
    let digest = |seed| json(&sim(&["--seed", seed, "--chaos", "2", "--json"]))["digest"].clone();
    assert_ne!(digest("1"), digest("2"));
}

#[test]
fn a_master_without_a_planted_bug_is_found_to_be_right() {
    let output = sim(&["--seconds", "20", "--seed", "1", "--json"]);
    let told = json(&output);
    assert!(output.status.success(), "{told}");
    let counts = &told["counts"];
    for count in ["seeds", "entries", "answered", "keys", "walked", "images", "pins", "places"] {
        assert!(counts[count].as_u64().unwrap() > 0, "no {count}: {told}");
    }
}

#[test]
fn senseless_arguments_are_refused_with_code_2() {
    assert_eq!(sim(&["--nodes", "nine"]).status.code(), Some(2));
    assert_eq!(sim(&["--plant", "nonsense"]).status.code(), Some(2));
}

/// Searches for a planted bug, and repeats the run that found it: it finds the same again, and nothing
/// when nothing is planted.
fn finds(plant: &str, word: &str) {
    let chaos = ["--chaos", "20", "--plant", plant, "--json"];
    let output = sim(&[&["--seconds", SEARCH_SECONDS, "--jobs", "2"], &chaos[..]].concat());
    let told = json(&output);
    assert_eq!(output.status.code(), Some(1), "{plant} was not found: {told}");
    let failed = &told["failed"][0];
    let text = failed["findings"].to_string();
    assert!(text.contains(word), "{plant} was found by something else: {text}");
    let seed = failed["seed"].to_string();
    let again = sim(&[&["--seed", &seed], &chaos[..]].concat());
    assert_eq!(again.status.code(), Some(1));
    assert_eq!(json(&again)["findings"], failed["findings"], "it does not repeat");
    let sound = sim(&["--seed", &seed, "--chaos", "20", "--json"]);
    assert_eq!(sound.status.code(), Some(0), "found without it, too: {}", json(&sound));
}

#[test]
fn a_restarted_node_that_votes_at_once_is_found() {
    finds("skip-gate", "may answer reads");
}

#[test]
fn a_forwarded_write_that_is_sent_again_is_found() {
    finds("forward-twice", "then:");
}

#[test]
fn a_lease_granted_over_a_fence_is_found() {
    finds("lease-after-fence", "promised");
}

#[test]
fn a_pin_dropped_by_a_take_over_is_found() {
    finds("drop-pending-pins", "the pin of");
}

#[test]
fn an_index_that_a_failed_restore_leaves_is_found() {
    finds("keep-index", "");
}
