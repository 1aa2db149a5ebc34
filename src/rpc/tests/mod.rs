//! Random histories of every core and common call against a small model.
//!
//! A whole master runs in this process, without sockets and without its loops; time, chance and the loops' work
//! are steps of the history. Every call goes through its bytes, the request rules, the log and back.
//! [`model`] was written from the RFC and the behaviour notes and shares no code with the master: it keeps
//! lists, and believes an address only after checking it. `MOONCAKE_HA_MODEL_CASES` asks for more histories;
//! `MOONCAKE_HA_MODEL_SEED` with the same number of them repeats a run.

mod act;
mod hands;
mod kept;
mod look;
mod model;
mod mounts;
mod perform;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use act::{Act, history};
use hands::Hands;
use model::{Model, Rules};

/// Histories in one run of the tests.
const CASES: u32 = 40;

/// Shorter histories tried after one has failed.
const SHRINKS_MAX: u32 = 500;

fn asked<T: std::str::FromStr>(variable: &str) -> Option<T> {
    std::env::var(variable).ok()?.parse().ok()
}

/// The same histories each time, unless somebody asks for more of them.
fn runner() -> TestRunner {
    let cases = asked("MOONCAKE_HA_MODEL_CASES");
    let config = ProptestConfig {
        cases: cases.unwrap_or(CASES),
        max_shrink_iters: SHRINKS_MAX,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    if cases.is_none() {
        return TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    }
    let seed: u64 = asked("MOONCAKE_HA_MODEL_SEED").unwrap_or_else(rand::random);
    eprintln!("MOONCAKE_HA_MODEL_SEED={seed}");
    let bytes = [seed.to_le_bytes(); 4].concat();
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

/// What a history must come across now and then, or it says nothing.
const REACHED: [&str; 39] = [
    "put",
    "a zombie was replaced",
    "rewritten in place",
    "rewritten elsewhere",
    "preempted",
    "upsert without room",
    "pin inherited",
    "pin begun",
    "pin preserved",
    "pin ended by a write",
    "revoked",
    "removed",
    "cleared",
    "refused for a lease",
    "refused for a promise",
    "a group was leased",
    "copy begun",
    "move begun",
    "copied",
    "moved",
    "copy revoked",
    "copy lost its source",
    "copy gave up",
    "task made",
    "task fetched",
    "task ended",
    "task failed in time",
    "unmounted",
    "left in grace",
    "client given up",
    "pin swept",
    "write dropped",
    "memory released",
    "evicted",
    "evicted with a pin",
    "evicted with a group",
    "members evicted together",
    "evicted of both tenants",
    "one key of two tenants",
];

/// How often something was come across.
type Marks = BTreeMap<&'static str, u64>;

/// Lives a history through and compares after each step.
async fn live(rules: Rules, history: &[Act]) -> Result<Marks, TestCaseError> {
    let mut hands = Hands::new(&rules).await;
    let mut model = Model::new(rules, hands.now());
    for (at, act) in history.iter().enumerate() {
        let act = model.aim(act);
        let heard = perform::perform(&mut hands, &act).await;
        let ticked = model.tick(&act, hands.now(), hands.monotonic_ms());
        let followed = ticked.and_then(|()| model.follow(&act, &heard));
        let agreed = followed.and_then(|()| model.compare(&look::look(&hands)));
        agreed.map_err(|why| {
            TestCaseError::fail(format!("step {at}, {act:?}: {why}\nheard: {heard:?}"))
        })?;
    }
    hands.stop().await;
    Ok(model.marks)
}

fn run(rules: Rules, history: &[Act]) -> Result<Marks, TestCaseError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(live(rules, history))
}

#[test]
fn every_call_answers_as_a_model_written_from_the_rfc() {
    let mut runner = runner();
    let (marks, has_failed) = (Mutex::new(Marks::new()), AtomicBool::new(false));
    let tried = runner.run(&history(), |(rules, history)| {
        let lived = run(rules, &history).inspect_err(|why| {
            // Before the search for a shorter history, which takes a while.
            if !has_failed.swap(true, Ordering::Relaxed) {
                eprintln!("{why}");
            }
        });
        let mut all = marks.lock();
        lived?.into_iter().for_each(|(mark, count)| *all.entry(mark).or_default() += count);
        Ok(())
    });
    if let Err(TestError::Fail(why, (rules, history))) = tried {
        let steps: Vec<String> = history.iter().map(|act| format!("{act:?}")).collect();
        panic!("{why}\n{rules:?}\n{}", steps.join("\n"));
    }
    tried.unwrap();
    let marks = marks.into_inner();
    let missed: Vec<&str> = REACHED.into_iter().filter(|mark| !marks.contains_key(mark)).collect();
    assert_eq!(missed, Vec::<&str>::new(), "never come across; {marks:?}");
}
