//! What the master's state shows after a step, in the model's words.

use std::collections::BTreeMap;

use super::hands::Hands;
use crate::model::ids::SHARD_COUNT;
use crate::model::{Object, ObjectRef, Place};
use crate::state::State;

/// A copy of a key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SeenCopy {
    pub id: u64,
    pub room: u8,
    pub address: u64,
    pub is_done: bool,
}

/// A key that exists for its users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenKey {
    pub copies: Vec<SeenCopy>,
    pub is_readable: bool,
    pub deadline: Option<u64>,
    pub lease: u64,
}

/// Everything that a step may have changed.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The greatest stamp applied.
    pub time: u64,
    pub keys: BTreeMap<String, SeenKey>,
    /// Bytes in use on memory that can be reached.
    pub used: u64,
    /// The gauge of soft pins.
    pub pins: u64,
    /// The gauge of keys.
    pub key_count: u64,
    pub findings: Vec<String>,
}

fn each_object(hands: &Hands, mut look: impl FnMut(&State, ObjectRef, &Object)) {
    hands.node().look(|state| {
        let table = &state.view().table;
        for at in (0..SHARD_COUNT).flat_map(|shard| table.refs_in_shard(shard)) {
            table.peek(at, |object| look(state, at, object));
        }
    });
}

/// Tenant and key, as `act::scoped` joins them.
fn key_of(state: &State, object: &Object) -> String {
    let tenant = state.tenant_name(object.tenant).unwrap().name();
    format!("{tenant}/{}", String::from_utf8(object.key.to_vec()).unwrap())
}

pub fn look(hands: &Hands) -> Seen {
    let mut keys = BTreeMap::new();
    let directory = hands.node().machine().view().directory();
    each_object(hands, |state, at, object| {
        let copies = object.replicas.iter().filter(|replica| directory.is_valid(replica));
        let copies = copies.map(|replica| {
            let Place::Memory { segment, address, .. } = replica.place else { panic!() };
            let mounted = state.segments().get(segment).unwrap();
            SeenCopy {
                id: replica.id.0,
                room: u8::try_from(mounted.segment.id.0.first).unwrap(),
                address,
                is_done: replica.is_complete(),
            }
        });
        let mut copies: Vec<SeenCopy> = copies.collect();
        copies.sort();
        if copies.is_empty() {
            return;
        }
        let is_readable = directory.is_readable(object);
        let (deadline, lease) = (object.pin().map(|at| at.0), state.view().lease_end(at, object).0);
        keys.insert(key_of(state, object), SeenKey { copies, is_readable, deadline, lease });
    });
    hands.node().look(|state| Seen {
        time: state.clock().0,
        keys,
        used: state.segments().memory_usage().0,
        pins: state.deadlines().len() as u64,
        key_count: state.totals().keys,
        findings: state.check(),
    })
}

/// The ids of the replicas of each key, on memory that can be reached.
pub fn left(hands: &Hands) -> BTreeMap<String, Vec<u64>> {
    let seen = look(hands).keys.into_iter();
    seen.map(|(key, seen)| (key, seen.copies.into_iter().map(|copy| copy.id).collect())).collect()
}
