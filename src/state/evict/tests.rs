//! What apply evicts of what it is told to.

use super::*;
use crate::state::Reply;
use crate::state::command::Command;
use crate::state::transfer::TransferKind;
use crate::state::transfer::tests::{World, as_key};

impl World {
    pub fn victim(&self, key: &str) -> Victim {
        let incarnation = self.look(key, |object| object.map(incarnation)).unwrap_or_default();
        Victim { tenant: None, key: as_key(key), incarnation }
    }

    pub fn evict(&mut self, victims: Vec<Victim>, spares_soft_pinned: bool) -> Vec<u64> {
        let evict = Evict { victims, spares_soft_pinned };
        let Reply::Evicted(freed) = self.apply(Command::Evict(evict)) else { panic!() };
        freed
    }
}

#[test]
fn a_victim_loses_its_memory_and_its_entry() {
    let mut world = World::new();
    world.put("k");
    world.start(TransferKind::Copy, "a", &["b"]).unwrap();
    world.end(TransferKind::Copy).unwrap();
    assert_eq!(world.state.totals().evictable, 1);
    let victim = world.victim("k");
    assert_eq!(world.evict(vec![victim.clone()], true), [2_000]);
    assert_eq!((world.used("a"), world.used("b")), (0, 0));
    assert_eq!((world.state.totals().keys, world.state.totals().evictable), (0, 0));
    assert_eq!(world.evict(vec![victim], true), [0]);
}

#[test]
fn a_victim_that_was_put_again_is_spared() {
    let mut world = World::new();
    world.put("k");
    let victim = world.victim("k");
    world.remove_key("k").unwrap();
    world.put("k");
    assert_eq!(world.evict(vec![victim], true), [0]);
    assert_eq!(world.state.totals().evictable, 1);
}

#[test]
fn hard_pins_spare_always_and_soft_pins_in_the_first_pass_until_their_deadline() {
    let mut world = World::new();
    world.start_put_with("hard", crate::model::PinRequest::Preserve, true);
    world.end_put("hard").unwrap();
    world.pin("soft", 5_000);
    world.pin("brief", 1_000);
    world.now += 1_000;
    let victims = ["hard", "soft", "brief"].map(|key| world.victim(key)).to_vec();
    assert_eq!(world.evict(victims.clone(), true), [0, 0, 1_000]);
    assert_eq!(world.evict(victims, false), [0, 1_000, 0]);
    assert_eq!(world.state.deadlines().len(), 0);
    assert_eq!(world.state.totals().keys, 1);
}

#[test]
fn the_source_of_a_copy_and_its_target_are_spared() {
    let mut world = World::new();
    world.put("k");
    world.start(TransferKind::Copy, "a", &["b"]).unwrap();
    assert_eq!(world.state.totals().evictable, 0);
    let victim = world.victim("k");
    assert_eq!(world.evict(vec![victim], true), [0]);
    assert_eq!(world.end(TransferKind::Copy), Ok(()));
    assert_eq!(world.state.totals().evictable, 1);
}

#[test]
fn an_object_that_is_being_written_is_spared() {
    let mut world = World::new();
    world.start_put("k", crate::model::PinRequest::Preserve);
    let victim = world.victim("k");
    assert_eq!(world.evict(vec![victim], false), [0]);
    assert_eq!(world.end_put("k"), Ok(()));
}

#[test]
fn an_entry_tells_which_objects_became_candidates() {
    let mut world = World::new();
    world.start_put("k", crate::model::PinRequest::Preserve);
    assert_eq!(world.state.arrivals(), []);
    world.end_put("k").unwrap();
    let first = world.victim("k").incarnation;
    assert_eq!(world.state.arrivals().iter().map(|(_, id)| *id).collect::<Vec<_>>(), [first]);
    world.start(TransferKind::Move, "a", &["b"]).unwrap();
    assert_eq!(world.state.arrivals(), []);
    world.end(TransferKind::Move).unwrap();
    let moved = world.victim("k").incarnation;
    assert_ne!(moved, first);
    assert_eq!(world.state.arrivals().iter().map(|(_, id)| *id).collect::<Vec<_>>(), [moved]);
    world.apply(Command::Noop);
    assert_eq!(world.state.arrivals(), []);
}
