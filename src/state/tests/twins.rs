//! Two states fed the same entries are equal, with or without snapshots between.
//!
//! The law on which replication stands. One state lives through; the other is saved and loaded again and
//! again; a third is loaded late and replays the rest, as a node that was away. Compared are every reply and
//! the bytes of the images, after every entry all invariants.

use proptest::prelude::*;
use proptest::strategy::ValueTree;

use super::script::{Script, Step, opening, step};
use super::world::image;
use crate::state::{Entry, State, encode};

/// Entries between two comparisons of whole images; replies are compared after each.
const IMAGE_EVERY: usize = 8;

fn apply(state: &mut State, entry: &Entry) -> Vec<crate::state::Reply> {
    let replies = state.apply(&encode::encode(entry).unwrap()).unwrap();
    assert_eq!(state.check(), Vec::<String>::new(), "after {entry:?}");
    replies
}

fn load(bytes: &[u8]) -> State {
    let state = State::load(&mut &*bytes).unwrap();
    assert_eq!(state.check(), Vec::<String>::new(), "after loading");
    assert!(image(&state) == bytes, "loading changed the image");
    state
}

/// Feeds a history to a state that lives through and to one that is reloaded before the steps in `reloads`.
fn live_twice(steps: &[Step], reloads: &[usize]) {
    let (mut lived, mut loaded) = (State::default(), State::default());
    let mut script = Script::default();
    for (at, step) in steps.iter().enumerate() {
        if reloads.contains(&at) {
            let bytes = image(&loaded);
            loaded.replace_with(load(&bytes));
            assert_eq!(loaded.check(), Vec::<String>::new(), "after swapping in");
        }
        let entry = script.entry(step, &lived);
        let replies = apply(&mut lived, &entry);
        assert_eq!(replies, apply(&mut loaded, &entry), "step {at}: {entry:?}");
        assert_eq!(lived.next_deadline(), loaded.next_deadline());
        assert_eq!(lived.totals(), loaded.totals());
        if at % IMAGE_EVERY == 0 || at + 1 == steps.len() {
            assert!(image(&lived) == image(&loaded), "images differ after step {at}: {entry:?}");
        }
    }
}

/// What random histories must reach, or the tests below would show little.
#[test]
fn random_histories_reach_zombies_discards_sweeps_and_unmounts_in_steps() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut reached = std::collections::BTreeMap::<&str, u64>::new();
    for _ in 0..60 {
        let steps = history(60..100).new_tree(&mut runner).unwrap().current();
        let (mut state, mut script) = (State::default(), Script::default());
        for step in &steps {
            let entry = script.entry(step, &state);
            for reply in apply(&mut state, &entry) {
                note(&mut reached, &reply);
            }
            let (discards, pins) = (state.discards().iter().count(), state.deadlines().len());
            *reached.entry("set aside").or_default() += discards as u64;
            *reached.entry("guarded").or_default() += u64::from(state.discards().held_bytes() > 0);
            *reached.entry("shortened").or_default() += state.guard().shortened().len() as u64;
            *reached.entry("pinned").or_default() += pins as u64;
            let tiers = state.tiers();
            *reached.entry("offloading").or_default() += tiers.offloads().len() as u64;
            *reached.entry("promoting").or_default() += tiers.promotions().len() as u64;
            *reached.entry("losing files").or_default() += tiers.lost().count() as u64;
            *reached.entry("reserved").or_default() += state.dynamic().reserved() as u64;
            *reached.entry("replicated").or_default() += state.dynamic().replicas() as u64;
        }
        let counters = state.counters();
        *reached.entry("released").or_default() += counters.releases;
        *reached.entry("promoted").or_default() += state.tiers().counters().completed;
        *reached.entry("partly placed").or_default() += counters.partial_allocations;
    }
    for what in [
        "started",
        "refused",
        "ended",
        "pins expired",
        "writes dropped",
        "discards released",
        "unmount step",
        "unmounted",
        "set aside",
        "guarded",
        "shortened",
        "pinned",
        "released",
        "partly placed",
        "offloading",
        "promoting",
        "losing files",
        "reserved",
        "replicated",
    ] {
        assert!(reached.get(what).copied().unwrap_or(0) >= 10, "{what}: {reached:?}");
    }
}

fn note(reached: &mut std::collections::BTreeMap<&str, u64>, reply: &crate::state::Reply) {
    use crate::state::Reply;
    let mut add = |what, count: usize| *reached.entry(what).or_default() += count as u64;
    match reply {
        Reply::Starts(results) => {
            add("started", results.iter().filter(|result| result.is_ok()).count());
            add("refused", results.iter().filter(|result| result.is_err()).count());
        }
        Reply::Results(results) => {
            add("ended", results.iter().filter(|result| result.is_ok()).count());
        }
        Reply::Drained { is_finished: false } => add("unmount step", 1),
        Reply::Drained { is_finished: true } => add("unmounted", 1),
        Reply::Swept(swept) => {
            add("pins expired", swept.pins_expired as usize);
            add("writes dropped", swept.writes_dropped as usize);
            add("discards released", swept.discards_released as usize);
        }
        _ => {}
    }
}

fn history(length: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), length).prop_map(|steps| {
        let mut history = opening();
        history.extend(steps);
        history
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_state_that_was_saved_and_loaded_answers_as_one_that_lived_through(
        steps in history(20..120),
        reloads in prop::collection::vec(1..120_usize, 0..8),
    ) {
        live_twice(&steps, &reloads);
    }

}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, ..ProptestConfig::default() })]

    #[test]
    fn a_snapshot_of_any_moment_can_be_loaded(steps in history(5..40)) {
        let all: Vec<usize> = (0..steps.len()).collect();
        live_twice(&steps, &all);
    }
}
