//! Objects that became evictable, on their way from apply to the evictor.
//!
//! Apply must not wait for the evictor, so arrivals are put down here and picked up later. Open only while
//! this node leads; when it overflows, everything is dropped and the evictor walks the table instead.

use parking_lot::Mutex;

use crate::model::{Millis, ObjectRef, ReplicaId};

/// Arrivals that wait at most: a second or more of the fastest writing.
pub const ARRIVALS_MAX: usize = 1 << 18;

/// An object that became evictable, or became another candidate than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The object.
    pub object: ObjectRef,
    /// Its incarnation, as in `state::evict`.
    pub incarnation: ReplicaId,
    /// State time of the entry that did it.
    pub at: Millis,
}

/// What the evictor picks up.
#[derive(Debug, PartialEq, Eq)]
pub enum Arrived {
    /// These arrived since the last time.
    These(Vec<Arrival>),
    /// Some are missing: walk the table.
    Lost,
}

#[derive(Debug, Default)]
enum Held {
    #[default]
    Closed,
    Open(Vec<Arrival>),
    Overflown,
}

/// Where arrivals wait.
#[derive(Debug, Default)]
pub struct Arrivals(Mutex<Held>);

impl Arrivals {
    /// Collects from now on, without what waits from earlier.
    pub fn open(&self) {
        *self.0.lock() = Held::Open(Vec::new());
    }

    /// Collects nothing any more.
    pub fn close(&self) {
        *self.0.lock() = Held::Closed;
    }

    /// Puts the arrivals of one entry down.
    pub fn put(&self, events: &[(ObjectRef, ReplicaId)], at: Millis) {
        let mut held = self.0.lock();
        let Held::Open(list) = &mut *held else { return };
        if list.len() + events.len() > ARRIVALS_MAX {
            *held = Held::Overflown;
            return;
        }
        let arrivals = events.iter().copied();
        list.extend(arrivals.map(|(object, incarnation)| Arrival { object, incarnation, at }));
    }

    /// Picks up what waits.
    pub fn take(&self) -> Arrived {
        let mut held = self.0.lock();
        match &mut *held {
            Held::Open(list) => Arrived::These(std::mem::take(list)),
            Held::Closed => Arrived::These(Vec::new()),
            Held::Overflown => {
                *held = Held::Open(Vec::new());
                Arrived::Lost
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_are_collected_only_while_open_and_an_overflow_is_told() {
        let arrivals = Arrivals::default();
        let event = (ObjectRef(1), ReplicaId(2));
        arrivals.put(&[event], Millis(3));
        arrivals.open();
        arrivals.put(&[event], Millis(4));
        let one = Arrival { object: event.0, incarnation: event.1, at: Millis(4) };
        assert_eq!(arrivals.take(), Arrived::These(vec![one]));
        arrivals.put(&vec![event; ARRIVALS_MAX + 1], Millis(5));
        assert_eq!(arrivals.take(), Arrived::Lost);
        assert_eq!(arrivals.take(), Arrived::These(vec![]));
        arrivals.close();
        arrivals.put(&[event], Millis(6));
        assert_eq!(arrivals.take(), Arrived::These(vec![]));
    }
}
