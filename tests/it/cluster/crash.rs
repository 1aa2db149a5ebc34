//! SIGKILL of the leader, and of everybody at once: nothing acknowledged is lost, no deadline moves.

use std::time::Duration;

use super::trio::{Told, Trio};
use crate::support::{Got, StockClient, Value, WriteConfig, eventually_within};

const PIN_TTL_MS: u64 = 3_600_000;

/// A client that lost its leader waits for its own time limits before it looks for another.
const SWITCHED: Duration = Duration::from_secs(40);

/// One client through the discovery ports, one through a node that does not lead.
struct Clients {
    named: StockClient,
    plain: StockClient,
    values: Vec<Value>,
}

impl Clients {
    fn of(trio: &Trio) -> Option<Self> {
        let named = trio.client("named", &trio.etcd(), 32)?;
        let plain = trio.client("plain", &trio.plain(trio.follower()), 32)?;
        Some(Clients { named, plain, values: Vec::new() })
    }

    /// Each writes pinned and plain values, and all of them can be read by the other.
    fn write(&mut self, round: &str) {
        for (client, name) in [(&mut self.named, "n"), (&mut self.plain, "p")] {
            for value in Value::several(&format!("{round}_{name}"), 12, 20_000) {
                let pinned = WriteConfig::soft_pin_for(PIN_TTL_MS);
                let config = if self.values.len().is_multiple_of(2) {
                    pinned
                } else {
                    WriteConfig::default()
                };
                assert_eq!(client.put_with(&value, &config), 0, "{}", value.key);
                self.values.push(value);
            }
        }
        self.read_all();
    }

    fn read_all(&mut self) {
        for client in [&mut self.plain, &mut self.named] {
            for value in &self.values {
                assert_eq!(client.get(value), Got::Right, "{}", value.key);
            }
        }
    }

    /// Waits until both find the leader again.
    fn switched(&mut self) {
        let first = self.values[0].clone();
        for client in [&mut self.plain, &mut self.named] {
            eventually_within(SWITCHED, "reads go on", || client.get(&first) == Got::Right);
        }
    }
}

fn assert_same(trio: &Trio, before: &Told) {
    let after = trio.told();
    assert_eq!(after.pins.len(), before.pins.len());
    assert_eq!(after, *before);
}

#[test]
fn a_killed_leader_loses_nothing_and_comes_back_as_a_follower_that_can_lead() {
    let mut trio = Trio::start(&[]);
    let Some(mut clients) = Clients::of(&trio) else { return };
    clients.write("a");
    let before = trio.told();
    assert_eq!((before.pins.len(), before.segments.len()), (12, 2));

    let first = trio.leader();
    trio.kill(first);
    let second = trio.leader();
    assert_ne!(second, first);
    assert_same(&trio, &before);
    clients.switched();
    clients.read_all();
    clients.write("b");

    trio.start_again(first);
    trio.settled();
    trio.caught_up(first);

    // Now the node that came back is needed for every write.
    let before = trio.told();
    assert_eq!(before.keys.len(), 48);
    let third = trio.leader();
    trio.kill(third);
    assert_ne!(trio.leader(), third);
    assert_same(&trio, &before);
    let through = (0..3).find(|&at| at != third && at != trio.leader()).unwrap();
    let mut fresh = trio.client("fresh", &trio.plain(through), 0).unwrap();
    for value in &clients.values {
        assert_eq!(fresh.get(value), Got::Right, "{}", value.key);
    }
    assert_eq!(fresh.put(&Value::new("last", 5000)), 0);
}

#[test]
fn a_cluster_that_is_killed_as_a_whole_comes_back_with_everything() {
    let mut trio = Trio::start(&[]);
    let Some(mut clients) = Clients::of(&trio) else { return };
    clients.write("a");
    let before = trio.told();
    (0..3).for_each(|at| trio.kill(at));
    (0..3).for_each(|at| trio.start_again(at));
    trio.settled();
    assert_same(&trio, &before);
    clients.switched();
    clients.read_all();
    clients.write("b");
}
