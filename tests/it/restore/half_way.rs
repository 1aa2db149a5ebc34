//! The leader of three nodes is killed while a restore is half way: the next one starts over or nothing has happened,
//! and the cluster never has a part of a snapshot.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value as Json;
use tempfile::TempDir;

use super::public_bugs::{image_of_300, published};
use crate::cluster::trio::Trio;
use crate::support::eventually_within;

const PATIENCE: Duration = Duration::from_secs(60);

/// What the next leader says of a restore that it finds unfinished in its log.
const FOUND_UNFINISHED: &str = "a restore of an earlier leader was not finished; it is given up";

/// Kills may come before the first part or after the last one; so often one is tried.
const ROUNDS_MAX: usize = 6;

/// Keys of the snapshot.
const KEYS: u64 = 300;

/// A root with a snapshot of some ninety parts.
fn large_snapshot() -> TempDir {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut image = runtime.block_on(image_of_300());
    // Values of the metadata server are not compressed, so they make many parts of it.
    let pairs = (0..24_u8).map(|n| (format!("mooncake/ram/{n}").into_bytes(), vec![n; 1_000_000]));
    image.globals.extension.as_mut().unwrap().http_metadata = pairs.collect();
    published(&image)
}

/// `/api/v1/restore` of a node, if it answers.
fn page(trio: &Trio, at: usize) -> Option<Json> {
    let (status, body) = trio.http(at).try_get("/api/v1/restore")?;
    serde_json::from_str(&body).ok().filter(|_| status == 200)
}

fn is_under_way(trio: &Trio, at: usize) -> bool {
    page(trio, at).is_some_and(|page| page["is_under_way"] == true)
}

/// Readable and other keys of a node, from its own state.
fn keys(trio: &Trio, at: usize) -> Option<u64> {
    let (_, text) = trio.http(at).try_get("/metrics")?;
    let line = text.lines().find_map(|line| line.strip_prefix("master_key_count "))?;
    line.trim().parse::<f64>().ok().map(|count| count as u64)
}

/// Waits until a node has the whole snapshot; it must not have a part of it meanwhile.
fn has_all(trio: &Trio, at: usize) {
    eventually_within(PATIENCE, "it has the whole snapshot", || {
        let (page, keys) = (page(trio, at), keys(trio, at));
        assert!(keys.is_none_or(|keys| keys == 0 || keys == KEYS), "node {at}: {keys:?}");
        keys == Some(KEYS) && page.is_some_and(|page| page["outcome"] == "restored")
    });
}

/// The node that leads, whether it serves clients already or not.
fn leader(trio: &Trio) -> usize {
    let mut found = None;
    eventually_within(PATIENCE, "a node leads", || {
        let leads = |at: &usize| {
            let role = trio.http(*at).try_get("/role");
            role.is_some_and(|(_, role)| role == "leader")
        };
        found = (0..3).find(leads);
        found.is_some()
    });
    found.unwrap()
}

/// Kills the leader as soon as a part of a snapshot is seen at another node; answers who that was.
fn kill_half_way(trio: &mut Trio) -> usize {
    let lost = leader(trio);
    let other = (lost + 1) % 3;
    // Every millisecond counts here, so without the pause between two looks.
    let mut looks = 0_u32;
    while !is_under_way(trio, other) && keys(trio, other) != Some(KEYS) {
        looks += 1;
        assert!(looks < 1_000_000, "no restore begins");
    }
    trio.kill(lost);
    lost
}

#[test]
fn a_leader_killed_half_way_through_the_first_restore_leaves_it_to_the_next_which_starts_over() {
    let root = large_snapshot();
    let path = format!("--snapshot_local_path={}", root.path().display());
    let flags =
        ["--enable_snapshot_restore", "--restore_survival=complete", "--client_ttl=600", &path];
    let has_started_over = |_: &usize| {
        let mut trio = Trio::prepare(&flags);
        trio.start_all();
        let lost = kill_half_way(&mut trio);
        let next = trio.leader();
        assert_ne!(next, lost);
        (0..3).filter(|at| *at != lost).for_each(|at| has_all(&trio, at));
        trio.start_again(lost);
        has_all(&trio, lost);
        let decided: Vec<Json> =
            (0..3).map(|at| page(&trio, at).unwrap()["at_ms"].clone()).collect();
        assert!(decided.iter().all(|at_ms| *at_ms == decided[0]), "{decided:?}");
        trio.log(next).contains(FOUND_UNFINISHED)
    };
    let round = (1..=ROUNDS_MAX).find(has_started_over);
    println!("in round {round:?} the kill came half way");
    assert!(round.is_some(), "no kill came half way, so nothing was shown");
}

/// Asks a node to restore, as an operator does.
fn ask(trio: &Trio, at: usize) -> Child {
    Command::new(env!("CARGO_BIN_EXE_mooncake-ha"))
        .args(["snapshot", "restore", "--survival", "complete", "--yes", "--admin"])
        .arg(trio.http(at).url(""))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn a_leader_killed_half_way_through_an_operators_restore_leaves_nothing_and_it_can_be_asked_again()
{
    let root = large_snapshot();
    let path = format!("--snapshot_local_path={}", root.path().display());
    let interval = "--snapshot_interval_seconds=100000";
    let flags = ["--enable_snapshot", interval, "--client_ttl=600", &path];
    let is_given_up = |_: &usize| {
        let mut trio = Trio::start(&flags);
        let asked = ask(&trio, trio.leader());
        let lost = kill_half_way(&mut trio);
        let output = asked.wait_with_output().unwrap();
        let is_told = output.status.success();
        let next = trio.leader();
        assert_ne!(next, lost);
        // It serves, so it has applied all that was promised: the last step, or not.
        let was_half = keys(&trio, next) != Some(KEYS);
        if was_half {
            assert!(!is_told, "{output:?}");
            eventually_within(PATIENCE, "the part is gone", || !is_under_way(&trio, next));
            assert!(trio.log(next).contains(FOUND_UNFINISHED));
            assert_eq!(keys(&trio, next), Some(0));
            let again = ask(&trio, next).wait_with_output().unwrap();
            assert!(again.status.success(), "{again:?}");
        }
        trio.start_again(lost);
        (0..3).for_each(|at| has_all(&trio, at));
        was_half
    };
    let round = (1..=ROUNDS_MAX).find(is_given_up);
    println!("in round {round:?} the kill came half way");
    assert!(round.is_some(), "no kill came half way, so nothing was shown");
}
