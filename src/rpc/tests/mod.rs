//! Random histories of every core and common call against a small model.
//!
//! A whole master runs in this process, without sockets and without its loops; time, chance and the loops' work
//! are steps of the history. Every call goes through its bytes, the request rules, the log and back.
//! [`model`] was written from the RFC and the behaviour notes and shares no code with the master: it keeps
//! lists, and believes an address only after checking it. `MOONCAKE_HA_MODEL_CASES` asks for more histories.

mod act;
mod hands;
mod look;
mod model;
mod mounts;
mod perform;

use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestError, TestRunner};

use act::{Act, history};
use hands::Hands;
use model::{Model, Rules};

/// Histories in one run of the tests.
const CASES: u32 = 24;

/// Shorter histories tried after one has failed.
const SHRINKS_MAX: u32 = 1_500;

fn cases() -> u32 {
    let asked = std::env::var("MOONCAKE_HA_MODEL_CASES").ok();
    asked.and_then(|text| text.parse().ok()).unwrap_or(CASES)
}

/// Lives a history through and compares after each step.
async fn live(rules: Rules, history: &[Act]) -> Result<(), TestCaseError> {
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
    Ok(())
}

fn run(rules: Rules, history: &[Act]) -> Result<(), TestCaseError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(live(rules, history))
}

#[test]
fn every_call_answers_as_a_model_written_from_the_rfc() {
    let config = ProptestConfig {
        cases: cases(),
        max_shrink_iters: SHRINKS_MAX,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let tried = TestRunner::new(config).run(&history(), |(rules, history)| run(rules, &history));
    if let Err(TestError::Fail(why, (rules, history))) = tried {
        let steps: Vec<String> = history.iter().map(|act| format!("{act:?}")).collect();
        panic!("{why}\n{rules:?}\n{}", steps.join("\n"));
    }
    tried.unwrap();
}
