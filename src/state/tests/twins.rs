//! Two states fed the same entries are equal, with or without snapshots between.
//!
//! The law on which replication stands. One state lives through; the other is saved and loaded again and
//! again; a third is loaded late and replays the rest, as a node that was away. Compared are every reply and
//! the bytes of the images, after every entry all invariants.

use proptest::prelude::*;

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

    #[test]
    fn a_snapshot_of_any_moment_can_be_loaded(steps in history(5..40)) {
        let all: Vec<usize> = (0..steps.len()).collect();
        live_twice(&steps, &all);
    }
}
