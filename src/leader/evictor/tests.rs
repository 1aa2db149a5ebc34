//! The order of eviction, on the pure state with time in hand.

use super::*;
use crate::model::PinRequest;
use crate::state::transfer::TransferKind;
use crate::state::transfer::tests::World;

const RULES: EvictionRules =
    EvictionRules { ratio_ppm: 100_000, high_watermark_ppm: 800_000, allows_soft_pinned: true };

/// The pure state, and an order that is told of what arrives as the node tells it.
struct Scene {
    world: World,
    order: EvictionOrder,
    promised_until: Deadline,
}

impl Scene {
    fn new() -> Self {
        let order = EvictionOrder::default();
        Scene { world: World::new(), order, promised_until: Deadline(0) }
    }

    fn note(&mut self) {
        let at = self.world.state.clock();
        let arrive = |&(object, incarnation): &(_, _)| Arrival { object, incarnation, at };
        let arrivals: Vec<_> = self.world.state.arrivals().iter().map(arrive).collect();
        self.order.arrive(&arrivals);
    }

    fn put(&mut self, key: &str) {
        self.world.put(key);
        self.note();
    }

    fn pin(&mut self, key: &str, ttl_ms: u64) {
        self.world.pin(key, ttl_ms);
        self.note();
    }

    fn pass(&mut self, ms: u64) {
        self.world.now += ms;
    }

    fn read(&self, key: &str, lease_ms: u64) {
        let until = Deadline(self.world.now + lease_ms);
        self.world.look(key, |object| object.unwrap().lease.grant(until).unwrap());
    }

    fn eyes(&self) -> Eyes<'_> {
        Eyes {
            view: self.world.state.view(),
            now: Millis(self.world.now),
            promised_until: self.promised_until,
            since: Millis(u64::MAX),
        }
    }

    fn take(&mut self, with_soft_pinned: bool) -> Option<String> {
        let mut order = std::mem::take(&mut self.order);
        let eyes = self.eyes();
        let next = loop {
            let next = match with_soft_pinned {
                false => order.next(&eyes, 3),
                true => order.next_soft_pinned(&eyes, 3),
            };
            if next != Next::Pause {
                break next;
            }
        };
        let key = |object: &Object| String::from_utf8(object.key.to_vec()).unwrap();
        let named = match next {
            Next::Oldest(candidate) => eyes.view.table.peek(candidate.object(), key),
            _ => None,
        };
        self.order = order;
        named
    }

    /// Everything that the first pass could take, oldest first.
    fn open(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.take(false)).collect()
    }

    /// Everything that the second pass could take.
    fn soft(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.take(true)).collect()
    }

    fn has_work(&self) -> bool {
        self.order.has_work(Millis(self.world.now), true)
    }
}

#[test]
fn the_goal_is_the_peers() {
    // Behaviour 7.2, both examples seen live.
    let usage = (9_375, 10_000);
    assert_eq!(RULES.goal(usage, 50, false).unwrap().ideal, 12);
    assert_eq!(RULES.goal(usage, 60, false).unwrap().lower, 9);
    assert_eq!(RULES.goal((8_000, 10_000), 60, false), None);
    assert_eq!(RULES.goal((1, 10_000), 250, true), Some(Goal { ideal: 25, lower: 13 }));
    assert_eq!(RULES.goal((0, 0), 0, false), None);
    let whole = EvictionRules { ratio_ppm: 0, high_watermark_ppm: 1_000_000, ..RULES };
    assert_eq!(whole.goal((10_000, 10_000), 60, true), None);
}

#[test]
fn the_oldest_go_first_and_a_read_makes_young() {
    let mut scene = Scene::new();
    for key in ["a", "b", "c", "d"] {
        scene.put(key);
        scene.pass(70);
    }
    scene.read("b", 1_000);
    scene.read("a", 30);
    assert!(scene.has_work());
    scene.pass(200);
    assert_eq!(scene.open(), ["c", "d", "a"]);
    assert!(!scene.has_work());
    scene.pass(799);
    assert_eq!(scene.open(), [""; 0]);
    scene.pass(200);
    assert_eq!(scene.open(), ["b"]);
    assert!(scene.order.is_empty());
}

#[test]
fn an_object_that_is_read_after_it_was_found_ready_takes_its_new_place() {
    let mut scene = Scene::new();
    for key in ["a", "b", "c"] {
        scene.put(key);
        scene.pass(10);
    }
    scene.pass(200);
    assert_eq!(scene.take(false).as_deref(), Some("a"));
    scene.read("b", 1_000);
    assert_eq!(scene.open(), ["c"]);
    scene.pass(1_200);
    assert_eq!(scene.open(), ["b"]);
}

