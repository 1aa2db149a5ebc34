//! What is told of objects coming and going: every way, once, in order, by the same numbers everywhere.

use std::collections::BTreeSet;

use super::script::{Script, opening, step};
use super::world::*;
use crate::model::PinRequest::Preserve;
use crate::model::{Millis, ReplicaSelect};
use crate::state::command::{Command, Entry, Remove, Stamp};
use crate::state::presence::{BATCH_CHANGES_MAX, Medium, PresenceChange, PresenceCounts};
use crate::state::{State, encode};
use proptest::strategy::{Strategy, ValueTree};

fn followed(mut world: World) -> World {
    world.state.presence_mut().follow();
    world
}

fn terse(change: &PresenceChange) -> String {
    let sign = if change.is_stored { '+' } else { '-' };
    let medium = if change.medium == Medium::Memory { "" } else { " disk" };
    format!("{sign}{}{medium}", String::from_utf8_lossy(&change.key))
}

/// The changes since the last look that the newest entry has told.
fn told(world: &mut World) -> Vec<String> {
    world.state.presence_mut().take().iter().map(terse).collect()
}

#[test]
fn an_object_comes_with_its_first_end_and_goes_with_its_removal() {
    let mut world = followed(World::small());
    world.open("k", Preserve);
    assert!(told(&mut world).is_empty());
    assert_eq!(world.end("k"), Ok(()));
    assert_eq!(told(&mut world), ["+k"]);
    assert_eq!(world.end("k"), Ok(()));
    assert!(told(&mut world).is_empty());
    assert_eq!(world.remove("k"), Ok(()));
    assert_eq!(told(&mut world), ["-k"]);
    assert_eq!(world.remove("k").is_err(), told(&mut world).is_empty());
    assert_eq!(world.state.presence().counts(), PresenceCounts { changes: 2, batches: 2 });
}

#[test]
fn a_revoked_write_was_never_there() {
    let mut world = followed(World::small());
    world.open("k", Preserve);
    assert_eq!(world.revoke_as(1, "k", ReplicaSelect::All), Ok(()));
    assert!(told(&mut world).is_empty());
    assert_eq!(world.state.presence().counts(), PresenceCounts::default());
}

#[test]
fn memory_and_disk_are_told_apart() {
    let mut world = followed(World::small());
    world.put("k", Preserve);
    assert_eq!(told(&mut world), ["+k"]);
    world.add_disk_replica("k", false);
    assert_eq!(told(&mut world), ["+k disk"]);
    assert_eq!(world.remove("k"), Ok(()));
    assert_eq!(told(&mut world), ["-k", "-k disk"]);
}

#[test]
fn objects_of_a_segment_that_goes_away_go_with_it() {
    let mut world = followed(World::with_segments(2, MIB));
    for name in ["a", "b", "c", "d"] {
        world.put(name, Preserve);
    }
    let on_first = |world: &World| -> BTreeSet<String> {
        let names = ["a", "b", "c", "d"].into_iter();
        names.filter(|name| world.places(name) == ["s1"]).map(|name| format!("-{name}")).collect()
    };
    let expected = on_first(&world);
    assert!(!expected.is_empty());
    assert_eq!(world.unmount(1, 1), Ok(()));
    let mut gone: BTreeSet<String> = told(&mut world).into_iter().collect();
    while !world.drain(1, 1) {
        gone.extend(told(&mut world));
    }
    gone.extend(told(&mut world));
    assert_eq!(gone, expected);
}

#[test]
fn changes_are_kept_for_one_entry_only_and_only_if_they_are_followed() {
    let mut world = World::small();
    world.put("a", Preserve);
    assert!(told(&mut world).is_empty());
    assert_eq!(world.state.presence().counts().changes, 1);
    let mut world = followed(world);
    world.put("b", Preserve);
    world.open("c", Preserve);
    assert!(told(&mut world).is_empty());
}

#[test]
fn an_entry_of_many_changes_has_many_batches_and_a_reload_keeps_the_numbers() {
    let mut world = followed(World::small());
    let names: Vec<String> = (0..130).map(|n| format!("k{n}")).collect();
    names.iter().for_each(|name| world.put(name, Preserve));
    let before = world.state.presence().counts();
    assert_eq!(before, PresenceCounts { changes: 130, batches: 130 });
    let keys = names.iter().map(|name| key(name)).collect();
    world.apply(Command::Remove(Remove { tenant: None, keys }));
    let gone: Vec<String> = names.iter().map(|name| format!("-{name}")).collect();
    assert_eq!(told(&mut world), gone);
    let after = PresenceCounts { changes: 260, batches: 133 };
    assert_eq!(130_u64.div_ceil(BATCH_CHANGES_MAX), 3);
    assert_eq!(world.state.presence().counts(), after);
    let mut world = world.reloaded();
    assert_eq!(world.state.presence().counts(), after);
    world.put("z", Preserve);
    assert_eq!(world.state.presence().counts(), PresenceCounts { changes: 261, batches: 134 });
}

/// What can be read, as anybody who looks at the table sees it.
fn there(state: &State) -> BTreeSet<(String, Vec<u8>, bool)> {
    let mut there = BTreeSet::new();
    for shard in state.view().table.freeze() {
        for object in shard.objects() {
            let complete = object.replicas.iter().filter(|replica| replica.is_complete());
            let tenant = state.tenant_name(object.tenant).unwrap().name();
            there.extend(complete.map(|replica| {
                (tenant.to_owned(), object.key.to_vec(), replica.place.segment().is_some())
            }));
        }
    }
    there
}

/// The law: whoever follows from the beginning knows at any time exactly what is there.
#[test]
fn a_follower_of_random_histories_knows_what_is_there() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let steps = proptest::collection::vec(step(), 60..120);
    let (mut stored, mut removed) = (0, 0);
    for round in 0..120 {
        let mut history = opening();
        history.extend(steps.new_tree(&mut runner).unwrap().current());
        let (mut state, mut script) = (State::default(), Script::default());
        state.presence_mut().follow();
        let (mut known, mut last) = (BTreeSet::new(), PresenceCounts::default());
        for (at, step) in history.iter().enumerate() {
            if round % 3 == 0 && at % 17 == 16 {
                let bytes = image(&state);
                state.replace_with(State::load(&mut bytes.as_slice()).unwrap());
            }
            let entry = script.entry(step, &state);
            state.apply(&encode::encode(&entry).unwrap()).unwrap();
            let changes = state.presence_mut().take();
            let counts = state.presence().counts();
            assert_eq!(counts.changes - last.changes, changes.len() as u64);
            let batches = (changes.len() as u64).div_ceil(BATCH_CHANGES_MAX);
            assert_eq!(counts.batches - last.batches, batches);
            last = counts;
            for change in changes {
                let tenant = change.tenant.name().to_owned();
                let name = (tenant, change.key.to_vec(), change.medium == Medium::Memory);
                if change.is_stored {
                    assert!(known.insert(name), "told twice: {}", terse(&change));
                    stored += 1;
                } else {
                    assert!(known.remove(&name), "never told: {}", terse(&change));
                    removed += 1;
                }
            }
            assert_eq!(known, there(&state), "after {entry:?}");
        }
    }
    assert!(stored > 300 && removed > 200, "{stored} {removed}");
}

#[test]
fn an_entry_that_changes_nothing_tells_nothing() {
    let mut state = State::default();
    let stamp = Stamp { now: Millis(5), seed: 1 };
    state.apply_entry(&Entry { stamp, commands: vec![Command::Noop] });
    assert_eq!(state.presence().counts(), PresenceCounts::default());
}