#[test]
fn soft_pinned_objects_are_for_the_second_pass_until_their_deadline() {
    let mut scene = Scene::new();
    scene.pin("long", 9_000);
    scene.pass(10);
    scene.pin("brief", 1_000);
    scene.pass(10);
    scene.put("plain");
    scene.pass(200);
    assert_eq!(scene.open(), ["plain"]);
    assert!(scene.has_work());
    assert!(!scene.order.has_work(Millis(scene.world.now), false));
    // Nobody swept, and it counts as an ordinary object all the same.
    scene.pass(1_000);
    assert_eq!(scene.open(), ["brief"]);
    scene.world.remove_key("brief").unwrap();
    assert_eq!(scene.soft(), ["long"]);
    scene.pass(9_000);
    assert_eq!(scene.open(), ["long"]);
}

#[test]
fn what_was_written_this_moment_can_go_before_what_is_pinned() {
    let mut scene = Scene::new();
    scene.pin("pinned", 9_000);
    scene.pass(200);
    scene.put("new");
    assert_eq!(scene.open(), ["new"]);
    scene.put("newer");
    scene.read("newer", 5);
    assert!(scene.order.has_work(Millis(scene.world.now), false));
    assert_eq!(scene.open(), [""; 0]);
    assert!(!scene.order.has_work(Millis(scene.world.now), false));
    scene.pass(5);
    assert_eq!(scene.open(), ["newer"]);
}

#[test]
fn the_second_pass_takes_the_oldest_and_leaves_those_that_are_read() {
    let mut scene = Scene::new();
    for key in ["a", "b", "c"] {
        scene.pin(key, 60_000);
        scene.pass(10);
    }
    scene.pass(200);
    assert_eq!(scene.open(), [""; 0]);
    scene.read("a", 500);
    assert_eq!(scene.soft(), ["b", "c"]);
    scene.pass(700);
    assert_eq!(scene.open(), [""; 0]);
    assert_eq!(scene.soft(), ["a"]);
}

#[test]
fn hard_pinned_objects_are_not_in_the_order() {
    let mut scene = Scene::new();
    scene.world.start_put_with("hard", PinRequest::Preserve, true);
    scene.world.end_put("hard").unwrap();
    scene.note();
    assert!(scene.order.is_empty());
    (0..1024).for_each(|shard| scene.order.walk(scene.world.state.view(), shard));
    assert!(scene.order.is_empty());
}

#[test]
fn the_source_of_a_copy_is_looked_at_again_later_and_keeps_its_rank() {
    let mut scene = Scene::new();
    scene.put("k");
    scene.pass(10);
    scene.put("young");
    scene.world.start(TransferKind::Copy, "a", &["b"]).unwrap();
    scene.pass(200);
    assert_eq!(scene.take(false).as_deref(), Some("young"));
    assert!(!scene.has_work());
    scene.world.end(TransferKind::Copy).unwrap();
    scene.put("younger");
    scene.pass(1_200);
    assert_eq!(scene.open(), ["k", "younger"]);
}

#[test]
fn objects_that_are_gone_or_were_put_again_leave_no_trace() {
    let mut scene = Scene::new();
    for key in ["a", "b"] {
        scene.put(key);
    }
    scene.world.remove_key("a").unwrap();
    scene.world.remove_key("b").unwrap();
    scene.put("b");
    assert_eq!(scene.order.len(), 3);
    scene.pass(200);
    assert_eq!(scene.open(), ["b"]);
    assert!(scene.order.is_empty());
    assert!(!scene.order.is_stale(0));
}

#[test]
fn what_an_earlier_leader_may_have_promised_is_kept() {
    let mut scene = Scene::new();
    scene.put("a");
    scene.promised_until = Deadline(scene.world.now + 10_000);
    scene.pass(200);
    assert_eq!(scene.open(), [""; 0]);
    assert!(!scene.has_work());
    scene.pass(10_000);
    assert_eq!(scene.open(), ["a"]);
}

#[test]
fn a_walk_finds_what_was_not_told() {
    let mut scene = Scene::new();
    for key in ["a", "b", "c"] {
        scene.put(key);
        scene.pass(10);
    }
    scene.order = EvictionOrder::default();
    scene.world.reload();
    (0..1024).for_each(|shard| scene.order.walk(scene.world.state.view(), shard));
    scene.pass(200);
    assert_eq!(scene.open(), ["a", "b", "c"]);
}
